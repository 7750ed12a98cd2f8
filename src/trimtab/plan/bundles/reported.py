"""Converts brokers' load reports to a snapshot, for planners without collected samples.

A broker's CPU is attributed to its bundles by their throughput in both directions (by message rate where no
bytes are reported), its bandwidths by the throughput of that direction: the replay predicts unloads by the
same model. Usage that no bundle explains stays with the broker. Reports contain neither topics nor the
boundaries of namespaces.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from trimtab.model.bundles.policies import BundlePolicies, is_system_namespace
from trimtab.model.bundles.reports import BrokerReport, BundleStats, ReportTick, ResourceUsage
from trimtab.model.bundles.snapshot import (
    CLAIMS,
    NO_TOPICS,
    RESOURCES,
    BundleBrokers,
    Bundles,
    BundlesSnapshot,
    Departure,
    namespace_of,
)
from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.load import FloatArray

Load = tuple[float, float, float, float]
"""Of one bundle, in the order and the units of `RESOURCES`."""

VIEWS = 3
"""Default number of ticks that a plan uses."""

_SCALE = {"cpu": 1 / 100, "bandwidth_in": 125.0, "bandwidth_out": 125.0}
"""From Pulsar's units (percent of a core, kbit/s) to ours (cores, bytes per second)."""


def bundle_loads(reports: Mapping[str, BrokerReport]) -> dict[str, Load]:
    """The load of each bundle with statistics in a report.

    A bundle at two brokers is in transfer; the first report with statistics of it counts.
    """
    found: dict[str, Load] = {}
    for report in reports.values():
        for bundle, stats in report.last_stats.items():
            found.setdefault(bundle, _load(report, stats))
    return found


def _load(report: BrokerReport, stats: BundleStats) -> Load:
    both, all_of_it = stats.throughput, report.throughput
    if not all_of_it > 0:
        both, all_of_it = stats.rate, report.rate
    return (
        _share("cpu", report.cpu, both, all_of_it),
        _share("bandwidth_in", report.bandwidth_in, stats.msg_throughput_in, report.msg_throughput_in),
        _share("bandwidth_out", report.bandwidth_out, stats.msg_throughput_out, report.msg_throughput_out),
        stats.rate,
    )


def _share(name: str, resource: ResourceUsage, part: float, whole: float) -> float:
    if not (whole > 0 and resource.limit > 0):
        return 0.0
    return max(resource.usage, 0.0) * _SCALE[name] * min(part / whole, 1.0)


def snapshot_of_ticks(
    ticks: Sequence[ReportTick], reference: SnapshotReference, policies: BundlePolicies | None = None
) -> BundlesSnapshot:
    """The newest tick as a snapshot, with those before it as further views.

    Parameters
    ----------
    ticks
        In order of time, at least one; the last `VIEWS` become views, and all yield departures.
    reference
        Reference of the snapshot.
    """
    newest = ticks[-1]
    earlier = [bundle_loads(tick.brokers) for tick in reversed(ticks[-VIEWS:-1])]
    departures: list[Departure] = []
    owner: dict[str, str] = {}
    for tick in ticks:
        now = owners(tick.brokers)
        departures += departed(owner, now, tick.at)
        owner |= now
    return snapshot_of(newest.brokers, newest.at, earlier, departures, reference, policies)


def owners(reports: Mapping[str, BrokerReport]) -> dict[str, str]:
    """The owner of each bundle; of two brokers that list it, the one with statistics, otherwise the first."""
    found: dict[str, str] = {}
    for name, report in reports.items():
        for bundle in report.bundles:
            if bundle not in found or (
                bundle in report.last_stats and bundle not in reports[found[bundle]].last_stats
            ):
                found[bundle] = name
    return found


def claims(reports: Mapping[str, BrokerReport]) -> dict[str, list[str]]:
    """The bundles that several brokers list, each with these brokers."""
    found: dict[str, list[str]] = {}
    for name in sorted(reports):
        for bundle in reports[name].bundles:
            found.setdefault(bundle, []).append(name)
    return {bundle: names for bundle, names in sorted(found.items()) if len(names) > 1}


def departed(before: Mapping[str, str], now: Mapping[str, str], at: float) -> list[Departure]:
    """Bundles with another owner than before."""
    return [
        Departure(bundle, before[bundle], at)
        for bundle, broker in now.items()
        if bundle in before and before[bundle] != broker
    ]


def snapshot_of(
    reports: Mapping[str, BrokerReport],
    at: float,
    earlier: Sequence[Mapping[str, Load]],
    departures: Sequence[Departure],
    reference: SnapshotReference,
    policies: BundlePolicies | None = None,
) -> BundlesSnapshot:
    """A snapshot of the newest reports.

    A bundle that several brokers list counts at its owner by `owners`, and `claims` of the snapshot names it:
    a plan does not move it.

    Parameters
    ----------
    at
        Seconds since 1970.
    earlier
        Earlier loads of bundles, the newest first; a missing one counts as unchanged.
    departures
        Oldest first.
    """
    names = sorted(reports)
    index = {name: row for row, name in enumerate(names)}
    owner = owners(reports)
    keys = sorted(owner)
    now = {
        key: _load(reports[broker], reports[broker].last_stats.get(key, BundleStats()))
        for key, broker in owner.items()
    }
    load = np.array(
        [[view.get(key, now[key]) for key in keys] for view in (now, *earlier)], dtype=np.float64
    ).reshape(1 + len(earlier), len(keys), len(RESOURCES))
    claimed = claims(reports)
    stats = [reports[owner[key]].last_stats.get(key, BundleStats()) for key in keys]
    return BundlesSnapshot(
        reference=reference,
        quality=Quality(cpu="shares", extra=((CLAIMS, claimed),) if claimed else ()),
        taken_at=at,
        views=("window 0", *(f"window -{number}" for number in range(1, 1 + len(earlier)))),
        brokers=BundleBrokers(
            tuple(names),
            np.ones(len(names), dtype=np.bool_),
            np.array([_capacity(reports[name]) for name in names], dtype=np.float64),
            _base(reports, names, owner, now),
        ),
        bundles=Bundles(
            tuple(keys),
            np.array([index[owner[key]] for key in keys], dtype=np.int32),
            load,
            np.array([one.consumer_count + one.producer_count for one in stats], dtype=np.int64),
            np.array([one.topics for one in stats], dtype=np.int64),
            np.array([not is_system_namespace(namespace_of(key)) for key in keys], dtype=np.bool_),
        ),
        topics=NO_TOPICS,
        departures=tuple(departures),
        policies=policies or BundlePolicies(),
    )


def _capacity(report: BrokerReport) -> list[float]:
    """Message rates have no limit of their own."""
    limits = [
        getattr(report, name).limit * scale if getattr(report, name).limit > 0 else np.inf
        for name, scale in _SCALE.items()
    ]
    return [*limits, np.inf]


def _base(
    reports: Mapping[str, BrokerReport],
    names: Sequence[str],
    owner: Mapping[str, str],
    now: Mapping[str, Load],
) -> FloatArray:
    """The usage of brokers that their bundles do not explain."""
    index = {name: row for row, name in enumerate(names)}
    base = np.zeros((len(names), len(RESOURCES)))
    for name, row in index.items():
        for column, (resource, scale) in enumerate(_SCALE.items()):
            usage: ResourceUsage = getattr(reports[name], resource)
            base[row, column] = max(usage.usage, 0.0) * scale if usage.limit > 0 else 0.0
    for key, load in now.items():
        base[index[owner[key]], :3] -= load[:3]
    base[base < 1e-9 * np.abs(base).max(initial=1.0)] = 0.0
    return base
