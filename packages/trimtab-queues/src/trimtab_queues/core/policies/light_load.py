"""Light load first: in turn over light queues, then over moderate ones, then over the rest."""

from __future__ import annotations

from typing import ClassVar

from trimtab_queues.core.forecast import QueueState, state_of
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policies.round_robin import OpenRoundRobinQueue
from trimtab_queues.core.settings import SchedulingSettings

RANK = {QueueState.LIGHT: 0, QueueState.MODERATE: 1, QueueState.OVERLOAD: 2}


class LightLoadFirst(OpenRoundRobinQueue):
    """The next open queue in turn that is light as it lies; without one, the next of the best state there is.

    Parameters
    ----------
    settings
        Its limits say what is light: of present lengths, not of a forecast.
    """

    name: ClassVar[str] = "light_load_first"

    def __init__(self, ledger: QueueLedger, settings: SchedulingSettings | None = None) -> None:
        super().__init__(ledger)
        in_turn, count = self.choose, len(ledger)
        length, work, capacity = ledger.length, ledger.work, ledger.capacity
        limits = SchedulingSettings() if settings is None else settings

        def choose(weight: float, /) -> int | None:
            best, rank = None, 3
            for _ in range(count):
                queue = in_turn(weight)
                if queue is None:
                    return None
                found = RANK[state_of(length[queue], work[queue], capacity[queue], limits)]
                if found == 0:
                    return queue
                if found < rank:
                    best, rank = queue, found
            # The next turn begins behind it, or all messages would go to the same of several equals.
            while in_turn(weight) != best:
                pass
            return best

        self.choose = choose
