"""Recordings of load reports, from files or a lake, and the changes of owners in them."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Protocol

from trimtab.files.bundles.recording import read_recording, recording_files
from trimtab.files.head import time_text
from trimtab.files.store import Location
from trimtab.model.bundles.policies import host_of
from trimtab.model.bundles.reports import ReportTick
from trimtab.model.bundles.snapshot import overlapping, parse_bundle
from trimtab.model.errors import ObserveError


class ReportRecording(Protocol):
    """A recording that can be replayed."""

    @property
    def name(self) -> str:
        """Its name in a heading."""
        ...

    def check(self) -> None:
        """Raise an error if the recording is empty."""
        ...

    def ticks(self) -> Iterator[ReportTick]:
        """The ticks from the first on, one at a time."""
        ...


@dataclass(frozen=True)
class TickRange:
    """The ticks that are wanted.

    Attributes
    ----------
    since
        The first; None: from the beginning.
    until
        Ticks before this one; None: to the end.
    """

    since: datetime.datetime | None = None
    until: datetime.datetime | None = None

    def of(self, ticks: Iterator[ReportTick]) -> Iterator[ReportTick]:
        """The ticks that are within the range."""
        if self.since is not None:
            begin = self.since.timestamp()
            ticks = dropwhile(lambda tick: tick.at < begin, ticks)
        if self.until is not None:
            end = self.until.timestamp()
            ticks = takewhile(lambda tick: tick.at < end, ticks)
        return ticks


ALL_TICKS = TickRange()


@dataclass(frozen=True)
class FileReportRecording:
    """A file of reports, or a folder of such files.

    Attributes
    ----------
    path
        As for `trimtab.files.bundles.recording.recording_files`.
    period
        Which ticks are wanted.
    """

    path: Path
    period: TickRange = ALL_TICKS

    @property
    def name(self) -> str:
        """The name of file or folder."""
        return self.path.name

    def check(self) -> None:
        """Refuse a path without recordings, as `trimtab.files.bundles.recording.recording_files`."""
        recording_files(self.path)

    def ticks(self) -> Iterator[ReportTick]:
        """One at a time; errors as of `trimtab.files.bundles.recording.read_recording`."""
        return self.period.of(read_recording(self.path))


@dataclass(frozen=True)
class LakeReportRecording:
    """Reports collected into the lake; a day of them is in memory at a time.

    Attributes
    ----------
    path
        The lake's folder.
    cluster
        May be None where the lake holds one.
    period
        Which ticks are wanted.
    """

    path: Location
    cluster: str | None = None
    period: TickRange = ALL_TICKS

    @property
    def name(self) -> str:
        """The cluster's, or the lake's."""
        return self.cluster or self.path.name

    def check(self) -> None:
        """Refuse a lake without reports of this period.

        Raises
        ------
        ObserveError
            If there are none, or of several clusters where none is named.
        """
        if next(self.ticks(), None) is None:
            raise ObserveError(
                f"lake {self.path} holds no load reports of that period; collect some, or choose another"
            )

    def ticks(self) -> Iterator[ReportTick]:
        """One at a time; errors as of `trimtab.observe.bundles.recorded.recent_ticks`."""
        from trimtab.observe.bundles.pipeline import PIPELINE
        from trimtab.observe.bundles.recorded import recent_ticks
        from trimtab.observe.lake.lake import Lake

        return self.period.of(recent_ticks(Lake(self.path, PIPELINE), self.cluster, self.period.since))


@dataclass
class OwnershipChangeCounter:
    """Counts ticks with unusual reports.

    Attributes
    ----------
    ticks
        How many there were.
    counts
        By kind, in how many of them; see `KINDS`.
    first
        By kind, when it was first, and of which bundle.
    """

    ticks: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    _observed: frozenset[str] = frozenset()
    _split: str | None = None

    def watched(self, ticks: Iterator[ReportTick]) -> Iterator[ReportTick]:
        """The same ticks, counted on their way."""
        for tick in ticks:
            self.ticks += 1
            for kind, example in self._found(tick).items():
                self.counts[kind] += 1
                self.first.setdefault(kind, f"{time_text(tick.at)}: {example}")
            yield tick

    def summary(self) -> list[str]:
        """A sentence for each kind of unusual report that occurred."""
        return [
            f"{self.counts[kind]} of {self.ticks} ticks {words} (first {self.first[kind]})"
            for kind, words in KINDS.items()
            if self.counts[kind]
        ]

    def _found(self, tick: ReportTick) -> dict[str, str]:
        found: dict[str, str] = {}
        owner: dict[str, str] = {}
        for broker, report in tick.brokers.items():
            for bundle in report.bundles:
                other = owner.setdefault(bundle, broker)
                if other != broker:
                    found.setdefault("moving", f"{bundle} at {other} and {broker}")
            listed = set(report.bundles)
            if not report.last_stats.keys() <= listed:
                stray = next(bundle for bundle in report.last_stats if bundle not in listed)
                found.setdefault("unlisted", f"{stray} at {broker}")
        cpu: dict[tuple[str, float], list[float]] = {}
        for broker, report in tick.brokers.items():
            cpu.setdefault((host_of(broker), report.cpu.limit), []).append(report.cpu.usage)
        for (host, limit), used in cpu.items():
            if len(used) > 1 and 0 < max(used) < min(used) + limit / 10:  # each looked at its own second
                found["one_host"] = f"{len(used)} brokers on {host} at about {max(used) / limit:.0%}"
        split = self._split_between(frozenset(owner))
        return found if split is None else {**found, "split": split}

    def _split_between(self, bundles: frozenset[str]) -> str | None:
        """A bundle listed beside a part of it; the last result is used again for equal bundles."""
        if bundles != self._observed:
            pair = next(overlapping(map(parse_bundle, bundles)), None)
            self._split = None if pair is None else f"{pair[1].key} beside {pair[0].key}"
            self._observed = bundles
        return self._split


KINDS = {
    "moving": "have a bundle at two brokers, as while it changes hands: it counts at both, as in Pulsar",
    "split": "have a bundle beside a part of it, as around a split: both count, as in Pulsar",
    "one_host": "have brokers of one host that report the same CPU: it is the host's, not theirs, as in a "
    "sandbox, and strategies that go by it see no difference; UniformLoadShedder goes by messages, `trimtab "
    "plan bundles` by declared capacities",
    "unlisted": "have statistics of a bundle that its broker does not list: they count in its means, and it "
    "is not shed from there, as in Pulsar",
}
"""The sentence about each kind, in this order."""
