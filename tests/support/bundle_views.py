"""Small Pulsar clusters as the leader sees them."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from trimtab.model.bundles.reports import BrokerReport, BundleData, BundleStats, ResourceUsage, TimeAverage
from trimtab.model.bundles.snapshot import BundleRange
from trimtab.plan.pulsar.splits import BundleSplit, OwnerSplit
from trimtab.plan.pulsar.view import BrokerLoad, BundleTable, LeaderLoadView, table_of, updated

MB = 1024 * 1024
CHANCE = np.random.default_rng(0)


def key(number: int, namespace: str = "t/n") -> str:
    """The bundle of this number, of 256 equal ones."""
    return BundleRange(namespace, number << 24, min((number + 1) << 24, 0xFFFFFFFF)).key


def stats(throughput: float = 0.0, rate: float = 0.0) -> BundleStats:
    """A bundle whose traffic is all inbound."""
    return BundleStats(msg_throughput_in=throughput, msg_rate_in=rate, topics=1)


def report(
    bundles: Mapping[str, BundleStats] | None = None,
    *,
    cpu: float = 0.0,
    throughput: float | None = None,
    rate: float | None = None,
    **usages: float,
) -> BrokerReport:
    """A broker's report: percentages of its resources, and totals that are sums where they are not given."""
    held = bundles or {}
    total = sum(one.msg_throughput_in + one.msg_throughput_out for one in held.values())
    messages = sum(one.msg_rate_in + one.msg_rate_out for one in held.values())
    others: dict[str, Any] = {name: ResourceUsage(usage, 100.0) for name, usage in usages.items()}
    return BrokerReport(
        cpu=ResourceUsage(cpu, 100.0),
        **others,
        msg_throughput_in=total if throughput is None else throughput,
        msg_rate_in=messages if rate is None else rate,
        bundles=tuple(held),
        last_stats=dict(held),
    )


def owner_split(split: BundleSplit) -> OwnerSplit:
    """A split whose owner has decided where it cuts, under the modular load manager: others do not say."""
    assert isinstance(split, OwnerSplit)
    return split


def view_of(
    brokers: Mapping[str, BrokerReport], *, recently_unloaded: tuple[str, ...] = (), at: float = 0.0
) -> LeaderLoadView:
    """A view whose running means are just what is reported."""
    data = {
        bundle: BundleData(mean, mean, one.topics)
        for broker in brokers.values()
        for bundle, one in broker.last_stats.items()
        for mean in [
            TimeAverage(1, one.msg_throughput_in, one.msg_throughput_out, one.msg_rate_in, one.msg_rate_out)
        ]
    }
    return LeaderLoadView(
        at,
        {name: BrokerLoad(one) for name, one in brokers.items()},
        table_of(data),
        dict.fromkeys(recently_unloaded, at),
    )


def update_bundles(table: BundleTable, reports: Iterable[BrokerReport]) -> BundleTable:
    """The table of `updated` alone."""
    return updated(table, {str(number): report for number, report in enumerate(reports)})[0]
