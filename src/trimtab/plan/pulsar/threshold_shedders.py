"""`OverloadShedder`, `ThresholdShedder` and `UniformLoadShedder`: brokers above a limit give up bundles.

The limit of the first is a fixed share of a broker's capacity, that of the second lies above the average.
Under the third, the busiest broker gives up part of its traffic above that of the idlest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.plan.pulsar.decision import NoState, ShedDecision, Shedder
from trimtab.plan.pulsar.java import LARGEST, truncated, wrapped
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.view import LeaderLoadView


def busiest_until(view: LeaderLoadView, bundles: Iterable[str], need: float) -> tuple[tuple[str, ...], float]:
    """Bundles by short-term throughput, highest first, while what is taken is less than needed.

    At least one is taken if there is any. Bundles of equal throughput keep the order of the view: Pulsar
    sorts stably what it finds in a hash map (`ThresholdShedder.filterAndSelectBundle`, `OverloadShedder`).

    Parameters
    ----------
    bundles, need
        Those of the broker, and bytes per second to take.

    Returns
    -------
    tuple
        The bundles in the order of choice, and their sum in bytes per second.
    """
    throughput = view.bundles.short_throughput
    row = view.bundles.row
    ordered = sorted(view.movable(bundles), key=lambda bundle: -throughput[row[bundle]])
    chosen: list[str] = []
    taken = 0.0
    for bundle in ordered:
        if chosen and not taken < need:
            break
        chosen.append(bundle)
        taken += float(throughput[row[bundle]])
    return tuple(chosen), taken


MARGIN = 0.05
"""A broker is to end so far below the threshold (not the average, as the Javadoc says)."""


def decide_overload(
    view: LeaderLoadView, state: NoState, options: PulsarBrokerConfig, chance: np.random.Generator
) -> tuple[ShedDecision, NoState]:
    """The decision of `OverloadShedder.findBundlesForUnloading`; nothing is left to chance.

    A broker is overloaded on the threshold and above. Its usage is that of its most used resource, each with
    its weight (`getMaxResourceUsageWithWeight`, since 4.0 by PIP-358; before it all counted alike).

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `org.apache.pulsar.broker.loadbalance.impl.OverloadShedder`, which are alike.
    """
    threshold = options.broker_overloaded_threshold_percentage / 100.0
    brokers: dict[str, dict[str, object]] = {}
    unloads: dict[str, tuple[str, ...]] = {}
    for name, report in view.reports.items():
        usage = report.weighted_usage(options.weights)
        numbers = brokers[name] = {"usage": usage}
        if usage < threshold:
            continue
        need = report.throughput * (usage - threshold + MARGIN)
        numbers["bytes_per_second_needed"] = need
        if len(report.bundles) <= 1:
            numbers["outcome"] = (
                "its sole bundle overloads it" if report.bundles else "overloaded without any bundle"
            )
            continue
        chosen, numbers["bytes_per_second_taken"] = busiest_until(view, report.bundles, need)
        if chosen:
            unloads[name] = chosen
        else:
            numbers["outcome"] = "no bundle may be unloaded now"
    return ShedDecision(unloads, facts={"threshold": threshold, "brokers": brokers}), state


OVERLOAD = Shedder(decide_overload, NoState())
"""`OverloadShedder`, which remembers nothing."""


LOWER_BOUNDARY_MARGIN = 0.5
MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class ThresholdState:
    """The memory from decision to decision.

    Attributes
    ----------
    usage
        Running mean of each broker's usage, as a fraction. One that left and comes back begins anew.
    """

    usage: Mapping[str, float] = field(default_factory=dict)


def decide_threshold(
    view: LeaderLoadView, state: ThresholdState, options: PulsarBrokerConfig, chance: np.random.Generator
) -> tuple[ShedDecision, ThresholdState]:
    """The decision of `ThresholdShedder.findBundlesForUnloading`; nothing is left to chance.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder`, which are alike.
    The article calls a broker overloaded above the threshold (`>`), Pulsar also one that lies on it.
    """
    threshold = options.broker_threshold_shedder_percentage / 100.0
    usage, average = _remembered(view, state.usage, options)
    brokers: dict[str, dict[str, object]] = {
        name: {"usage": report.weighted_usage(options.weights), "history": usage[name]}
        for name, report in view.reports.items()
    }
    why: dict[str, object] = {"average": average, "threshold": threshold, "brokers": brokers}
    if average == 0:
        why["outcome"] = "the average usage is 0"
        return ShedDecision(facts=why), ThresholdState(usage)
    unloads: dict[str, tuple[str, ...]] = {}
    for name, report in view.reports.items():
        if not _overloaded(usage[name], average + threshold, options):
            continue
        numbers = brokers[name]
        share = usage[name] - average - threshold + MARGIN
        need = report.throughput * share
        numbers["share_to_unload"] = share
        numbers["bytes_per_second_needed"] = need
        chosen = _selected(view, name, need, options, numbers)
        if chosen:
            unloads[name] = chosen
    if not unloads and options.lower_boundary_shedding_enabled:
        usage, unloads, why["lower_boundary"] = _lower_boundary(view, usage, options)
    return ShedDecision(unloads, facts=why), ThresholdState(usage)


def noted_threshold(
    state: ThresholdState, view: LeaderLoadView, options: PulsarBrokerConfig
) -> ThresholdState:
    """The state without the means of brokers that are gone (`onActiveBrokersChange`)."""
    return ThresholdState({name: mean for name, mean in state.usage.items() if name in view.brokers})


THRESHOLD = Shedder(decide_threshold, ThresholdState(), noted=noted_threshold)
"""`ThresholdShedder`."""


def _remembered(
    view: LeaderLoadView, before: Mapping[str, float], options: PulsarBrokerConfig
) -> tuple[dict[str, float], float]:
    """The running means after one more sample, and the average over the brokers of the view.

    The sum runs in the view's order and in doubles, as in Pulsar: it decides ties on the threshold.
    """
    history = options.history_resource_percentage
    usage = dict(before)
    total = 0.0
    for name, report in view.reports.items():
        sample = report.weighted_usage(options.weights)
        usage[name] = sample if name not in usage else usage[name] * history + (1 - history) * sample
        total += usage[name]
    return usage, total / len(view.brokers) if view.brokers else 0.0


def _overloaded(usage: float, limit: float, options: PulsarBrokerConfig) -> bool:
    return usage > limit if options.variant == "article" else usage >= limit


def _selected(
    view: LeaderLoadView, broker: str, need: float, options: PulsarBrokerConfig, numbers: dict[str, object]
) -> tuple[str, ...]:
    """The bundles that make up `need`, or none where it is too little, or the broker has only one."""
    least = options.bundle_unload_min_throughput_threshold * MEGABYTE
    bundles = view.reports[broker].bundles
    if need < least:
        numbers["outcome"] = "less than loadBalancerBundleUnloadMinThroughputThreshold to unload"
        return ()
    if len(bundles) <= 1:
        numbers["outcome"] = "its sole bundle overloads it" if bundles else "overloaded without any bundle"
        return ()
    chosen, numbers["bytes_per_second_taken"] = busiest_until(view, bundles, need)
    if not chosen:
        numbers["outcome"] = "no bundle may be unloaded now"
    return chosen


def _lower_boundary(
    view: LeaderLoadView, usage: Mapping[str, float], options: PulsarBrokerConfig
) -> tuple[dict[str, float], dict[str, tuple[str, ...]], dict[str, object]]:
    """The busiest broker sheds if another lies far below the average (`tryLowerBoundaryShedding`).

    The running means take the same sample a second time here, as in Pulsar.
    """
    threshold = options.broker_threshold_shedder_percentage / 100.0
    again, average = _remembered(view, usage, options)
    busiest, highest = None, average - threshold
    below = False
    for name, report in view.reports.items():
        if again[name] > highest and len(report.bundles) > 1:
            busiest, highest = name, again[name]
        below = below or again[name] < average - threshold
    why: dict[str, object] = {
        "average": average,
        "history": {name: again[name] for name in view.brokers},
        "some_broker_below": below,
        "busiest": busiest,
    }
    if busiest is None or not below:
        return again, {}, why
    report = view.reports[busiest]
    need = report.throughput * threshold * LOWER_BOUNDARY_MARGIN
    why["bytes_per_second_needed"] = need
    if options.bundle_unload_min_throughput_threshold * MEGABYTE > need:
        why["outcome"] = "less than loadBalancerBundleUnloadMinThroughputThreshold to unload"
        return again, {}, why
    chosen, why["bytes_per_second_taken"] = busiest_until(view, report.bundles, need)
    return again, {busiest: chosen} if chosen else {}, why


NEAR_ZERO = 1e-6
SLACK_4_0 = 1000
"""Pulsar 4.0 takes a bundle up to so many messages (or bytes) per second over what is left to unload."""


@dataclass(frozen=True)
class _Extremes:
    """The busiest and the idlest broker by one measure, and what they carry per second."""

    busiest: str | None
    highest: float
    idlest: str | None
    lowest: float


def decide_uniform(
    view: LeaderLoadView, state: NoState, options: PulsarBrokerConfig, chance: np.random.Generator
) -> tuple[ShedDecision, NoState]:
    """The decision of `UniformLoadShedder.findBundlesForUnloading`; nothing is left to chance.

    Message rate goes before throughput: throughput is looked at only where rates are near enough. What is
    left to unload is a Java `int`, from which every bundle takes its whole number of messages or bytes.

    References
    ----------
    Pulsar 4.2.4 and, with `SLACK_4_0`, 4.0.7,
    `org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder`.
    """
    reports = view.reports
    rate = _extremes({name: one.rate for name, one in reports.items()})
    throughput = _extremes({name: one.throughput for name, one in reports.items()})
    percent = (rate.highest - rate.lowest) * 100 / rate.lowest
    times = throughput.highest / throughput.lowest
    by_rate = _above(percent, options.msg_rate_difference_shedder_threshold)
    by_throughput = _above(times, options.msg_throughput_multiplier_difference_shedder_threshold)
    why: dict[str, object] = {
        "rate": vars(rate) | {"difference_percent": percent, "exceeded": by_rate},
        "throughput": vars(throughput) | {"times": times, "exceeded": by_throughput},
    }
    if not by_rate and not by_throughput:
        return ShedDecision(facts=why), state
    extremes, traffic, least = (
        (rate, view.bundles.short_rate, options.min_unload_message)
        if by_rate
        else (throughput, view.bundles.short_throughput, options.min_unload_message_throughput)
    )
    assert extremes.busiest is not None
    need = truncated((extremes.highest - extremes.lowest) * options.max_unload_percentage)
    why |= {"measure": "rate" if by_rate else "throughput", "needed": need, "needed_at_least": least}
    bundles = reports[extremes.busiest].bundles
    if len(bundles) <= 1 or need < least:
        why["outcome"] = "less than the minimum to unload" if need < least else "it has no second bundle"
        return ShedDecision(facts=why), state
    chosen = _uniform_choice(view, bundles, traffic, need, options)
    return ShedDecision({extremes.busiest: chosen} if chosen else {}, facts=why), state


UNIFORM = Shedder(decide_uniform, NoState())
"""`UniformLoadShedder`, which remembers nothing."""


def _extremes(carried: Mapping[str, float]) -> _Extremes:
    """The first of the busiest and the first of the idlest; an idlest that does nothing counts as 1.

    The search for the idlest begins at Java's largest `int`: where every broker carries more (2 GB/s and up),
    that number is the minimum, as in Pulsar.
    """
    busiest, highest, idlest, lowest = None, -1.0, None, float(LARGEST)
    for name, value in carried.items():
        if value > highest:
            busiest, highest = name, value
        if value < lowest:
            idlest, lowest = name, value
    return _Extremes(busiest, highest, idlest, 1.0 if abs(lowest) <= NEAR_ZERO else lowest)


def _above(found: float, threshold: float) -> bool:
    """True if a difference is too large; a threshold of 0 or less switches the measure off."""
    return threshold > 0 and found > threshold


def _uniform_choice(
    view: LeaderLoadView,
    bundles: tuple[str, ...],
    traffic: FloatArray,
    need: int,
    options: PulsarBrokerConfig,
) -> tuple[str, ...]:
    """Bundles from the busiest down, each that is not more than what is left, also those without traffic."""
    row = view.bundles.row
    slack = SLACK_4_0 if options.variant == "pulsar-4.0" else 0  # added as Java's int, which may overflow
    most = options.max_unload_bundle_num_per_shedding
    left = need
    chosen: list[str] = []
    for bundle in sorted(view.movable(bundles), key=lambda bundle: -traffic[row[bundle]]):
        if most != -1 and len(chosen) >= most:
            break
        carried = float(traffic[row[bundle]])
        if carried <= wrapped(left + slack):
            chosen.append(bundle)
            left -= truncated(carried)
    return tuple(chosen)
