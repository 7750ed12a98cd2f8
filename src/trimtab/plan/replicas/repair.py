"""Compiled: what must move whatever it costs: leaders that are offline, replicas that must leave, crowded racks and hosts."""

from numba import njit

from trimtab.plan.replicas.placement import (
    give_lead,
    holds,
    may_take_lead,
    move,
    role_of,
    value,
)

CONCENTRATION = 1e-3
"""Among destinations that are equal for the goals, the emptier; small against any breach."""


@njit(cache=True, nogil=True)
def _best_lead(a, limits, state, p, without):  # type: ignore[no-untyped-def]
    """Slot that may lead with the least harm, -1 if none; `without` is a slot that may not."""
    best = -1
    least = 0.0
    old = state.lead[p]
    for s in range(state.place.shape[1]):
        b = state.place[p, s]
        if b < 0 or s == without or s == old or not may_take_lead(a, p, b):
            continue
        potential, guidance = value(a, limits, state.usage, b, p, 1, p, 0)
        before, pull = value(a, limits, state.usage, b, -1, 0, -1, 0)
        harm = potential - before + guidance - pull
        if best < 0 or harm < least:
            best, least = s, harm
    return best


@njit(cache=True, nogil=True)
def _crowded(a, state, p, s):  # type: ignore[no-untyped-def]
    """Whether the slot's rack or host holds more of the partition than it may."""
    in_rack = 0
    in_host = 0
    here = state.place[p, s]
    for t in range(state.place.shape[1]):
        other = state.place[p, t]
        if other >= 0:
            in_rack += a.rack[other] == a.rack[here]
            in_host += a.host[other] == a.host[here]
    return in_rack > a.rack_cap[p] or in_host > a.host_cap[p]


@njit(cache=True, nogil=True)
def _spread(a, state, p, s, b):  # type: ignore[no-untyped-def]
    """How many replicas over the caps of rack and host the partition has with the slot on `b`."""
    over = 0
    width = state.place.shape[1]
    for t in range(width):
        one = b if t == s else state.place[p, t]
        if one < 0:
            continue
        in_rack = 0
        in_host = 0
        for u in range(t + 1):
            other = b if u == s else state.place[p, u]
            if other >= 0:
                in_rack += a.rack[other] == a.rack[one]
                in_host += a.host[other] == a.host[one]
        over += (in_rack > a.rack_cap[p]) * 1024 + (in_host > a.host_cap[p])
    return over


@njit(cache=True, nogil=True)
def _destination(a, limits, state, p, s, role, spread_limit):  # type: ignore[no-untyped-def]
    """Broker for the slot with the fewest spread breaches (below `spread_limit`), then the least harm; -1 if none."""
    best = -1
    least = 0.0
    fewest = spread_limit
    for b in range(len(a.may_receive)):
        if not a.may_receive[b] or holds(state, p, b):
            continue
        if role == 1 and not may_take_lead(a, p, b):
            continue
        over = _spread(a, state, p, s, b)
        if over > fewest or (best < 0 and over >= spread_limit):
            continue
        potential, guidance = value(a, limits, state.usage, b, p, role, -1, 0)
        before, pull = value(a, limits, state.usage, b, -1, 0, -1, 0)
        harm = potential - before + guidance - pull
        if best < 0 or over < fewest or harm < least:
            best, least, fewest = b, harm, over
    return best


@njit(cache=True, nogil=True)
def repair(a, limits, state, order, stays_offline):  # type: ignore[no-untyped-def]
    """Make the placement lawful where it can be.

    Parameters
    ----------
    order
        Partitions in the order to be served (big ones first: they are the hardest to place).
    stays_offline
        Shape (partitions, width), written: slots that must leave and could not.
    """
    width = state.place.shape[1]
    for p in order:
        if not a.movable[p]:
            for s in range(width):
                if state.place[p, s] >= 0 and a.leaving[p, s]:
                    stays_offline[p, s] = True
            continue
        if state.lead[p] < 0:
            s = _best_lead(a, limits, state, p, -1)
            if s >= 0:
                give_lead(a, limits, state, p, s)
        for s in range(width):
            if state.place[p, s] < 0 or not a.leaving[p, s] or state.place[p, s] != a.home[p, s]:
                continue
            if state.lead[p] < 0:
                # Nobody to copy from: none of the replicas in sync may lead.
                stays_offline[p, s] = True
                continue
            stays_offline[p, s] = not _relocate(a, limits, state, p, s, 1 << 30)
        for s in range(width):
            if state.place[p, s] < 0 or not _crowded(a, state, p, s) or state.lead[p] < 0:
                continue
            _relocate(a, limits, state, p, s, _spread(a, state, p, s, state.place[p, s]))


@njit(cache=True, nogil=True)
def _relocate(a, limits, state, p, s, spread_limit):  # type: ignore[no-untyped-def]
    """Move the slot to its best destination, giving its leadership away first where no destination may lead."""
    b = _destination(a, limits, state, p, s, role_of(state, p, s), spread_limit)
    if b < 0 and state.lead[p] == s:
        t = _best_lead(a, limits, state, p, s)
        if t < 0:
            return False
        b = _destination(a, limits, state, p, s, 0, spread_limit)
        if b < 0:
            return False
        give_lead(a, limits, state, p, t)
    if b < 0:
        return False
    move(a, limits, state, p, s, b)
    return True
