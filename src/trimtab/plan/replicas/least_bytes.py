"""Room below θ for the fewest bytes: a beam search over what may change on the broker furthest above it.

What a request moves may lift brokers above θ. In a small cluster a few heavy partitions decide whether they
come down again, and which of them has to change is a matter of combinations: a descent that takes the best
change of one or two replicas copies more than it needs. Here every way to hold and lead a partition is listed
that its rules allow and that changes one replica at most; some of the partitions on the broker that is
furthest above θ have to take another of their ways, each once. Of the placements on the way the ones nearest
to θ are kept (Lowerre 1976), within a limit on bytes that is halved between what failed and what was found.
"""

from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.plan.replicas.placement import Placement, crowding
from trimtab.plan.replicas.problem import ProblemData

BEAM, CHILDREN = 48, 16
"""Placements kept at each depth, and changes that are kept of each."""

DEPTH = 16
"""Partitions that may change."""

HALVINGS = 6
"""Limits on bytes that are tried between what failed and what was found."""

MOST_CELLS = 2_000_000
"""Ways times rows times columns: bigger clusters have enough small partitions for the descent."""

ROUNDING, SLACK = 1 + 1e-12, 1e-9
"""Of utilisations; and of sums of bytes, as a share of the biggest."""


class _Ways(NamedTuple):
    """How partitions may be held and led.

    Attributes
    ----------
    partition, lead, cost
        Shape (ways,): the partition, the slot that leads, bytes copied.
    place
        Shape (ways, width).
    load
        Shape (ways, rows · columns): the utilisation that it makes.
    first
        Shape (partitions,): the way of the lawful placement, -1 of partitions that have no other.
    """

    partition: IntArray
    lead: IntArray
    cost: FloatArray
    place: IntArray
    load: FloatArray
    first: IntArray


def below_theta(problem: ProblemData, lawful: Placement, movable: BoolArray) -> Placement | None:
    """A placement with no broker above θ, for as few bytes as are found to do; None if none is found.

    Parameters
    ----------
    lawful
        The placement after what must move.
    movable
        Shape (partitions,): those that may change.
    """
    width, brokers = lawful.place.shape[1], len(problem.arrays.may_receive)
    if int(movable.sum()) * 2 * width * width * brokers * problem.bearers.inverse.size > MOST_CELLS:
        return None
    rows = np.flatnonzero(movable & (lawful.lead >= 0)).astype(np.int32)
    if not len(rows):
        return None
    ways = _ways_of(problem, lawful, rows)
    borne = problem.borne(lawful)
    limits = problem.limits(borne)
    usage = (borne * problem.bearers.inverse).ravel()
    theta, weight = limits.theta.ravel() * ROUNDING, limits.weight.ravel()
    start = float((problem.copies(lawful.place) * problem.arrays.price).sum())

    def searched(limit: float) -> tuple[float, IntArray] | None:
        return _beam(ways, usage, theta, weight, limit - start)

    best, least = searched(start), start
    if best is None:
        best = searched(np.inf)
        for _ in range(HALVINGS):
            if best is None:
                break
            limit = (least + start + best[0]) / 2
            found = searched(limit)
            best, least = (best, limit) if found is None else (found, least)
    if best is None:
        return None
    place, lead = lawful.place.copy(), lawful.lead.copy()
    chosen = best[1][best[1] >= 0]
    place[ways.partition[chosen]], lead[ways.partition[chosen]] = ways.place[chosen], ways.lead[chosen]
    return Placement(place, lead)


def _ways_of(problem: ProblemData, lawful: Placement, of: IntArray) -> _Ways:
    """The ways of the partitions in `of`."""
    first = np.full(len(lawful.lead), -1, dtype=np.int32)
    found: list[tuple[IntArray, IntArray, IntArray]] = []
    number = 0
    for p in of.tolist():
        place = _places(problem, lawful, p)
        rows, lead = np.nonzero(_may_lead(problem, lawful, p, place))
        first[p] = number + int(np.flatnonzero((rows == 0) & (lead == lawful.lead[p]))[0])
        number += len(rows)
        found.append((np.full(len(rows), p, dtype=np.int32), place[rows], lead.astype(np.int32)))
    partition, place, slot = (np.concatenate(column) for column in zip(*found, strict=True))
    copies = problem.copies(place, partition)
    load = _loads(problem, partition, place, slot)
    return _Ways(partition, slot, copies * problem.arrays.price[partition], place, load, first)


def _places(problem: ProblemData, lawful: Placement, p: int) -> IntArray:
    """Shape (places, width): the lawful place first, then those that the rules allow besides."""
    arrays = problem.arrays
    home, now = arrays.home[p], lawful.place[p]
    fixed, leaving = set(home[arrays.staying[p]].tolist()), set(home[arrays.leaving[p]].tolist())
    if arrays.pinned[p] >= 0:
        # A leader that nobody stands in for stays, or goes as it lawfully does.
        if home[arrays.pinned[p]] not in now:
            return np.asarray(now[None])
        fixed.add(int(home[arrays.pinned[p]]))
    receiving = np.flatnonzero(arrays.may_receive)
    found = {tuple(now.tolist()): None, tuple(home.tolist()): None}
    for row in (now, home):
        for slot in np.flatnonzero(row >= 0).tolist():
            changed = np.repeat(row[None], len(receiving), axis=0)
            changed[:, slot] = receiving
            found |= dict.fromkeys(map(tuple, changed[~np.isin(receiving, row)].tolist()))
    places = np.array(list(found), dtype=np.int32)
    good = ~crowding(places, arrays.rack, np.full(len(places), arrays.rack_cap[p]))
    good &= ~crowding(places, arrays.host, np.full(len(places), arrays.host_cap[p]))
    good &= ~np.isin(places, list(leaving)).any(axis=1)
    for broker in fixed & set(now.tolist()):
        good &= (places == broker).any(axis=1)
    good[0] = True
    return np.asarray(places[good])


def _may_lead(problem: ProblemData, lawful: Placement, p: int, place: IntArray) -> BoolArray:
    """Shape of `place`: the slot may lead; the lawful leader of the lawful place always may."""
    arrays = problem.arrays
    at = place[:, :, None] == arrays.home[p][None, None, :]
    in_sync = ~at.any(axis=2) | (at & arrays.home_ready[p]).any(axis=2)
    keeps = problem.home_lead[p] >= 0 and not arrays.leaving[p, problem.home_lead[p]]
    led = arrays.home[p, problem.home_lead[p]] if keeps else -1
    may = (place >= 0) & ((arrays.may_lead[place] & in_sync) | (place == led))
    may[0, lawful.lead[p]] = True
    return np.asarray(may)


def _loads(problem: ProblemData, partition: IntArray, place: IntArray, lead: IntArray) -> FloatArray:
    """Shape (ways, rows · columns): the utilisation that each way makes."""
    wide, each = problem.wide, np.arange(len(place))
    load = np.zeros((len(place), *wide.inverse.shape))
    for slot in range(place.shape[1]):
        borne = wide.use[partition, (lead == slot).astype(np.int32)]
        brokers = place[:, slot]
        for rows in (brokers, np.where(brokers >= 0, wide.host_row[brokers], -1)):
            held = rows >= 0
            load[each[held], rows[held]] += borne[held] * wide.inverse[rows[held]]
    return load.reshape(len(place), -1)


_State = tuple[FloatArray, float, IntArray, BoolArray]
"""Utilisations, bytes copied, the way of each partition, and which may still change."""


def _beam(
    ways: _Ways, usage: FloatArray, theta: FloatArray, weight: FloatArray, most: float
) -> tuple[float, IntArray] | None:
    """Bytes besides those of the lawful placement and the way of each partition; None if nothing is found.

    Parameters
    ----------
    usage, theta, weight
        Shape (rows · columns,): of the lawful placement, and the limits.
    most
        Bytes besides those of the lawful placement.
    """
    slack = SLACK * float(ways.cost.max())
    beam: list[_State] = [(usage, 0.0, ways.first, ways.first >= 0)]
    for _ in range(DEPTH + 1):
        done = [(copied, now) for level, copied, now, _ in beam if not (level > theta).any()]
        if done:
            return min(done, key=lambda one: one[0])
        children: dict[bytes, tuple[tuple[float, float], _State]] = {}
        for level, copied, now, open_ in beam:
            over = weight * np.maximum(level - theta, 0.0) ** 2
            at = int(over.argmax())
            old = now[ways.partition]
            falls = ways.load[:, at] < ways.load[old, at] - 1e-12 * level[at]
            spent = copied + ways.cost - ways.cost[old]
            rows = np.flatnonzero(falls & open_[ways.partition] & (spent <= most + slack))
            after = level + ways.load[rows] - ways.load[old[rows]]
            breach = (weight * np.maximum(after - theta, 0.0) ** 2).sum(axis=1)
            for i in np.lexsort((spent[rows], breach))[:CHILDREN].tolist():
                p = ways.partition[rows[i]]
                then, still = now.copy(), open_.copy()
                then[p], still[p] = rows[i], False
                key = float(breach[i]), float(spent[rows[i]])
                children.setdefault(then.tobytes(), (key, (after[i], key[1], then, still)))
        beam = [state for _, state in sorted(children.values(), key=lambda one: one[0])[:BEAM]]
    return None
