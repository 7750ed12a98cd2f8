"""A plan held to `max_bytes` and `max_moves`: what is worth least per byte and move is left out."""

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.plan import Problem
from trimtab.model.replicas.topics import LEADERS, REPLICAS
from trimtab.plan.replicas.moves import REPLICA_STEP, path_to
from trimtab.plan.replicas.placement import Placement, crowding
from trimtab.plan.replicas.problem import ProblemData
from trimtab.plan.replicas.topics import topic_rise, topic_table
from trimtab.plan.search.budget import Amounts, Spending
from trimtab.plan.search.limits import Limits, potential


def within_budget(problem: ProblemData, placement: Placement) -> tuple[Placement, Problem | None]:
    """The placement, or as much of it as the limits allow, and then the problem that says so."""
    settings = problem.settings
    if settings.max_bytes is None and settings.max_moves is None:
        return placement, None
    chosen, copied, steps = _costs(problem, placement)
    spending = Spending(("bytes", "moves"), (copied, steps), (settings.max_bytes, settings.max_moves))
    total_bytes, total_moves = spending.total
    cut = spending.cut(f"{total_bytes} bytes in {total_moves} moves")
    return (placement if cut is None else _reverted(problem, placement, chosen, spending)), cut


def _costs(problem: ProblemData, placement: Placement) -> tuple[IntArray, Amounts, Amounts]:
    """Changed partitions, with the bytes and the moves that each takes."""
    arrays = problem.arrays
    (kind, partition, _, target, _), chosen, *_ = path_to(problem, placement)
    size = np.rint(arrays.size).astype(np.int64)
    number = len(arrays.home)
    steps = np.bincount(partition, minlength=number)[chosen]
    copies = np.bincount(partition[(kind == REPLICA_STEP) & (target < problem.brokers)], minlength=number)[
        chosen
    ]
    return chosen, copies * size[chosen], steps


def _reverted(problem: ProblemData, placement: Placement, chosen: IntArray, spending: Spending) -> Placement:
    """Send partitions home until the rest is within the limits; all, if that is not enough."""
    place, lead = placement.place.copy(), placement.lead.copy()
    borne = problem.borne(placement)
    goal = problem.limits(borne)
    home, inverse = problem.home, problem.bearers.inverse
    usage = borne * inverse
    counted = goal.weight > 0
    theta = goal.theta if np.isfinite(goal.theta).any() else np.full_like(usage, np.inf)
    top = np.maximum(theta, problem.borne(home) * inverse)
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
        place[p], lead[p] = problem.arrays.home[p], problem.home_lead[p]
        return True

    return (
        Placement(place, lead) if spending.reverted(harm, breaks_rules(problem)[chosen], send_home) else home
    )


def breaks_rules(problem: ProblemData) -> BoolArray:
    """Shape (partitions,): the snapshot's own placement breaks a hard goal, so these go home last."""
    arrays = problem.arrays
    return np.asarray(
        arrays.leaving.any(axis=1)
        | (problem.home_lead < 0)
        | crowding(arrays.home, arrays.rack, arrays.rack_cap)
        | crowding(arrays.home, arrays.host, arrays.host_cap)
    )


def _topics_risen(problem: ProblemData, placement: Placement, chosen: IntArray) -> FloatArray:
    """Shape of `chosen`: rise of what rests on brokers by topics, were each partition sent home alone."""
    found, asked = np.zeros(len(chosen)), problem.topics
    if asked is None:
        return found
    table = topic_table(asked, placement.place, placement.leader)
    for i, p in enumerate(chosen.tolist()):
        if asked.row[p] >= 0:
            change = np.zeros((len(asked.counted), 2), dtype=np.int32)
            for of, sign in ((placement, -1), (problem.home, 1)):
                change[of.place[p][of.place[p] >= 0], REPLICAS] += sign
                if of.lead[p] >= 0:
                    change[of.place[p, of.lead[p]], LEADERS] += sign
            found[i] = topic_rise(table, int(asked.row[p]), change)
    return found


def _change(
    problem: ProblemData, goal: Limits, usage: FloatArray, placement: Placement, p: int
) -> tuple[float, FloatArray]:
    """The effect of sending a partition home: rise of the potential, and the utilisations afterwards."""
    arrays = problem.wide
    after = usage.copy()
    touched = set()
    for place, lead, sign in (
        (placement.place[p], placement.lead[p], -1),
        (arrays.home[p], problem.home_lead[p], 1),
    ):
        for slot, b in enumerate(place.tolist()):
            if b >= 0:
                for row in {b, int(arrays.host_row[b])} - {-1}:
                    after[row] += sign * arrays.use[p, int(slot == lead)] * arrays.inverse[row]
                    touched.add(row)
    rows = sorted(touched)
    return potential(goal, after[rows], rows) - potential(goal, usage[rows], rows), after
