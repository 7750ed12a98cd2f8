"""Verdicts of final placements, and proofs that are the same for every balancer.

A problem is called proven only by an argument that holds for every plan: a total that no number of moves
changes, an item that no broker can bear, rules that leave no place. What is merely not found is
`unmet_goal`, and says so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.model.goals import ROUNDING as ROUNDING
from trimtab.model.load import FloatArray
from trimtab.model.plan import Problem, Verdict


@dataclass(frozen=True)
class Evaluation:
    """Verdict and problems of a final placement; `goals_met` says whether nothing is left to wish for."""

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
        Say which parts of the plan were left out for limits.
    settled
        Problems about soft goals that are proven: rules keep every plan from these goals.
    """
    if not problems:
        return Evaluation(Verdict.BALANCED, (), True)
    if not any_move and not cuts and not overloads and all(one in settled for one in problems):
        # The load is as even as the rules allow. To fail each time would hide what can be mended.
        return Evaluation(Verdict.BALANCED, tuple(problems), False)
    # A plan that changes nothing improves nothing.
    verdict = Verdict.INCOMPLETE if incomplete or not any_move else Verdict.IMPROVED
    if overloads:
        verdict = Verdict.INCOMPLETE
    return Evaluation(Verdict.INFEASIBLE if proven else verdict, (*cuts, *problems), False)


def with_problem(judgement: Evaluation, problem: Problem) -> Evaluation:
    """The judgement with one more thing left undone."""
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
    """The problem of a total that is more than all brokers together may carry; None if it is not.

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
        What the proof says besides, first.
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
"""A load of more than so many times the capacity suggests that one of the two is in another unit."""


def _plausibility_warning(total: float, most: float, unit: str) -> str:
    """What to check where the load is far more than what brokers can carry."""
    if total <= DOUBTED * most:
        return ""
    return f". The load is {total / most:.1f} times the capacity: check that the capacity is in {unit}"
