"""Facts that a scheduler is told, and the orders it gives."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab_queues.core.ledger import QueueLedger


@dataclass(frozen=True, slots=True)
class QueuesObserved:
    """All queues at an instant, at the end of a window.

    Attributes
    ----------
    at
        Seconds on a clock that never goes back.
    capacity, length
        Shape (queues,): messages that may be there, and that are.
    work
        Shape (queues,): seconds of processing of those.
    arrived, served
        Shape (queues,): seconds of processing since the beginning, what was moved left out.
    paused
        Shape (queues,): the marks as they are, whoever set them.
    closed
        Shape (queues,): nobody empties it, so that it gives what it can and receives nothing.
    mean_weight
        Mean weight of the classes, seconds of processing.
    held, held_work
        Shape (queues,): messages in work, and their seconds of processing; empty where that is not known.
    """

    at: float
    capacity: tuple[int, ...]
    length: tuple[int, ...]
    work: tuple[float, ...]
    arrived: tuple[float, ...]
    served: tuple[float, ...]
    paused: tuple[bool, ...]
    closed: tuple[bool, ...]
    mean_weight: float
    held: tuple[int, ...] = ()
    held_work: tuple[float, ...] = ()

    @classmethod
    def of(cls, ledger: QueueLedger, at: float, mean_weight: float) -> QueuesObserved:
        """The queues of a ledger, now."""
        return cls(
            at=at,
            capacity=tuple(ledger.capacity),
            length=tuple(ledger.length),
            work=tuple(ledger.work),
            arrived=tuple(ledger.arrived),
            served=tuple(ledger.served),
            paused=tuple(ledger.paused),
            closed=tuple(ledger.closed),
            mean_weight=mean_weight,
            held=tuple(ledger.held),
            held_work=tuple(ledger.held_work),
        )


@dataclass(frozen=True, slots=True)
class MessagesMoved:
    """What became of an order to move: how much went over, which may be less than ordered, or nothing."""

    source: int
    target: int
    messages: int
    work: float


Event = QueuesObserved | MessagesMoved


@dataclass(frozen=True, slots=True)
class PauseQueue:
    """Let a queue receive nothing."""

    queue: int


@dataclass(frozen=True, slots=True)
class ResumeQueue:
    """Let a queue receive again."""

    queue: int


@dataclass(frozen=True, slots=True)
class MoveMessages:
    """Take waiting messages, those that came last first, from one queue to another.

    Attributes
    ----------
    messages, work
        The most to take: one of the two is None. No message goes that would exceed it.
    rest_seconds
        Messages that were moved less than so long ago stay.
    """

    source: int
    target: int
    messages: int | None
    work: float | None
    rest_seconds: float = 0.0


Effect = PauseQueue | ResumeQueue | MoveMessages
