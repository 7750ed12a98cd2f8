"""The splits that each owner decides for itself under the extensible load manager."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.model.bundles.range import namespace_of, parse_bundle
from trimtab.model.bundles.reports import BrokerReport, BundleStats
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.split.algorithms import SPECIFIED_POSITIONS_DIVIDE, TopicTraffic, split_positions
from trimtab.plan.pulsar.split.modular import (
    MIN_TOPICS,
    NO_METADATA,
    BundleSize,
    BundleSplit,
    SplitDecision,
    bundle_counter,
    limits,
    reason_of,
)
from trimtab.plan.pulsar.view import LeaderLoadView

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


def find_splits(
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
    """True if a bundle is taken to be a child of one that is being split."""
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
