"""Leaders' views for placements, written down in a line: brokers with a usage and a few bundles."""

from collections.abc import Mapping

from trimtab.model.bundles.reports import BrokerReport, BundleData, BundleStats, ResourceUsage, TimeAverage
from trimtab.plan.pulsar.view import BrokerLoad, LeaderLoadView, table_of

RANGES = ("0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xc0000000", "0xc0000000_0xffffffff")
"""The bundles of a namespace that was left as it was made."""


def bundle_key(namespace: str, number: int = 0) -> str:
    """One of the four bundles of a namespace."""
    return f"{namespace}/{RANGES[number]}"


def known(rate: float = 0.0, throughput: float = 0.0, topics: int = 0) -> BundleData:
    """A bundle that long carried that many messages and bytes per second, all of them inwards."""
    mean = TimeAverage(10, throughput, 0.0, rate, 0.0)
    return BundleData(mean, mean, topics)


def load(
    usage: float = 0.0,
    stats: Mapping[str, BundleStats] | None = None,
    preallocated: Mapping[str, BundleData] | None = None,
    *,
    rate: float = 1.0,
    bundles: tuple[str, ...] | None = None,
    updated_at: float | None = None,
) -> BrokerLoad:
    """A broker whose CPU is used to `usage` percent, with statistics of its bundles."""
    stats = stats or {}
    report = BrokerReport(
        cpu=ResourceUsage(usage, 100.0),
        msg_rate_in=rate,
        bundles=tuple(stats) if bundles is None else bundles,
        last_stats=stats,
    )
    return BrokerLoad(report, preallocated or {}, updated_at)


def view_of(
    brokers: Mapping[str, BrokerLoad], bundles: Mapping[str, BundleData] | None = None, at: float = 0.0
) -> LeaderLoadView:
    """What the leader sees of them."""
    return LeaderLoadView(at, brokers, table_of(bundles or {}))
