"""What people ask of an execution of any level: to stop, to cancel."""

from dataclasses import replace

from trimtab.act.execution.events import CancelRequested, StopRequested
from trimtab.act.execution.state import StateT
from trimtab.act.execution.status import Status


def stop_requested(state: StateT, event: StopRequested) -> StateT:
    """Begin nothing more."""
    if state.status in (Status.RUNNING, Status.WAITING):
        return replace(state, status=Status.STOPPING, reason=event.reason, waiting_since=None)
    return state


def cancel_requested(state: StateT, event: CancelRequested) -> StateT:
    """Roll back what is under way, where that can be done."""
    if state.status in (Status.RUNNING, Status.WAITING, Status.STOPPING):
        return replace(state, status=Status.CANCELLING, reason=event.reason, waiting_since=None)
    return state
