"""`AvgShedder`: the fullest broker sheds to the emptiest, the next fullest to the next emptiest, and so on.

It is both halves: the shedder plans where each bundle goes, and the placement keeps to the plan
(`trimtab.plan.bundles.shed.avg_plan`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from trimtab.plan.bundles.decision import Decision, Shedder
from trimtab.plan.bundles.hash_order import hash_map_order
from trimtab.plan.bundles.java_sort import ContradictionError, java_sorted
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.shed.avg_plan import AvgState, living, planned, with_planned, without_plan
from trimtab.plan.bundles.view import LoadView


def decide(
    view: LoadView, state: AvgState, options: Options, chance: np.random.Generator
) -> tuple[Decision, AvgState]:
    """What `AvgShedder.findBundlesForUnloading` decides; nothing is left to chance.

    `Decision.destinations` holds what the plan says of each bundle once it is complete. In released Pulsar
    that need not be the broker that the bundle was chosen for: see `planned`.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `org.apache.pulsar.broker.loadbalance.impl.AvgShedder` (PIP-364). 4.0.7 calls
    scores equal that are less than a point apart, 4.2.4 compares them exactly.
    """
    most = max(state.most_brokers, len(view.brokers))
    # A plan by name is for one round of shedding.
    remembered = replace(living(without_plan(state, options), view), most_brokers=most)
    # A map of its own, filled in the order of the view.
    names = hash_map_order(view.brokers, most)
    scores = {name: view.reports[name].weighted_usage(options.weights) * 100 for name in names}
    why: dict[str, object] = {"scores": scores}
    try:
        ordered = _sorted(scores, options)
    except ContradictionError:
        why["outcome"] = "Pulsar fails here: Java's sort notices that less than a point makes no order"
        return Decision(why=why), remembered

    hits_low, hits_high = dict(state.hits_low), dict(state.hits_high)
    apart = _pairs(ordered, scores, hits_low, hits_high, options)
    if not apart:
        why["outcome"] = "no two brokers are as far apart as loadBalancerAvgShedderLowThreshold"
        return Decision(why=why), replace(remembered, hits_low={}, hits_high={})
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
        if not _due((source, target), hits_low, hits_high, options):
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
    return Decision(unloads, destinations, why), after


class AvgShedder(Shedder[AvgState]):
    """Its decision, and what it remembers at first; `AvgPlacement` is the other half."""

    def __init__(self) -> None:
        super().__init__(decide, AvgState())


def _sorted(scores: Mapping[str, float], options: Options) -> list[str]:
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
    options: Options,
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


def _due(
    pair: tuple[str, str], hits_low: Mapping[str, int], hits_high: Mapping[str, int], options: Options
) -> bool:
    """Whether any of the two has been apart from its partner often enough."""
    return any(
        hits_high.get(name, 0) >= options.avg_shedder_hit_count_high_threshold
        or hits_low.get(name, 0) >= options.avg_shedder_hit_count_low_threshold
        for name in pair
    )


def _chosen(
    view: LoadView, source: str, target: str, options: Options, pair: dict[str, object]
) -> tuple[str, ...]:
    """Bundles of the fuller broker from the busiest down, each that is not more than what is left."""
    fuller, emptier = view.reports[source], view.reports[target]
    share = options.max_unload_percentage
    rate = (fuller.msg_rate_in + fuller.msg_rate_out - (emptier.msg_rate_in + emptier.msg_rate_out)) * share
    throughput = (
        fuller.msg_throughput_in
        + fuller.msg_throughput_out
        - (emptier.msg_throughput_in + emptier.msg_throughput_out)
    ) * share
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
