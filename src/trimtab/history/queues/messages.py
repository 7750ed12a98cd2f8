"""Messages of a replay, and the line in which they wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain

from trimtab.online.queues.lanes import is_quick_first


@dataclass(frozen=True, slots=True)
class ReplayedMessage:
    """A message on its way through the queues.

    Attributes
    ----------
    number
        Its place in the order of arrival.
    deadline
        When its sender wants to hand it over, seconds.
    weight
        Seconds of processing, as the dispatcher believes.
    key
        Its affinity key, a user; None without.
    seconds
        Seconds that its processing takes at speed 1; None where that is its weight.
    """

    number: int
    deadline: float
    weight: float
    key: Hashable | None = None
    seconds: float | None = None

    @property
    def takes_seconds(self) -> float:
        """Seconds of processing at speed 1."""
        return self.weight if self.seconds is None else self.seconds


class ReplayedQueue:
    """Messages that wait in one queue, the oldest first, in one lane or two.

    Parameters
    ----------
    max_overtake_seconds
        A quick message goes before others that came at most so long before it; None: there is one lane.
    """

    def __init__(self, max_overtake_seconds: float | None = None) -> None:
        self._overtake_seconds = max_overtake_seconds
        self._quick: deque[ReplayedMessage] = deque()
        self._other: deque[ReplayedMessage] = deque()
        self._accepted: dict[int, float] = {}
        self._out_of_turn: list[tuple[float, int]] = []

    def __iter__(self) -> Iterator[ReplayedMessage]:
        return chain(self._quick, self._other)

    def __len__(self) -> int:
        return len(self._quick) + len(self._other)

    def append(self, message: ReplayedMessage, accepted: float, *, quick: bool, moved: bool = False) -> None:
        """Put a message at the end of its lane; one that was moved stands behind others that came later."""
        (self._quick if quick else self._other).append(message)
        if self._overtake_seconds is not None:
            self._accepted[message.number] = accepted
            if moved and not quick:
                heappush(self._out_of_turn, (accepted, message.number))

    def take(self) -> ReplayedMessage:
        """The message whose turn it is; there must be one."""
        if self._overtake_seconds is None:
            return self._other.popleft()
        quick, other = self._quick, self._other
        first = bool(quick) and (
            not other
            or is_quick_first(self._accepted[quick[0].number], self._oldest(), self._overtake_seconds)
        )
        message = (quick if first else other).popleft()
        del self._accepted[message.number]
        return message

    def _oldest(self) -> float:
        """When the message of the other lane was accepted that has waited longest."""
        moved, accepted = self._out_of_turn, self._accepted
        while moved and accepted.get(moved[0][1]) != moved[0][0]:
            heappop(moved)
        first = accepted[self._other[0].number]
        return min(first, moved[0][0]) if moved else first

    def remove(self, places: Collection[int]) -> list[tuple[ReplayedMessage, bool]]:
        """Take messages out by their places in the order of iteration; each with whether it was quick."""
        quick = len(self._quick)
        taken, left = [], (deque[ReplayedMessage](), deque[ReplayedMessage]())
        for place, message in enumerate(self):
            if place in places:
                taken.append((message, place < quick))
                self._accepted.pop(message.number, None)
            else:
                left[place >= quick].append(message)
        self._quick, self._other = left
        return taken
