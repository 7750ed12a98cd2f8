"""A lower bound of the bytes that any plan that meets the goals must copy.

Every overloaded broker must lose its excess: replicas leave it at the cost of their bytes, leaderships free
of charge. That is a small covering problem (`trimtab.plan.search.covering`). Brokers do not share
departures, so their bounds add up, and so do the bytes of all replicas that must leave. The same from the
other side: what underloaded brokers lack must arrive. The bigger of the two is the bound.
"""

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.model.replicas.plan import ReplicaBound
from trimtab.model.replicas.settings import RESOURCES
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.search.compiled import entry
from trimtab.plan.search.covering import dual_bound
from trimtab.plan.search.limits import UsageLimits

WIDE = len(RESOURCES)
SWEEPS = 3
SLACK = 1e-6
"""Relative: rounding must not lift a bound above the truth."""


@entry
def departures(place, lead_slot, leaving, use, size, movable, need, sweeps):
    """Bytes that must leave the brokers above their ceilings, besides the replicas that must leave anyway.

    Parameters
    ----------
    place, lead_slot
        The placement of the snapshot, in slots.
    leaving
        Shape of `place`: replicas that must leave; their load goes without being counted here.
    need
        Shape (brokers, resources): load beyond the most that the goals allow; changed.
    """
    brokers, width = len(need), place.shape[1]
    count = np.zeros(brokers, np.int64)
    for p in range(len(place)):
        if not movable[p]:
            continue
        for s in range(width):
            b = place[p, s]
            if b < 0:
                continue
            role = 1 if lead_slot[p] == s else 0
            for r in range(WIDE):
                # A change of role is free, so only the load of the cheaper role has a cost.
                freed = use[p, role, r] if leaving[p, s] else max(use[p, role, r] - use[p, 1 - role, r], 0.0)
                need[b, r] -= freed
            if not leaving[p, s]:
                count[b] += 1
    # The members of all brokers in one array, those of broker b from start[b] on.
    start = np.zeros(brokers + 1, np.int64)
    fill = np.zeros(brokers, np.int64)
    for b in range(brokers):
        fill[b] = start[b]
        start[b + 1] = start[b] + count[b]
    member = np.empty(start[brokers], np.int64)
    for p in range(len(place)):
        for s in range(width):
            b = place[p, s]
            if b >= 0 and movable[p] and not leaving[p, s]:
                member[fill[b]] = p
                fill[b] += 1
    total = 0.0
    for b in range(brokers):
        most = 0.0
        for r in range(WIDE):
            most = max(most, need[b, r])
        if most <= 0.0:
            continue
        mine = member[start[b] : start[b + 1]]
        items = np.empty((len(mine), WIDE))
        cost = np.empty(len(mine))
        for i in range(len(mine)):
            cost[i] = size[mine[i]]
            for r in range(WIDE):
                items[i, r] = min(use[mine[i], 0, r], use[mine[i], 1, r])
        total += dual_bound(need[b], items, cost, sweeps)
    return total


@entry
def arrivals(place, lead_slot, use, size, movable, need, sweeps):
    """Bytes that must arrive at the brokers below their floors, in total.

    Parameters
    ----------
    need
        Shape (brokers, resources): what load lacks to the least that the goals allow, 0 for nothing; changed.
    """
    width = place.shape[1]
    copies = np.zeros(len(place))
    for p in range(len(place)):
        for s in range(width):
            b = place[p, s]
            if b < 0 or not movable[p]:
                continue
            copies[p] += 1.0
            for r in range(WIDE):
                # Load that it may gain without cost by a change of its role here.
                gain = use[p, 1, r] - use[p, 0, r] if lead_slot[p] != s else use[p, 0, r] - use[p, 1, r]
                need[b, r] -= max(gain, 0.0)
    total = np.zeros(WIDE)
    for b in range(len(need)):
        for r in range(WIDE):
            total[r] += max(need[b, r], 0.0)
    items = np.empty((len(place), WIDE))
    cost = np.empty(len(place))
    for p in range(len(place)):
        cost[p] = size[p] * copies[p]
        for r in range(WIDE):
            items[p, r] = max(use[p, 0, r], use[p, 1, r]) * copies[p]
    return dual_bound(total, items, cost, sweeps)


def bound_of(problem: ReplicasProblem, goal: UsageLimits, load: FloatArray) -> ReplicaBound:
    """The bound, with its proof in words.

    Parameters
    ----------
    goal
        The goals' own limits, around the mean that every plan that meets them ends with. Only those of
        brokers and resources are looked at: further goals make no plan cheaper.
    load
        Shape (brokers, resources): of the snapshot.
    """
    arrays = problem.arrays
    forced = _forced_bytes(problem)
    if problem.resizes:
        copies = int(arrays.leaving[arrays.movable].sum())
        proof = f"{forced:.0f} bytes of {copies} replicas to be added, each of which has to be copied"
        return ReplicaBound(int(np.floor(forced * (1 - SLACK))), proof)
    crowded = _crowded_bytes(problem)
    capacity = problem.snapshot.brokers.capacity
    high, low, theta = (limit[: len(load), :WIDE] for limit in (goal.high, goal.low, goal.theta))
    top = np.where(problem.fixed_mean, high, theta)
    bottom = np.where(problem.fixed_mean, low, -np.inf)
    asked = problem.counted
    with np.errstate(invalid="ignore"):
        ceiling = np.where(asked & np.isfinite(top), top * capacity * (1 + SLACK), np.inf)
        floor = np.where(asked & np.isfinite(bottom), bottom * capacity * (1 - SLACK), -np.inf)
    rest = (arrays.use, arrays.size, arrays.movable)
    lead = problem.first_lead
    over = float(departures(arrays.initial, lead, arrays.leaving, *rest, load - ceiling, SWEEPS))
    lack = np.maximum(floor - load, 0.0)
    under = float(arrivals(arrays.initial, lead, *rest, lack, SWEEPS))
    least = max(forced + max(over, crowded), under)
    proof = (
        f"{forced:.0f} bytes of replicas that must leave their brokers, "
        f"{over:.0f} to bring every broker down to its limits (dual of the covering problem, leaderships "
        f"free), {crowded:.0f} out of crowded racks and hosts, {under:.0f} to lift every broker to its lower "
        "limits; bound = max(first + max(second, third), fourth)"
    )
    return ReplicaBound(int(np.floor(least * (1 - SLACK))), proof)


def _forced_bytes(problem: ReplicasProblem) -> float:
    """Replicas that must leave, where they can be copied at all."""
    arrays = problem.arrays
    return float((arrays.leaving.sum(axis=1) * arrays.size)[arrays.movable].sum())


def _crowded_bytes(problem: ReplicasProblem) -> float:
    """Replicas that must leave a rack or a host, counting only what need not leave its broker anyway."""
    arrays = problem.arrays
    stays = (arrays.initial >= 0) & ~arrays.leaving & arrays.movable[:, None]
    most = np.zeros(len(arrays.initial))
    for group, cap in ((arrays.rack, arrays.rack_cap), (arrays.host, arrays.host_cap)):
        of = np.where(stays, group[arrays.initial], -1)
        excess = np.zeros(len(arrays.initial))
        for column in range(of.shape[1]):
            before = (of[:, :column] == of[:, column : column + 1]).sum(axis=1)
            excess += (of[:, column] >= 0) & (before >= cap)
        most = np.maximum(most, excess)
    return float((most * arrays.size).sum())
