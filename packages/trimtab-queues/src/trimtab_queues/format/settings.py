"""The section `[queues]` of the settings: what programs make their brokers by, and what plans learn by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Annotated, Any, Final

from msgspec import Meta

from trimtab_common.documents import Fraction, Positive, Share, SmallShare
from trimtab_common.settings import RejectCallback, Section
from trimtab_queues.core.ordering import OVERTAKE_SECONDS
from trimtab_queues.core.scheduling import HANG_SECONDS
from trimtab_queues.core.settings import SchedulingSettings


@dataclass(frozen=True)
class QueuesSettings:
    """Queues, their dispatch, and how weights are learned.

    Attributes
    ----------
    strategy
        Planner: `trim`.
    theta
        Highest work of a queue, as a share of the work of a full queue with messages of mean weight (the
        paper's α).
    epsilon
        Highest deviation γ of a queue's work from the mean of the queues, 0 < ε < 1.
    min_utilization
        Queues with a mean share of work below this are not balanced: all are light (the paper's β).
    min_change
        Minimum relative change of a class weight. Smaller changes do not change dispatch and are not
        published.
    confidence
        Minimum change of a class weight in standard errors of the measurement.
    min_samples
        Minimum number of measured messages of a class.
    publish_settings
        Whether a plan also publishes `policy` and `[queues.scheduling]`, if processes use other values.
    queues
        Number of queues: the largest number of workers that can be busy at once.
    capacity
        Maximum number of messages in a queue.
    policy
        Dispatch policy, by its name in `trimtab_queues.core`.
    weights
        Seconds of processing by class, until weights are published.
    default_weight
        Seconds of processing of classes without a weight.
    enqueue_timeout_seconds
        Time for which a sender waits if no queue is open; -1: no limit.
    heartbeat_timeout_seconds
        Heartbeat timeout of a worker.
    max_worker_crashes
        After this many worker crashes the message goes to the dead-letter queue.
    hang_timeout_seconds
        A worker hangs if it finishes nothing for this time plus three times the weight of its current
        messages. Waiting messages behind it go to other queues.
    max_overtake_seconds
        Quick messages overtake messages of the same queue that arrived up to this long before them; 0: strict
        order of arrival.
    slots
        Number of hash slots of a Redis Cluster over which the queues are spread.
    max_async_tasks
        Number of messages that a worker inside a process handles at once. For workers of a server use `taskiq
        worker --max-async-tasks`.
    scheduling
        Settings of balance scheduling.
    """

    strategy: str = "trim"
    theta: tuple[Share, ...] = (0.8,)
    epsilon: tuple[Fraction, ...] = (0.1,)
    min_utilization: SmallShare = 0.1
    min_change: Annotated[float, Meta(ge=0)] = 0.2
    confidence: Annotated[float, Meta(ge=0)] = 3.0
    min_samples: Positive = 30
    publish_settings: bool = False
    queues: int = 4
    capacity: int = 10_000
    policy: str = "least_work_left"
    weights: dict[str, float] = field(default_factory=dict)
    default_weight: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
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
    if settings.enqueue_timeout_seconds < 0 and settings.enqueue_timeout_seconds != -1:
        refuse(
            "enqueue_timeout_seconds", settings.enqueue_timeout_seconds, "seconds, 0 or more, or -1 for ever"
        )
    check_numbers(
        {**vars(settings), "enqueue_timeout_seconds": max(0.0, settings.enqueue_timeout_seconds)}, refuse
    )
    for name, seconds in settings.weights.items():
        if not 0 < seconds <= 1e6:
            refuse(
                "weights", settings.weights, f"seconds above 0 and at most 1e6, and {name} has {seconds:g}"
            )


SECTION: Final = Section("queues", QueuesSettings, ("theta", "epsilon"), ("work",), _check)
