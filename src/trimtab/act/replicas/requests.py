"""What going on with an execution changes."""

from dataclasses import replace

from trimtab.act.execution.events import Resumed
from trimtab.act.execution.status import FINAL, Status
from trimtab.act.replicas.approach import UNMEASURED
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import StepState


def resumed(state: ExecutionState, event: Resumed) -> ExecutionState:
    """Go on: an ended-early execution begins again, what was rolled back included."""
    state = replace(
        state,
        now=event.at,
        awaiting=None,
        seen=None,
        fresh=False,
        looked_wide_at=None,
        sensed_for_batch=None,
        throttle_in_force=None,
        gone_since={},
        blocked_since={},
        waiting_since=None,
        failing_since=None,
        failures_in_a_row=0,
        pause_until=0.0,
        give_up="",
    )
    if state.status in FINAL - {Status.STOPPED, Status.CANCELLED}:
        return state
    # Time in which nobody looked does not count as time in which a copy got no nearer.
    state = state.with_records(
        {r.step.number: replace(r, **UNMEASURED) for r in state.active if r.nearer_at is not None}
    )
    again = {}
    for r in state.records:
        if r.state is StepState.ROLLED_BACK:
            again[r.step.number] = replace(r, state=StepState.PENDING)
        elif r.state is StepState.ROLLING_BACK and r.rollback is StepState.ROLLED_BACK:
            # Whether the cancelling took effect is for the next look to tell.
            again[r.step.number] = replace(r, state=StepState.REQUESTED)
    again = {n: replace(r, rollback=None, ended_at=None, attempts=0, reason="") for n, r in again.items()}
    return replace(state.with_records(again), status=Status.RUNNING, reason="", outcome=None)
