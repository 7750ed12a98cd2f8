"""Balance scheduling carried out on a back-end, by the process that holds the lease for it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from trimtab_queues.broker.backend import MICROSECONDS, Backend, QueuesCounts
from trimtab_queues.core.scheduling import (
    HANG_SECONDS,
    Effect,
    MessagesMoved,
    MoveMessages,
    PauseQueue,
    QueuesObserved,
    ResumeQueue,
    SchedulerState,
    SchedulingSettings,
    WorkerProgress,
    handle,
)


def choose_waiting(
    candidates: Sequence[tuple[str, int, str]],
    in_flight: Callable[[str], int],
    messages: int,
    work: int | None,
) -> list[str]:
    """Names of messages to move; the same rule as `move.lua`.

    Parameters
    ----------
    candidates
        Name, microseconds of processing and affinity key (or "") of messages that wait, in the order in
        which they are considered.
    in_flight
        How many messages of a key there are, in work or waiting: all of them go, or none, so that order
        within a key survives.
    messages, work
        The most to take; microseconds, None for as much as there is.

    Returns
    -------
    list of str
        In the order of `candidates`. One that does not fit is passed over, and a smaller one may still go.
    """
    by_key = Counter(key for _, _, key in candidates if key)
    weight_of: Counter[str] = Counter()
    for _, weight, key in candidates:
        weight_of[key] += weight
    chosen: list[str] = []
    decided: dict[str, bool] = {}
    for name, weight, key in candidates:
        if key:
            if key not in decided:
                whole = by_key[key] == in_flight(key)
                fits = by_key[key] <= messages and (work is None or weight_of[key] <= work)
                decided[key] = whole and fits
                if decided[key]:
                    messages -= by_key[key]
                    work = None if work is None else work - weight_of[key]
            if decided[key]:
                chosen.append(name)
        elif messages >= 1 and (work is None or weight <= work):
            chosen.append(name)
            messages -= 1
            work = None if work is None else work - weight
    return chosen


_log = logging.getLogger(__name__)

MOVE_BATCH_SIZE = 500
"""Messages that go from a queue whose worker is gone or hangs to one other before the next is chosen."""
TARGETS_TRIED = 8
"""Queues, the lightest, that may take what is left of a queue without a worker: each try reads all of it."""


class Scheduler:
    """One that may hold the lease.

    Messages never wait for it: dispatch goes by the marks that it left, whether or not it lives.

    Parameters
    ----------
    holder
        A name that no other scheduler has.
    mean_weight
        Seconds that a message takes, as long as none has been in the queues.
    lease_seconds
        How long a dead scheduler keeps others out.
    hang_timeout_seconds
        How long a worker may have messages in hand and finish none before others do what waits behind them.
    """

    def __init__(
        self,
        backend: Backend,
        holder: str,
        settings: SchedulingSettings,
        mean_weight: float,
        lease_seconds: float = 3.0,
        hang_timeout_seconds: float = HANG_SECONDS,
    ) -> None:
        self.backend, self.holder, self.settings = backend, holder, settings
        self.lease_seconds, self._mean_weight = lease_seconds, mean_weight
        self.fence: int | None = None
        self.schedule = SchedulerState()
        self._progress = WorkerProgress(hang_timeout_seconds)
        self._hang: list[int] = []
        self._dry: dict[tuple[int, bool], float] = {}

    async def run(self) -> None:
        """Turn after turn, until cancelled; a server that is away is waited for."""
        pause = min(self.settings.window_seconds, self.lease_seconds / 3)
        looked = float("-inf")
        clock = asyncio.get_running_loop().time
        while True:
            try:
                self.fence, before = await self.backend.lease(self.holder, self.lease_seconds), self.fence
                if self.fence != before:
                    self.schedule = SchedulerState()  # what another has done since is not in ours
                if self.fence is not None and clock() - looked >= self.settings.window_seconds:
                    looked = clock()
                    await self.turn(self.fence)
            except asyncio.CancelledError:
                raise
            except Exception:
                _log.warning("balance scheduling goes on after an error", exc_info=True)
                self.fence = None
            await asyncio.sleep(pause)

    async def turn(self, fence: int) -> None:
        """Look once, and carry out what follows from it."""
        self._dry.clear()
        counts = await self.backend.counts()
        gone = (*counts.abandoned, *(await self.backend.server_counts()).stranded)
        for queue in gone:
            await self._rescue(queue, fence)
        hanging = self._hanging(counts)
        for queue in hanging:
            await self._relieve(queue, hanging, fence)
        if gone or hanging:
            counts = await self.backend.counts()
        self._mean_weight = counts.mean_weight(self._mean_weight)
        seen = counts.observation(self.backend.ledger.capacity, self._mean_weight)
        if hanging:
            # They receive nothing, and their marks are not the schedule's: it would take them away again.
            seen = replace(
                seen,
                closed=tuple(was or queue in hanging for queue, was in enumerate(seen.closed)),
                paused=tuple(was and queue not in hanging for queue, was in enumerate(seen.paused)),
            )
        await self._handle(seen, fence)

    def _hanging(self, counts: QueuesCounts) -> list[int]:
        """Queues whose worker hangs, as long as another one has room: better a queue that hangs than none."""
        hanging = self._progress.hanging(
            asyncio.get_running_loop().time(),
            [one.served_microseconds for one in counts.queues],
            [one.held_microseconds / MICROSECONDS if one.alive else 0.0 for one in counts.queues],
        )
        for queue in set(hanging) - set(self._hang):
            _log.warning(
                "the worker of queue %d has %d messages in hand and has finished none for a while: what "
                "waits there goes to others; give tasks a label timeout, or end that worker",
                queue,
                counts.queues[queue].held,
            )
        self._hang = hanging
        capacity = self.backend.ledger.capacity
        room = any(
            one.alive and queue not in hanging and one.length < capacity[queue]
            for queue, one in enumerate(counts.queues)
        )
        return hanging if room else []

    async def _relieve(self, source: int, hanging: Collection[int], fence: int) -> None:
        """Let a queue receive nothing, and move what waits there; what its worker has in hand stays."""
        if not await self.backend.mark(source, True, fence):
            return
        while targets := self._alive(await self.backend.counts(), hanging):
            moved = await self.backend.move(MoveMessages(source, targets[0], MOVE_BATCH_SIZE, None), fence)
            if not moved.messages:
                return

    async def _handle(self, fact: QueuesObserved | MessagesMoved, fence: int) -> None:
        self.schedule, orders = handle(self.schedule, fact, self.settings)
        for order in orders:
            await self._carry_out(order, fence)

    async def _carry_out(self, order: Effect, fence: int) -> None:
        match order:
            case PauseQueue(queue):
                await self.backend.mark(queue, True, fence)
            case ResumeQueue(queue):
                await self.backend.mark(queue, False, fence)
            case MoveMessages():
                await self._handle(await self._move(order, fence), fence)

    async def _move(self, order: MoveMessages, fence: int) -> MessagesMoved:
        """Move messages, but for a queue that had none to give for as much: a search finds none again."""
        kind = (order.source, order.messages is None)
        amount = order.work if order.messages is None else order.messages
        assert amount is not None
        if amount <= self._dry.get(kind, -1):
            return MessagesMoved(order.source, order.target, 0, 0.0)
        moved = await self.backend.move(order, fence)
        if not moved.messages:
            self._dry[kind] = amount
        return moved

    async def _rescue(self, source: int, fence: int) -> None:
        # A part at a time, so that others get some too. What is left then is messages of a key that are more
        # than that, or that may not go to every queue.
        for at_once in (MOVE_BATCH_SIZE, max(self.backend.ledger.capacity)):
            targets = self._alive(await self.backend.counts(), [source])[:TARGETS_TRIED]
            while targets:
                target, *targets = targets
                if (await self.backend.rescue(source, target, at_once, fence)).messages:
                    targets = self._alive(await self.backend.counts(), [source])[:TARGETS_TRIED]

    def _alive(self, counts: QueuesCounts, without: Collection[int]) -> list[int]:
        """Queues with a worker and room, the one with the least work first."""
        capacity = self.backend.ledger.capacity
        found = [
            queue
            for queue, one in enumerate(counts.queues)
            if one.alive and queue not in without and one.length < capacity[queue]
        ]
        return sorted(found, key=lambda one: (counts.queues[one].work_microseconds, one))
