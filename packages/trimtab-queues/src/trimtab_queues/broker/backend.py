"""What a broker asks of the place where its queues are, and the errors that it raises.

`in_process` and `redis_streams` implement it; each method does all of its change or nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from trimtab_common.errors import TrimtabError
from trimtab_queues.broker.envelope import MICROSECONDS, Delivery, Envelope
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.ordering import LaneClassifier
from trimtab_queues.core.scheduling import MessagesMoved, MoveMessages, QueuesObserved


class QueuesFullError(TrimtabError):
    """No queue may receive the message now: back-pressure.

    Attributes
    ----------
    retry_after_seconds
        When it is worth trying again; what a web layer puts into Retry-After.
    """

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class QueueOwnershipLostError(TrimtabError):
    """The worker's queue belongs to another worker now: this one was silent for too long."""


def retry_after_seconds(error: BaseException) -> float | None:
    """Seconds of the back-pressure behind an error; None where it is another error.

    taskiq raises `SendTaskError` from whatever a broker raised, so that is looked into.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, QueuesFullError):
            return seen.retry_after_seconds
        seen = seen.__cause__
    return None


AGAIN_SECONDS = 0.1


async def end_task(task: asyncio.Task[None]) -> None:
    """Cancel a task, again and again until it is over; what it raised is not told.

    redis-py 8.1 loses a cancellation that comes while it has a connection checked: once is not enough.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_SECONDS)
    if not task.cancelled():
        task.exception()


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Counters of one queue, kept by whatever puts messages in, hands them out and moves them.

    Attributes
    ----------
    length
        Messages waiting or in work.
    work_microseconds
        Their processing time.
    held, held_microseconds
        Those of them that a worker has.
    arrived_microseconds, served_microseconds
        What came in and what was finished (or became a dead letter) since the beginning; moves count in
        neither.
    paused
        The scheduler's mark.
    alive
        Whether a worker that gives signs of life empties it.
    """

    length: int = 0
    work_microseconds: int = 0
    held: int = 0
    held_microseconds: int = 0
    arrived_microseconds: int = 0
    served_microseconds: int = 0
    paused: bool = False
    alive: bool = False

    def derivable(self) -> QueueCounts:
        """The part that can be counted again from the messages themselves."""
        return replace(self, arrived_microseconds=0, served_microseconds=0, paused=False, alive=False)


@dataclass(frozen=True, slots=True)
class QueuesCounts:
    """All queues at an instant.

    Attributes
    ----------
    at
        Seconds on the back-end's own clock.
    abandoned
        Queues with messages and without a worker, long enough that none will come by itself.
    """

    at: float
    queues: tuple[QueueCounts, ...]
    abandoned: tuple[int, ...] = ()

    def closed(self) -> list[bool]:
        """Whether each queue is out of dispatch for want of a worker.

        Where no queue has one, messages wait for workers to come, and all queues are open.
        """
        anyone = any(one.alive for one in self.queues)
        return [anyone and not one.alive for one in self.queues]

    def mean_weight(self, otherwise: float) -> float:
        """Seconds of processing of the messages in all queues, the mean; `otherwise` where there are none.

        By the weights that those messages were sent with, wherever they come from.
        """
        messages = sum(one.length for one in self.queues)
        work = sum(one.work_microseconds for one in self.queues)
        return work / MICROSECONDS / messages if messages else otherwise

    def observation(self, capacity: Sequence[int], mean_weight: float) -> QueuesObserved:
        """The same as a fact for balance scheduling."""
        queues = self.queues
        return QueuesObserved(
            at=self.at,
            capacity=tuple(capacity),
            length=tuple(one.length for one in queues),
            work=tuple(one.work_microseconds / MICROSECONDS for one in queues),
            arrived=tuple(one.arrived_microseconds / MICROSECONDS for one in queues),
            served=tuple(one.served_microseconds / MICROSECONDS for one in queues),
            paused=tuple(one.paused for one in queues),
            closed=tuple(self.closed()),
            mean_weight=mean_weight,
            held=tuple(one.held for one in queues),
            held_work=tuple(one.held_microseconds / MICROSECONDS for one in queues),
        )


def bring_up_to(ledger: QueueLedger, counts: QueuesCounts) -> None:
    """Set a dispatcher's ledger to what the owner of the queues counts."""
    for queue, (one, closed) in enumerate(zip(counts.queues, counts.closed(), strict=True)):
        bring_queue_up_to(ledger, queue, one, closed)


def bring_queue_up_to(ledger: QueueLedger, queue: int, one: QueueCounts, closed: bool) -> None:
    """The same for one queue."""
    ledger.paused[queue], ledger.closed[queue] = one.paused, closed
    ledger.arrived[queue] = one.arrived_microseconds / MICROSECONDS
    ledger.served[queue] = one.served_microseconds / MICROSECONDS
    ledger.refresh(
        queue,
        length=one.length,
        work=one.work_microseconds / MICROSECONDS,
        held=one.held,
        held_work=one.held_microseconds / MICROSECONDS,
    )


def lightest(ledger: QueueLedger, queues: Iterable[int]) -> int | None:
    """The one of these queues with the least work, one with a worker before one without; None for none."""
    return min(queues, key=lambda one: (ledger.closed[one], ledger.work[one], one), default=None)


@dataclass(frozen=True, slots=True)
class ServerCounts:
    """What lies on a server beside the queues of a process.

    Attributes
    ----------
    dead_letters
        Messages that were given up.
    duplicates
        Messages that were accepted and not put in, since their idempotency key was known.
    moved, pauses
        Messages that went from one queue to another, and how often a queue was paused.
    stranded
        Messages by queue, in queues that others had and this process has not, where no worker lives.
    """

    dead_letters: int = 0
    duplicates: int = 0
    moved: int = 0
    pauses: int = 0
    stranded: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueClaim:
    """A queue that is a worker's own from now on, with what earlier workers of it left unfinished."""

    queue: int
    left_over: tuple[Delivery, ...] = ()


class Backend(Protocol):
    """Queues by index, each with at most one worker at a time.

    Every method that changes something changes everything about it, or nothing.

    Attributes
    ----------
    ledger
        The queues as a policy reads them; `look` brings all of it up to date, `put` at least the queue where
        the message lies.
    """

    ledger: QueueLedger

    @property
    def lanes(self) -> LaneClassifier:
        """Which messages are quick, by what came into the queues."""
        ...

    @property
    def age_seconds(self) -> float:
        """Since the ledger was last brought up to date, if only in part."""
        ...

    async def open(self) -> None:
        """Make queues ready; may be called again."""
        ...

    async def close(self) -> None:
        """Let go of connections; messages stay."""
        ...

    async def counts(self) -> QueuesCounts:
        """All counters now, and the ledger brought up to them."""
        ...

    async def server_counts(self) -> ServerCounts:
        """What no queue of the ledger holds."""
        ...

    async def put(self, envelope: Envelope, queue: int | None) -> int | None:
        """Put a message into a queue.

        A message whose affinity key is in flight goes to the queue of that key, paused or not. One whose
        idempotency key is known is accepted, counted as a duplicate and not put in. A retry is put in
        although the queue is full or paused.

        Parameters
        ----------
        queue
            As a policy chose; None for that of the affinity key only.

        Returns
        -------
        int or None
            The queue where it lies; None where that one is paused or full, and the ledger says so.
        """
        ...

    async def claim(
        self, worker: str, previous: str = "", in_work: Collection[Delivery] = ()
    ) -> QueueClaim | None:
        """A queue for a worker: its own, else the longest that has none; None where all have one.

        Parameters
        ----------
        worker
            A name that the worker has not had before: commands that it gave under another, and that the
            server carries out late, do nothing.
        previous
            The name under which it had a queue until it lost touch, and from which it takes that over.
        in_work
            What it has begun and goes on with: not among what is left over.
        """
        ...

    async def take(self, worker: str, queue: int, timeout_seconds: float) -> Delivery | None:
        """The oldest waiting message of a worker's own queue; None where none came in time.

        Raises
        ------
        LostQueueError
            If the queue is no longer the worker's.
        """
        ...

    async def start(self, worker: str, delivery: Delivery) -> bool:
        """Say that a message that an earlier worker left over is begun; False where it is not ours."""
        ...

    async def finish(self, delivery: Delivery) -> bool:
        """Take a message out for good; False where somebody else has done it."""
        ...

    async def release(self, worker: str, queue: int) -> None:
        """Give a queue back; what its worker had not finished waits for the next one."""
        ...

    async def lease(self, holder: str, seconds: float) -> int | None:
        """The right to schedule, for some time; its fence, which only grows, or None where another has it."""
        ...

    async def mark(self, queue: int, paused: bool, fence: int) -> bool:
        """Pause or resume a queue; False, and nothing done, for a fence that is not the newest."""
        ...

    async def move(self, order: MoveMessages, fence: int) -> MessagesMoved:
        """Move waiting messages, the newest first, all of an affinity key or none.

        Nothing goes that would exceed the order or the target's capacity, and nothing for an old fence.
        """
        ...

    async def rescue(self, source: int, target: int, messages: int, fence: int) -> MessagesMoved:
        """Move messages of a queue without a worker, the oldest first, those of its dead worker too.

        Parameters
        ----------
        source
            Any queue, also one beyond those of the ledger.
        """
        ...

    async def exchange(self, process: str, report: bytes) -> bytes | None:
        """Leave a process' report for whoever collects, and get what is published, if anything."""
        ...

    async def recount(self) -> tuple[QueueCounts, ...]:
        """Counters again, from the messages themselves; as in `QueueCounts.derivable`."""
        ...
