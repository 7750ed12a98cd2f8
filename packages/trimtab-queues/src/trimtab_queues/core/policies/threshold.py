"""Count threshold: in turn over queues that are not too long."""

from __future__ import annotations

from typing import ClassVar

from trimtab_common.errors import InputError
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policies.round_robin import OpenRoundRobinQueue


class CountThreshold(OpenRoundRobinQueue):
    """Open queues in turn, those with fewer messages than the threshold first.

    Parameters
    ----------
    threshold
        Messages; a queue that has as many is passed over while another has fewer.

    Raises
    ------
    InputError
        If the threshold is below 1.
    """

    name: ClassVar[str] = "count_threshold"

    def __init__(self, ledger: QueueLedger, threshold: int) -> None:
        if threshold < 1:
            raise InputError(f"threshold of count_threshold is {threshold}, expected 1 or more messages")
        super().__init__(ledger)
        in_turn, length, count = self.choose, ledger.length, len(ledger)

        def choose(weight: float, /) -> int | None:
            queue = first = in_turn(weight)
            for _ in range(count):
                if queue is None or length[queue] < threshold:
                    return queue
                queue = in_turn(weight)
                if queue == first:
                    break
            return queue

        self.choose = choose
