"""Size-interval task assignment (SITA): each queue has an interval of weights to itself."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import inf
from typing import ClassVar

from trimtab_common.errors import InputError
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policy import OwnQueue


class SizeInterval(OwnQueue):
    """The queue whose interval a weight lies in: short messages never wait behind long ones.

    Nor can they help: work is balanced only as far as classes can be cut into equal parts, and a class is
    never cut. It stands here as the counter-example.

    Parameters
    ----------
    limits
        Shape (queues - 1,), ascending: queue k takes weights up to and including limit k that queue k - 1
        does not take.

    Raises
    ------
    InputError
        If their number is another, or they do not ascend.

    References
    ----------
    Harchol-Balter, Crovella, Murta (1999).
    """

    name: ClassVar[str] = "size_interval"
    waits_for_choice: ClassVar[bool] = True

    def __init__(self, ledger: QueueLedger, limits: Sequence[float]) -> None:
        super().__init__(ledger)
        self.limits = list(limits)
        if len(self.limits) != len(ledger) - 1 or self.limits != sorted(self.limits):
            raise InputError(
                f"limits of size_interval are {self.limits}, expected {len(ledger) - 1} that ascend, "
                "one fewer than queues"
            )

    def choose(self, weight: float, /) -> int | None:
        """The queue of the interval, if it is open."""
        queue = bisect_left(self.limits, weight)
        return queue if self.ledger.open[queue] else None


def equal_work_limits(classes: Iterable[tuple[float, float]], queues: int) -> list[float]:
    """Limits that give each queue as equal a share of the work as whole classes allow (SITA-E).

    Parameters
    ----------
    classes
        Weight in seconds and messages a second of each.

    Returns
    -------
    list of float
        Shape (queues - 1,), ascending; infinite where a queue is left without a class.
    """
    ordered = sorted(classes)
    whole = sum(weight * rate for weight, rate in ordered)
    limits: list[float] = []
    below = 0.0
    for weight, rate in ordered:
        middle = below + weight * rate / 2
        below += weight * rate
        # A class goes to the queue in whose share its middle lies; what lies below that queue ends before it.
        while len(limits) < queues - 1 and middle >= whole * (len(limits) + 1) / queues:
            limits.append(_before(ordered, weight))
    return [*limits, *[inf] * (queues - 1 - len(limits))]


def _before(ordered: Sequence[tuple[float, float]], weight: float) -> float:
    """The class weight below one, or nothing below the first."""
    return max((one for one, _ in ordered if one < weight), default=0.0)
