"""Least work left: every message to the queue that would be empty first."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from trimtab.online.queues.ledger import Ledger
from trimtab.online.queues.policy import OwnQueue


class LeastWorkLeft(OwnQueue):
    """The open queue with the fewest seconds of work, the first of equals."""

    name: ClassVar[str] = "least_work_left"

    choose: Callable[[float], int | None]

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.choose = _least(ledger)


def _least(ledger: Ledger) -> Callable[[float], int | None]:
    work, is_open = ledger.work, ledger.open
    at = work.index

    def choose(weight: float, /) -> int | None:
        queue = at(min(work))
        if is_open[queue]:
            return queue
        return min((queue for queue, may in enumerate(is_open) if may), key=work.__getitem__, default=None)

    return choose
