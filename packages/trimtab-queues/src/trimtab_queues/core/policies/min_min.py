"""Min-Min: of the messages at hand, the one that can be finished first goes first, to where it is."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import ClassVar

from trimtab_common.errors import InputError
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policy import OwnQueue


class MinMin(OwnQueue):
    """The open queue in which a message would be finished first; batches begin with the shortest message.

    Where a worker's speed is the same for all classes, the message with the least of all least completion
    times is the shortest one, so that a batch is sorted once.

    Parameters
    ----------
    speed
        Shape (queues,): seconds of work that its worker does in a second; none for one each.

    Raises
    ------
    InputError
        If there is not one speed above 0 for each queue.

    References
    ----------
    Ibarra and Kim (1977), algorithm D.
    """

    name: ClassVar[str] = "min_min"

    def __init__(self, ledger: QueueLedger, speed: Sequence[float] | None = None) -> None:
        super().__init__(ledger)
        self.speed = [1.0] * len(ledger) if speed is None else list(speed)
        if len(self.speed) != len(ledger) or not all(0 < one < inf for one in self.speed):
            raise InputError(
                f"speeds of min_min are {self.speed}, expected one above 0 for each of {len(ledger)} queues"
            )

    def choose(self, weight: float, /) -> int | None:
        """The queue of earliest completion, the first of equals."""
        best, earliest = None, inf
        for queue, (may, work, speed) in enumerate(
            zip(self.ledger.open, self.ledger.work, self.speed, strict=True)
        ):
            if may and (work + weight) / speed < earliest:
                best, earliest = queue, (work + weight) / speed
        return best

    def assign(self, weights: Sequence[float]) -> list[int | None]:
        """Queues for messages that are at hand together, in the order given.

        Parameters
        ----------
        weights
            Shape (messages,), seconds. Put them in by ascending weight: the shortest is done first.

        Returns
        -------
        list of int or None
            Shape (messages,); None for those that find every queue paused, closed or full.
        """
        ledger = self.ledger
        work = list(ledger.work)
        free = [
            most - length if may else 0
            for most, length, may in zip(ledger.capacity, ledger.length, ledger.open, strict=True)
        ]
        found: list[int | None] = [None] * len(weights)
        for message in sorted(range(len(weights)), key=weights.__getitem__):
            done = [
                ((work[queue] + weights[message]) / self.speed[queue], queue)
                for queue, room in enumerate(free)
                if room > 0
            ]
            if not done:
                break
            queue = found[message] = min(done)[1]
            work[queue] += weights[message]
            free[queue] -= 1
        return found
