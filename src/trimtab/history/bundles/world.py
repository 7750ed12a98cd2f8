"""The world's answer to an unload: the load of a bundle goes with it.

The recording says what every bundle did, and what its broker used for all of them. Where a bundle is
elsewhere than in the recording, its traffic goes with it exactly; of what its broker used, the share that the
bundle had in the broker's traffic goes with it, of CPU by messages and bytes both ways (their throughput), of
the bandwidths by the bytes of that direction. Memory stays: it follows no traffic. That is a model, named
here, and not a measurement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trimtab.model.bundles import BrokerReport, BundleStats, ReportTick, ResourceUsage


@dataclass(frozen=True)
class World:
    """Which bundles are elsewhere than in the recording.

    Attributes
    ----------
    owner
        The broker of each bundle that was moved.
    """

    owner: Mapping[str, str] = field(default_factory=dict)

    def moved(self, destinations: Mapping[str, str]) -> "World":
        """The world after these bundles went to these brokers."""
        return World({**self.owner, **destinations}) if destinations else self

    def answered(self, tick: ReportTick) -> ReportTick:
        """The tick as it would have been recorded in this world.

        A bundle whose new broker is not in the tick (it has died) is where the recording has it.
        """
        brokers = dict(tick.brokers)
        for name, report in tick.brokers.items():
            for bundle in report.bundles:
                target = self.owner.get(bundle, name)
                if target != name and target in brokers and bundle not in tick.brokers[target].bundles:
                    _move(brokers, report, bundle, name, target)
        return ReportTick(tick.at, brokers)


def _move(
    brokers: dict[str, BrokerReport], recorded: BrokerReport, bundle: str, source: str, target: str
) -> None:
    """Move one bundle between two reports; its shares are of the report as `recorded`."""
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
    left = brokers[source]
    brokers[source] = replace(
        _added(left, carried, usage, -1),
        bundles=tuple(name for name in left.bundles if name != bundle),
        last_stats={name: one for name, one in left.last_stats.items() if name != bundle},
    )
    gained = brokers[target]
    brokers[target] = replace(
        _added(gained, carried, usage, 1),
        bundles=(*gained.bundles, bundle),
        last_stats=gained.last_stats if stats is None else {**gained.last_stats, bundle: stats},
    )


def _share(resource: ResourceUsage, part: float, whole: float) -> float:
    return resource.usage * min(part / whole, 1.0) if whole > 0 and resource.limit > 0 else 0.0


def _added(report: BrokerReport, stats: BundleStats, usage: Mapping[str, float], sign: int) -> BrokerReport:
    """A report with what a bundle carries added or taken away; nothing falls below zero."""

    def total(name: str) -> float:
        before: float = getattr(report, name)
        return max(0.0, before + sign * float(getattr(stats, name)))

    def resource(name: str) -> ResourceUsage:
        before: ResourceUsage = getattr(report, name)
        return replace(before, usage=max(0.0, before.usage + sign * usage[name]))

    return replace(
        report,
        cpu=resource("cpu"),
        bandwidth_in=resource("bandwidth_in"),
        bandwidth_out=resource("bandwidth_out"),
        msg_throughput_in=total("msg_throughput_in"),
        msg_throughput_out=total("msg_throughput_out"),
        msg_rate_in=total("msg_rate_in"),
        msg_rate_out=total("msg_rate_out"),
    )
