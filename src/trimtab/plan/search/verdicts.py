"""Verdicts of final placements, and proofs that are the same for every balancer.

A problem is proven only by an argument that holds for every plan: a total that moves do not change, an item
that no broker can carry, rules that allow no place. All other missed goals are `unmet_goal`.

Loads that are confined to some places fit exactly if no set of them is bigger than the room of all places
that allow any of them (Hall's condition), as a load may be divided among the places that allow it. A set that
is bigger proves that no plan helps (`confined`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.model.goals import ROUNDING
from trimtab.model.load import BoolArray, FloatArray
from trimtab.model.plan import Problem, Verdict

MAX_PAIRS = 250_000
"""Maximum number of pairs of different loads and places for which all unions of loads are checked, not only
each set.
"""

Indices = NDArray[np.signedinteger[Any]]


class ConfinedLoad(NamedTuple):
    """Loads that fit only in some places, and do not all fit there.

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
    """The kinds of load that a maximum flow into the places leaves over, or that could make space for them.

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
    """The chosen kinds, divided so that no two parts share a place."""
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


@dataclass(frozen=True)
class Evaluation:
    """Verdict and problems of a final placement; `goals_met` says whether every goal is met."""

    verdict: Verdict
    problems: tuple[Problem, ...]
    goals_met: bool


def evaluation(
    problems: Sequence[Problem],
    *,
    proven: bool,
    overloads: bool,
    any_move: bool,
    cuts: tuple[Problem, ...],
    incomplete: bool = False,
    settled: Sequence[Problem] = (),
) -> Evaluation:
    """The verdict on a placement.

    Parameters
    ----------
    proven
        Some of the problems no plan can solve.
    incomplete
        Some of the problems are about a request or a hard limit.
    overloads
        A broker is above θ after the moves that was not before.
    any_move
        The plan has moves.
    cuts
        Problems that name the parts of the plan left out for limits.
    settled
        Problems about soft goals that are proven: rules keep every plan from these goals.
    """
    if not problems:
        return Evaluation(Verdict.BALANCED, (), True)
    if not any_move and not cuts and not overloads and all(one in settled for one in problems):
        # The load is as even as the rules allow. A permanent failure would hide problems that can be solved.
        return Evaluation(Verdict.BALANCED, tuple(problems), False)
    # A plan that changes nothing improves nothing.
    verdict = Verdict.INCOMPLETE if incomplete or not any_move else Verdict.IMPROVED
    if overloads:
        verdict = Verdict.INCOMPLETE
    return Evaluation(Verdict.INFEASIBLE if proven else verdict, (*cuts, *problems), False)


def with_problem(judgement: Evaluation, problem: Problem) -> Evaluation:
    """The evaluation with one more unmet goal."""
    verdict = Verdict.IMPROVED if judgement.goals_met else judgement.verdict
    return Evaluation(verdict, (*judgement.problems, problem), False)


def too_few_brokers(
    context: str,
    resource: str,
    unit: str,
    total: float,
    capacity: FloatArray,
    theta: float,
    more: dict[str, object],
) -> Problem | None:
    """The problem of a total that exceeds the limit of all brokers together; None if it does not.

    Parameters
    ----------
    context
        The resource as the text names it.
    total
        Load that all brokers in service must carry.
    capacity
        Shape (brokers,): of all brokers in service, each of which has a limit; a broker without one could
        take any amount, and then no total proves anything.
    more
        Additional values of the proof, placed first.
    """
    most = float(capacity.sum())
    if total <= theta * most * (1 + ROUNDING):
        return None
    typical = float(np.median(capacity))
    count = max(1, math.ceil((total - theta * most) / (theta * typical) - ROUNDING))
    return Problem(
        kind="add_brokers",
        count=count,
        resource=resource,
        text=(
            f"{context}: the load of {total:.6g} {unit} is more than {100 * theta:g}% of the capacity of "
            f"{len(capacity)} brokers, {theta * most:.6g}; add {count} brokers of {typical:.6g} each"
            f"{_plausibility_warning(total, most, unit)}"
        ),
        proof={
            **more,
            "total": total,
            "capacity": most,
            "theta": theta,
            "brokers": len(capacity),
            "capacity_of_an_added_broker": typical,
        },
    )


DOUBTED = 2.0
"""A load above this multiple of the capacity suggests that one of the two has another unit."""


def _plausibility_warning(total: float, most: float, unit: str) -> str:
    """A hint to check units if the load is far above the capacity of brokers."""
    if total <= DOUBTED * most:
        return ""
    return f". The load is {total / most:.1f} times the capacity: check that the capacity is in {unit}"
