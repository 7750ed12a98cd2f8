"""The balancer `balls` as those who carry plans out see it."""

from typing import Any

from trimtab.act.balls.machine import BallsMachine
from trimtab.act.balls.settings import BallsExecution
from trimtab.act.balls.state import BallRecord, BallsState, BallStep
from trimtab.act.execution.codec import StateCodec
from trimtab.act.executor import ExecutionSummary, Executor, PlanDrift, PreparedPlan
from trimtab.model.balls.plan import BallOutcome, BallsPlan, BallsReceipt


def look(port: Any, plan: BallsPlan) -> tuple[str, Any]:
    """See where all balls lie."""
    seen = port.observe()
    return seen.cluster, seen


def prepare(plan: BallsPlan, seen: Any, rebase: bool) -> PreparedPlan:
    """Refuse a plan whose balls lie elsewhere by now."""
    standing = {
        one.ball: "to do"
        if seen.balls.get(one.ball) == one.before
        else "already done"
        if seen.balls.get(one.ball) == one.after
        else "changed"
        for one in plan.assignments
    }
    changed = tuple(
        f"ball {ball} lies in {seen.balls.get(ball)}" for ball, how in standing.items() if how == "changed"
    )
    comparison = PlanDrift(standing, changed)
    comparison.require_unchanged("balls have changed", rebase=rebase)
    moves = [move for move in plan.moves if standing[move.ball] == "to do"]
    steps = tuple(BallStep(n, move.ball, move.target, move.order) for n, move in enumerate(moves, 1))
    return PreparedPlan(plan, seen.cluster, seen, comparison, steps)


def receipt(entry: ExecutionSummary, state: BallsState, sense: object) -> BallsReceipt:
    """The receipt."""
    outcomes = tuple(
        BallOutcome(
            "put", one.state, one.reason, (one.step.order,), one.started_at, one.ended_at, one.step.ball
        )
        for one in state.records
    )
    return BallsReceipt(outcomes=outcomes, **entry.receipt_fields(state))


ACTING = Executor(
    codec=StateCodec(BallsState, BallRecord),
    settings=BallsExecution,
    observe=look,
    prepare=prepare,
    forecast=lambda prepared, settings, sense: prepared.steps,
    warnings=lambda port, prepared, settings, expected: [],
    new_execution=lambda cluster, steps, settings, now: BallsState(
        settings=settings, cluster_id=cluster, records=tuple(BallRecord(step) for step in steps), now=now
    ),
    machine=BallsMachine,
    receipt=receipt,
)
