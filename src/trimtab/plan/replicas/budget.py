"""A plan held to `max_bytes` and `max_moves`: what is worth least per byte and move is left out."""

import numpy as np

from trimtab.model.load import BoolArray, FloatArray
from trimtab.model.plan import Problem
from trimtab.model.replicas import BrokerState
from trimtab.plan.replicas import moves as moves_
from trimtab.plan.replicas.limits import Limits, limits
from trimtab.plan.replicas.outcome import Outcome
from trimtab.plan.replicas.placement import THETA_WEIGHT
from trimtab.plan.replicas.placement_rules import crowding
from trimtab.plan.replicas.problem import ProblemData
from trimtab.plan.replicas.rating import loads_of

TRIES = 4


def within_budget(problem: ProblemData, outcome: Outcome) -> tuple[Outcome, Problem | None]:
    """The outcome, or as much of it as the limits allow, and then the problem that says so."""
    settings = problem.settings
    if settings.max_bytes is None and settings.max_moves is None:
        return outcome, None
    chosen, copied, steps = _costs(problem, outcome)
    most_bytes = np.inf if settings.max_bytes is None else settings.max_bytes
    most_moves = np.inf if settings.max_moves is None else settings.max_moves
    total_bytes, total_moves = int(copied.sum()), int(steps.sum())
    if total_bytes <= most_bytes and total_moves <= most_moves:
        return outcome, None
    cut = Problem(
        "limit_reached",
        f"meeting the goals took this planner {total_bytes} bytes in {total_moves} moves, more than "
        f"max_bytes "
        f"{settings.max_bytes} or max_moves {settings.max_moves} allow; the least useful were left out",
        proof={
            "bytes": total_bytes,
            "moves": total_moves,
            "max_bytes": settings.max_bytes,
            "max_moves": settings.max_moves,
        },
    )
    price = copied / max(most_bytes, 1.0) + steps / max(most_moves, 1.0)
    kept = _reverted(problem, outcome, chosen, copied, steps, price, (most_bytes, most_moves))
    return kept, cut


def _costs(problem: ProblemData, outcome: Outcome) -> tuple["np.ndarray", "np.ndarray", "np.ndarray"]:
    """Changed partitions, with the bytes and the moves that each takes."""
    arrays, parts = problem.arrays, problem.snapshot.partitions
    dead = problem.snapshot.brokers.state == BrokerState.DEAD
    first = np.where((parts.leader >= 0) & dead[parts.leader], -1, parts.leader).astype(np.int32)
    chosen = moves_.changed_partitions(arrays.home, first, outcome.place, outcome.lead)
    kind, partition, *_ = moves_.steps_of(
        arrays, problem.home_lead, first, outcome.place, outcome.lead, chosen
    )
    size = np.rint(arrays.size).astype(np.int64)
    number = len(arrays.home)
    steps = np.bincount(partition, minlength=number)[chosen]
    copies = np.bincount(partition[kind == moves_.REPLICA_STEP], minlength=number)[chosen]
    return chosen, copies * size[chosen], steps


def _reverted(
    problem: ProblemData,
    outcome: Outcome,
    chosen: "np.ndarray",
    copied: "np.ndarray",
    steps: "np.ndarray",
    price: "np.ndarray",
    most: tuple[float, float],
) -> Outcome:
    """Send partitions home, the least useful for their price first, until the rest is within the limits."""
    place, lead = outcome.place.copy(), outcome.lead.copy()
    load = loads_of(problem, outcome)
    goal = limits(problem, load, 1.0)
    home = Outcome(problem.arrays.home, problem.home_lead)
    usage = load * problem.arrays.inverse
    theta = goal.theta if np.isfinite(goal.theta).any() else np.full_like(usage, np.inf)
    top = np.maximum(theta, loads_of(problem, home) * problem.arrays.inverse)
    needed = _needed(problem)
    harm = np.array([_change(problem, goal, usage, outcome, p)[0] for p in chosen.tolist()])
    order = np.lexsort((harm / np.maximum(price, 1e-12), needed[chosen])).tolist()
    spent_bytes, spent_moves = int(copied.sum()), int(steps.sum())
    for _ in range(TRIES):
        later = []
        for i in order:
            if spent_bytes <= most[0] and spent_moves <= most[1]:
                return Outcome(place, lead)
            if (spent_moves <= most[1]) and copied[i] == 0:
                later.append(i)
                continue
            p = int(chosen[i])
            _, after = _change(problem, goal, usage, outcome, p)
            touched = np.flatnonzero((after != usage).any(axis=1))
            if (problem.counted[touched] & (after[touched] > top[touched] * (1 + 1e-12))).any():
                # Others have to go first, or this would lift a broker above θ that was not above it.
                later.append(i)
                continue
            usage = after
            place[p], lead[p] = problem.arrays.home[p], problem.home_lead[p]
            spent_bytes, spent_moves = spent_bytes - int(copied[i]), spent_moves - int(steps[i])
        order = later
    if spent_bytes <= most[0] and spent_moves <= most[1]:
        return Outcome(place, lead)
    return home


def _needed(problem: ProblemData) -> BoolArray:
    """Shape (partitions,): the snapshot's own placement breaks a hard goal, so these go home last."""
    arrays = problem.arrays
    return np.asarray(
        arrays.leaving.any(axis=1)
        | (problem.home_lead < 0)
        | crowding(arrays.home, arrays.rack, arrays.rack_cap)
        | crowding(arrays.home, arrays.host, arrays.host_cap)
    )


def _change(
    problem: ProblemData, goal: Limits, usage: FloatArray, outcome: Outcome, p: int
) -> tuple[float, FloatArray]:
    """What sending a partition home does: rise of the potential, and the utilisations afterwards."""
    arrays = problem.arrays
    after = usage.copy()
    touched = set()
    for place, lead, sign in (
        (outcome.place[p], outcome.lead[p], -1),
        (arrays.home[p], problem.home_lead[p], 1),
    ):
        for slot, b in enumerate(place.tolist()):
            if b >= 0:
                after[b] += sign * arrays.use[p, int(slot == lead)] * arrays.inverse[b]
                touched.add(b)
    rows = sorted(touched)
    return _potential(goal, after, rows) - _potential(goal, usage, rows), after


def _potential(goal: Limits, usage: FloatArray, rows: list[int]) -> float:
    level = usage[rows]
    off = np.maximum(np.maximum(level - goal.high[rows], goal.low[rows] - level), 0.0)
    over = np.maximum(level - goal.theta[rows], 0.0)
    return float((goal.weight[rows] * (off**2 + THETA_WEIGHT * over**2)).sum())
