"""Balance scheduling where the queues are: whoever holds the lease looks, decides and orders."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from trimtab.dataplane.queues.backend import Backend, Counts
from trimtab.online.queues.messages import Move, Moved, Order, Pause, QueuesSeen, Resume
from trimtab.online.queues.scheduling import Schedule, handle
from trimtab.online.queues.settings import Scheduling

_log = logging.getLogger(__name__)

RESCUED_AT_ONCE = 500
"""Messages of an abandoned queue that go to one other before the next is chosen."""


class Scheduler:
    """One that may hold the lease.

    Messages never wait for it: dispatch goes by the marks that it left, whether or not it lives.

    Parameters
    ----------
    holder
        A name that no other scheduler has.
    mean_weight
        Mean weight of the classes, seconds.
    lease_seconds
        How long a dead scheduler keeps others out.
    """

    def __init__(
        self,
        backend: Backend,
        holder: str,
        settings: Scheduling,
        mean_weight: Callable[[], float],
        lease_seconds: float = 3.0,
    ) -> None:
        self.backend, self.holder, self.settings = backend, holder, settings
        self.lease_seconds, self._mean_weight = lease_seconds, mean_weight
        self.fence: int | None = None
        self.schedule = Schedule()

    async def run(self) -> None:
        """Turn after turn, until cancelled; a server that is away is waited for."""
        pause = min(self.settings.window_seconds, self.lease_seconds / 3)
        looked = float("-inf")
        clock = asyncio.get_running_loop().time
        while True:
            try:
                self.fence, before = await self.backend.lease(self.holder, self.lease_seconds), self.fence
                if self.fence != before:
                    self.schedule = Schedule()  # what another has done since is not in ours
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
        counts = await self.backend.look()
        for queue in counts.abandoned:
            await self._rescue(queue, fence)
        if counts.abandoned:
            counts = await self.backend.look()
        seen = counts.seen(self.backend.ledger.capacity, self._mean_weight())
        await self._tell(seen, fence)

    async def _tell(self, fact: QueuesSeen | Moved, fence: int) -> None:
        self.schedule, orders = handle(self.schedule, fact, self.settings)
        for order in orders:
            await self._carry_out(order, fence)

    async def _carry_out(self, order: Order, fence: int) -> None:
        match order:
            case Pause(queue):
                await self.backend.mark(queue, True, fence)
            case Resume(queue):
                await self.backend.mark(queue, False, fence)
            case Move():
                await self._tell(await self.backend.move(order, fence), fence)

    async def _rescue(self, source: int, fence: int) -> None:
        while (target := _lightest_alive(await self.backend.look(), source)) is not None:
            moved = await self.backend.rescue(source, target, RESCUED_AT_ONCE, fence)
            if not moved.messages:
                return


def _lightest_alive(counts: Counts, source: int) -> int | None:
    alive = [queue for queue, one in enumerate(counts.queues) if one.alive and queue != source]
    return min(alive, key=lambda one: (counts.queues[one].work_microseconds, one), default=None)
