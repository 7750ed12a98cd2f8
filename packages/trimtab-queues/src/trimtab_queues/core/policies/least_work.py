"""Least work left: every message to the queue that would be empty first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import ClassVar

from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policy import OwnQueue

Choose = Callable[[float], int | None]

FEW = 32
"""Up to so many queues, looking at all of them is quicker than keeping a heap: benchmarks/queues_dispatch."""


class LeastWorkLeft(OwnQueue):
    """The open queue with the fewest seconds of work, waiting or in work, the first of equals."""

    name: ClassVar[str] = "least_work_left"

    choose: Choose

    def __init__(self, ledger: QueueLedger) -> None:
        super().__init__(ledger)
        self.choose = least_loaded_choice(ledger, ledger.work)


def least_loaded_choice(ledger: QueueLedger, loads: Sequence[float]) -> Choose:
    """A choice of the open queue with the least of something, the first of equals.

    Parameters
    ----------
    loads
        One of the ledger's own lists, `work` or `length`.
    """
    return (_scan if len(ledger) <= FEW else _heap)(ledger, loads)


def _scan(ledger: QueueLedger, loads: Sequence[float]) -> Choose:
    is_open, position = ledger.open, loads.index

    def choose(weight: float, /) -> int | None:
        queue = position(min(loads))
        if is_open[queue]:
            return queue
        return min((queue for queue, may in enumerate(is_open) if may), key=loads.__getitem__, default=None)

    return choose


def _heap(ledger: QueueLedger, loads: Sequence[float]) -> Choose:
    """Queues by the load that they had when they were last looked at, the least on top.

    A load that has grown since is put right when it comes to the top. One that has shrunk would never come
    there: the ledger notes those, and each gets a second entry; the first is dropped when it is met.
    """
    eased, is_open = ledger.watch(), ledger.open
    heap = [(load, queue) for queue, load in enumerate(loads)]
    heapify(heap)
    aside: list[int] = []
    most = 4 * len(heap)

    def choose(weight: float, /) -> int | None:
        if aside:
            for queue in [one for one in aside if is_open[one]]:
                aside.remove(queue)
                heappush(heap, (loads[queue], queue))
        while eased:
            queue = eased.pop()
            heappush(heap, (loads[queue], queue))
        if len(heap) > most:
            away = set(aside)
            heap[:] = [(load, queue) for queue, load in enumerate(loads) if queue not in away]
            heapify(heap)
        while heap:
            load, queue = heap[0]
            now = loads[queue]
            if load < now:
                heapreplace(heap, (now, queue))
            elif load > now:
                heappop(heap)
            elif is_open[queue]:
                return queue
            else:
                heappop(heap)
                if queue not in aside:
                    aside.append(queue)
        return None

    return choose
