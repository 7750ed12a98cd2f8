"""A plan held to `max_bytes` and `max_moves`: what is worth least per byte and move is left out."""

from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.topics import LEADERS, REPLICAS
from trimtab.plan.replicas.headroom import with_leaders_moved
from trimtab.plan.replicas.moves import REPLICA_STEP, path_to
from trimtab.plan.replicas.placement import Placement, crowding
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.replicas.topics import topic_rise, topic_table
from trimtab.plan.search.budget import Amounts, BudgetUse
from trimtab.plan.search.limits import UsageLimits, potential

SWAPS = 24
"""Moves at most that are tried to be given up for a leader that is to be handed over."""


class ReducedProblem(NamedTuple):
    """The problem that says what limits left out, and the partitions that stay where they are for it."""

    problem: Problem
    partitions: IntArray


def apply_limits(problem: ReplicasProblem, placement: Placement) -> tuple[Placement, ReducedProblem | None]:
    """The placement, or as much of it as the limits allow, and then what they left out."""
    settings = problem.settings
    if settings.max_bytes is None and settings.max_moves is None:
        return placement, None
    chosen, copied, steps = _costs(problem, placement)
    spending = BudgetUse(("bytes", "moves"), (copied, steps), (settings.max_bytes, settings.max_moves))
    total_bytes, total_moves = spending.total
    moves = f"{total_moves} move{'s' if total_moves != 1 else ''}"
    cut = spending.cut(f"{total_bytes} bytes in {moves}")
    if cut is None:
        return placement, None
    kept = _reverted(problem, placement, chosen, spending)
    kept = _leaders_first(problem, _with_free_leaders(problem, kept))
    changed = (kept.place != placement.place).any(axis=1) | (kept.lead != placement.lead)
    return kept, ReducedProblem(cut, np.asarray(np.flatnonzero(changed), dtype=np.int32))


def _costs(problem: ReplicasProblem, placement: Placement) -> tuple[IntArray, Amounts, Amounts]:
    """Changed partitions, with the bytes and the moves that each takes."""
    arrays = problem.arrays
    (kind, partition, _, target, _), chosen, *_ = path_to(problem, placement)
    size = np.rint(arrays.size).astype(np.int64)
    number = len(arrays.initial)
    steps = np.bincount(partition, minlength=number)[chosen]
    copies = np.bincount(partition[(kind == REPLICA_STEP) & (target < problem.brokers)], minlength=number)[
        chosen
    ]
    return chosen, copies * size[chosen], steps


def _reverted(
    problem: ReplicasProblem, placement: Placement, chosen: IntArray, spending: BudgetUse
) -> Placement:
    """Send partitions home until the rest is within the limits; all, if that is not enough."""
    place, lead = placement.place.copy(), placement.lead.copy()
    borne = problem.carried_load(placement)
    goal = problem.limits(borne)
    home, inverse = problem.initial_placement, problem.carriers.inverse
    usage = borne * inverse
    counted = goal.weight > 0
    theta = goal.theta if np.isfinite(goal.theta).any() else np.full_like(usage, np.inf)
    top = np.maximum(theta, problem.carried_load(home) * inverse)
    harm = np.array([_change(problem, goal, usage, placement, p)[0] for p in chosen.tolist()])
    harm += _topics_risen(problem, placement, chosen)

    def send_home(i: int) -> bool:
        nonlocal usage
        p = int(chosen[i])
        _, after = _change(problem, goal, usage, placement, p)
        touched = np.flatnonzero((after != usage).any(axis=1))
        if (counted[touched] & (after[touched] > top[touched] * (1 + 1e-12))).any():
            # Others have to go first, or this would lift a broker above θ that was not above it.
            return False
        usage = after
        place[p], lead[p] = problem.arrays.initial[p], problem.initial_leader[p]
        return True

    return (
        Placement(place, lead) if spending.reverted(harm, breaks_rules(problem)[chosen], send_home) else home
    )


def _with_free_leaders(problem: ReplicasProblem, retained: Placement) -> Placement:
    """The placement with leaders handed over that need no copy, as many as `max_moves` allows."""
    found = with_leaders_moved(problem, retained)
    most = problem.settings.max_moves
    if most is not None:
        rows = np.flatnonzero(found.lead != retained.lead)
        spare = max(most - len(path_to(problem, retained).steps.kind), 0)
        lead = found.lead.copy()
        lead[rows[spare:]] = retained.lead[rows[spare:]]
        found = Placement(found.place, lead)
    return found


def _leaders_first(problem: ReplicasProblem, retained: Placement) -> Placement:
    """The placement with moves that serve no request given up where more leaders are handed over for them.

    A move that keeps brokers below θ for what limits then left out is not needed any more; and one that makes
    room for a single leader takes two moves, where another leader may take one.
    """
    waiting = np.flatnonzero(with_leaders_moved(problem, retained).lead != retained.lead)
    if problem.settings.max_moves is None or problem.resizes or not len(waiting):
        return retained
    limits = problem.limits(problem.carried_load(retained))
    top = np.maximum(
        limits.theta, np.maximum(problem.usage(problem.initial_placement), problem.usage(retained))
    ) * (1 + 1e-12)
    others = problem.changed(retained) & ~problem.needed
    best = _served(problem, retained)
    for p in np.flatnonzero(others)[:SWAPS].tolist():
        found = _with_free_leaders(problem, _without_partition(problem, retained, p, limits, top))
        served = _served(problem, found)
        if served < best and not (problem.usage(found) > top).any():
            retained, best = found, served
    return retained


def _without_partition(
    problem: ReplicasProblem, retained: Placement, p: int, limits: UsageLimits, top: FloatArray
) -> Placement:
    """The placement with a partition at home, and with it those that it had made room for."""
    place, lead = retained.place.copy(), retained.lead.copy()
    while True:
        place[p], lead[p] = problem.arrays.initial[p], problem.initial_leader[p]
        found = Placement(place, lead)
        usage, changed = problem.usage(found), np.flatnonzero(problem.changed(found)).tolist()
        over = np.argwhere(usage > top)
        if not len(over) or not changed:
            return found
        at = tuple(over[0])
        p = min(changed, key=lambda q: _change(problem, limits, usage, found, q)[1][at])


def _served(problem: ReplicasProblem, placement: Placement) -> tuple[int, int]:
    """How much of a request is undone, in partitions, and the moves that a placement takes."""
    undone = problem.needed & ~problem.changed(placement)
    return int(undone.sum()), len(path_to(problem, placement).steps.kind)


def breaks_rules(problem: ReplicasProblem) -> BoolArray:
    """Shape (partitions,): the snapshot's own placement breaks a hard goal, so these go home last."""
    arrays = problem.arrays
    return np.asarray(
        problem.needed
        | crowding(arrays.initial, arrays.rack, arrays.rack_cap)
        | crowding(arrays.initial, arrays.host, arrays.host_cap)
    )


def _topics_risen(problem: ReplicasProblem, placement: Placement, chosen: IntArray) -> FloatArray:
    """Shape of `chosen`: rise of what rests on brokers by topics, were each partition sent home alone."""
    found, asked = np.zeros(len(chosen)), problem.topics
    if asked is None:
        return found
    table = topic_table(asked, placement.place, placement.leader)
    for i, p in enumerate(chosen.tolist()):
        if asked.row[p] >= 0:
            change = np.zeros((len(asked.counted), 2), dtype=np.int32)
            for of, sign in ((placement, -1), (problem.initial_placement, 1)):
                change[of.place[p][of.place[p] >= 0], REPLICAS] += sign
                if of.lead[p] >= 0:
                    change[of.place[p, of.lead[p]], LEADERS] += sign
            found[i] = topic_rise(table, int(asked.row[p]), change)
    return found


def _change(
    problem: ReplicasProblem, goal: UsageLimits, usage: FloatArray, placement: Placement, p: int
) -> tuple[float, FloatArray]:
    """The effect of sending a partition home: rise of the potential, and the utilisations afterwards."""
    arrays = problem.wide
    after = usage.copy()
    touched = set()
    for place, lead, sign in (
        (placement.place[p], placement.lead[p], -1),
        (arrays.initial[p], problem.initial_leader[p], 1),
    ):
        for slot, b in enumerate(place.tolist()):
            if b >= 0:
                for row in {b, int(arrays.host_row[b])} - {-1}:
                    after[row] += sign * arrays.use[p, int(slot == lead)] * arrays.inverse[row]
                    touched.add(row)
    rows = sorted(touched)
    return potential(goal, after[rows], rows) - potential(goal, usage[rows], rows), after
