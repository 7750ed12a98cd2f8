"""Work stealing: in turn, and a worker without work takes from the queue that has most."""

from __future__ import annotations

from typing import ClassVar

from trimtab_queues.core.ledger import waiting_work
from trimtab_queues.core.policies.round_robin import OpenRoundRobinQueue


class WorkStealing(OpenRoundRobinQueue):
    """Open queues in turn; a free worker whose own queue has nothing waiting takes a message from elsewhere.

    It takes from the queue with most work waiting, the first of equals, be that paused or closed: stealing
    relieves it.
    """

    name: ClassVar[str] = "work_stealing"

    def source(self, worker: int, /) -> int | None:
        """The worker's own queue, or else the one with most work waiting."""
        own = super().source(worker)
        if own is not None:
            return own
        ledger = self.ledger
        waiting = [
            (work, -queue)
            for queue, work in enumerate(waiting_work(ledger))
            if ledger.length[queue] > ledger.held[queue]
        ]
        return -max(waiting)[1] if waiting else None
