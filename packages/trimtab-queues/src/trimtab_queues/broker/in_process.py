"""A back-end inside one process: queues, waiting messages and workers in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain, count
from math import inf
from time import monotonic

from trimtab_queues.broker.backend import (
    MICROSECONDS,
    Delivery,
    Envelope,
    QueueClaim,
    QueueCounts,
    QueueOwnershipLostError,
    QueuesCounts,
    ServerCounts,
    bring_queue_up_to,
    bring_up_to,
)
from trimtab_queues.broker.balancing import choose_waiting
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.ordering import OVERTAKE_SECONDS, LaneClassifier, is_quick_first
from trimtab_queues.core.scheduling import MessagesMoved, MoveMessages

Candidate = tuple[str, int, str]
"""Name, microseconds and affinity key of a message that may be moved."""


class WaitingMessages:
    """Waiting messages of a queue by name; names are numbers that grow.

    Parameters
    ----------
    max_overtake_seconds
        Quick messages go before others that came at most so long before them.
    """

    def __init__(self, max_overtake_seconds: float) -> None:
        self._overtake_seconds = max_overtake_seconds
        self._quick: dict[str, Envelope] = {}
        self._other: dict[str, Envelope] = {}
        self._moved: dict[str, float] = {}
        self._out_of_turn: list[tuple[float, str]] = []

    def __bool__(self) -> bool:
        return bool(self._quick or self._other)

    def __iter__(self) -> Iterator[Envelope]:
        return chain(self._quick.values(), self._other.values())

    def put(self, name: str, envelope: Envelope, now: float, moved: bool) -> None:
        """Add a message that is accepted at the end of its lane."""
        self._lane(envelope)[name] = envelope
        if moved:
            self._moved[name] = now
            if not envelope.quick:
                heappush(self._out_of_turn, (_accepted(envelope), name))

    def give_back(self, name: str, envelope: Envelope) -> None:
        """Put a message that was taken at its place again."""
        lane = self._lane(envelope)
        lane[name] = envelope
        # In place: the order of a lane is that of its names.
        for one in sorted(lane, key=int):
            lane[one] = lane.pop(one)

    def take(self) -> tuple[str, Envelope]:
        """The message whose turn it is; there must be one."""
        quick, other = next(iter(self._quick), None), next(iter(self._other), None)
        if quick is not None and (
            other is None
            or is_quick_first(_accepted(self._quick[quick]), self._oldest(other), self._overtake_seconds)
        ):
            return quick, self.remove(quick)
        assert other is not None
        return other, self.remove(other)

    def _oldest(self, first: str) -> float:
        """When the message of the other lane was accepted that has waited longest."""
        # Moved ones stand behind others that were accepted after them.
        moved = self._out_of_turn
        while moved and moved[0][1] not in self._other:
            heappop(moved)
        accepted = _accepted(self._other[first])
        return min(accepted, moved[0][0]) if moved else accepted

    def remove(self, name: str) -> Envelope:
        """Take a message out by its name."""
        self._moved.pop(name, None)
        return self._quick.pop(name) if name in self._quick else self._other.pop(name)

    def newest_first(self, rested: float) -> list[Candidate]:
        """Messages as a move considers them, without those that were moved after that time.

        Quick ones, which would wait least where they are, come last.
        """
        return [
            (name, one.weight_microseconds, one.affinity_key)
            for name, one in chain(reversed(self._other.items()), reversed(self._quick.items()))
            if self._moved.get(name, -inf) <= rested
        ]

    def oldest_first(self) -> list[Candidate]:
        """Messages as a rescue considers them."""
        return [
            (name, one.weight_microseconds, one.affinity_key)
            for name, one in chain(self._quick.items(), self._other.items())
        ]

    def _lane(self, envelope: Envelope) -> dict[str, Envelope]:
        return self._quick if envelope.quick else self._other


def _accepted(envelope: Envelope) -> float:
    assert envelope.accepted_at is not None
    return envelope.accepted_at


class InProcessBackend:
    """Queues of one event loop; in the terms of `Backend`.

    A worker is a task of the same process, so that none dies with the queues left behind: what it had not
    finished comes back when it releases its queue.

    Parameters
    ----------
    capacity
        Shape (queues,): the most messages that each may hold.
    clock
        Seconds, never going back.
    idempotency_seconds
        How long idempotency keys are remembered.
    max_overtake_seconds
        Quick messages go before others that came at most so long before them.
    """

    def __init__(
        self,
        capacity: Iterable[int],
        clock: Callable[[], float] = monotonic,
        idempotency_seconds: float = 3600.0,
        max_overtake_seconds: float = OVERTAKE_SECONDS,
    ) -> None:
        self.ledger, self.lanes, self.age_seconds = QueueLedger(capacity), LaneClassifier(), 0.0
        queues = len(self.ledger)
        self._clock, self._idempotency_seconds = clock, idempotency_seconds
        self._counts = [QueueCounts() for _ in range(queues)]
        self._waiting = [WaitingMessages(max_overtake_seconds) for _ in range(queues)]
        self._held: list[dict[str, Envelope]] = [{} for _ in range(queues)]
        self._not_started: list[dict[str, Envelope]] = [{} for _ in range(queues)]
        self._owners: list[str | None] = [None] * queues
        self._news = [asyncio.Event() for _ in range(queues)]
        self._keys: dict[str, tuple[int, int, bool]] = {}
        self._known: dict[str, tuple[int, float]] = {}
        self._lease: tuple[str, float] | None = None
        self._fence = 0
        self._ids = count(1)
        self._duplicates = self._moved = self._pauses = 0

    async def open(self) -> None:
        """Do nothing: no connection is needed."""

    async def close(self) -> None:
        """Do nothing: no connection is open."""

    async def counts(self) -> QueuesCounts:
        """All counters now; the ledger follows every change."""
        return QueuesCounts(self._clock(), tuple(self._counts), self._abandoned())

    async def server_counts(self) -> ServerCounts:
        """Totals; no queue is beyond the ledger's inside a process."""
        return ServerCounts(duplicates=self._duplicates, moved=self._moved, pauses=self._pauses)

    async def put(self, envelope: Envelope, queue: int | None) -> int | None:
        """Put a message into a queue, or into that of its affinity key; None where it may not go there."""
        if (known := self._remembered(envelope.idempotency_key)) is not None:
            self._duplicates += 1
            return known
        bound = self._keys.get(envelope.affinity_key)
        if bound is not None:
            # One lane for all of a key, or the quick ones would overtake the others.
            queue, envelope = bound[0], replace(envelope, quick=bound[2])
        if queue is None:
            return None
        counts = self._counts[queue]
        refused = counts.length >= self.ledger.capacity[queue] or (counts.paused and bound is None)
        if refused and not envelope.retry:
            return None
        self._append(queue, str(next(self._ids)), replace(envelope, accepted_at=self._clock()))
        weight = envelope.weight_microseconds
        self.lanes.enqueued(envelope.weight)
        self._change(queue, 1, weight, arrived_microseconds=counts.arrived_microseconds + weight)
        if envelope.affinity_key:
            in_flight = (bound[1] if bound else 0) + 1
            self._keys[envelope.affinity_key] = (queue, in_flight, envelope.quick)
        if envelope.idempotency_key:
            self._known[envelope.idempotency_key] = (queue, self._clock() + self._idempotency_seconds)
        return queue

    async def claim(
        self, worker: str, previous: str = "", in_work: Collection[Delivery] = ()
    ) -> QueueClaim | None:
        """The worker's own queue, else the longest without a worker, with what is left over there."""
        own = (worker, previous)
        free = [queue for queue, owner in enumerate(self._owners) if owner is None or owner in own]
        if not free:
            return None
        queue = max(free, key=lambda one: (self._owners[one] in own, self._counts[one].length, -one))
        self._owners[queue] = worker
        self._live(queue, True)
        begun = {one.id for one in in_work if one.queue == queue}
        left_over = {name: one for name, one in self._held[queue].items() if name not in begun}
        self._not_started[queue] = left_over
        return QueueClaim(queue, tuple(Delivery(queue, *one) for one in left_over.items()))

    async def take(self, worker: str, queue: int, timeout_seconds: float) -> Delivery | None:
        """The oldest waiting message; a worker waits for one to come."""
        self._own(worker, queue)
        waiting = self._waiting[queue]
        if not waiting:
            self._news[queue].clear()
            try:
                await asyncio.wait_for(self._news[queue].wait(), timeout_seconds)
            except TimeoutError:
                return None
            self._own(worker, queue)
        if not waiting:
            return None
        name, envelope = waiting.take()
        self._held[queue][name] = envelope
        self._hold(queue, 1, envelope.weight_microseconds)
        return Delivery(queue, name, envelope)

    async def start(self, worker: str, delivery: Delivery) -> bool:
        """Begin a message that was left over."""
        mine = self._owners[delivery.queue] == worker
        return mine and self._not_started[delivery.queue].pop(delivery.id, None) is not None

    async def finish(self, delivery: Delivery) -> bool:
        """Take a message out for good."""
        queue = delivery.queue
        envelope = self._held[queue].pop(delivery.id, None)
        if envelope is None:
            return False
        self._not_started[queue].pop(delivery.id, None)
        weight = envelope.weight_microseconds
        self._hold(queue, -1, -weight)
        served = self._counts[queue].served_microseconds + weight
        self._change(queue, -1, -weight, served_microseconds=served)
        if envelope.affinity_key:
            self._unbind(envelope.affinity_key)
        return True

    async def release(self, worker: str, queue: int) -> None:
        """Give up ownership of a queue."""
        if self._owners[queue] == worker:
            self._owners[queue] = None
            self._live(queue, False)

    async def lease(self, holder: str, seconds: float) -> int | None:
        """The right to schedule, for some time."""
        now = self._clock()
        if self._lease is not None and self._lease[0] != holder and self._lease[1] > now:
            return None
        if self._lease is None or self._lease[0] != holder or self._lease[1] <= now:
            self._fence += 1
        self._lease = (holder, now + seconds)
        return self._fence

    async def mark(self, queue: int, paused: bool, fence: int) -> bool:
        """Pause or resume a queue."""
        if fence != self._fence:
            return False
        self._pauses += paused and not self._counts[queue].paused
        self._set(queue, paused=paused)
        return True

    async def move(self, order: MoveMessages, fence: int) -> MessagesMoved:
        """Move waiting messages, the newest first, all of an affinity key or none."""
        source, target = order.source, order.target
        if fence != self._fence or source == target:
            return MessagesMoved(source, target, 0, 0.0)
        room = self.ledger.capacity[target] - self._counts[target].length
        names = choose_waiting(
            self._waiting[source].newest_first(self._clock() - order.rest_seconds),
            in_flight=lambda key: self._keys[key][1],
            messages=room if order.messages is None else min(order.messages, room),
            work=None if order.work is None else int(order.work * MICROSECONDS),
        )
        return self._carry(
            source, target, {name: self._waiting[source].remove(name) for name in reversed(names)}
        )

    async def rescue(self, source: int, target: int, messages: int, fence: int) -> MessagesMoved:
        """Move messages of a queue without a worker, the oldest first, those of its last worker too."""
        nothing = MessagesMoved(source, target, 0, 0.0)
        if fence != self._fence or source == target or self._owners[source] is not None:
            return nothing
        for name, envelope in self._held[source].items():
            self._hold(source, -1, -envelope.weight_microseconds)
            self._waiting[source].give_back(name, envelope)
        self._held[source].clear()
        names = choose_waiting(
            self._waiting[source].oldest_first(),
            in_flight=lambda key: self._keys[key][1],
            messages=min(messages, self.ledger.capacity[target] - self._counts[target].length),
            work=None,
        )
        return self._carry(
            source, target, {name: self._waiting[source].remove(name) for name in sorted(names, key=int)}
        )

    async def exchange(self, process: str, report: bytes) -> bytes | None:
        """Nobody else is there to tell anything."""
        return None

    async def recount(self) -> tuple[QueueCounts, ...]:
        """Counters again, from the messages themselves."""
        found = []
        for waiting, held in zip(self._waiting, self._held, strict=True):
            weights = [one.weight_microseconds for one in (*waiting, *held.values())]
            of_held = [one.weight_microseconds for one in held.values()]
            found.append(QueueCounts(len(weights), sum(weights), len(of_held), sum(of_held)))
        return tuple(found)

    def _carry(self, source: int, target: int, messages: dict[str, Envelope]) -> MessagesMoved:
        # Oldest first, and under new names: order within a queue is the order of its names.
        work = sum(one.weight_microseconds for one in messages.values())
        for envelope in messages.values():
            self._append(target, str(next(self._ids)), envelope, moved=True)
            if envelope.affinity_key:
                _, in_flight, quick = self._keys[envelope.affinity_key]
                self._keys[envelope.affinity_key] = (target, in_flight, quick)
        self._moved += len(messages)
        self._change(source, -len(messages), -work)
        self._change(target, len(messages), work)
        return MessagesMoved(source, target, len(messages), work / MICROSECONDS)

    def _append(self, queue: int, name: str, envelope: Envelope, moved: bool = False) -> None:
        self._waiting[queue].put(name, envelope, self._clock(), moved)
        self._news[queue].set()

    def _change(self, queue: int, messages: int, work: int, **others: int) -> None:
        one = self._counts[queue]
        self._set(
            queue, length=one.length + messages, work_microseconds=one.work_microseconds + work, **others
        )

    def _hold(self, queue: int, messages: int, work: int) -> None:
        one = self._counts[queue]
        self._set(queue, held=one.held + messages, held_microseconds=one.held_microseconds + work)

    def _set(self, queue: int, **changed: int) -> None:
        one = self._counts[queue] = replace(self._counts[queue], **changed)  # type: ignore[arg-type]
        bring_queue_up_to(self.ledger, queue, one, self.ledger.closed[queue])

    def _live(self, queue: int, alive: bool) -> None:
        # With the first worker, and with the last, all other queues are closed or open.
        self._counts[queue] = replace(self._counts[queue], alive=alive)
        bring_up_to(self.ledger, QueuesCounts(self._clock(), tuple(self._counts)))

    def _unbind(self, key: str) -> None:
        queue, in_flight, quick = self._keys.pop(key)
        if in_flight > 1:
            self._keys[key] = (queue, in_flight - 1, quick)

    def _own(self, worker: str, queue: int) -> None:
        if self._owners[queue] != worker:
            raise QueueOwnershipLostError(f"queue {queue} is not worker {worker}'s any more: claim one again")

    def _abandoned(self) -> tuple[int, ...]:
        return tuple(
            queue
            for queue, owner in enumerate(self._owners)
            if owner is None and self._counts[queue].length and any(self._owners)
        )

    def _remembered(self, key: str) -> int | None:
        if not key:
            return None
        now = self._clock()
        # Oldest first, and all of one age: those that are over stand at the beginning.
        while self._known and (first := next(iter(self._known.items())))[1][1] <= now:
            del self._known[first[0]]
        found = self._known.get(key)
        return None if found is None else found[0]
