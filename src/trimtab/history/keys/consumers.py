"""Consumers in virtual time: one for each partition, which takes its records one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from trimtab.model.errors import InputError

Stall = tuple[float, float]
"""Begin and end, seconds: a consumer stands still (garbage collection, a slow call)."""


@dataclass(frozen=True, slots=True)
class ConsumerCapacity:
    """What consumers can do.

    Attributes
    ----------
    records_per_second
        Of each.
    stalls
        Shape (partitions,): when each stands still, in order and apart from one another. Partitions that are
        added later have none of their own, and those of the first in turn.
    """

    records_per_second: float
    stalls: Sequence[Sequence[Stall]] = ()

    def __post_init__(self) -> None:
        if not self.records_per_second > 0:
            raise InputError(f"consumers do {self.records_per_second} records a second, expected more than 0")


class SimulatedConsumers:
    """The consumers of a topic's partitions, and what waits for each.

    Parameters
    ----------
    partitions
        How many.
    capacity
        What they can do.
    """

    def __init__(self, partitions: int, capacity: ConsumerCapacity) -> None:
        self._capacity = capacity
        self._service = 1 / capacity.records_per_second
        self._free: list[float] = []
        self._stalls: list[deque[Stall]] = []
        self._unfinished: list[deque[float]] = []
        self.grow(partitions)

    def __len__(self) -> int:
        return len(self._free)

    def grow(self, partitions: int) -> None:
        """Partitions were added; each has a consumer at once."""
        stalls = self._capacity.stalls
        for place in range(len(self), partitions):
            self._free.append(0.0)
            self._stalls.append(deque(stalls[place % len(stalls)] if stalls else ()))
            self._unfinished.append(deque())

    def receive(self, place: int, at: float) -> float:
        """A record arrives; when it will be done."""
        done = self._free[place] = self._work(place, max(at, self._free[place]))
        self._unfinished[place].append(done)
        return done

    def drop(self, place: int, now: float) -> None:
        """What a consumer has not done yet is taken from it: it is free, and will stand still as it would."""
        self._free[place] = min(self._free[place], now)
        self._unfinished[place] = deque(one for one in self._unfinished[place] if one <= now)
        stalls = self._capacity.stalls
        of = stalls[place % len(stalls)] if stalls else ()
        self._stalls[place] = deque(one for one in of if one[1] > now)

    def backlog(self, now: float) -> list[float]:
        """Shape (partitions,): records that wait or are in work."""
        for waiting in self._unfinished:
            while waiting and waiting[0] <= now:
                waiting.popleft()
        return [float(len(waiting)) for waiting in self._unfinished]

    def awake(self, place: int, now: float) -> float:
        """The end of the stall in which a consumer stands still, else now."""
        stalls = self._capacity.stalls
        of = stalls[place % len(stalls)] if stalls else ()
        at = bisect_right(of, now, key=itemgetter(0)) - 1
        return max(now, of[at][1]) if at >= 0 else now

    def _work(self, place: int, start: float) -> float:
        """When a record will be done that is begun at a time; times ascend."""
        done, stalls = start + self._service, self._stalls[place]
        while stalls and stalls[0][0] < done:
            begin, end = stalls.popleft()
            if end > start:
                done += end - max(begin, start)
        return done
