"""The leader's data for a decision: every broker's report and its own running means (`LoadData`).

The running means of every bundle's traffic (`TimeAverageMessageData`, `BundleData`) are arrays over all
bundles: a hundred thousand bundles are updated in one pass, by the very same additions and divisions.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.model.bundles.policies import is_heartbeat_or_sla
from trimtab.model.bundles.reports import (
    DEFAULT_MESSAGE_RATE,
    LONG_SAMPLES,
    RATE_IN,
    RATE_OUT,
    SHORT_SAMPLES,
    THROUGHPUT_IN,
    THROUGHPUT_OUT,
    TRAFFIC,
    UNKNOWN_BUNDLE,
    BrokerReport,
    BundleData,
    BundleStats,
    TimeAverage,
)
from trimtab.model.bundles.snapshot import namespace_of
from trimtab.model.load import FloatArray, IntArray
from trimtab.plan.pulsar.java import ConcurrentHashMapKeys, hash_map_order
from trimtab.plan.pulsar.options import PulsarBrokerConfig

IndexArray = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class BundleTable:
    """`BundleData` of all bundles, in the order of their first report.

    This order replaces Pulsar's iteration over a hash map and decides among bundles of equal throughput.

    Attributes
    ----------
    names
        Keys of the bundles.
    short, long
        Shape (bundles, 4), `TRAFFIC`: means in bytes and messages per second.
    short_samples, long_samples
        Shape (bundles,): how many samples each mean stands for.
    topics
        Shape (bundles,): how many topics each had last.
    """

    names: tuple[str, ...]
    short: FloatArray
    long: FloatArray
    short_samples: IntArray
    long_samples: IntArray
    topics: IntArray

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, bundle: object) -> bool:
        return bundle in self.row

    def __getitem__(self, bundle: str) -> BundleData:
        row = self.row[bundle]
        return BundleData(
            short=TimeAverage(int(self.short_samples[row]), *self.short[row].tolist()),
            long=TimeAverage(int(self.long_samples[row]), *self.long[row].tolist()),
            topics=int(self.topics[row]),
        )

    def in_order(self, names: tuple[str, ...]) -> "BundleTable":
        """The same bundles in another order."""
        return self.with_rows(names, [self.row[name] for name in names])

    def with_rows(self, names: tuple[str, ...], rows: "list[int] | IndexArray") -> "BundleTable":
        """These rows, under these names."""
        return BundleTable(names, *(array[rows] for array in self._arrays))

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return (self.short, self.long, self.short_samples, self.long_samples, self.topics)

    @cached_property
    def row(self) -> dict[str, int]:
        """Row number of each bundle, by name."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def short_throughput(self) -> FloatArray:
        """Shape (bundles,), bytes per second in and out; added in Pulsar's order, in before out."""
        return np.asarray(self.short[:, THROUGHPUT_IN] + self.short[:, THROUGHPUT_OUT])

    @cached_property
    def short_rate(self) -> FloatArray:
        """Shape (bundles,), messages per second in and out."""
        return np.asarray(self.short[:, RATE_IN] + self.short[:, RATE_OUT])

    @cached_property
    def long_throughput(self) -> FloatArray:
        """Shape (bundles,), bytes per second in and out."""
        return np.asarray(self.long[:, THROUGHPUT_IN] + self.long[:, THROUGHPUT_OUT])

    @cached_property
    def long_rate(self) -> FloatArray:
        """Shape (bundles,), messages per second in and out."""
        return np.asarray(self.long[:, RATE_IN] + self.long[:, RATE_OUT])


def table_of(bundles: Mapping[str, BundleData]) -> BundleTable:
    """The table that holds these, in their order."""
    # Of a hundred thousand bundles that nothing is known of, one is looked at.
    number: dict[int, int] = {}
    different: list[BundleData] = []
    rows = []
    for one in bundles.values():
        row = number.setdefault(id(one), len(different))
        if row == len(different):
            different.append(one)
        rows.append(row)
    found = BundleTable(
        (),
        np.array([[getattr(one.short, name) for name in TRAFFIC] for one in different]).reshape(-1, 4),
        np.array([[getattr(one.long, name) for name in TRAFFIC] for one in different]).reshape(-1, 4),
        np.array([one.short.samples for one in different], dtype=np.int32),
        np.array([one.long.samples for one in different], dtype=np.int32),
        np.array([one.topics for one in different], dtype=np.int32),
    )
    return found.with_rows(tuple(bundles), np.array(rows, dtype=np.intp))


EMPTY_TABLE = table_of({})


def updated(
    table: BundleTable,
    reports: Mapping[str, BrokerReport],
    quotas: Mapping[str, BundleData] = MappingProxyType({}),
) -> tuple[BundleTable, dict[tuple[str, str], tuple[float, float]]]:
    """The table after every report's `last_stats` was taken as one more sample.

    `ModularLoadManagerImpl.updateBundleData`: a bundle unknown so far begins with its quota, else with the
    defaults and no samples, so that its first sample replaces them; one that no report names is forgotten. A
    bundle that two reports name (it is just changing hands) is updated twice, in their order, as in Pulsar.

    Parameters
    ----------
    table
        What is known.
    reports
        All brokers', in the order in which they are taken in.
    quotas
        What bundles are taken for that have a resource quota.

    Returns
    -------
    tuple
        The table; and by broker and bundle the long-term rates, in and out in messages per second, as they
        were before a later broker's sample of the same bundle: the broker's own rate is added up from them.
    """
    rounds: list[dict[str, BundleStats]] = []
    reporter: list[dict[str, str]] = []
    seen: dict[str, int] = {}
    for broker, report in reports.items():
        for bundle, stats in report.last_stats.items():
            turn = seen.get(bundle, 0)
            seen[bundle] = turn + 1
            if turn == len(rounds):
                rounds.append({})
                reporter.append({})
            rounds[turn][bundle] = stats
            reporter[turn][bundle] = broker
    updated = _with_rows(table, seen, quotas)
    in_between: dict[tuple[str, str], tuple[float, float]] = {}
    for turn, sample in enumerate(rounds):
        updated = _sampled(updated, sample)
        for bundle in rounds[turn + 1] if turn + 1 < len(rounds) else ():
            rate_in, rate_out = updated.long[updated.row[bundle], [RATE_IN, RATE_OUT]].tolist()
            in_between[reporter[turn][bundle], bundle] = rate_in, rate_out
    return updated, in_between


def _with_rows(
    table: BundleTable, active: Mapping[str, int], quotas: Mapping[str, BundleData]
) -> BundleTable:
    """The table with rows for just these bundles: those it has in its order, then new ones in theirs."""
    kept = [row for row, name in enumerate(table.names) if name in active]
    fresh = [name for name in active if name not in table.row]
    begun = _initial_table(fresh, quotas)
    old = table.with_rows(tuple(table.names[row] for row in kept), kept)
    arrays = (np.concatenate(pair) for pair in zip(old._arrays, begun._arrays, strict=True))
    return BundleTable((*old.names, *fresh), *arrays)


def _initial_table(names: list[str], quotas: Mapping[str, BundleData]) -> BundleTable:
    """The table of these bundles before their first sample."""
    if any(name in quotas for name in names):
        return table_of({name: quotas.get(name, UNKNOWN_BUNDLE) for name in names})
    one = table_of({"": UNKNOWN_BUNDLE})
    return one.with_rows(tuple(names), np.zeros(len(names), dtype=np.intp))


def _sampled(table: BundleTable, sample: Mapping[str, BundleStats]) -> BundleTable:
    rows = np.fromiter((table.row[name] for name in sample), dtype=np.int64, count=len(sample))
    traffic = np.array(
        [
            (one.msg_throughput_in, one.msg_throughput_out, one.msg_rate_in, one.msg_rate_out)
            for one in sample.values()
        ]
    ).reshape(-1, 4)
    short, short_samples = _averaged(table.short, table.short_samples, rows, traffic, SHORT_SAMPLES)
    long, long_samples = _averaged(table.long, table.long_samples, rows, traffic, LONG_SAMPLES)
    topics = table.topics.copy()
    topics[rows] = [one.topics for one in sample.values()]
    return replace(
        table, short=short, short_samples=short_samples, long=long, long_samples=long_samples, topics=topics
    )


def _averaged(
    means: FloatArray, samples: IntArray, rows: np.ndarray, traffic: FloatArray, most: int
) -> tuple[FloatArray, IntArray]:
    """`TimeAverageMessageData.update`: n = min(n+1, max), mean = ((n-1)*mean + x) / n, in doubles."""
    count = samples.copy()
    count[rows] = np.minimum(count[rows] + 1, most)
    weight = count[rows].astype(np.float64)[:, None]
    mean = means.copy()
    mean[rows] = ((weight - 1) * mean[rows] + traffic) / weight
    return mean, count


@dataclass(frozen=True)
class BrokerLoad:
    """A broker as the leader sees it (`BrokerData`).

    Attributes
    ----------
    report
        Its newest report.
    preallocated
        Bundles that were given to it since, with what is known of each (`preallocatedBundleData`).
    updated_at
        When the report was made, seconds since 1970; None means at the view's own time.
    """

    report: BrokerReport
    preallocated: Mapping[str, BundleData] = field(default_factory=dict)
    updated_at: float | None = None


@dataclass(frozen=True, eq=False)
class LeaderLoadView:
    """The data of a strategy besides its own state and the options (`LoadData`).

    Attributes
    ----------
    at
        Seconds since 1970.
    brokers
        By name. Its order stands where Pulsar iterates over a hash map: it is that of the reports.
    bundles
        The running means of every bundle.
    recently_unloaded
        Bundles that were unloaded within the grace time, and when (seconds since 1970); already expired by
        whoever makes the view.
    recently_unloaded_brokers
        Brokers that bundles were unloaded from, and when; only the extensible manager looks at it.
    rates_in_between
        As `averages.take_in` gives them.
    """

    at: float
    brokers: Mapping[str, BrokerLoad]
    bundles: BundleTable = EMPTY_TABLE
    recently_unloaded: Mapping[str, float] = field(default_factory=dict)
    recently_unloaded_brokers: Mapping[str, float] = field(default_factory=dict)
    rates_in_between: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    @cached_property
    def reports(self) -> dict[str, BrokerReport]:
        """Each broker's report, in the order of `brokers`."""
        return {name: broker.report for name, broker in self.brokers.items()}

    @cached_property
    def long_term_rates(self) -> dict[str, float]:
        """Messages per second of each broker's reported bundles, in and out (`TimeAverageBrokerData.reset`).

        Sums of long-term means in the order of the report, one addition after the other, as in Pulsar: which
        brokers are equal depends on it. A bundle that nothing is known of counts with the defaults; one that
        several brokers report, for each of them with its mean as of when its report was taken in.
        """
        rates = dict(zip(self.bundles.names, self.bundles.long[:, [RATE_IN, RATE_OUT]].tolist(), strict=True))
        unknown = [DEFAULT_MESSAGE_RATE, DEFAULT_MESSAGE_RATE]
        between = self.rates_in_between
        found = {}
        for name, report in self.reports.items():
            rate_in = rate_out = 0.0
            for bundle in report.last_stats:
                bundle_in, bundle_out = rates.get(bundle, unknown)
                if between and (name, bundle) in between:
                    bundle_in, bundle_out = between[name, bundle]
                rate_in += bundle_in
                rate_out += bundle_out
            found[name] = rate_in + rate_out
        return found

    @cached_property
    def namespace_bundles(self) -> dict[str, Counter[str]]:
        """Number of bundles of each namespace that each broker reports statistics of."""
        return {
            name: Counter(namespace_of(bundle) for bundle in report.last_stats)
            for name, report in self.reports.items()
        }

    @cached_property
    def reported_topics(self) -> dict[str, int]:
        """Number of topics that each broker reports (`LocalBrokerData.numTopics`)."""
        return {
            name: sum(stats.topics for stats in report.last_stats.values())
            for name, report in self.reports.items()
        }

    def known_of(self, bundle: str) -> BundleData:
        """The means of a bundle; the defaults where nothing is known (`getBundleDataOrDefault`)."""
        return self.bundles[bundle] if bundle in self.bundles.row else UNKNOWN_BUNDLE

    def with_preallocated(self, bundle: str, data: BundleData, broker: str) -> "LeaderLoadView":
        """The view after a bundle was given to a broker, which has not reported it yet."""
        load = self.brokers[broker]
        given = replace(load, preallocated={**load.preallocated, bundle: data})
        after = replace(self, brokers={**self.brokers, broker: given})
        # What is made of the reports alone is as true as before; a thousand placements make it once.
        for known in ("reports", "long_term_rates", "namespace_bundles", "reported_topics"):
            if known in self.__dict__:
                after.__dict__[known] = self.__dict__[known]
        return after

    def movable(self, bundles: Iterable[str]) -> list[str]:
        """Those of a broker's bundles that a shedder may choose from, in the order of `bundles` of the view.

        Left out are bundles that nothing is known of, bundles unloaded within the grace time, and the
        heartbeat and SLA bundles, which belong to their broker
        (`LoadData.getBundleDataForLoadShedding`).
        """
        rows = self.bundles.row
        found = sorted(
            rows[bundle]
            for bundle in set(bundles)
            if bundle in rows and bundle not in self.recently_unloaded and not is_bound_to_broker(bundle)
        )
        return [self.bundles.names[row] for row in found]


@dataclass(frozen=True)
class PublishedLoad:
    """Running means that a broker makes of its own reports, one sample a report (`BrokerLoadData`).

    Of the extensible load manager.

    Attributes
    ----------
    weighted_max_ema
        Of its most used resource, as a fraction; heap memory counts with its weight here.
    msg_throughput_ema
        Of its traffic, bytes per second, in and out.
    updated_at
        When the newest report was made, seconds since 1970.
    """

    weighted_max_ema: float
    msg_throughput_ema: float
    updated_at: float


def publish(
    view: LeaderLoadView, before: Mapping[str, PublishedLoad], options: PulsarBrokerConfig
) -> dict[str, PublishedLoad]:
    """The loads that brokers of the view have published, once new reports were taken into the means.

    In the order of the view; a report as old as the last known is not new. A broker that comes back after it
    was away begins anew, as its process does.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData`. The mean is
    `old * 0.9 + (1 - 0.9) * new` in doubles: not the same number as with a factor of 0.1.
    """
    history = options.history_resource_percentage
    after: dict[str, PublishedLoad] = {}
    for name, load in view.brokers.items():
        made = view.at if load.updated_at is None else load.updated_at
        known = before.get(name)
        if known is not None and known.updated_at == made:
            after[name] = known
            continue
        usage = load.report.weighted_usage(options.extensible_weights)
        throughput = load.report.throughput
        if known is not None:
            usage = known.weighted_max_ema * history + (1 - history) * usage
            throughput = known.msg_throughput_ema * history + (1 - history) * throughput
        after[name] = PublishedLoad(usage, throughput, made)
    return after


@dataclass(frozen=True)
class HashMapOrder:
    """The iteration order of the two maps of a leader's `LoadData`, from its election on."""

    brokers: ConcurrentHashMapKeys = field(default_factory=ConcurrentHashMapKeys)
    bundles: ConcurrentHashMapKeys = field(default_factory=ConcurrentHashMapKeys)

    def with_brokers(self, names: Collection[str]) -> "HashMapOrder":
        """Once just these have reported (`updateAllBrokerData`)."""
        return replace(self, brokers=self.brokers.after(names))

    def with_bundles(self, names: Collection[str]) -> "HashMapOrder":
        """Once just these were reported (`updateBundleData`)."""
        return replace(self, bundles=self.bundles.after(names))


# From tick to tick the same bundles are there, as a rule; several leaders may be at work at once.
@lru_cache(maxsize=16)
def shedding_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Bundles as shedders are given them: out of the leader's map, in its order, into a `HashMap`.

    Those that are bound to their broker are left out on the way, and stand last here
    (`getBundleDataForLoadShedding`).
    """
    bound = [name for name in names if is_bound_to_broker(name)]
    free = [name for name in names if not is_bound_to_broker(name)] if bound else names
    return (*hash_map_order(free), *bound)


def is_bound_to_broker(bundle: str) -> bool:
    """True for a heartbeat or SLA-monitor bundle, which no strategy may move."""
    return is_heartbeat_or_sla(namespace_of(bundle))
