"""How an execution ends: as what, and only after the throttle settings have been given back."""

from dataclasses import replace

from trimtab.act.execution.commands import Command, Finish
from trimtab.act.execution.status import Status
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import StepState
from trimtab.act.replicas.throttle_orders import order_for_throttle


def end(state: ExecutionState, outcome: Status) -> tuple[ExecutionState, Command]:
    """Clean up, to end with that status; nothing may be in flight."""
    return clean_up(replace(state, status=Status.CLEANING, outcome=outcome))


def clean_up(state: ExecutionState) -> tuple[ExecutionState, Command]:
    """Give back what we changed, then end."""
    order = order_for_throttle(state, [])
    if order is not None:
        return order
    assert state.outcome is not None
    return replace(state, status=state.outcome, outcome=None), Finish()


def outcome_of_steps(state: ExecutionState) -> Status:
    """The final status of an execution whose steps have all ended."""
    good = all(record.state in (StepState.DONE, StepState.DROPPED) for record in state.records)
    return Status.FINISHED if good else Status.INCOMPLETE
