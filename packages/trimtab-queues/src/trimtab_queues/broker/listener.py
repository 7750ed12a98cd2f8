"""Deliveries of one worker: from its own queue, one message of a key at a time, suspect messages alone."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable
from itertools import count

from trimtab_common.errors import ConnectError
from trimtab_queues.broker.backend import Backend, Delivery, QueueOwnershipLostError

_log = logging.getLogger(__name__)

MAX_UNACKNOWLEDGED = 20
"""Messages whose end may be on its way to the server; a death repeats as many."""
SET_ASIDE_MAX = 100
"""Messages that a worker holds because an earlier one of their key is in work."""


class WorkerListener:
    """The messages of one worker, in the order in which they may start.

    A worker may process several messages at once, but never two of one affinity key. A message with which a
    worker has crashed runs alone. If it crashes the worker again, no other message is affected, and the other
    suspects are cleared one after another.

    Parameters
    ----------
    worker
        A name that no other worker has.
    poll_timeout_seconds
        Time to wait for a message, or for a queue, before the next attempt.
    """

    def __init__(self, backend: Backend, worker: str, poll_timeout_seconds: float = 1.0) -> None:
        self.backend, self.poll_timeout_seconds = backend, poll_timeout_seconds
        self._name, self._names = worker, count(1)
        self.worker, self._previous_queue = worker, ""
        self.queue: int | None = None
        self._last_queue: int | None = None
        self._left_over: deque[Delivery] = deque()
        self._aside: deque[Delivery] = deque()
        self._in_work: dict[str, Delivery] = {}
        self._busy_keys: set[str] = set()
        self._one_done = asyncio.Event()
        self._finishing: dict[asyncio.Task[bool], Delivery] = {}

    async def deliveries(self) -> AsyncGenerator[Delivery, None]:
        """Each message that this worker may start; pass each to `done` at its end."""
        while True:
            if self.queue is None:
                await self._claim()
                continue
            try:
                delivery = await self._next(self.queue)
            except QueueOwnershipLostError:
                # What was handed out and did not arrive comes back with the next claim, and what is in work
                # stays this worker's. Under another name, or what the server does late for the lost
                # connection would hand out more that does not arrive.
                self._forget()
                self._previous_queue, self.worker = self.worker, f"{self._name}-{next(self._names)}"
                continue
            if delivery is None:
                continue
            self._begin(delivery)
            yield delivery
            if delivery.deaths:
                await self._until(lambda: not self._in_work)

    async def done(self, delivery: Delivery) -> None:
        """Report the end of a message, successful or not.

        With an affinity key, the next message of the key starts only after the report has arrived. Otherwise
        a crash between the two would return them in the wrong order. Reports of other messages are not
        awaited.
        """
        finishing = asyncio.create_task(self.backend.finish(delivery))
        self._finishing[finishing] = delivery
        finishing.add_done_callback(self._acknowledged)
        try:
            if delivery.envelope.affinity_key or delivery.deaths or len(self._finishing) > MAX_UNACKNOWLEDGED:
                await finishing
        finally:
            self._in_work.pop(_place(delivery), None)
            self._busy_keys.discard(delivery.envelope.affinity_key)
            self._one_done.set()

    async def leave(self) -> None:
        """Release the queue, with the messages that were fetched and not finished."""
        worker = self.worker if self.queue is not None else self._previous_queue
        self._forget()
        await asyncio.gather(*self._finishing, return_exceptions=True)
        if self._last_queue is not None:
            await self.backend.release(worker, self._last_queue)

    async def _claim(self) -> None:
        # What this worker has in work itself, or has ended and not yet told, it must not begin again.
        begun = {_place(one): one for one in (*self._in_work.values(), *self._finishing.values())}
        try:
            claim = await self.backend.claim(self.worker, self._previous_queue, begun.values())
        except ConnectError:
            claim = None
        if claim is None:
            await asyncio.sleep(self.poll_timeout_seconds)
            return
        self.queue = self._last_queue = claim.queue
        self._left_over.extend(one for one in claim.left_over if _place(one) not in begun)

    async def _next(self, queue: int) -> Delivery | None:
        if self._left_over:
            delivery = self._left_over[0]
            key = delivery.envelope.affinity_key
            await self._until(lambda: not self._in_work if delivery.deaths else key not in self._busy_keys)
            self._left_over.popleft()
            return delivery if await self.backend.start(self.worker, delivery) else None
        for delivery in self._aside:
            if delivery.envelope.affinity_key not in self._busy_keys:
                self._aside.remove(delivery)
                return delivery
        if len(self._aside) >= SET_ASIDE_MAX:
            await self._until_one_is_done()
            return None
        # A worker that has messages set aside must not sleep through the end of the one before them.
        patience = min(self.poll_timeout_seconds, 0.05) if self._aside else self.poll_timeout_seconds
        taken = await self.backend.take(self.worker, queue, patience)
        if taken is None:
            return None
        if taken.deaths:
            self._left_over.append(taken)
            return None
        key = taken.envelope.affinity_key
        # Also behind one that is aside still: the message before that one may have ended meanwhile.
        if key in self._busy_keys or (key and any(one.envelope.affinity_key == key for one in self._aside)):
            self._aside.append(taken)
            return None
        return taken

    def _acknowledged(self, finishing: asyncio.Task[bool]) -> None:
        self._finishing.pop(finishing, None)
        if not finishing.cancelled() and finishing.exception() is not None:
            _log.error("a message was done and its end was not told", exc_info=finishing.exception())

    def _begin(self, delivery: Delivery) -> None:
        self._in_work[_place(delivery)] = delivery
        if delivery.envelope.affinity_key:
            self._busy_keys.add(delivery.envelope.affinity_key)

    def _forget(self) -> None:
        # What runs goes on, and its end is told; what was only taken belongs to whoever has the queue now.
        self.queue = None
        self._left_over.clear()
        self._aside.clear()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._until_one_is_done()

    async def _until_one_is_done(self) -> None:
        self._one_done.clear()
        await self._one_done.wait()


def _place(delivery: Delivery) -> str:
    return f"{delivery.queue}/{delivery.id}"
