"""The leader's knowledge when it decides: every broker's report and its own memory (`LoadData`)."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from trimtab.model.bundles.policies import is_heartbeat_or_sla
from trimtab.model.bundles.range import namespace_of
from trimtab.model.bundles.reports import (
    DEFAULT_MESSAGE_RATE,
    RATE_IN,
    RATE_OUT,
    UNKNOWN_BUNDLE,
    BrokerReport,
    BundleData,
)
from trimtab.plan.pulsar.averages import EMPTY_TABLE, BundleTable
from trimtab.plan.pulsar.hash_order import ConcurrentHashMapKeys, hash_map_order
from trimtab.plan.pulsar.options import PulsarBrokerConfig


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
    """All that a strategy may know besides its own state and the options (`LoadData`).

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
    """In which order the two maps of a leader's `LoadData` give their keys back, from its election on."""

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
