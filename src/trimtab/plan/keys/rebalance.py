"""Moves key groups until partitions are balanced, with the fewest records per second, the fullest partition
first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, product
from typing import Final

from trimtab.model.goals import ROUNDING
from trimtab.model.keys.snapshot import KeysSnapshot

INNER_MARGIN: Final = 0.9
"""Moves aim at nine tenths of ε, so that the next reading needs no further moves."""

TRIES: Final = 256
"""Number of pairs of a group and a partition that are tried at a time."""


@dataclass
class RoutingBoard:
    """Partitions and their loads, changed move by move.

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
        """Mean number of records per second of a partition."""
        return sum(self.loads) / len(self.loads)

    def shift(self, before: tuple[int, ...], after: tuple[int, ...], rate: float) -> float:
        """Split a rate over other partitions than before; returns the rate that is new to its partition."""
        for one in before:
            self.loads[one] -= rate / len(before)
        for one in after:
            self.loads[one] += rate / len(after)
        stays = sum(min(rate / len(before), rate / len(after)) for one in set(before) & set(after))
        return rate - stays

    def least_loaded(self, count: int, retained: tuple[int, ...]) -> tuple[int, ...]:
        """A number of partitions: those that stay, then the emptiest; equal ones by ascending number."""
        others = sorted(set(range(len(self.loads))) - set(retained), key=lambda one: (self.loads[one], one))
        return tuple(sorted((*retained, *others)[:count]))


def board_of(snapshot: KeysSnapshot, count: int) -> RoutingBoard:
    """The current partitions, extended to a given number by empty ones."""
    loads = [one.records_per_second for one in snapshot.partitions]
    loads += [0.0] * (count - len(loads))
    places = [one.partition for one in snapshot.groups]
    rates = [one.records_per_second for one in snapshot.groups]
    for key in snapshot.keys:
        if key.partitions != (places[key.group],):
            rates[key.group] = max(0.0, rates[key.group] - key.records_per_second)
    return RoutingBoard(loads, places, rates)


def keyed_loads(snapshot: KeysSnapshot) -> list[float]:
    """Records a second by partition that key groups and split keys account for."""
    board = board_of(snapshot, len(snapshot.partitions))
    found = [0.0] * len(snapshot.partitions)
    for place, rate in zip(board.places, board.rates, strict=True):
        found[place] += rate
    for key in snapshot.keys:
        if key.partitions != (board.places[key.group],):
            for place in key.partitions:
                found[place] += key.records_per_second / len(key.partitions)
    return found


@dataclass(frozen=True)
class GroupShift:
    """A move of one group, with the loads of both partitions before it."""

    group: int
    source: int
    target: int
    rate: float
    source_load: float
    target_load: float


def rebalance(board: RoutingBoard, epsilon: float, ceiling: float, most: int) -> list[GroupShift]:
    """Move groups until no partition is further than ε from the mean or above the ceiling, or none helps.

    Parameters
    ----------
    board
        Changed.
    epsilon
        Highest deviation from the mean.
    ceiling
        Maximum number of records per second of a partition.
    most
        The most groups to move.

    Notes
    -----
    Each turn moves a group from the fullest partition to the emptiest: the smallest group that suffices,
    otherwise the largest that fits. No group moves twice, so the loop ends.
    """
    mean = board.mean
    band = (mean * (1 - INNER_MARGIN * epsilon), min(ceiling, mean * (1 + INNER_MARGIN * epsilon)))
    free = {group for group, rate in enumerate(board.rates) if rate > 0}
    shifts: list[GroupShift] = []
    while True:
        shifts += _descend(board, band, free, most - len(shifts))
        more = _free_target(board, band, free, most - len(shifts))
        if not more:
            return shifts
        shifts += more


def _descend(board: RoutingBoard, band: tuple[float, float], free: set[int], most: int) -> list[GroupShift]:
    """Take from the fullest and give to the emptiest until loads are in the band or nothing helps."""
    low, high = band
    by_place: dict[int, list[tuple[float, int]]] = {}
    for group in free:
        by_place.setdefault(board.places[group], []).append((board.rates[group], group))
    for its in by_place.values():
        its.sort()
    shifts: list[GroupShift] = []
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
        found = _group(by_place.get(source, []), loads[source], loads[target], band)
        if found is None:
            barren.add(source)
            continue
        by_place[source].remove(found)
        shifts.append(_shifted(board, free, found[1], target))
    return shifts


def _free_target(
    board: RoutingBoard, band: tuple[float, float], free: set[int], most: int
) -> list[GroupShift]:
    """Move a group from the fullest partition that is too large for any other, and move smaller groups back.

    For a partition with few large groups that fit nowhere else. Reverted if the fullest partition is as full
    as before.
    """
    loads = board.loads
    source = min(range(len(loads)), key=lambda one: (-loads[one], one))
    fullest = loads[source]
    if fullest <= band[1] or most < 1:
        return []
    groups = sorted(
        (one for one in free if board.places[one] == source), key=lambda one: (board.rates[one], one)
    )
    targets = sorted(set(range(len(loads))) - {source}, key=lambda one: (loads[one], one))
    for group, target in islice(product(groups, targets), TRIES):
        tried, left = RoutingBoard(list(loads), list(board.places), board.rates), set(free)
        shifts = [_shifted(tried, left, group, target), *_descend(tried, band, left, most - 1)]
        if max(tried.loads) < fullest * (1 - ROUNDING):
            board.loads, board.places = tried.loads, tried.places
            free.intersection_update(left)
            return shifts
    return []


def _shifted(board: RoutingBoard, free: set[int], group: int, target: int) -> GroupShift:
    source, rate = board.places[group], board.rates[group]
    shift = GroupShift(group, source, target, rate, board.loads[source], board.loads[target])
    board.shift((source,), (target,), rate)
    board.places[group] = target
    free.discard(group)
    return shift


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
    # None fits: the smallest still helps if the fuller of the two ends below the previous maximum.
    helps = [one for one in there if target + one[0] < source]
    return helps[0] if helps and source > high else None
