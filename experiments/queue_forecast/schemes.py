"""The schemes that are compared, and the load they are compared under."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from simulate.arrivals import at_random, in_step
from trimtab.history.queues.simulation import DispatchScheme, QueuesRun, QueuesWorld, ReplayedMessage
from trimtab_queues.core.catalogue import POLICIES, DispatchInputs
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policies import DispatchPolicy
from trimtab_queues.core.scheduling import SchedulingSettings

QUEUES, CAPACITY = 5, 10_000
WEIGHTS = (0.1, 0.2, 0.4, 0.7, 1.0)
MEAN_WEIGHT = sum(WEIGHTS) / len(WEIGHTS)
INTERVAL_SECONDS = 0.01
SIZES = (100, 500, 1000, 2500, 5000, 7500, 10_000, 25_000, 50_000, 100_000)
SEEDS = tuple(range(1, 10))
"""Draws of the classes at random; the first nine, not chosen."""

AS_PRINTED = SchedulingSettings(
    balance_by="count", forecast_weight="queue", trend_sign="literal", idle_transfer="nothing"
)
BY_COUNT = replace(AS_PRINTED, trend_sign="corrected")
BY_WORK = SchedulingSettings(idle_transfer="nothing")
THRESHOLD = SchedulingSettings(
    threshold_unit="messages",
    light_threshold=3000,
    overload_threshold=3000,
    trend="none",
    forecast_weight="queue",
    balance_by="count",
    window_seconds=10.0,
    idle_transfer="nothing",
)
"""The rival: every 10 s, queues above 3,000 messages give to those below, half of what they differ by."""


def scheme(
    policy: str, scheduling: SchedulingSettings | None = None, full: str = "block", gather: float = 0.0
) -> DispatchScheme:
    """A policy by name, with or without balance scheduling."""
    classes = [(weight, 1.0) for weight in WEIGHTS]

    def make(ledger: QueueLedger) -> DispatchPolicy:
        return POLICIES[policy](ledger, DispatchInputs(chance=random.Random(1).random, classes=classes))

    return DispatchScheme(policy=make, scheduling=scheduling, full=full, gather_seconds=gather)


SCHEMES = {
    "none": scheme("round_robin"),
    "threshold": scheme("marked_round_robin", THRESHOLD),
    "forecast as printed": scheme("marked_round_robin", AS_PRINTED),
    "forecast by count": scheme("marked_round_robin", BY_COUNT),
    "forecast by work": scheme("marked_round_robin", BY_WORK),
}
"""The paper's three, its own twice: with the literal and the corrected sign; and ours, by work."""

RIVALS = {
    "round_robin": scheme("round_robin"),
    "marked_round_robin": scheme("marked_round_robin"),
    "count_threshold": scheme("count_threshold"),
    "light_load_first": scheme("light_load_first"),
    "join_idle_queue": scheme("join_idle_queue"),
    "join_shortest_queue": scheme("join_shortest_queue"),
    "power_of_two": scheme("power_of_two"),
    "least_work_left": scheme("least_work_left"),
    "min_min": scheme("min_min", gather=0.1),
    "work_stealing": scheme("work_stealing"),
    "central_queue": scheme("central_queue"),
    "size_interval": scheme("size_interval"),
}
"""Every policy by itself, without balance scheduling; Min-Min holds messages back for a tenth of a second."""

SWITCHES = {
    f"{balance}, {weight}, {sign}": scheme(
        "marked_round_robin", replace(BY_WORK, balance_by=balance, forecast_weight=weight, trend_sign=sign)
    )
    for balance in ("count", "work")
    for weight in ("queue", "mean")
    for sign in ("literal", "corrected")
}
OPTIONS = {
    "as it comes": BY_WORK,
    "damped trend, φ = 0.8": replace(BY_WORK, trend_damping=0.8),
    "half of the trend is the newest window": replace(BY_WORK, trend_smoothing=0.5),
    "no trend": replace(BY_WORK, trend="none"),
    "drain time: light below 30 s, overload above 600 s": replace(
        BY_WORK, threshold_unit="seconds", light_threshold=30, overload_threshold=600
    ),
}
DROPPING = {
    name: replace(which, full="drop")
    for name, which in {
        **{name: which for name, which in SCHEMES.items() if name != "forecast as printed"},
        **{name: which for name, which in RIVALS.items() if name != "round_robin"},
    }.items()
}
"""The schemes and every policy for a source that does not wait; `none` is plain round-robin."""


def load(size: int, seed: int | None, *, users: int = 0) -> list[ReplayedMessage]:
    """So many messages: classes in step without a seed, at random with one."""
    if seed is None:
        return in_step(size, WEIGHTS, INTERVAL_SECONDS)
    return at_random(size, WEIGHTS, INTERVAL_SECONDS, seed, users=users)


def run(which: DispatchScheme, messages: Sequence[ReplayedMessage], name: str = "") -> QueuesRun:
    """One run over the paper's five queues; a central queue has room for what five would hold."""
    capacity = [CAPACITY] * QUEUES
    if name == "central_queue":
        capacity[0] = CAPACITY * QUEUES
    return QueuesWorld(which, capacity, MEAN_WEIGHT).run(messages)


def bound_seconds(messages: Sequence[ReplayedMessage]) -> float:
    """No scheme is done earlier: all work over all workers, or the last message by itself."""
    return max(sum(one.weight for one in messages) / QUEUES, messages[-1].deadline + messages[-1].weight)
