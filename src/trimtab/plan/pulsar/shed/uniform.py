"""`UniformLoadShedder`: the busiest broker gives up part of what it does more than the idlest."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.plan.pulsar.decision import NoState, ShedDecision, Shedder
from trimtab.plan.pulsar.java import LARGEST, truncated, wrapped
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.view import LeaderLoadView

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


def decide(
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
    chosen = _chosen(view, bundles, traffic, need, options)
    return ShedDecision({extremes.busiest: chosen} if chosen else {}, facts=why), state


SHEDDER = Shedder(decide, NoState())
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


def _chosen(
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
