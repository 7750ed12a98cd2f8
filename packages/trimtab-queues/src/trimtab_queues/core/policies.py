"""Dispatch policies: to which queue a message goes, and from which queue a free worker takes.

`trimtab_queues.core.catalogue` has them by name, and further ones that serve comparison.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import cycle
from math import inf
from typing import ClassVar, Protocol

from trimtab_common.errors import InputError
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.scheduling import QueueState, SchedulingSettings, state_of


class DispatchPolicy(Protocol):
    """A rule that sends each message to a queue.

    A policy reads a `QueueLedger` and never changes it: whoever puts the message in says so to the ledger.
    The same ledger, weights and generator give the same choices.

    Attributes
    ----------
    name
        As in settings.
    waits_for_choice
        Whether it has one queue in mind and waits for that one, though another is open.
    """

    name: ClassVar[str]
    waits_for_choice: ClassVar[bool]

    def choose(self, weight: float, /) -> int | None:
        """The queue of a message.

        Parameters
        ----------
        weight
            Seconds that its processing takes, by its class.

        Returns
        -------
        int or None
            The index of an open queue; None where none is: back-pressure, the caller has to wait or refuse.
        """
        ...

    def source(self, worker: int, /) -> int | None:
        """The queue from which the free worker of a queue takes its next message; None where nothing waits.

        Taking from another queue is a move: the message counts with the worker's own queue from then on.
        """
        ...


class OwnQueue:
    """Workers that take from their own queue only.

    Attributes
    ----------
    ledger
        What the policy reads.
    """

    waits_for_choice: ClassVar[bool] = False

    def __init__(self, ledger: QueueLedger) -> None:
        self.ledger = ledger

    def source(self, worker: int, /) -> int | None:
        """The worker's own queue, where something waits."""
        ledger = self.ledger
        return worker if ledger.length[worker] > ledger.held[worker] else None


class RoundRobinQueue(OwnQueue):
    """Queues in turn; one that is not open is waited for.

    So message k goes to queue k mod n come what may: classes that arrive in step with the queues stay apart.
    """

    name: ClassVar[str] = "round_robin"
    waits_for_choice: ClassVar[bool] = True

    choose: Callable[[float], int | None]

    def __init__(self, ledger: QueueLedger) -> None:
        super().__init__(ledger)
        self.choose = _plain(ledger)


class OpenRoundRobinQueue(OwnQueue):
    """Queues in turn; those that are paused, closed or full are passed over.

    References
    ----------
    Ji, Ni, Liu (2009), phase 1. As printed, `index = (index++) % n` never advances, and with every queue
    marked the loop never ends; here the turn goes on, and the caller is told.
    """

    name: ClassVar[str] = "marked_round_robin"

    choose: Callable[[float], int | None]

    def __init__(self, ledger: QueueLedger) -> None:
        super().__init__(ledger)
        self.choose = _marked(ledger)


# Closures, not methods: at some 50 ns a message, looking up two attributes is half of the time.
def _plain(ledger: QueueLedger) -> Callable[[float], int | None]:
    turn = cycle(range(len(ledger))).__next__
    is_open, waited_for = ledger.open, -1

    def choose(weight: float, /) -> int | None:
        nonlocal waited_for
        if waited_for < 0:
            queue = turn()
            if is_open[queue]:
                return queue
            waited_for = queue
            return None
        if is_open[waited_for]:
            queue, waited_for = waited_for, -1
            return queue
        return None

    return choose


def _marked(ledger: QueueLedger) -> Callable[[float], int | None]:
    turn = cycle(range(len(ledger))).__next__
    is_open = ledger.open

    def choose(weight: float, /) -> int | None:
        queue = turn()
        if is_open[queue]:
            return queue
        for _ in range(len(is_open) - 1):
            queue = turn()
            if is_open[queue]:
                return queue
        return None  # the round is whole, so the turn is where it was

    return choose


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
