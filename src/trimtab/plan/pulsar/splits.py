"""Splits of bundles: the bundles to split, and the positions.

The positions come from Pulsar's four split algorithms, over hash positions alone. Under the modular load
manager the leader finds the bundles that are too large (`BundleSplitterTask`, `find_splits`); under the
extensible one each owner decides for itself (`find_owner_splits`).

An algorithm answers with the positions to cut at, in rising order, or with None where it finds none: a
result (Pulsar answers 204 to such a split), not an error.

References
----------
Pulsar 4.0.7 to 4.2.4, package org.apache.pulsar.common.naming; the article describes the first two.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.model.bundles.reports import BrokerReport, BundleStats
from trimtab.model.bundles.snapshot import BundleRange, namespace_of, parse_bundle
from trimtab.model.errors import PlanError
from trimtab.plan.pulsar.candidates import DepartureRules, available_brokers, departure_rules
from trimtab.plan.pulsar.decision import DecisionFacts
from trimtab.plan.pulsar.java import wrapped
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.view import LeaderLoadView

RANGE_EQUALLY_DIVIDE: Final = "range_equally_divide"
TOPIC_COUNT_EQUALLY_DIVIDE: Final = "topic_count_equally_divide"
SPECIFIED_POSITIONS_DIVIDE: Final = "specified_positions_divide"
FLOW_OR_QPS_EQUALLY_DIVIDE: Final = "flow_or_qps_equally_divide"

ALGORITHMS: Final = (
    RANGE_EQUALLY_DIVIDE,
    TOPIC_COUNT_EQUALLY_DIVIDE,
    SPECIFIED_POSITIONS_DIVIDE,
    FLOW_OR_QPS_EQUALLY_DIVIDE,
)
"""Pulsar's names, as in `supportedNamespaceBundleSplitAlgorithms`."""

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """The traffic of one topic of a bundle: messages and bytes per second, in and out together.

    Attributes
    ----------
    position
        The hash of its full name, 0 to 2**32 - 1.
    """

    position: int
    msg_rate: float
    msg_throughput: float


def range_equally_divide(bundle: BundleRange) -> list[int]:
    """The middle of the range, independent of its topics.

    The whole ring is cut at 0x7fffffff: its upper end, 0xffffffff, is the last hash, not the one after it.

    References
    ----------
    RangeEquallyDivideBundleSplitAlgorithm, Pulsar's default.
    """
    return [bundle.low + (bundle.high - bundle.low) // 2]


def topic_count_equally_divide(positions: Sequence[int]) -> list[int] | None:
    """The middle between the two topics in the middle, so that each half holds as many topics.

    Parameters
    ----------
    positions
        The hash of every topic of the bundle, in any order; equal ones count each.

    Returns
    -------
    list of int or None
        None if there are fewer than two topics. Where the two middle topics have neighbouring or equal hashes
        this is the lower one's own hash, which then begins the upper half.

    References
    ----------
    TopicCountEquallyDivideBundleSplitAlgorithm.
    """
    if len(positions) <= 1:
        return None
    ordered = sorted(positions)
    middle = len(ordered) // 2
    start, end = ordered[middle - 1], ordered[middle]
    return [start + (end - start) // 2]


def specified_positions_divide(
    bundle: BundleRange, topics: int, request: Sequence[int], *, forced: bool = False
) -> list[int] | None:
    """Those of the positions asked for that lie strictly inside the range.

    Parameters
    ----------
    topics
        How many topics the bundle holds.
    request
        Positions to cut at, in any order. One given twice comes back twice, as in Pulsar.
    forced
        Cut even a bundle with at most one topic.

    Raises
    ------
    PlanError
        If no position is asked for.

    References
    ----------
    SpecifiedPositionsBundleSplitAlgorithm.
    """
    if not request:
        raise PlanError(
            f"split of {bundle.key} by {SPECIFIED_POSITIONS_DIVIDE} names no position; "
            "give at least one between the two ends"
        )
    if topics <= 1 and not forced:
        return None
    inside = [position for position in sorted(request) if bundle.low < position < bundle.high]
    return inside or None


def flow_or_qps_equally_divide(
    topics: Sequence[TopicTraffic],
    max_msg_rate: int,
    max_bandwidth_mbytes: int,
    difference_percentage: float = 10,
) -> list[int] | None:
    """Cut in front of every topic that would bring what is left of it over a limit.

    Parameters
    ----------
    topics
        Topics of which statistics are known, in the order in which the broker lists them: their sums are
        floating-point sums in that order. Of two with the same hash the later one's traffic counts for both,
        as in Pulsar, which keeps them in a map by hash.
    max_msg_rate
        `loadBalancerNamespaceBundleMaxMsgRate`, messages per second.
    max_bandwidth_mbytes
        `loadBalancerNamespaceBundleMaxBandwidthMbytes`, MiB per second.
    difference_percentage
        `flowOrQpsDifferenceThresholdPercentage`: by how much the bundle must reach over a limit at least.

    Returns
    -------
    list of int or None
        None if fewer than two different hashes carry traffic, or if the bundle is less than
        `difference_percentage` over both limits. Several positions are possible; the extensible load manager
        refuses all but one. An empty list only where a topic forgotten for its hash was what is over a limit.

    References
    ----------
    FlowOrQpsEquallyDivideBundleSplitAlgorithm.
    """
    busy = [topic for topic in topics if topic.msg_rate > 0 or topic.msg_throughput > 0]
    by_position = {topic.position: topic for topic in busy}
    if len(by_position) < 2:
        return None
    max_throughput = max_bandwidth_mbytes * MEBIBYTE
    slack = 1 + difference_percentage / 100.0
    rate = throughput = 0.0
    for topic in busy:
        rate += topic.msg_rate
        throughput += topic.msg_throughput
    if rate < max_msg_rate * slack and throughput < max_throughput * slack:
        return None
    # One entry a topic, not a hash: two topics of one hash make two steps of the walk.
    ordered = sorted(topic.position for topic in busy)
    first = by_position[ordered[0]]
    rate, throughput = first.msg_rate, first.msg_throughput
    cuts = []
    for before, position in pairwise(ordered):
        topic = by_position[position]
        if rate + topic.msg_rate > max_msg_rate or throughput + topic.msg_throughput > max_throughput:
            cuts.append(before + (position - before) // 2 + 1)
            rate, throughput = topic.msg_rate, topic.msg_throughput
        else:
            rate += topic.msg_rate
            throughput += topic.msg_throughput
    return cuts


def split_positions(
    bundle: BundleRange, options: PulsarBrokerConfig, topics: Sequence[TopicTraffic] = ()
) -> list[int] | None:
    """The positions where `defaultNamespaceBundleSplitAlgorithm` cuts a bundle.

    Parameters
    ----------
    topics
        Its topics, for the algorithms that cut between them.

    Raises
    ------
    PlanError
        If there is no such algorithm, or it needs positions to be named.
    """
    name = options.default_namespace_bundle_split_algorithm
    if name == RANGE_EQUALLY_DIVIDE:
        return range_equally_divide(bundle)
    if name == TOPIC_COUNT_EQUALLY_DIVIDE:
        return topic_count_equally_divide([topic.position for topic in topics])
    if name == FLOW_OR_QPS_EQUALLY_DIVIDE:
        return flow_or_qps_equally_divide(
            topics,
            options.namespace_bundle_max_msg_rate,
            options.namespace_bundle_max_bandwidth_mbytes,
            options.flow_or_qps_difference_threshold_percentage,
        )
    if name == SPECIFIED_POSITIONS_DIVIDE:
        return specified_positions_divide(bundle, len(topics), ())
    raise PlanError(
        f"defaultNamespaceBundleSplitAlgorithm {name!r} is not known; choose one of {', '.join(ALGORITHMS)}"
    )


NO_METADATA = ClusterMetadata()

REASONS: Final = ("Topics", "Sessions", "MsgRate", "Bandwidth")
"""As `SplitDecision.Reason` names them, in the order of a bundle's figures."""

MIN_TOPICS: Final = 2
"""A bundle with fewer cannot be relieved by a split."""


@dataclass(frozen=True)
class BundleSplit:
    """A bundle to split, who owns it, and the first limit that it is above.

    Attributes
    ----------
    unload
        Whether the halves leave their broker, to be placed anew.
    """

    bundle: str
    broker: str
    reason: str
    unload: bool = False


@dataclass(frozen=True)
class SplitDecision:
    """The bundles to split now, in the order found, and the numbers of all bundles above a limit."""

    splits: tuple[BundleSplit, ...] = ()
    facts: DecisionFacts = field(default_factory=dict)


class BundleSize(NamedTuple):
    """The figures that are compared with the limits, or those limits.

    Sessions are producers and consumers; messages and bytes are per second, in and out.
    """

    topics: float
    sessions: float
    msg_rate: float
    msg_throughput: float


def find_splits(
    view: LeaderLoadView, options: PulsarBrokerConfig, metadata: ClusterMetadata = NO_METADATA
) -> SplitDecision:
    """Every bundle above a limit, as long as its namespace may have more bundles.

    Topics and sessions are those of the newest report, rate and throughput long-term means: a bundle that
    nothing is known of counts as carrying nothing. There is no hit count; one report is enough. The owner
    finds out where to cut, and the leader forgets what it knew of the bundle.

    Parameters
    ----------
    view
        The order of its brokers and of their statistics decides who is left out where a namespace may have a
        few bundles more, but not all that are asked for.
    metadata
        Gives how many bundles a namespace has, and where its bundles may be.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `BundleSplitterTask.findBundlesToSplit` and
    `ModularLoadManagerImpl.checkNamespaceBundleSplit`. A bundle that two brokers report counts twice among
    the planned ones, and is split once.
    """
    if not options.auto_bundle_split_enabled:
        return SplitDecision(facts={"outcome": "loadBalancerAutoBundleSplitEnabled is off"})
    if len(available_brokers(view, metadata)) <= 1:
        return SplitDecision(facts={"outcome": "a lone broker splits nothing"})
    found, bundles = _too_large(view, options, metadata)
    splits: list[BundleSplit] = []
    rules: dict[str, DepartureRules] = {}
    for key, (broker, reason) in found.items():
        bundle = parse_bundle(key)
        if not bundle.can_split:
            bundles[key]["outcome"] = "it holds a single hash"
        elif not _exists(bundle, metadata):
            bundles[key]["outcome"] = "it is no bundle of its namespace any more"
        else:
            if bundle.namespace not in rules:
                rules[bundle.namespace] = departure_rules(bundle.namespace, view, metadata)
            unload = options.auto_unload_split_bundles_enabled and rules[bundle.namespace].allowed(broker)
            bundles[key]["outcome"] = "split"
            splits.append(BundleSplit(key, broker, reason, unload=unload))
    return SplitDecision(tuple(splits), {"limits": limits(options)._asdict(), "bundles": bundles})


def _too_large(
    view: LeaderLoadView, options: PulsarBrokerConfig, metadata: ClusterMetadata
) -> tuple[dict[str, tuple[str, str]], dict[str, dict[str, object]]]:
    """Owner and reason of every bundle that may be split, and the numbers of all that should be."""
    rates = dict(zip(view.bundles.names, view.bundles.long_rate.tolist(), strict=True))
    throughputs = dict(zip(view.bundles.names, view.bundles.long_throughput.tolist(), strict=True))
    count, most = bundle_counter(view, metadata), limits(options)
    planned: Counter[str] = Counter()
    found: dict[str, tuple[str, str]] = {}
    why: dict[str, dict[str, object]] = {}
    for broker, report in view.reports.items():
        for bundle, stats in report.last_stats.items():
            if stats.topics < MIN_TOPICS:
                continue
            sessions = stats.consumer_count + stats.producer_count
            carried = rates.get(bundle, 0.0), throughputs.get(bundle, 0.0)
            size = BundleSize(stats.topics, sessions, *carried)
            reason = reason_of(size, most)
            if reason is None:
                continue
            namespace = namespace_of(bundle)
            number = count(namespace) + planned[namespace]
            why[bundle] = {**size._asdict(), "reason": reason, "namespace_bundles": number}
            if number >= options.namespace_maximum_bundles:
                why[bundle]["outcome"] = "its namespace has as many bundles as it may"
                continue
            found[bundle] = (broker, reason)
            planned[namespace] += 1
    return found, why


def _exists(bundle: BundleRange, metadata: ClusterMetadata) -> bool:
    """True if the namespace still has this bundle; assumed if boundaries are unknown."""
    boundaries = metadata.boundaries.get(bundle.namespace)
    return boundaries is None or (bundle.low, bundle.high) in pairwise(boundaries)


def reason_of(size: BundleSize, most: BundleSize) -> str | None:
    """The first limit that a bundle is above, not on; None if it is above none."""
    if size[0] <= most[0] and size[1] <= most[1] and size[2] <= most[2] and size[3] <= most[3]:
        return None  # Nearly all of them: replays ask for every bundle of every tick.
    above = (name for name, value, limit in zip(REASONS, size, most, strict=True) if value > limit)
    return next(above, None)


def limits(options: PulsarBrokerConfig) -> BundleSize:
    """The limits of a bundle; one of sessions that is not positive is none."""
    sessions = options.namespace_bundle_max_sessions
    return BundleSize(
        options.namespace_bundle_max_topics,
        sessions if sessions > 0 else math.inf,
        options.namespace_bundle_max_msg_rate,
        # Pulsar multiplies two ints: from 2,048 MB on the limit runs over and is another one, or negative.
        wrapped(options.namespace_bundle_max_bandwidth_mbytes * MEBIBYTE),
    )


def bundle_counter(view: LeaderLoadView, metadata: ClusterMetadata) -> Callable[[str], int]:
    """Counts the bundles of a namespace: by its boundaries, or else as many as are reported."""

    @cache
    def reported() -> Counter[str]:
        bundles = {bundle for report in view.reports.values() for bundle in report.last_stats}
        return Counter(namespace_of(bundle) for bundle in bundles)

    def count(namespace: str) -> int:
        boundaries = metadata.boundaries.get(namespace)
        return reported()[namespace] if boundaries is None else len(boundaries) - 1

    return count


FAILS = "Pulsar fails here: cut at its own beginning, its first part would be empty"


@dataclass(frozen=True)
class OwnerSplit(BundleSplit):
    """A split that its owner has decided, and where it cuts."""

    position: int = 0


@dataclass(frozen=True)
class SplitState:
    """The memory from cycle to cycle.

    Attributes
    ----------
    hits
        By broker and bundle: in how many cycles in a row a bundle was above a limit.
    """

    hits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class _SplitCycle:
    """The values that do not change during a cycle."""

    options: PulsarBrokerConfig
    count: Callable[[str], int]
    topics: Mapping[str, Sequence[TopicTraffic]]
    splitting: Collection[str]


def find_owner_splits(
    view: LeaderLoadView,
    state: SplitState,
    options: PulsarBrokerConfig,
    metadata: ClusterMetadata = NO_METADATA,
    topics: Mapping[str, Sequence[TopicTraffic]] | None = None,
    splitting: Collection[str] = (),
) -> tuple[SplitDecision, SplitState]:
    """The splits of one cycle, which every broker decides for itself.

    A bundle is split when it was above a limit, by its newest statistics, in more cycles in a row than
    `loadBalancerNamespaceBundleSplitConditionHitCountThreshold`. Being passed over without being looked at
    (fewer than two topics, not owned) neither adds to its hits nor clears them. After
    `loadBalancerMaxNumberOfBundlesToSplitPerCycle` splits a broker stops, and does not count the rest.

    Parameters
    ----------
    metadata
        Gives how many bundles a namespace has.
    topics
        The topics of bundles, for algorithms that cut between topics.
    splitting
        Bundles being split now (`ServiceUnitState.Splitting`), whoever owns them.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4. As there, a bundle counts as related to a splitting one whose namespace's name
    begins like its own's if either end is the same; a cut at a bundle's own beginning, which two topics there
    bring about, ends the broker's cycle with an error and nothing is split; and brokers do not know of each
    other's plans, so that together they may go over `loadBalancerNamespaceMaximumBundles`.
    """
    if not options.enabled:
        return SplitDecision(facts={"outcome": "loadBalancerEnabled is off"}), state
    if not options.auto_bundle_split_enabled:
        return SplitDecision(facts={"outcome": "loadBalancerAutoBundleSplitEnabled is off"}), state
    cycle = _SplitCycle(options, bundle_counter(view, metadata), topics or {}, splitting)
    splits: list[OwnerSplit] = []
    hits: dict[str, Mapping[str, int]] = {}
    why: dict[str, dict[str, object]] = {}
    for broker, report in view.reports.items():
        own, hits[broker], numbers = _of_broker(broker, report, state.hits.get(broker, {}), cycle)
        splits += own
        why.update(numbers)
    return SplitDecision(tuple(splits), {"limits": limits(options)._asdict(), "bundles": why}), SplitState(
        hits
    )


def _of_broker(
    broker: str, report: BrokerReport, before: Mapping[str, int], cycle: _SplitCycle
) -> tuple[list[OwnerSplit], dict[str, int], dict[str, dict[str, object]]]:
    """One broker's splits, its hits after them, and the numbers of what is above a limit."""
    options = cycle.options
    owned = set(report.bundles)
    hits = {bundle: count for bundle, count in before.items() if bundle in report.last_stats}
    planned: Counter[str] = Counter()
    splits: list[OwnerSplit] = []
    why: dict[str, dict[str, object]] = {}
    for key, stats in report.last_stats.items():
        if stats.topics < MIN_TOPICS or key not in owned:
            continue
        size = size_now(stats)
        reason = reason_of(size, limits(options))
        if reason is None:
            hits.pop(key, None)
            continue
        if not parse_bundle(key).can_split:
            continue
        hits[key] = hits.get(key, 0) + 1
        namespace = namespace_of(key)
        why[key] = {**size._asdict(), "reason": reason, "hits": hits[key]}
        position, why[key]["outcome"] = _position(key, hits[key], planned[namespace], cycle)
        if position is None:
            continue
        if position == parse_bundle(key).low:
            # The exception ends the cycle: what was to be split is lost, and its hits are gone.
            why[key]["outcome"] = FAILS
            return [], hits, why
        splits.append(OwnerSplit(key, broker, reason, position=position))
        planned[namespace] += 1
        del hits[key]
        if len(splits) == options.max_number_of_bundles_to_split_per_cycle:
            break
    return splits, hits, why


def _position(key: str, hits: int, planned: int, cycle: _SplitCycle) -> tuple[int | None, str]:
    """The position where a bundle above a limit is cut, or why it is not."""
    options = cycle.options
    if hits <= options.namespace_bundle_split_condition_hit_count_threshold:
        return None, "not above a limit in enough cycles in a row"
    if cycle.count(namespace_of(key)) + planned >= options.namespace_maximum_bundles:
        return None, "its namespace has as many bundles as it may"
    if any(_related(key, other) for other in cycle.splitting):
        return None, "it, or one that shares an end with it, is being split"
    if options.default_namespace_bundle_split_algorithm == SPECIFIED_POSITIONS_DIVIDE:
        return None, f"{SPECIFIED_POSITIONS_DIVIDE} needs positions that an operator names"
    found = split_positions(parse_bundle(key), options, cycle.topics.get(key, ()))
    if found is None:
        return None, f"{options.default_namespace_bundle_split_algorithm} finds no position"
    if len(found) != 1:
        return None, f"{options.default_namespace_bundle_split_algorithm} finds {len(found)} positions, not 1"
    return found[0], "split"


def _related(key: str, splitting: str) -> bool:
    """True if a bundle counts as a child of one that is being split."""
    low, _, high = key.rpartition("/")[2].partition("_")
    other = splitting.rpartition("/")[2]
    return splitting.startswith(namespace_of(key)) and (other.startswith(low) or other.endswith(high))


def size_now(stats: BundleStats) -> BundleSize:
    """A bundle's size by its newest statistics alone."""
    return BundleSize(
        stats.topics,
        stats.consumer_count + stats.producer_count,
        stats.msg_rate_in + stats.msg_rate_out,
        stats.msg_throughput_in + stats.msg_throughput_out,
    )
