"""The balancer `balls` as executions use it."""

from typing import Any

from trimtab.act.balls.machine import BallsMachine
from trimtab.act.balls.settings import BallsExecution
from trimtab.act.balls.state import BallRecord, BallsState, BallStep
from trimtab.act.executor import ExecutionSummary, Executor, PlanDrift, PreparedPlan, StateCodec
from trimtab.model.balls.plan import BallOutcome, BallsPlan, BallsReceipt


def observe(port: Any, plan: BallsPlan) -> tuple[str, Any]:
    """Observe where all balls lie."""
    observation = port.observe()
    return observation.cluster, observation


def prepare(plan: BallsPlan, observation: Any, rebase: bool) -> PreparedPlan:
    """Refuse a plan whose balls lie elsewhere by now."""
    fit = {
        one.ball: "to do"
        if observation.balls.get(one.ball) == one.before
        else "already done"
        if observation.balls.get(one.ball) == one.after
        else "changed"
        for one in plan.assignments
    }
    changed = tuple(
        f"ball {ball} lies in {observation.balls.get(ball)}" for ball, how in fit.items() if how == "changed"
    )
    comparison = PlanDrift(fit, changed)
    comparison.require_unchanged("balls have changed", rebase=rebase)
    moves = [move for move in plan.moves if fit[move.ball] == "to do"]
    steps = tuple(BallStep(n, move.ball, move.target, move.order) for n, move in enumerate(moves, 1))
    return PreparedPlan(plan, observation.cluster, observation, comparison, steps)


def receipt(entry: ExecutionSummary, state: BallsState, sense: object) -> BallsReceipt:
    """The receipt."""
    outcomes = tuple(
        BallOutcome(
            "put", one.state, one.reason, (one.step.order,), one.started_at, one.ended_at, one.step.ball
        )
        for one in state.records
    )
    return BallsReceipt(outcomes=outcomes, **entry.receipt_fields(state))


EXECUTOR = Executor(
    codec=StateCodec(BallsState, BallRecord),
    settings=BallsExecution,
    observe=observe,
    prepare=prepare,
    forecast=lambda prepared, settings, sense: prepared.steps,
    warnings=lambda port, prepared, settings, expected: [],
    new_execution=lambda cluster, steps, settings, now: BallsState(
        settings=settings, cluster_id=cluster, records=tuple(BallRecord(step) for step in steps), now=now
    ),
    machine=BallsMachine,
    receipt=receipt,
)
