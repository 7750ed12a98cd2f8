"""Sources of a replay's ticks: files, or the lake; each begins anew whenever it is gone through.

A recording is a small value, which a task on another machine can open for itself.
"""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Protocol

from trimtab.files.bundles.recording import read_recording, recording_files
from trimtab.files.store import Location
from trimtab.model.bundles.reports import ReportTick
from trimtab.model.errors import ObserveError


class ReportRecording(Protocol):
    """A recording that can be replayed."""

    @property
    def name(self) -> str:
        """Its name in a heading."""
        ...

    def check(self) -> None:
        """Refuse a recording that holds nothing, before anybody waits for it."""
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
        """Those of them that are within it."""
        if self.since is not None:
            begin = self.since.timestamp()
            ticks = dropwhile(lambda tick: tick.at < begin, ticks)
        if self.until is not None:
            end = self.until.timestamp()
            ticks = takewhile(lambda tick: tick.at < end, ticks)
        return ticks


ALL = TickRange()


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
    period: TickRange = ALL

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
    period: TickRange = ALL

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
        from trimtab.observe.lake import Lake

        return self.period.of(recent_ticks(Lake(self.path, PIPELINE), self.cluster, self.period.since))
