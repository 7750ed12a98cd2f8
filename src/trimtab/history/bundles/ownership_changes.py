"""Oddities of reports, taken as they are and told: bundles that change hands or are split, a shared host.

Brokers report one after the other, so that a moving bundle is at two of them for a moment, and a split one
lies beside its parts. Pulsar's leader counts all of it, and so does a replay; whoever reads the decisions
should know.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from trimtab.files.head import time_text
from trimtab.model.bundles.policies import host_of
from trimtab.model.bundles.range import overlapping, parse_bundle
from trimtab.model.bundles.reports import ReportTick


@dataclass
class OwnershipChangeCounter:
    """Counts ticks as they go by.

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
        """A sentence for each kind that was there."""
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
        """A bundle and a part of it; what was looked at for the last tick is not looked at again."""
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
    "plan bundles` by declared capacities, and `trimtab simulate recording` makes brokers of their own hosts",
    "unlisted": "have statistics of a bundle that its broker does not list: they count in its means, and it "
    "is not shed from there, as in Pulsar",
}
"""The sentence about each kind, in this order."""
