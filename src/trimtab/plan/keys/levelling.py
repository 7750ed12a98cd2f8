"""Key groups moved until partitions are level: as few records a second as it takes, the fullest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INNER_MARGIN: Final = 0.9
"""What is levelled is levelled to nine tenths of ε, so that the next reading does not ask for more."""


@dataclass
class Board:
    """Partitions and what goes to each, changed move by move.

    Attributes
    ----------
    loads
        Records a second by partition.
    places
        The partition of each key group.
    rates
        Records a second of each group, without those of keys that have a route of their own.
    """

    loads: list[float]
    places: list[int]
    rates: list[float]

    @property
    def mean(self) -> float:
        """Records a second of a partition if all were the same."""
        return sum(self.loads) / len(self.loads)

    def shift(self, before: tuple[int, ...], after: tuple[int, ...], rate: float) -> float:
        """Split a rate over other partitions than before; how much of it goes to where it did not go."""
        for one in before:
            self.loads[one] -= rate / len(before)
        for one in after:
            self.loads[one] += rate / len(after)
        stays = sum(min(rate / len(before), rate / len(after)) for one in set(before) & set(after))
        return rate - stays

    def least_loaded(self, count: int, kept: tuple[int, ...]) -> tuple[int, ...]:
        """So many partitions: those that are kept, then the emptiest, each by ascending number of equals."""
        others = sorted(set(range(len(self.loads))) - set(kept), key=lambda one: (self.loads[one], one))
        return tuple(sorted((*kept, *others)[:count]))


@dataclass(frozen=True)
class Shift:
    """One group that moves, with the loads of both partitions before it did."""

    group: int
    source: int
    target: int
    rate: float
    source_load: float
    target_load: float


def level(board: Board, epsilon: float, ceiling: float, most: int) -> list[Shift]:
    """Move groups until no partition is further than ε from the mean or above the ceiling, or none helps.

    Parameters
    ----------
    board
        Changed.
    epsilon
        Highest deviation from the mean.
    ceiling
        The most records a second that a partition may get.
    most
        The most groups to move.

    Notes
    -----
    Each turn takes from the fullest partition and gives to the emptiest: the smallest group that is enough,
    else the largest that fits. No group moves twice, so that it ends.
    """
    mean = board.mean
    high = min(ceiling, mean * (1 + INNER_MARGIN * epsilon))
    low = mean * (1 - INNER_MARGIN * epsilon)
    by_place: dict[int, list[tuple[float, int]]] = {}
    for group, place in enumerate(board.places):
        if board.rates[group] > 0:
            by_place.setdefault(place, []).append((board.rates[group], group))
    for its in by_place.values():
        its.sort()
    shifts: list[Shift] = []
    barren: set[int] = set()
    while len(shifts) < most:
        loads = board.loads
        target = min(range(len(loads)), key=lambda one: (loads[one], one))
        sources = [one for one in range(len(loads)) if one not in barren and loads[one] > loads[target]]
        if not sources:
            break
        source = min(sources, key=lambda one: (-loads[one], one))
        if loads[source] <= high and loads[target] >= low:
            break
        found = _group(by_place.get(source, []), loads[source], loads[target], (low, high))
        if found is None:
            barren.add(source)
            continue
        rate, group = found
        shifts.append(Shift(group, source, target, rate, loads[source], loads[target]))
        by_place[source].remove(found)
        board.shift((source,), (target,), rate)
        board.places[group] = target
    return shifts


def _group(
    there: list[tuple[float, int]], source: float, target: float, band: tuple[float, float]
) -> tuple[float, int] | None:
    """The group to move, out of those there by ascending rate; None where each would make things worse."""
    low, high = band
    if source > high:
        need, room = source - high, high - target
    else:
        need, room = low - target, source - low
    enough = [one for one in there if need <= one[0] <= room]
    if enough:
        return enough[0]
    fitting = [one for one in there if one[0] <= min(need, room)]
    if fitting:
        return fitting[-1]
    # None fits: the smallest still helps where the fuller of the two ends lower than the fullest was.
    helps = [one for one in there if target + one[0] < source]
    return helps[0] if helps and source > high else None
