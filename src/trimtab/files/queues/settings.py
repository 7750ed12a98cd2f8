"""The section `[queues]` of the settings: what programs make their brokers by, and what plans learn by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from trimtab.files.binding import Refuse, Section, check_fractions, check_idle_usage
from trimtab.online.queues.settings import Scheduling


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
    idle_usage
        ε is not asked where queues hold less than this share on average: all are light (the paper's β).
    change_least
        A class gets a new weight where the measured one differs by at least this share: below it dispatch
        would decide the same, and weights would never rest.
    confidence
        And by more than this many standard errors of what was measured.
    samples_least
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
    wait_seconds
        How long a sender waits where no queue is open; -1 for ever.
    life_seconds
        How long a worker counts as alive after its last sign of life.
    deaths_max
        A message with which so many workers have died becomes a dead letter.
    scheduling
        Of balance scheduling.
    """

    strategy: str = "trim"
    theta: tuple[float, ...] = (0.8,)
    epsilon: tuple[float, ...] = (0.1,)
    idle_usage: float = 0.1
    change_least: float = 0.2
    confidence: float = 3.0
    samples_least: int = 30
    publish_settings: bool = False
    queues: int = 4
    capacity: int = 10_000
    policy: str = "least_work_left"
    weights: dict[str, float] = field(default_factory=dict)
    default_weight: float = 1.0
    wait_seconds: float = 0.0
    life_seconds: float = 10.0
    deaths_max: int = 5
    scheduling: Scheduling = field(default_factory=Scheduling)


def _check(settings: QueuesSettings, refuse: Refuse) -> None:
    check_fractions(settings, refuse)
    check_idle_usage(settings, refuse)
    for name in ("change_least", "confidence"):
        if getattr(settings, name) < 0:
            refuse(name, getattr(settings, name), "0 or more")
    for name in ("samples_least", "queues", "capacity", "deaths_max"):
        if getattr(settings, name) < 1:
            refuse(name, getattr(settings, name), "1 or more")
    for name in ("default_weight", "life_seconds"):
        if getattr(settings, name) <= 0:
            refuse(name, getattr(settings, name), "seconds above 0")
    for name, seconds in settings.weights.items():
        if not 0 < seconds <= 1e6:
            refuse(
                "weights", settings.weights, f"seconds above 0 and at most 1e6, and {name} has {seconds:g}"
            )


SECTION: Final = Section("queues", QueuesSettings, ("theta", "epsilon"), ("work",), _check)
