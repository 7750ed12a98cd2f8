"""The world's answer to an unload: the load of a bundle goes with it.

The recording says what every bundle did, and what its broker used for all of them. Where a bundle is
elsewhere than in the recording, its traffic goes with it exactly; of what its broker used, the share that the
bundle had in the broker's traffic goes with it, of CPU by messages and bytes both ways (their throughput), of
the bandwidths by the bytes of that direction. Memory stays: it follows no traffic. That is a model, named
here, and not a measurement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trimtab.model.bundles.reports import TRAFFIC, BrokerReport, BundleStats, ReportTick, ResourceUsage

MOVING = ("cpu", "bandwidth_in", "bandwidth_out")
"""Resources that follow a bundle."""


@dataclass(frozen=True)
class ReplayedCluster:
    """Bundles that are elsewhere than in the recording.

    Attributes
    ----------
    owner
        The broker of each bundle that was moved.
    """

    owner: Mapping[str, str] = field(default_factory=dict)

    def moved(self, destinations: Mapping[str, str]) -> "ReplayedCluster":
        """The world after these bundles went to these brokers."""
        return ReplayedCluster({**self.owner, **destinations}) if destinations else self

    def answered(self, tick: ReportTick) -> ReportTick:
        """The tick as it would have been recorded in this world.

        A bundle whose new broker is not in the tick (it has died) is where the recording has it.
        """
        changed: dict[str, _MutableReport] = {}
        for name, report in tick.brokers.items():
            for bundle in report.bundles:
                target = self.owner.get(bundle, name)
                if target != name and target in tick.brokers and bundle not in tick.brokers[target].bundles:
                    for broker in (name, target):
                        if broker not in changed:
                            changed[broker] = _MutableReport(tick.brokers[broker])
                    _move(report, bundle, changed[name], changed[target])
        return ReportTick(
            tick.at,
            {
                name: changed[name].report() if name in changed else report
                for name, report in tick.brokers.items()
            },
        )


class _MutableReport:
    """A report that bundles are taken from and given to, one after the other, before it is a value again."""

    def __init__(self, report: BrokerReport) -> None:
        self._report = report
        self.bundles = dict.fromkeys(report.bundles)
        self.last_stats = dict(report.last_stats)
        self._usage = {name: getattr(report, name).usage for name in MOVING}
        self._totals = {name: getattr(report, name) for name in TRAFFIC}

    def add(self, stats: BundleStats, usage: Mapping[str, float], sign: int) -> None:
        """Add what a bundle carries, or take it away; nothing falls below zero."""
        for name, share in usage.items():
            self._usage[name] = max(0.0, self._usage[name] + sign * share)
        for name in TRAFFIC:
            self._totals[name] = max(0.0, self._totals[name] + sign * float(getattr(stats, name)))

    def report(self) -> BrokerReport:
        """The report that the broker would have made."""
        resources = {
            name: replace(getattr(self._report, name), usage=usage) for name, usage in self._usage.items()
        }
        return replace(
            self._report,
            bundles=tuple(self.bundles),
            last_stats=self.last_stats,
            **resources,
            **self._totals,
        )


def _move(recorded: BrokerReport, bundle: str, source: _MutableReport, target: _MutableReport) -> None:
    """Move one bundle; its shares are of the report as `recorded`."""
    stats = recorded.last_stats.get(bundle)
    carried = stats or BundleStats()
    usage = {
        "cpu": _share(
            recorded.cpu,
            carried.msg_throughput_in + carried.msg_throughput_out,
            recorded.msg_throughput_in + recorded.msg_throughput_out,
        ),
        "bandwidth_in": _share(recorded.bandwidth_in, carried.msg_throughput_in, recorded.msg_throughput_in),
        "bandwidth_out": _share(
            recorded.bandwidth_out, carried.msg_throughput_out, recorded.msg_throughput_out
        ),
    }
    source.add(carried, usage, -1)
    source.bundles.pop(bundle, None)
    source.last_stats.pop(bundle, None)
    target.add(carried, usage, 1)
    target.bundles[bundle] = None
    if stats is not None:
        target.last_stats[bundle] = stats


def _share(resource: ResourceUsage, part: float, whole: float) -> float:
    return resource.usage * min(part / whole, 1.0) if whole > 0 and resource.limit > 0 else 0.0
