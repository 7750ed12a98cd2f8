"""`AvgShedder`: the fullest broker sheds to the emptiest, the next fullest to the next emptiest, and so on.

It contains both parts: the shedder plans the destination of each bundle, and the placement follows the plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from zlib import crc32

import numpy as np

from trimtab.model.bundles.reports import LONG_SAMPLES, BundleData
from trimtab.plan.pulsar.decision import BrokerChoice, Placer, ShedDecision, Shedder
from trimtab.plan.pulsar.java import ComparisonContractError, hash_map_order, java_sorted
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.view import LeaderLoadView


@dataclass(frozen=True)
class PlannedDestination:
    """The destination of a bundle; released Pulsar looks it up by the bundle's statistics (`data`)."""

    bundle: str
    data: BundleData
    broker: str


@dataclass(frozen=True)
class AvgState:
    """The memory from decision to decision.

    Attributes
    ----------
    hits_low, hits_high
        Number of successive decisions in which each broker's pair exceeded the low and the high threshold.
    plan
        Destinations, in the order of their first entry.
    max_brokers
        Largest number of brokers so far: Pulsar's map of scores keeps its size, and so its order.
    """

    hits_low: Mapping[str, int] = field(default_factory=dict)
    hits_high: Mapping[str, int] = field(default_factory=dict)
    plan: tuple[PlannedDestination, ...] = ()
    max_brokers: int = 0

    @cached_property
    def places(self) -> dict[BundleData | str, list[int]]:
        """Places in the plan of the entries of some data, and of those of some bundle."""
        found: dict[BundleData | str, list[int]] = {}
        for place, one in enumerate(self.plan):
            found.setdefault(one.data, []).append(place)
            found.setdefault(one.bundle, []).append(place)
        return found


def choose(
    bundle: str,
    candidates: Sequence[str],
    view: LeaderLoadView,
    state: AvgState,
    options: PulsarBrokerConfig,
    chance: np.random.Generator,
) -> tuple[BrokerChoice, AvgState]:
    """The decision of `AvgShedder.selectBroker`: the plan where it has a candidate, else a hash of chance.

    In released Pulsar random choices are entered in the plan as well, so that all bundles with equal data
    (such as unknown ones) follow the first of them.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `org.apache.pulsar.broker.loadbalance.impl.AvgShedder`. The number hashed is a
    Java `int` in decimal, by crc32.
    """
    broker = planned(bundle, view, state, options)
    if broker is not None and broker in candidates:
        return BrokerChoice(broker, (broker,), {"planned": broker}), state
    if not candidates:
        return BrokerChoice(None, facts={"planned": broker}), state
    pool = tuple(sorted(candidates))
    drawn = int(chance.integers(-(2**31), 2**31))
    broker = pool[crc32(str(drawn).encode()) % len(pool)]
    if not options.avg_shedder_plan_by_bundle_name:
        state = with_planned(living(state, view), view, {bundle: broker}, options)
    return BrokerChoice(broker, pool, {"planned": None, "drawn": drawn}), state


PLACER = Placer(choose, AvgState())
"""The placement of `AvgShedder`."""


def planned(bundle: str, view: LeaderLoadView, state: AvgState, options: PulsarBrokerConfig) -> str | None:
    """The broker that the plan has for a bundle, if any.

    Released Pulsar looks it up by the bundle's statistics, not by its name, and these change. A bundle is
    found only until its next sample, and a bundle with the data of another finds the destination that was
    planned last. Planning by name (#26246) is an option of ours, `avgShedderPlanByBundleName`.
    """
    place = _place_of(bundle, view, state, options)
    return None if place is None else state.plan[place].broker


def without_plan(state: AvgState, options: PulsarBrokerConfig) -> AvgState:
    """The state once a round of shedding is over: a plan by name is for that round only (#26246)."""
    if not options.avg_shedder_plan_by_bundle_name:
        return state
    return replace(state, plan=())


def living(state: AvgState, view: LeaderLoadView) -> AvgState:
    """The state without entries of the plan that can never be found again; Pulsar never removes them.

    Their bundle has had another sample since, and the count of samples, which is part of the key, only grows
    up to `LONG_SAMPLES`.
    """
    plan = tuple(
        one for one in state.plan if one.data.long.samples >= LONG_SAMPLES or _is_as_filed(one, view)
    )
    return state if len(plan) == len(state.plan) else replace(state, plan=plan)


def with_planned(
    state: AvgState, view: LeaderLoadView, destinations: Mapping[str, str], options: PulsarBrokerConfig
) -> AvgState:
    """The state with entries for these bundles' destinations.

    If an equal key exists, that entry keeps its place and bundle and gets the new broker.
    """
    entries = list(state.plan)
    fresh: dict[BundleData | str, int] = {}
    for bundle, broker in destinations.items():
        data = view.known_of(bundle)
        key = bundle if options.avg_shedder_plan_by_bundle_name else data
        place = fresh.get(key, _place_of(bundle, view, state, options))
        if place is None:
            fresh[key] = len(entries)
            entries.append(PlannedDestination(bundle, data, broker))
        else:
            entries[place] = replace(entries[place], broker=broker)
    return replace(state, plan=tuple(entries))


def _place_of(bundle: str, view: LeaderLoadView, state: AvgState, options: PulsarBrokerConfig) -> int | None:
    if options.avg_shedder_plan_by_bundle_name:
        return next(iter(state.places.get(bundle, ())), None)
    places = state.places.get(view.known_of(bundle), ())
    return next((place for place in places if _is_as_filed(state.plan[place], view)), None)


def _is_as_filed(one: PlannedDestination, view: LeaderLoadView) -> bool:
    """True if the data of an entry's bundle still equal its key.

    Java's map stores an entry under the hash of its key at that time, and compares with the current key.
    """
    return one.bundle not in view.bundles.row or view.bundles[one.bundle] == one.data


def decide(
    view: LeaderLoadView, state: AvgState, options: PulsarBrokerConfig, chance: np.random.Generator
) -> tuple[ShedDecision, AvgState]:
    """The decision of `AvgShedder.findBundlesForUnloading`; deterministic.

    `ShedDecision.destinations` has the destination of each bundle in the complete plan. In released Pulsar
    that need not be the broker that the bundle was chosen for: see `planned`.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `org.apache.pulsar.broker.loadbalance.impl.AvgShedder` (PIP-364). 4.0.7 calls
    scores equal that are less than a point apart, 4.2.4 compares them exactly.
    """
    most = max(state.max_brokers, len(view.brokers))
    # A plan by name is for one round of shedding.
    remembered = replace(living(without_plan(state, options), view), max_brokers=most)
    # A map of its own, filled in the order of the view.
    names = hash_map_order(view.brokers, most)
    scores = {name: view.reports[name].weighted_usage(options.weights) * 100 for name in names}
    why: dict[str, object] = {"scores": scores}
    try:
        ordered = _sorted(scores, options)
    except ComparisonContractError:
        why["outcome"] = "Pulsar fails here: Java's sort notices that less than a point makes no order"
        return ShedDecision(facts=why), remembered

    hits_low, hits_high = dict(state.hits_low), dict(state.hits_high)
    apart = _pairs(ordered, scores, hits_low, hits_high, options)
    if not apart:
        why["outcome"] = "no two brokers are as far apart as loadBalancerAvgShedderLowThreshold"
        return ShedDecision(facts=why), replace(remembered, hits_low={}, hits_high={})
    pairs: list[dict[str, object]] = []
    unloads: dict[str, tuple[str, ...]] = {}
    targets: dict[str, str] = {}
    for target, source in apart:
        pair: dict[str, object] = {
            "source": source,
            "target": target,
            "apart": scores[source] - scores[target],
            "hits_low": {name: hits_low.get(name, 0) for name in (source, target)},
            "hits_high": {name: hits_high.get(name, 0) for name in (source, target)},
        }
        pairs.append(pair)
        if not _is_triggered((source, target), hits_low, hits_high, options):
            pair["outcome"] = "not often enough apart so far"
            continue
        for name in (source, target):
            hits_low.pop(name, None)
            hits_high.pop(name, None)
        chosen = _chosen(view, source, target, options, pair)
        if chosen:
            unloads[source] = chosen
            targets |= dict.fromkeys(chosen, target)
    after = with_planned(replace(remembered, hits_low=hits_low, hits_high=hits_high), view, targets, options)
    destinations = {
        bundle: planned(bundle, view, after, options) or target for bundle, target in targets.items()
    }
    diverted = {bundle: target for bundle, target in targets.items() if destinations[bundle] != target}
    why |= {"pairs": pairs, "planned_for_an_equal_bundle": sorted(diverted)}
    return ShedDecision(unloads, destinations, why), after


SHEDDER = Shedder(decide, AvgState())
"""The shedder of `AvgShedder`; `PLACER` is the other half."""


def _sorted(scores: Mapping[str, float], options: PulsarBrokerConfig) -> list[str]:
    """Brokers from the lowest score to the highest."""
    if options.variant == "pulsar-4.0":
        # Java's cast to int cuts off the fraction, so that less than a point makes no difference.
        return java_sorted(scores, lambda one, other: int(scores[one] - scores[other]))
    return sorted(scores, key=scores.__getitem__)


def _pairs(
    ordered: Sequence[str],
    scores: Mapping[str, float],
    hits_low: dict[str, int],
    hits_high: dict[str, int],
    options: PulsarBrokerConfig,
) -> list[tuple[str, str]]:
    """The pairs far enough apart, each the emptier broker first, and their hits counted.

    The middle one of an odd number of brokers is its own pair, and so loses its hits.
    """
    found = []
    for at in range((len(ordered) + 1) // 2):
        emptier, fuller = ordered[at], ordered[-1 - at]
        apart = scores[fuller] - scores[emptier]
        if apart < options.avg_shedder_low_threshold:
            for name in (emptier, fuller):
                hits_low.pop(name, None)
                hits_high.pop(name, None)
            continue
        found.append((emptier, fuller))
        for name in (emptier, fuller):
            hits_low[name] = hits_low.get(name, 0) + 1
            if apart < options.avg_shedder_high_threshold:
                hits_high.pop(name, None)
            else:
                hits_high[name] = hits_high.get(name, 0) + 1
    return found


def _is_triggered(
    pair: tuple[str, str],
    hits_low: Mapping[str, int],
    hits_high: Mapping[str, int],
    options: PulsarBrokerConfig,
) -> bool:
    """True if either broker has enough hits."""
    return any(
        hits_high.get(name, 0) >= options.avg_shedder_hit_count_high_threshold
        or hits_low.get(name, 0) >= options.avg_shedder_hit_count_low_threshold
        for name in pair
    )


def _chosen(
    view: LeaderLoadView, source: str, target: str, options: PulsarBrokerConfig, pair: dict[str, object]
) -> tuple[str, ...]:
    """Bundles of the fuller broker from the busiest down, each not larger than the remaining amount."""
    fuller, emptier = view.reports[source], view.reports[target]
    share = options.max_unload_percentage
    rate, throughput = (fuller.rate - emptier.rate) * share, (fuller.throughput - emptier.throughput) * share
    pair |= {"messages_per_second_wanted": rate, "bytes_per_second_wanted": throughput}
    if rate > options.min_unload_message:
        pair["measure"], traffic, left = "rate", view.bundles.short_rate, rate
    elif throughput > options.min_unload_message_throughput:
        pair["measure"], traffic, left = "throughput", view.bundles.short_throughput, throughput
    else:
        pair["outcome"] = "neither minUnloadMessage nor minUnloadMessageThroughput is exceeded"
        return ()
    # With a sole bundle Pulsar warns that nothing will be shed, and goes on to shed it.
    row = view.bundles.row
    chosen: list[str] = []
    for bundle in sorted(view.movable(fuller.bundles), key=lambda bundle: -traffic[row[bundle]]):
        carried = float(traffic[row[bundle]])
        if 0 < carried <= left:
            left -= carried
            chosen.append(bundle)
    pair["left_over"] = left
    if not fuller.bundles:
        pair["outcome"] = "overloaded without any bundle"
    elif not chosen:
        pair["outcome"] = "no bundle is small enough, or none may be unloaded now"
    return tuple(chosen)
