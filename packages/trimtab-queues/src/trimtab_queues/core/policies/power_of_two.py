"""Power of two choices: two queues drawn at random, and the one with less work of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policy import OwnQueue


class PowerOfTwo(OwnQueue):
    """The one with less work of two open queues, drawn without putting back; the first drawn of equals.

    Parameters
    ----------
    chance
        Numbers in [0, 1), as of `random.Random(seed).random`.

    References
    ----------
    Mitzenmacher (2001), who counts messages; here it is seconds of work.
    """

    name: ClassVar[str] = "power_of_two"

    def __init__(self, ledger: QueueLedger, chance: Callable[[], float]) -> None:
        super().__init__(ledger)
        self._chance, self._count = chance, len(ledger)

    def choose(self, weight: float, /) -> int | None:
        """The one with less work of two; with one open queue, that one."""
        ledger, chance, count = self.ledger, self._chance, self._count
        if count > 1:
            one, other = int(chance() * count), int(chance() * (count - 1))
            other += other >= one
            if ledger.open[one] and ledger.open[other]:
                return one if ledger.work[one] <= ledger.work[other] else other
        return self._among([queue for queue, may in enumerate(ledger.open) if may])

    def _among(self, queues: list[int]) -> int | None:
        if len(queues) < 2:
            return queues[0] if queues else None
        first = queues.pop(int(self._chance() * len(queues)))
        second = queues[int(self._chance() * len(queues))]
        return first if self.ledger.work[first] <= self.ledger.work[second] else second
