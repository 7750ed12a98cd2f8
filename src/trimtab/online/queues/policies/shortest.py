"""Join-shortest-queue: the queue with the fewest messages, whatever they weigh."""

from __future__ import annotations

from typing import ClassVar

from trimtab.online.queues.ledger import Ledger
from trimtab.online.queues.policies.least_work import Choose, least
from trimtab.online.queues.policy import OwnQueue


class JoinShortestQueue(OwnQueue):
    """The open queue with the fewest messages, waiting or in work, the first of equals."""

    name: ClassVar[str] = "join_shortest_queue"

    choose: Choose

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.choose = least(ledger, ledger.length)
