"""Join-shortest-queue: the queue with the fewest messages, whatever they weigh."""

from __future__ import annotations

from typing import ClassVar

from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policies.least_work import Choose, least_loaded_choice
from trimtab_queues.core.policy import OwnQueue


class JoinShortestQueue(OwnQueue):
    """The open queue with the fewest messages, waiting or in work, the first of equals."""

    name: ClassVar[str] = "join_shortest_queue"

    choose: Choose

    def __init__(self, ledger: QueueLedger) -> None:
        super().__init__(ledger)
        self.choose = least_loaded_choice(ledger, ledger.length)
