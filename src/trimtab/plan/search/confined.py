"""Loads that are confined to some places, and more than these places have room for.

A load may be divided among the places that allow it. So all loads fit exactly if no set of them is bigger
than the room of all places that allow any of them (Hall's condition). A set that is bigger proves that no
plan helps.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.model.goals import ROUNDING
from trimtab.model.load import BoolArray, FloatArray

MAX_PAIRS = 250_000
"""Pairs of different loads and places up to which all unions of loads are looked at, not each set alone."""

Indices = NDArray[np.signedinteger[Any]]


class ConfinedLoad(NamedTuple):
    """Loads that fit nowhere but in some places, and not all of them there.

    Attributes
    ----------
    loads
        Rows of `allowed`.
    places
        Columns of `allowed`: all that allow any of these loads.
    load, capacity
        Of all of them together; `load` is more than `room`.
    """

    loads: Indices
    places: Indices
    load: float
    capacity: float


def confined(load: FloatArray, room: FloatArray, allowed: BoolArray) -> list[ConfinedLoad]:
    """Sets of loads that the places which allow them cannot take, the fewest places first.

    Empty only if the loads fit when they are divided, or if there are more than `MAX_PAIRS` pairs.

    Parameters
    ----------
    load
        Shape (loads,), not negative.
    room
        Shape (places,); infinite where there is no limit, negative where a place is too full already.
    allowed
        Shape (loads, places).
    """
    rows = np.flatnonzero(load > 0)
    if not len(rows):
        return []
    sets, kind = np.unique(allowed[rows], axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    amount: FloatArray = np.bincount(kind, weights=load[rows], minlength=len(sets)).astype(np.float64)
    found: list[tuple[BoolArray, BoolArray]] = []
    for places in sets[np.argsort(sets.sum(axis=1), kind="stable")]:
        inside = ~(sets & ~places).any(axis=1)
        smaller = any(not (other & ~places).any() for _, other in found)
        if not smaller and _too_much(amount[inside], room[places]):
            found.append((inside, places))
    taken = np.any([places for _, places in found], axis=0) if found else np.zeros(len(room), dtype=np.bool_)
    if sets.size <= MAX_PAIRS:
        for inside in _components(_left_over(amount, room, sets), sets):
            places = np.asarray(sets[inside].any(axis=0))
            if not (places & taken).any() and _too_much(amount[inside], room[places]):
                found.append((inside, places))
    found.sort(key=lambda one: int(one[1].sum()))
    return [
        ConfinedLoad(
            rows[inside[kind]],
            np.flatnonzero(places),
            float(amount[inside].sum()),
            float(room[places].sum()),
        )
        for inside, places in found
    ]


def _too_much(load: FloatArray, room: FloatArray) -> bool:
    total, free = float(load.sum()), float(room.sum())
    return total > free + ROUNDING * max(abs(free), total)


def _left_over(amount: FloatArray, room: FloatArray, sets: BoolArray) -> BoolArray:
    """The kinds of load that a greatest flow into the places leaves over, or that could make room for them.

    Shortest augmenting paths (Edmonds and Karp 1972), so the number of steps does not depend on the amounts.
    """
    left, free = amount.copy(), np.maximum(room, 0.0)
    flow = np.zeros(sets.shape)
    least = ROUNDING * 1e-3 * float(amount.sum())
    while True:
        reached, came_to = left > least, np.full(len(free), -1)
        came_from = np.full(len(left), -1)
        front, end = np.flatnonzero(reached), -1
        while len(front) and end < 0:
            new = sets[front].any(axis=0) & (came_to < 0)
            if not new.any():
                break
            came_to[new] = front[sets[front][:, new].argmax(axis=0)]
            ends = np.flatnonzero(new & (free > least))
            if len(ends):
                end = int(ends[0])
                break
            behind = (flow[:, new] > least) & ~reached[:, None]
            front = np.flatnonzero(behind.any(axis=1))
            came_from[front] = np.flatnonzero(new)[behind[front].argmax(axis=1)]
            reached[front] = True
        if end < 0:
            return np.asarray(reached)
        path, place = [], end
        while place >= 0:
            path.append((int(came_to[place]), place))
            place = int(came_from[path[-1][0]])
        back = [flow[kind, at] for (kind, _), (_, at) in pairwise(path)]
        step = min(float(left[path[-1][0]]), float(free[end]), *back)
        left[path[-1][0]] -= step
        free[end] -= step
        for kind, at in path:
            flow[kind, at] += step
        for (kind, _), (_, at) in pairwise(path):
            flow[kind, at] -= step


def _components(chosen: BoolArray, sets: BoolArray) -> list[BoolArray]:
    """The chosen kinds, parted so that no place is shared by two parts."""
    rest, parts = chosen.copy(), []
    while rest.any():
        part = np.zeros(len(sets), dtype=np.bool_)
        part[int(rest.argmax())] = True
        while True:
            more = rest & (sets & sets[part].any(axis=0)).any(axis=1)
            if not (more & ~part).any():
                break
            part |= more
        parts.append(part)
        rest &= ~part
    return parts
