"""The measures of one run of queues in virtual time, raw."""

from __future__ import annotations

from dataclasses import dataclass, field

from trimtab.online.queues.forecast import QueueState


@dataclass(frozen=True, slots=True)
class WindowSample:
    """All queues at the end of a window.

    Attributes
    ----------
    at
        Seconds.
    length, work
        Shape (queues,): messages, and seconds of work.
    forecast
        Shape (queues,): messages forecast for the end of the cycle; empty without balance scheduling.
    states
        Shape (queues,): by that forecast.
    """

    at: float
    length: tuple[int, ...]
    work: tuple[float, ...]
    forecast: tuple[float, ...] = ()
    states: tuple[QueueState, ...] = ()


@dataclass(slots=True)
class QueuesRun:
    """Everything that is measured of a run, raw.

    Attributes
    ----------
    busy_seconds
        Shape (queues,): how long each worker worked.
    finished_at
        Shape (messages,): seconds; negative where a message was lost.
    accepted_at
        Shape (messages,): seconds; negative where it was refused, and so lost.
    started_at
        Shape (messages,): seconds; negative where a message was lost.
    moved
        Messages taken to another queue by the scheduler.
    stolen
        Messages that a worker took from a queue not its own.
    overtaken
        Messages of a user begun after a later one of the same user.
    pauses
        Marks set.
    samples
        The queues over time, those that are kept.
    """

    busy_seconds: list[float]
    finished_at: list[float]
    accepted_at: list[float]
    started_at: list[float]
    moved: int = 0
    stolen: int = 0
    overtaken: int = 0
    pauses: int = 0
    samples: list[WindowSample] = field(default_factory=list)

    @property
    def makespan_seconds(self) -> float:
        """From the beginning until the last message is finished."""
        return max(self.finished_at, default=0.0)

    @property
    def lost(self) -> int:
        """Messages that no queue took."""
        return sum(at < 0 for at in self.finished_at)
