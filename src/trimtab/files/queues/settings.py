"""The section `[queues]` of the settings: what programs make their brokers by, and what plans learn by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from trimtab.files.binding import RejectCallback, Section, check_fractions, check_idle_usage
from trimtab.online.queues.hang_detection import HANG_SECONDS
from trimtab.online.queues.lanes import OVERTAKE_SECONDS
from trimtab.online.queues.settings import SchedulingSettings


@dataclass(frozen=True)
class QueuesSettings:
    """Queues, their dispatch, and how weights are learned.

    Attributes
    ----------
    strategy
        The planner: `trim`.
    theta
        Highest share of the work that a full queue of messages of mean weight would hold (the paper's α).
    epsilon
        Highest deviation γ of a queue's work from the mean of the queues, 0 < ε < 1.
    min_utilization
        ε is not asked where queues hold less than this share on average: all are light (the paper's β).
    min_change
        A class gets a new weight where the measured one differs by at least this share: below it dispatch
        would decide the same, and weights would never rest.
    confidence
        And by more than this many standard errors of what was measured.
    min_samples
        And at least so many messages of it were measured.
    publish_settings
        Whether a plan also publishes `policy` and `[queues.scheduling]`, where processes run by others.
    queues
        How many: the most workers that can be busy at once.
    capacity
        The most messages that one queue may hold.
    policy
        Where messages go, by its name in `trimtab.online.queues`.
    weights
        Seconds of processing by class, until others are published.
    default_weight
        Seconds, for classes that have none.
    enqueue_timeout_seconds
        How long a sender waits where no queue is open; -1 for ever.
    heartbeat_timeout_seconds
        How long a worker counts as alive after its last sign of life.
    max_worker_crashes
        A message with which so many workers have died becomes a dead letter.
    hang_timeout_seconds
        A worker that finishes nothing for so long, and for three times the work that it has in hand, hangs:
        what waits behind it goes to others.
    max_overtake_seconds
        Quick messages go before others that came at most so long before them in the same queue; 0 for
        strictly in the order in which they came.
    slots
        Slots of a cluster over which the queues are spread.
    max_async_tasks
        Messages that each worker inside a process has in work at once; workers of a server are told by
        `taskiq worker --max-async-tasks`.
    scheduling
        Of balance scheduling.
    """

    strategy: str = "trim"
    theta: tuple[float, ...] = (0.8,)
    epsilon: tuple[float, ...] = (0.1,)
    min_utilization: float = 0.1
    min_change: float = 0.2
    confidence: float = 3.0
    min_samples: int = 30
    publish_settings: bool = False
    queues: int = 4
    capacity: int = 10_000
    policy: str = "least_work_left"
    weights: dict[str, float] = field(default_factory=dict)
    default_weight: float = 1.0
    enqueue_timeout_seconds: float = 0.0
    heartbeat_timeout_seconds: float = 10.0
    max_worker_crashes: int = 5
    hang_timeout_seconds: float = HANG_SECONDS
    max_overtake_seconds: float = OVERTAKE_SECONDS
    slots: int = 3
    max_async_tasks: int = 1
    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)


_COUNTS: Final = ("queues", "capacity", "max_worker_crashes", "slots", "max_async_tasks")
_DURATIONS: Final = ("heartbeat_timeout_seconds", "hang_timeout_seconds")


def check_numbers(values: Mapping[str, Any], refuse: RejectCallback) -> None:
    """Refuse numbers of a broker that are out of range, in a file or as arguments.

    Parameters
    ----------
    values
        By name; `enqueue_timeout_seconds` is None for ever.
    """
    for name in _COUNTS:
        if not isinstance(values[name], int) or isinstance(values[name], bool) or values[name] < 1:
            refuse(name, values[name], "a whole number, 1 or more")
    for name in _DURATIONS:
        if not _is_number(values[name]) or values[name] <= 0:
            refuse(name, values[name], "seconds above 0")
    if not _is_number(values["max_overtake_seconds"]) or values["max_overtake_seconds"] < 0:
        refuse("max_overtake_seconds", values["max_overtake_seconds"], "seconds, 0 or more")
    wait = values["enqueue_timeout_seconds"]
    if wait is not None and (not _is_number(wait) or wait < 0):
        refuse("enqueue_timeout_seconds", wait, "seconds, 0 or more")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _check(settings: QueuesSettings, refuse: RejectCallback) -> None:
    check_fractions(settings, refuse)
    check_idle_usage(settings, refuse)
    for name in ("min_change", "confidence"):
        if getattr(settings, name) < 0:
            refuse(name, getattr(settings, name), "0 or more")
    if settings.min_samples < 1:
        refuse("min_samples", settings.min_samples, "1 or more")
    if settings.enqueue_timeout_seconds < 0 and settings.enqueue_timeout_seconds != -1:
        refuse(
            "enqueue_timeout_seconds", settings.enqueue_timeout_seconds, "seconds, 0 or more, or -1 for ever"
        )
    check_numbers(
        {**vars(settings), "enqueue_timeout_seconds": max(0.0, settings.enqueue_timeout_seconds)}, refuse
    )
    if not 0 < settings.default_weight <= 1e6:
        refuse("default_weight", settings.default_weight, "seconds above 0 and at most 1e6")
    for name, seconds in settings.weights.items():
        if not 0 < seconds <= 1e6:
            refuse(
                "weights", settings.weights, f"seconds above 0 and at most 1e6, and {name} has {seconds:g}"
            )


SECTION: Final = Section("queues", QueuesSettings, ("theta", "epsilon"), ("work",), _check)
