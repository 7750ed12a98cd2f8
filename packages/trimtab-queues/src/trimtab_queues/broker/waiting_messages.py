"""Messages that wait in one queue of a process: two lanes, each in the order of coming."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain
from math import inf

from trimtab_queues.broker.envelope import Envelope
from trimtab_queues.core.lanes import is_quick_first

Candidate = tuple[str, int, str]
"""Name, microseconds and affinity key of a message that may be moved."""


class WaitingMessages:
    """Waiting messages of a queue by name; names are numbers that grow.

    Parameters
    ----------
    max_overtake_seconds
        Quick messages go before others that came at most so long before them.
    """

    def __init__(self, max_overtake_seconds: float) -> None:
        self._overtake_seconds = max_overtake_seconds
        self._quick: dict[str, Envelope] = {}
        self._other: dict[str, Envelope] = {}
        self._moved: dict[str, float] = {}
        self._out_of_turn: list[tuple[float, str]] = []

    def __bool__(self) -> bool:
        return bool(self._quick or self._other)

    def __iter__(self) -> Iterator[Envelope]:
        return chain(self._quick.values(), self._other.values())

    def put(self, name: str, envelope: Envelope, now: float, moved: bool) -> None:
        """Add a message that is accepted at the end of its lane."""
        self._lane(envelope)[name] = envelope
        if moved:
            self._moved[name] = now
            if not envelope.quick:
                heappush(self._out_of_turn, (_accepted(envelope), name))

    def give_back(self, name: str, envelope: Envelope) -> None:
        """Put a message that was taken at its place again."""
        lane = self._lane(envelope)
        lane[name] = envelope
        # In place: the order of a lane is that of its names.
        for one in sorted(lane, key=int):
            lane[one] = lane.pop(one)

    def take(self) -> tuple[str, Envelope]:
        """The message whose turn it is; there must be one."""
        quick, other = next(iter(self._quick), None), next(iter(self._other), None)
        if quick is not None and (
            other is None
            or is_quick_first(_accepted(self._quick[quick]), self._oldest(other), self._overtake_seconds)
        ):
            return quick, self.remove(quick)
        assert other is not None
        return other, self.remove(other)

    def _oldest(self, first: str) -> float:
        """When the message of the other lane was accepted that has waited longest."""
        # Moved ones stand behind others that were accepted after them.
        moved = self._out_of_turn
        while moved and moved[0][1] not in self._other:
            heappop(moved)
        accepted = _accepted(self._other[first])
        return min(accepted, moved[0][0]) if moved else accepted

    def remove(self, name: str) -> Envelope:
        """Take a message out by its name."""
        self._moved.pop(name, None)
        return self._quick.pop(name) if name in self._quick else self._other.pop(name)

    def newest_first(self, rested: float) -> list[Candidate]:
        """Messages as a move considers them, without those that were moved after that time.

        Quick ones, which would wait least where they are, come last.
        """
        return [
            (name, one.weight_microseconds, one.affinity_key)
            for name, one in chain(reversed(self._other.items()), reversed(self._quick.items()))
            if self._moved.get(name, -inf) <= rested
        ]

    def oldest_first(self) -> list[Candidate]:
        """Messages as a rescue considers them."""
        return [
            (name, one.weight_microseconds, one.affinity_key)
            for name, one in chain(self._quick.items(), self._other.items())
        ]

    def _lane(self, envelope: Envelope) -> dict[str, Envelope]:
        return self._quick if envelope.quick else self._other


def _accepted(envelope: Envelope) -> float:
    assert envelope.accepted_at is not None
    return envelope.accepted_at
