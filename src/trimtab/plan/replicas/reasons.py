"""Compiled: why each step is made, as numbers: which goal, on which broker, from what to what, and what was
rejected.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.model.load import FloatArray, IntArray
from trimtab.plan.replicas.moves import LEADER_STEP, apply_step
from trimtab.plan.replicas.placement import WIDE
from trimtab.plan.search.compiled import entry, leaf

THETA_GOAL, EPSILON_GOAL, DRAIN_GOAL, OFFLINE_GOAL, RACK_GOAL, HOST_GOAL, ROOM_GOAL, WAY_GOAL = range(8)
"""What a step serves; `ROOM_GOAL` makes room for others, `WAY_GOAL` is on the way to a later step."""

STATE_REJECTED, SIBLING_REJECTED, GROUP_REJECTED, LIMIT_REJECTED = range(4)


class Reasons(NamedTuple):
    """One row a step, in the order of execution.

    Attributes
    ----------
    goal, resource, broker
        Shape (steps,): goal code, resource index (-1 for none), broker index.
    measure
        Shape (steps, 3): the goal's measure on that broker before and after, and its limit.
    other
        Shape (steps, 2): the same resource on the other broker, before and after.
    rejected
        Shape (steps, 4): brokers that were no destination: by their state, for a sibling, for rack or host,
        because they would pass a limit.
    """

    goal: NDArray[np.int8]
    resource: NDArray[np.int8]
    broker: IntArray
    measure: FloatArray
    other: FloatArray
    rejected: IntArray


@leaf
def _off(level, high, low):  # type: ignore[no-untyped-def]
    return max(level - high, low - level, 0.0)


@leaf
def _in_group(place, group, p, g):  # type: ignore[no-untyped-def]
    number = 0
    for s in range(place.shape[1]):
        b = place[p, s]
        if b >= 0 and group[b] == g:
            number += 1
    return number


@leaf
def _reject(a, usage, ceiling, place, p, source, target, role, counts):  # type: ignore[no-untyped-def]
    """Count the brokers, other than source and target, that could not have been the destination, by why."""
    width = place.shape[1]
    for b in range(len(usage)):
        if b == source or b == target:  # noqa: SIM109 - compiled
            continue
        if not a.may_receive[b] or (role == 1 and not a.may_lead[b]):
            counts[STATE_REJECTED] += 1
            continue
        sibling = False
        in_rack = 0
        in_host = 0
        for s in range(width):
            other = place[p, s]
            if other == b:
                sibling = True
            elif other >= 0 and other != source:
                in_rack += a.rack[other] == a.rack[b]
                in_host += a.host[other] == a.host[b]
        if sibling:
            counts[SIBLING_REJECTED] += 1
        elif (in_rack >= a.rack_cap[p] and a.rack[b] != a.rack[source]) or (
            in_host >= a.host_cap[p] and a.host[b] != a.host[source]
        ):
            counts[GROUP_REJECTED] += 1
        else:
            for r in range(WIDE):
                if usage[b, r] + a.use[p, role, r] * a.inverse[b, r] > ceiling[b, r]:
                    counts[LIMIT_REJECTED] += 1
                    break


@leaf
def _placement_goal(a, place, p, source, target, held, draining, measure):  # type: ignore[no-untyped-def]
    """Goal code of a replica step that the hard goals ask for, -1 if they do not; fills `measure`."""
    for s in range(place.shape[1]):
        if a.home[p, s] == source and a.leaving[p, s]:
            measure[0], measure[1], measure[2] = held[source], held[source] - 1.0, 0.0
            return DRAIN_GOAL if draining[source] else OFFLINE_GOAL
    in_rack = _in_group(place, a.rack, p, a.rack[source])
    if in_rack > a.rack_cap[p] and a.rack[source] != a.rack[target]:
        measure[0], measure[1], measure[2] = in_rack, in_rack - 1.0, a.rack_cap[p]
        return RACK_GOAL
    in_host = _in_group(place, a.host, p, a.host[source])
    if in_host > a.host_cap[p] and a.host[source] != a.host[target]:
        measure[0], measure[1], measure[2] = in_host, in_host - 1.0, a.host_cap[p]
        return HOST_GOAL
    return -1


@leaf
def _load_goal(usage, before, limits, source, target, row):  # type: ignore[no-untyped-def]
    """Which broker and resource a step helps most: (goal, broker, resource); fills the row of measures."""
    best = 0.0
    broker = target
    resource = -1
    for side in range(2):
        b = source if side == 0 else target
        if b < 0:
            continue
        for r in range(WIDE):
            old = _off(before[side, r], limits.high[b, r], limits.low[b, r])
            new = _off(usage[b, r], limits.high[b, r], limits.low[b, r])
            relief = limits.weight[b, r] * (old * old - new * new)
            if relief > best:
                best, broker, resource = relief, b, r
    goal = EPSILON_GOAL if resource >= 0 else ROOM_GOAL
    if resource < 0:
        # Nothing got nearer to its band by this step alone: say which resource it moves most.
        most = -1.0
        for r in range(WIDE):
            change = limits.weight[target, r] * abs(usage[target, r] - before[1, r])
            if change > most:
                most, resource = change, r
    mine = 0 if broker == source else 1
    level = before[mine, resource]
    if level > limits.theta[broker, resource]:
        goal = THETA_GOAL if goal == EPSILON_GOAL else goal
        row[2] = limits.theta[broker, resource]
    elif level < limits.low[broker, resource]:
        row[2] = limits.low[broker, resource]
    else:
        row[2] = limits.high[broker, resource]
    row[0], row[1] = level, usage[broker, resource]
    return goal, broker, resource


@entry
def reasons_of(  # type: ignore[no-untyped-def]
    a, limits, steps, usage, ceiling, draining, goal, resource, broker, measure, other, rejected
):
    """Walk through the steps and say what each is for; the last six are written, see `Reasons`.

    Parameters
    ----------
    usage
        Shape (brokers, resources), at the start; changed.
    ceiling
        As in `moves.schedule`.
    draining
        Shape (brokers,).
    """
    place = a.home.copy()
    held = np.zeros(len(usage))
    for p in range(len(place)):
        for s in range(place.shape[1]):
            if place[p, s] >= 0:
                held[place[p, s]] += 1.0
    before = np.zeros((2, WIDE))
    for i in range(len(steps.kind)):
        p, source, target = steps.partition[i], steps.source[i], steps.target[i]
        role = steps.role[i]
        for r in range(WIDE):
            before[0, r] = usage[source, r] if source >= 0 else 0.0
            before[1, r] = usage[target, r]
        resource[i] = -1
        goal[i] = -1
        broker[i] = source if source >= 0 else target
        if steps.kind[i] == LEADER_STEP:
            if source < 0:
                goal[i] = OFFLINE_GOAL
            else:
                for s in range(place.shape[1]):
                    if a.home[p, s] == source and a.leaving[p, s]:
                        goal[i] = DRAIN_GOAL if draining[source] else OFFLINE_GOAL
        else:
            _reject(a, usage, ceiling, place, p, source, target, role, rejected[i])
            goal[i] = _placement_goal(a, place, p, source, target, held, draining, measure[i])
        apply_step(a, usage, steps.kind[i], p, source, target, role, 1.0)
        if goal[i] < 0:
            goal[i], broker[i], resource[i] = _load_goal(usage, before, limits, source, target, measure[i])
            far = 1 if broker[i] == source else 0
            there = target if far == 1 else source
            if there >= 0:
                other[i, 0] = before[far, resource[i]]
                other[i, 1] = usage[there, resource[i]]
        if steps.kind[i] != LEADER_STEP:
            for s in range(place.shape[1]):
                if place[p, s] == source:
                    place[p, s] = target
                    break
            held[source] -= 1.0
            held[target] += 1.0
