"""Compiled: a placement that changes one replica or one leadership at a time, and what each change is worth.

The potential of a broker is the sum over resources of weight · (excess over the band² + lack below it²), a hundredfold
for what lies over θ; a plan is found by making the potentials fall. A faint pull towards the mean, the guidance, breaks
ties between changes that are equally good for the goals; it never decides whether a change is accepted.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.plan.replicas.limits import Limits
from trimtab.plan.replicas.problem import Arrays

GUIDANCE = 0.02
THETA_WEIGHT = 100.0
NEGLIGIBLE = 1e-18
"""A potential below this (a billionth of the mean, squared) is rounding, not load."""


class State(NamedTuple):
    """A placement under change; compiled code writes into it.

    Attributes
    ----------
    place
        Shape (partitions, widest replication factor): broker index of each slot, -1 in padding.
    lead
        Shape (partitions,): slot that leads, -1 for none.
    usage
        Shape (brokers, resources): B.
    potential
        Shape (brokers,).
    head, following, preceding
        Who sits on a broker, as doubly linked lists of slot numbers (partition · width + slot), so that a move is O(1).
        `head` has shape (brokers,), the others (partitions · width,).
    """

    place: IntArray
    lead: IntArray
    usage: FloatArray
    potential: FloatArray
    head: IntArray
    following: IntArray
    preceding: IntArray


@njit(cache=True, nogil=True)
def value(a, limits, usage, b, add, add_role, drop, drop_role):  # type: ignore[no-untyped-def]
    """Potential and guidance of broker `b` if it gained one replica (`add`, -1 for none) and lost one (`drop`)."""
    potential = 0.0
    guidance = 0.0
    for r in range(usage.shape[1]):
        weight = limits.weight[b, r]
        if weight == 0.0:
            continue
        level = usage[b, r]
        if add >= 0:
            level += a.use[add_role, add, r] * a.inverse[b, r]
        if drop >= 0:
            level -= a.use[drop_role, drop, r] * a.inverse[b, r]
        if level > limits.high[b, r]:
            over = level - limits.high[b, r]
            potential += weight * over * over
            if level > limits.theta[b, r]:
                over = level - limits.theta[b, r]
                potential += THETA_WEIGHT * weight * over * over
        elif level < limits.low[b, r]:
            under = limits.low[b, r] - level
            potential += weight * under * under
        off = level - limits.centre[b, r]
        guidance += weight * off * off
    return potential, GUIDANCE * guidance


@njit(cache=True, nogil=True)
def role_of(state, p, s):  # type: ignore[no-untyped-def]
    """1 if the slot leads, else 0."""
    return 1 if state.lead[p] == s else 0


@njit(cache=True, nogil=True)
def holds(state, p, b):  # type: ignore[no-untyped-def]
    """Whether broker `b` holds a replica of the partition."""
    for s in range(state.place.shape[1]):
        if state.place[p, s] == b:
            return True
    return False


@njit(cache=True, nogil=True)
def fits_groups(a, state, p, s, b):  # type: ignore[no-untyped-def]
    """Whether the slot may go to `b` without worsening rack or host spread."""
    here = state.place[p, s]
    in_rack = 0
    in_host = 0
    for t in range(state.place.shape[1]):
        other = state.place[p, t]
        if other < 0 or t == s:
            continue
        if a.rack[other] == a.rack[b]:
            in_rack += 1
        if a.host[other] == a.host[b]:
            in_host += 1
    if in_rack >= a.rack_cap[p] and a.rack[here] != a.rack[b]:
        return False
    return not (in_host >= a.host_cap[p] and a.host[here] != a.host[b])


@njit(cache=True, nogil=True)
def may_move(a, state, p, s, b):  # type: ignore[no-untyped-def]
    """Whether every hard rule allows the slot's replica, with its role, to go to `b`."""
    if not a.may_receive[b] and not _at_home(a, p, b):
        return False
    if holds(state, p, b):
        return False
    if state.lead[p] == s and not may_take_lead(a, p, b):
        return False
    return fits_groups(a, state, p, s, b)


@njit(cache=True, nogil=True)
def _at_home(a, p, b):  # type: ignore[no-untyped-def]
    for s in range(a.home.shape[1]):
        if a.home[p, s] == b:
            return not a.leaving[p, s]
    return False


@njit(cache=True, nogil=True)
def may_take_lead(a, p, b):  # type: ignore[no-untyped-def]
    """Whether leadership may go to `b`: by its state, and in sync (as every fresh copy is)."""
    for s in range(a.home.shape[1]):
        if a.home[p, s] == b:
            return a.may_lead[b] and a.home_ready[p, s]
    return a.may_lead[b]


@njit(cache=True, nogil=True)
def copy_bytes(a, state, p, s, b):  # type: ignore[no-untyped-def]
    """Bytes that the plan costs more if the slot's replica goes to `b`; negative when it goes back home."""
    here = state.place[p, s]
    bytes_more = a.size[p]
    for t in range(a.home.shape[1]):
        if a.home[p, t] == b:
            bytes_more -= a.size[p]
        if a.home[p, t] >= 0 and a.home[p, t] == here:
            continue
    away = True
    for t in range(a.home.shape[1]):
        if a.home[p, t] == here:
            away = False
    return bytes_more - a.size[p] if away else bytes_more


@njit(cache=True, nogil=True)
def _shift(a, state, b, p, role, sign):  # type: ignore[no-untyped-def]
    for r in range(state.usage.shape[1]):
        state.usage[b, r] += sign * a.use[role, p, r] * a.inverse[b, r]


@njit(cache=True, nogil=True)
def move(a, limits, state, p, s, b):  # type: ignore[no-untyped-def]
    """Put the slot's replica, with its role, on broker `b`."""
    here = state.place[p, s]
    role = role_of(state, p, s)
    _shift(a, state, here, p, role, -1.0)
    _shift(a, state, b, p, role, 1.0)
    state.place[p, s] = b
    code = p * state.place.shape[1] + s
    before, after = state.preceding[code], state.following[code]
    if before >= 0:
        state.following[before] = after
    else:
        state.head[here] = after
    if after >= 0:
        state.preceding[after] = before
    first = state.head[b]
    state.following[code] = first
    state.preceding[code] = -1
    if first >= 0:
        state.preceding[first] = code
    state.head[b] = code
    state.potential[here] = value(a, limits, state.usage, here, -1, 0, -1, 0)[0]
    state.potential[b] = value(a, limits, state.usage, b, -1, 0, -1, 0)[0]


@njit(cache=True, nogil=True)
def give_lead(a, limits, state, p, s):  # type: ignore[no-untyped-def]
    """Let the slot lead."""
    old = state.lead[p]
    if old >= 0:
        here = state.place[p, old]
        _shift(a, state, here, p, 1, -1.0)
        _shift(a, state, here, p, 0, 1.0)
        state.potential[here] = value(a, limits, state.usage, here, -1, 0, -1, 0)[0]
    there = state.place[p, s]
    _shift(a, state, there, p, 0, -1.0)
    _shift(a, state, there, p, 1, 1.0)
    state.lead[p] = s
    state.potential[there] = value(a, limits, state.usage, there, -1, 0, -1, 0)[0]


@njit(cache=True, nogil=True)
def weigh(a, limits, state):  # type: ignore[no-untyped-def]
    """Potential of every broker under other limits."""
    for b in range(len(state.potential)):
        state.potential[b] = value(a, limits, state.usage, b, -1, 0, -1, 0)[0]


def new_state(arrays: Arrays, bounds: Limits, place: IntArray, lead: IntArray, usage: FloatArray) -> State:
    """A state of its own for a placement; `usage` is that of the brokers under it."""
    partitions, width = place.shape
    brokers = len(usage)
    codes = np.flatnonzero(place.ravel() >= 0).astype(np.int32)
    holder = place.ravel()[codes]
    order = np.argsort(holder, kind="stable")
    codes, holder = codes[order], holder[order]
    following = np.full(partitions * width, -1, dtype=np.int32)
    preceding = np.full(partitions * width, -1, dtype=np.int32)
    head = np.full(brokers, -1, dtype=np.int32)
    same = holder[1:] == holder[:-1]
    following[codes[:-1][same]] = codes[1:][same]
    preceding[codes[1:][same]] = codes[:-1][same]
    starts = np.concatenate([[True], ~same]) if len(codes) else np.zeros(0, dtype=np.bool_)
    head[holder[starts]] = codes[starts]
    state = State(
        place.astype(np.int32),
        lead.astype(np.int32),
        usage.copy(),
        np.zeros(brokers),
        head,
        following,
        preceding,
    )
    weigh(arrays, bounds, state)
    return state


def online_slots(state: State, dead: BoolArray) -> BoolArray:
    """Shape of `place`: slots that hold a replica on a broker that runs."""
    return np.asarray((state.place >= 0) & ~dead[state.place])
