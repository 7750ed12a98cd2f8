"""`DefaultNamespaceBundleSplitStrategyImpl`: under the extensible manager owners split, each for itself."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from trimtab.model.bundle_policies import ClusterMetadata
from trimtab.model.bundle_range import namespace_of, parse_bundle
from trimtab.model.bundles import BrokerReport
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.split.algorithms import (
    SPECIFIED_POSITIONS_DIVIDE,
    TopicTraffic,
    split_positions,
)
from trimtab.plan.bundles.split.decision import (
    LEAST_TOPICS,
    Split,
    SplitDecision,
    bundle_counter,
    limits,
    reason_of,
    size_now,
)
from trimtab.plan.bundles.view import LoadView

NO_METADATA = ClusterMetadata()


@dataclass(frozen=True)
class SplitState:
    """What is remembered from cycle to cycle.

    Attributes
    ----------
    hits
        By broker and bundle: in how many cycles in a row a bundle was above a limit.
    """

    hits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Cycle:
    """What does not change during a cycle."""

    options: Options
    count: Callable[[str], int]
    topics: Mapping[str, Sequence[TopicTraffic]]
    splitting: Collection[str]


def find_splits(
    view: LoadView,
    state: SplitState,
    options: Options,
    metadata: ClusterMetadata = NO_METADATA,
    topics: Mapping[str, Sequence[TopicTraffic]] | None = None,
    splitting: Collection[str] = (),
) -> tuple[SplitDecision, SplitState]:
    """What every broker splits in one cycle, each for itself.

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
    begins like its own's if either end is the same; and brokers do not know of each other's plans, so that
    together they may go over `loadBalancerNamespaceMaximumBundles`.
    """
    if not options.enabled:
        return SplitDecision(why={"outcome": "loadBalancerEnabled is off"}), state
    if not options.auto_bundle_split_enabled:
        return SplitDecision(why={"outcome": "loadBalancerAutoBundleSplitEnabled is off"}), state
    cycle = _Cycle(options, bundle_counter(view, metadata), topics or {}, splitting)
    splits: list[Split] = []
    hits: dict[str, Mapping[str, int]] = {}
    why: dict[str, dict[str, object]] = {}
    for broker, report in view.reports.items():
        own, hits[broker], numbers = _of_broker(broker, report, state.hits.get(broker, {}), cycle)
        splits += own
        why.update(numbers)
    return SplitDecision(tuple(splits), {"limits": limits(options), "bundles": why}), SplitState(hits)


def _of_broker(
    broker: str, report: BrokerReport, before: Mapping[str, int], cycle: _Cycle
) -> tuple[list[Split], dict[str, int], dict[str, dict[str, object]]]:
    """What one broker splits, its hits after it, and the numbers of what is above a limit."""
    options = cycle.options
    owned = set(report.bundles)
    hits = {bundle: count for bundle, count in before.items() if bundle in report.last_stats}
    planned: Counter[str] = Counter()
    splits: list[Split] = []
    why: dict[str, dict[str, object]] = {}
    for key, stats in report.last_stats.items():
        if stats.topics < LEAST_TOPICS or key not in owned:
            continue
        size = size_now(stats)
        reason = reason_of(size, options)
        if reason is None:
            hits.pop(key, None)
            continue
        if not parse_bundle(key).can_split:
            continue
        hits[key] = hits.get(key, 0) + 1
        namespace = namespace_of(key)
        why[key] = {**size.numbers(), "reason": reason, "hits": hits[key]}
        position, why[key]["outcome"] = _position(key, hits[key], planned[namespace], cycle)
        if position is None:
            continue
        splits.append(Split(key, broker, reason, position))
        planned[namespace] += 1
        del hits[key]
        if len(splits) == options.max_number_of_bundles_to_split_per_cycle:
            break
    return splits, hits, why


def _position(key: str, hits: int, planned: int, cycle: _Cycle) -> tuple[int | None, str]:
    """Where a bundle above a limit is cut, or why it is not."""
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
    """Whether a bundle is taken to be a child of one that is being split."""
    low, _, high = key.rpartition("/")[2].partition("_")
    other = splitting.rpartition("/")[2]
    return splitting.startswith(namespace_of(key)) and (other.startswith(low) or other.endswith(high))
