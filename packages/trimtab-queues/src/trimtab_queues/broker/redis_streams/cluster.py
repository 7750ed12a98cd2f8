"""Queues spread over the slots of a cluster: several sets of queues that count as one.

Each slot holds some of the queues with all of their data, so each operation within a slot is one script, as
on a single server. Only a move between slots has two steps, with an entry in a journal between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from redis.crc import key_slot

from trimtab_common.errors import InputError
from trimtab_queues.broker.backend import (
    Delivery,
    Envelope,
    QueueClaim,
    QueueCounts,
    QueuesCounts,
    ServerCounts,
    bring_queue_up_to,
    bring_up_to,
    lightest,
)
from trimtab_queues.broker.redis_streams.streams import RedisBackend
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.ordering import LaneClassifier
from trimtab_queues.core.scheduling import MessagesMoved, MoveMessages


class RedisClusterBackend:
    """Queues of a cluster as a `Backend`; queue q is in slot q modulo the number of slots.

    Messages of an affinity key stay in the slot of the key, and move between the queues there. A message with
    an idempotency key goes into the slot of that key, where duplicates are found.

    A move between slots takes messages from a queue into the journal of their slot, puts them into a queue of
    the other slot, which notes the move, and deletes them from the journal. If the process is killed in
    between, the next holder of the lease completes the move. Meanwhile the messages are in no queue, and
    never in two; they count in their old queue until they leave the journal.

    Parameters
    ----------
    url
        redis+cluster://host:port,host:port.
    name
        Name of the set of queues.
    capacity
        Maximum number of messages of each queue, shape (queues,).
    slots
        Number of hash tags over which queues are spread, at most the number of queues.
    settings
        Arguments of `RedisBackend`.

    Raises
    ------
    InputError
        If there are more slots than queues, or none.
    """

    def __init__(self, url: str, name: str, capacity: Sequence[int], slots: int, **settings: Any) -> None:
        if not 1 <= slots <= len(capacity):
            raise InputError(f"slots is {slots}, expected 1 to {len(capacity)}, the number of queues")
        self.ledger = QueueLedger(capacity)
        self._url, self._name, self._settings = url, name, settings
        self.parts = [self._part(slot, list(capacity)[slot::slots]) for slot in range(slots)]
        self._anyone = False
        self._slot_of: dict[str, int] = {}
        self._fences: dict[int, list[int]] = {}

    async def open(self) -> None:
        """Create the streams, unless they exist.

        Raises
        ------
        InputError
            If the messages were spread over another number of slots, so that keys would be searched in wrong
            slots.
        """
        slots, former = len(self.parts), await self.parts[0].slots()
        if former not in (0, slots):
            there = [self._part(slot, [1]) for slot in range(former)]
            lying = sum(await asyncio.gather(*(part.messages() for part in there)))
            await asyncio.gather(*(part.close() for part in there))
            if lying:
                await self.close()
                raise InputError(
                    f"slots is {slots}, and {lying} messages lie in {former} slots: start workers with "
                    f"slots = {former} and {former} queues or more until these are done"
                )
        await asyncio.gather(*(part.open(slots) for part in self.parts))

    async def close(self) -> None:
        """Stop heartbeats, and close connections."""
        await asyncio.gather(*(part.close() for part in self.parts))

    async def counts(self) -> QueuesCounts:
        """All counters; those of different slots are read at different times."""
        seen = await asyncio.gather(*(part.counts() for part in self.parts))
        places = [(self._slot(q), self._place(q)) for q in range(len(self.ledger))]
        queues = tuple(self.parts[slot].queues[place] for slot, place in places)
        self._anyone = any(one.alive for one in queues)
        silent = sorted(
            self._queue(slot, q) for slot, part in enumerate(self.parts) for q in part.is_disconnected
        )
        counts = QueuesCounts(seen[0].at, queues, tuple(silent) if self._anyone else ())
        bring_up_to(self.ledger, counts)
        return counts

    @property
    def lanes(self) -> LaneClassifier:
        """The classifier of quick messages, by the messages of all slots."""
        each = [part.lanes for part in self.parts]
        return LaneClassifier(sum(one.work for one in each), sum(one.squares for one in each))

    @property
    def age_seconds(self) -> float:
        """Time since a slot last reported its queues."""
        return min(part.age_seconds for part in self.parts)

    async def server_counts(self) -> ServerCounts:
        """Counters of all slots, added up."""
        found = await asyncio.gather(*(part.server_counts() for part in self.parts))
        stranded = {
            self._queue(slot, place): messages
            for slot, one in enumerate(found)
            for place, messages in one.stranded.items()
        }
        return ServerCounts(
            dead_letters=sum(one.dead_letters for one in found),
            duplicates=sum(one.duplicates for one in found),
            moved=sum(one.moved for one in found),
            pauses=sum(one.pauses for one in found),
            stranded=stranded,
        )

    async def put(self, envelope: Envelope, queue: int | None) -> int | None:
        """Put a message into a queue; a message with a key goes into the slot of the key."""
        home = envelope.affinity_key or envelope.idempotency_key
        slot = key_slot(home.encode()) % len(self.parts) if home else self._slot(queue or 0)
        if queue is not None and self._slot(queue) != slot:
            queue = self._open_in(slot, envelope.retry)
        if queue is None and not envelope.affinity_key:
            return None
        part, weight = self.parts[slot], envelope.weight
        if queue is not None:
            self.ledger.sending(queue, weight)
        try:
            found = await part.put(envelope, None if queue is None else self._place(queue))
        finally:
            if queue is not None:
                self.ledger.sent(queue, weight)
        news = part.news()
        if len(news) == len(part.queues):
            self._anyone = any(one.alive for part in self.parts for one in part.queues)
        for place in news:
            one = part.queues[place]
            closed = self._anyone and not one.alive
            bring_queue_up_to(self.ledger, self._queue(slot, place), one, closed)
        return None if found is None else self._queue(slot, found)

    async def claim(
        self, worker: str, previous: str = "", in_work: Collection[Delivery] = ()
    ) -> QueueClaim | None:
        """The worker's own queue, else the longest without a living worker, in any slot."""
        own = self._slot_of.get(worker, self._slot_of.get(previous))
        if own is not None:
            # Its node may be away, and then it is waited for: nobody else may go on with what is in work.
            claim = await self._claim_in(own, worker, previous, in_work)
            if claim is not None:
                return claim
        counts = await self.counts()
        if not any(one.alive for one in counts.queues):
            await asyncio.gather(*(part.grace() for part in self.parts))
        free = [queue for queue, one in enumerate(counts.queues) if not one.alive]
        free.sort(key=lambda queue: -counts.queues[queue].length)
        for slot in dict.fromkeys(self._slot(queue) for queue in free):
            claim = await self._claim_in(slot, worker, previous, in_work)
            if claim is not None:
                return claim
        return None

    async def take(self, worker: str, queue: int, timeout_seconds: float) -> Delivery | None:
        """The next message of a worker's queue."""
        slot = self._slot(queue)
        found = await self.parts[slot].take(worker, self._place(queue), timeout_seconds)
        return None if found is None else self._outward(slot, found)

    async def start(self, worker: str, delivery: Delivery) -> bool:
        """Start a message that an earlier worker did not finish."""
        return await self.parts[self._slot(delivery.queue)].start(worker, self._inward(delivery))

    async def finish(self, delivery: Delivery) -> bool:
        """Remove a message from its queue for good."""
        return await self.parts[self._slot(delivery.queue)].finish(self._inward(delivery))

    async def release(self, worker: str, queue: int) -> None:
        """Give up ownership of a queue."""
        self._slot_of.pop(worker, None)
        await self.parts[self._slot(queue)].release(worker, self._place(queue))

    async def lease(self, holder: str, seconds: float) -> int | None:
        """The right to schedule: the leases of all slots, always in the same order.

        Unfinished moves of an earlier holder are completed first.
        """
        fences = []
        for part in self.parts:
            fence = await part.lease(holder, seconds)
            if fence is None:
                return None
            fences.append(fence)
        # Each only grows, so their sum does.
        self._fences = {sum(fences): fences}
        await self._arrive(fences)
        return sum(fences)

    async def mark(self, queue: int, paused: bool, fence: int) -> bool:
        """Pause or resume a queue."""
        fences, slot = self._fences.get(fence), self._slot(queue)
        return fences is not None and await self.parts[slot].mark(self._place(queue), paused, fences[slot])

    async def move(self, order: MoveMessages, fence: int) -> MessagesMoved:
        """Move waiting messages; between slots those without a key."""
        return await self._carry(order, fence, rescue=False)

    async def rescue(self, source: int, target: int, messages: int, fence: int) -> MessagesMoved:
        """Move messages of a queue without a worker; those with a key only within their slot."""
        return await self._carry(MoveMessages(source, target, messages, None), fence, rescue=True)

    async def exchange(self, process: str, report: bytes) -> bytes | None:
        """Store a report and get the published document, in the first slot."""
        return await self.parts[0].exchange(process, report)

    async def recount(self) -> tuple[QueueCounts, ...]:
        """Counters computed from the entries of the streams."""
        found = await asyncio.gather(*(part.recount() for part in self.parts))
        return tuple(found[self._slot(q)][self._place(q)] for q in range(len(self.ledger)))

    async def dead_letters(self) -> list[tuple[Envelope, str]]:
        """Dead letters of all slots, with their traces."""
        return list(chain(*await asyncio.gather(*(part.dead_letters() for part in self.parts))))

    async def in_transit(self) -> int:
        """Number of unfinished moves between slots."""
        return sum(map(len, await asyncio.gather(*(part.journal() for part in self.parts))))

    async def _claim_in(
        self, slot: int, worker: str, previous: str, in_work: Collection[Delivery]
    ) -> QueueClaim | None:
        begun = [self._inward(one) for one in in_work if self._slot(one.queue) == slot]
        claim = await self.parts[slot].claim(worker, previous, begun)
        if claim is None:
            return None
        self._slot_of.pop(previous, None)
        self._slot_of[worker] = slot
        left_over = tuple(self._outward(slot, one) for one in claim.left_over)
        return QueueClaim(self._queue(slot, claim.queue), left_over)

    async def _carry(self, order: MoveMessages, fence: int, rescue: bool) -> MessagesMoved:
        fences, nothing = self._fences.get(fence), MessagesMoved(order.source, order.target, 0, 0.0)
        if fences is None:
            return nothing
        slot, place = self._slot(order.source), self._place(order.source)
        part, there = self.parts[slot], self._slot(order.target)
        if slot == there:
            inward = replace(order, source=place, target=self._place(order.target))
            found = await (
                part.rescue(place, inward.target, order.messages or 0, fences[slot])
                if rescue
                else part.move(inward, fences[slot])
            )
            return replace(found, source=order.source, target=order.target)
        room = self.ledger.capacity[order.target] - self.ledger.length[order.target]
        moved = await part.send_away(place, order, max(0, room), str(order.target), fences[slot], rescue)
        if moved.messages:
            await self._arrive(fences)
        return moved

    async def _arrive(self, fences: Sequence[int]) -> None:
        for slot, part in enumerate(self.parts):
            for name, target, messages in await part.journal():
                there, journey = self._slot(int(target)), f"{slot}/{name}"
                # An old fence stops here: whoever holds the lease now does this.
                if await self.parts[there].arrive(self._place(int(target)), journey, messages, fences[there]):
                    await part.cross_out(name)
                    await self.parts[there].forget(journey)

    def _part(self, slot: int, capacity: Sequence[int]) -> RedisBackend:
        return RedisBackend(self._url, f"{self._name}/{slot}", capacity, **self._settings)

    def _open_in(self, slot: int, retry: bool) -> int | None:
        there = range(slot, len(self.ledger), len(self.parts))
        found = [q for q in there if self.ledger.open[q]]
        return lightest(self.ledger, found or (there if retry else ()))

    def _slot(self, queue: int) -> int:
        return queue % len(self.parts)

    def _place(self, queue: int) -> int:
        return queue // len(self.parts)

    def _queue(self, slot: int, place: int) -> int:
        return place * len(self.parts) + slot

    def _outward(self, slot: int, delivery: Delivery) -> Delivery:
        return replace(delivery, queue=self._queue(slot, delivery.queue))

    def _inward(self, delivery: Delivery) -> Delivery:
        return replace(delivery, queue=self._place(delivery.queue))
