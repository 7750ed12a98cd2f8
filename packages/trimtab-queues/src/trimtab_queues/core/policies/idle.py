"""Join-idle-queue: a queue whose worker has nothing to do, and in turn where there is none."""

from __future__ import annotations

from typing import ClassVar

from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policies.round_robin import OpenRoundRobinQueue


class JoinIdleQueue(OpenRoundRobinQueue):
    """The first open queue that is empty, its worker idle; where none is, open queues in turn.

    References
    ----------
    Lu et al. (2011), who draw a queue at random where none is idle.
    """

    name: ClassVar[str] = "join_idle_queue"

    def __init__(self, ledger: QueueLedger) -> None:
        super().__init__(ledger)
        in_turn, length, is_open = self.choose, ledger.length, ledger.open

        def choose(weight: float, /) -> int | None:
            if 0 in length:
                queue = length.index(0)
                if is_open[queue]:
                    return queue
                for queue, messages in enumerate(length):
                    if messages == 0 and is_open[queue]:
                        return queue
            return in_turn(weight)

        self.choose = choose
