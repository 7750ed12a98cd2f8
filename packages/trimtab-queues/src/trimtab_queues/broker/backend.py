"""Messages as back-ends store them: the bytes of taskiq, and the fields that dispatch needs.

The interface of a broker to its queues, and the errors that it raises.

`in_process` and `redis_streams` implement it. Each method makes all of its changes or none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import isfinite
from typing import Final, Protocol

from taskiq import TaskiqMessage, TaskiqMiddleware

from trimtab_common.errors import InputError, TrimtabError
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.ordering import LaneClassifier
from trimtab_queues.core.scheduling import MessagesMoved, MoveMessages, QueuesObserved

MICROSECONDS: Final = 1_000_000
BODY_BYTES_MAX: Final = 16 * 2**20
"""Of what taskiq has written; queues and journals of many such messages still fit into a server."""
WEIGHT_SECONDS_MAX: Final = 1e6
"""Some twelve days; sums of such weights stay exact in the server's arithmetic."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message in a back-end.

    Attributes
    ----------
    task_id
        The id of taskiq; the same at every delivery.
    body
        The bytes of taskiq, which are not parsed.
    class_name
        The class; messages of one class take about the same time.
    weight_microseconds
        Processing time; whole microseconds, so that sums are exact in every back-end.
    affinity_key
        Messages with the same key are processed in order; empty for none.
    idempotency_key
        A second message with the same key is not stored; empty for none.
    quick
        Whether it goes into the quick lane.
    accepted_at
        Seconds on the clock of the back-end; None before it is accepted, or if the back-end stores the time
        itself.
    retry
        Whether it replaces a message that its sender, a worker, still holds. It is stored although the queue
        is full or paused; otherwise all workers could wait for one another.
    """

    task_id: str
    body: bytes
    class_name: str
    weight_microseconds: int
    affinity_key: str = ""
    idempotency_key: str = ""
    quick: bool = False
    accepted_at: float | None = field(default=None, compare=False)
    retry: bool = False

    @property
    def weight(self) -> float:
        """Expected processing time in seconds."""
        return self.weight_microseconds / MICROSECONDS


class MessageOrigin(Enum):
    """The sender of a message, by the labels of taskiq."""

    SENDER = "sender"
    SCHEDULE = "schedule"
    RETRY = "retry"


_RETRY_LABELS: Final = ("_retries", "X-Taskiq-requeue")
"""Numbers of the retry middlewares and of `Context.requeue`: each run of a message has another pair."""
_SCHEDULE_LABEL: Final = "schedule_id"
_ACCEPTED_LABEL: Final = "_accepted_id"
"""Tells messages with the same idempotency key apart; retries carry that of their message along."""


def origin_of(labels: Mapping[str, object]) -> MessageOrigin:
    """The origin of a message; a retry of a scheduled message has both labels, and counts as a retry."""
    if any(name in labels for name in _RETRY_LABELS):
        return MessageOrigin.RETRY
    return MessageOrigin.SCHEDULE if _SCHEDULE_LABEL in labels else MessageOrigin.SENDER


class AcceptedIds(TaskiqMiddleware):
    """A middleware that labels each message with an idempotency key with an id, which its retries keep."""

    def pre_send(self, message: TaskiqMessage) -> TaskiqMessage:
        """Set the label; a retry keeps the label of its message."""
        labels = message.labels
        if labels.get("idempotency_key") and origin_of(labels) is not MessageOrigin.RETRY:
            labels[_ACCEPTED_LABEL] = self.broker.id_generator()
        return message


def _idempotency_key(labels: Mapping[str, object], task_id: str) -> str:
    """The idempotency key: of a sender, the label; of a schedule or a retry, a key of the single run.

    A retry that is sent twice, by a crashed worker and by its successor, has the same key both times.
    """
    key, origin = str(labels.get("idempotency_key") or ""), origin_of(labels)
    if not key or origin is MessageOrigin.SENDER:
        return key
    retries = [str(labels.get(name, 0)) for name in _RETRY_LABELS] if origin is MessageOrigin.RETRY else []
    return "\n".join([key, str(labels.get(_ACCEPTED_LABEL, task_id)), *retries])


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that a worker has.

    Attributes
    ----------
    queue
        The queue in which it counts until it is finished.
    id
        Its name in that queue, by the back-end.
    deaths
        Number of workers that have crashed with it.
    waited_seconds
        Time from acceptance to delivery; None if the back-end does not report it.
    """

    queue: int
    id: str
    envelope: Envelope
    deaths: int = 0
    waited_seconds: float | None = None


def envelope_of(
    task_id: str,
    task_name: str,
    body: bytes,
    labels: Mapping[str, object],
    weights: Mapping[str, float],
    default_weight: float,
) -> Envelope:
    """The envelope of a message, by its labels.

    Parameters
    ----------
    labels
        `message_class` (default: the task's name); `weight` in seconds (default: that of the class);
        `affinity_key`; `idempotency_key`; and labels of taskiq's retries and schedules. taskiq has converted
        them to strings.
    weights
        Seconds of processing by class.
    default_weight
        Seconds of processing of classes that are not in `weights`.

    Raises
    ------
    InputError
        If the weight is no number of seconds, or the message is larger than `BODY_BYTES_MAX`.
    """
    if len(body) > BODY_BYTES_MAX:
        raise InputError(
            f"message of task {task_name} has {len(body):,} bytes, expected at most {BODY_BYTES_MAX:,}: keep "
            f"what it carries elsewhere and send where that is"
        )
    class_name = str(labels.get("message_class") or task_name)
    said = labels.get("weight")
    weight = weights.get(class_name, default_weight) if said is None else said
    return Envelope(
        task_id=task_id,
        body=body,
        class_name=class_name,
        weight_microseconds=microseconds(weight, f"label weight of task {task_name}"),
        affinity_key=str(labels.get("affinity_key") or ""),
        idempotency_key=_idempotency_key(labels, task_id),
        retry=origin_of(labels) is MessageOrigin.RETRY,
    )


def microseconds(weight: object, subject: str) -> int:
    """A weight in whole microseconds, at least 1.

    Raises
    ------
    InputError
        If it is no number of seconds above 0, or more than `WEIGHT_SECONDS_MAX`.
    """
    try:
        seconds = float(weight)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = float("nan")
    if not isfinite(seconds) or not 0 < seconds <= WEIGHT_SECONDS_MAX:
        raise InputError(
            f"{subject} is {weight!r}, expected seconds of processing above 0 and at most "
            f"{WEIGHT_SECONDS_MAX:g}"
        )
    return max(1, round(seconds * MICROSECONDS))


class QueuesFullError(TrimtabError):
    """No queue may receive the message now: back-pressure.

    Attributes
    ----------
    retry_after_seconds
        Time after which to retry; a web layer puts it into Retry-After.
    """

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class QueueOwnershipLostError(TrimtabError):
    """Another worker has the queue now, because this worker was silent for too long."""


def retry_after_seconds(error: BaseException) -> float | None:
    """The waiting time of the back-pressure error behind an error; None for another error.

    taskiq wraps each error of a broker into a `SendTaskError`; this function unwraps it.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, QueuesFullError):
            return seen.retry_after_seconds
        seen = seen.__cause__
    return None


AGAIN_SECONDS = 0.1


async def end_task(task: asyncio.Task[None]) -> None:
    """Cancel a task repeatedly until it has ended, and ignore its error.

    redis-py 8.1 loses a cancellation that arrives while it checks a connection, so one is not enough.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_SECONDS)
    if not task.cancelled():
        task.exception()


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Counters of one queue.

    Attributes
    ----------
    length
        Messages that wait or are processed.
    work_microseconds
        Their processing time.
    held, held_microseconds
        Those that a worker has, and their processing time.
    arrived_microseconds, served_microseconds
        Work that arrived and that was finished (or became a dead letter) since the start, without moves.
    paused
        Whether the scheduler has paused the queue.
    alive
        Whether a worker with recent heartbeats has the queue.
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
        """The counters that can be computed from the messages."""
        return replace(self, arrived_microseconds=0, served_microseconds=0, paused=False, alive=False)


@dataclass(frozen=True, slots=True)
class QueuesCounts:
    """All queues at one time.

    Attributes
    ----------
    at
        Seconds on the clock of the back-end.
    abandoned
        Queues with messages that have had no worker for long, so that none is expected.
    """

    at: float
    queues: tuple[QueueCounts, ...]
    abandoned: tuple[int, ...] = ()

    def closed(self) -> list[bool]:
        """Whether each queue is out of dispatch because it has no worker.

        If no queue has a worker, all queues are open, and messages wait for workers.
        """
        anyone = any(one.alive for one in self.queues)
        return [anyone and not one.alive for one in self.queues]

    def mean_weight(self, otherwise: float) -> float:
        """Mean processing time of the messages in all queues, in seconds; `otherwise` if there are none.

        It uses the weights with which the messages were sent.
        """
        messages = sum(one.length for one in self.queues)
        work = sum(one.work_microseconds for one in self.queues)
        return work / MICROSECONDS / messages if messages else otherwise

    def observation(self, capacity: Sequence[int], mean_weight: float) -> QueuesObserved:
        """The counters as an event for balance scheduling."""
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
    """Set the ledger of a dispatcher to the counters of the back-end."""
    for queue, (one, closed) in enumerate(zip(counts.queues, counts.closed(), strict=True)):
        bring_queue_up_to(ledger, queue, one, closed)


def bring_queue_up_to(ledger: QueueLedger, queue: int, one: QueueCounts, closed: bool) -> None:
    """Set one queue of a ledger to its counters."""
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
    """The queue with the least work, queues with a worker first; None if there is no queue."""
    return min(queues, key=lambda one: (ledger.closed[one], ledger.work[one], one), default=None)


@dataclass(frozen=True, slots=True)
class ServerCounts:
    """Counters of a server beside the queues of a process.

    Attributes
    ----------
    dead_letters
        Number of dead letters.
    duplicates
        Accepted messages that were not stored because their idempotency key was known.
    moved, pauses
        Number of moved messages, and number of pauses.
    stranded
        Messages by queue, in queues without a worker that this process does not have.
    """

    dead_letters: int = 0
    duplicates: int = 0
    moved: int = 0
    pauses: int = 0
    stranded: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueClaim:
    """A queue that a worker has now, with the messages that its earlier workers did not finish."""

    queue: int
    left_over: tuple[Delivery, ...] = ()


class Backend(Protocol):
    """Queues by index, each with at most one worker at a time.

    Each method makes all of its changes or none.

    Attributes
    ----------
    ledger
        The queues as policies read them. `counts` updates all of it, `put` at least the queue of the message.
    """

    ledger: QueueLedger

    @property
    def lanes(self) -> LaneClassifier:
        """The classifier of quick messages, by the messages of all queues."""
        ...

    @property
    def age_seconds(self) -> float:
        """Time since the ledger was last updated, at least in part."""
        ...

    async def open(self) -> None:
        """Create the queues; may be called again."""
        ...

    async def close(self) -> None:
        """Close connections; messages stay in the queues."""
        ...

    async def counts(self) -> QueuesCounts:
        """All current counters; the ledger is updated."""
        ...

    async def server_counts(self) -> ServerCounts:
        """Counters beside the queues of the ledger."""
        ...

    async def put(self, envelope: Envelope, queue: int | None) -> int | None:
        """Put a message into a queue.

        A message whose affinity key is in flight goes to the queue of that key, even if it is paused. A
        message with a known idempotency key is accepted and counted as a duplicate, but not stored. A retry
        is stored although the queue is full or paused.

        Parameters
        ----------
        queue
            The choice of the policy; None: only the queue of the affinity key.

        Returns
        -------
        int or None
            The queue of the message; None if that queue is paused or full, as the ledger then shows.
        """
        ...

    async def claim(
        self, worker: str, previous: str = "", in_work: Collection[Delivery] = ()
    ) -> QueueClaim | None:
        """A queue for a worker: its own, else the longest without a worker; None if all have one.

        Parameters
        ----------
        worker
            A name that the worker never had before. Late commands under an earlier name have no effect.
        previous
            The name under which the worker had a queue before it lost its connection.
        in_work
            Messages that it is processing; they are not among the unfinished messages.
        """
        ...

    async def take(self, worker: str, queue: int, timeout_seconds: float) -> Delivery | None:
        """The oldest waiting message of a worker's own queue; None if none arrives in time.

        Raises
        ------
        QueueOwnershipLostError
            If another worker has the queue.
        """
        ...

    async def start(self, worker: str, delivery: Delivery) -> bool:
        """Start a message that an earlier worker did not finish; False if this worker no longer has it."""
        ...

    async def finish(self, delivery: Delivery) -> bool:
        """Remove a message for good; False if it was removed before."""
        ...

    async def release(self, worker: str, queue: int) -> None:
        """Give up a queue; its unfinished messages wait for the next worker."""
        ...

    async def lease(self, holder: str, seconds: float) -> int | None:
        """The right to schedule for some time: its fence, which only grows, or None if another process has
        it.
        """
        ...

    async def mark(self, queue: int, paused: bool, fence: int) -> bool:
        """Pause or resume a queue; False, without a change, if the fence is not the newest."""
        ...

    async def move(self, order: MoveMessages, fence: int) -> MessagesMoved:
        """Move waiting messages, the newest first, all of an affinity key or none.

        Moves never exceed the order or the capacity of the target, and an old fence moves nothing.
        """
        ...

    async def rescue(self, source: int, target: int, messages: int, fence: int) -> MessagesMoved:
        """Move messages of a queue without a worker, the oldest first, including those of its crashed worker.

        Parameters
        ----------
        source
            Any queue, also one beyond those of the ledger.
        """
        ...

    async def exchange(self, process: str, report: bytes) -> bytes | None:
        """Store the report of a process for collectors, and get the published document, if any."""
        ...

    async def recount(self) -> tuple[QueueCounts, ...]:
        """Counters computed from the messages, as in `QueueCounts.derivable`."""
        ...
