"""What each fact changes in the state of an execution; `machine` decides what follows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from trimtab.act.execution.asked import cancel_requested, stop_requested
from trimtab.act.execution.events import (
    CancelRequested,
    CommandFailed,
    Event,
    Resumed,
    StopRequested,
    WaitEnded,
)
from trimtab.act.execution.failing import well
from trimtab.act.replicas.events import (
    CancelAnswered,
    ClusterObserved,
    ElectionAnswered,
    LoadSensed,
    LogDirMovesAnswered,
    ReassignAnswered,
    ThrottleRead,
    ThrottleWritten,
)
from trimtab.act.replicas.failures import command_failed
from trimtab.act.replicas.reconcile import ended
from trimtab.act.replicas.replies import cancelled, elected, log_dirs_moved, reassigned
from trimtab.act.replicas.requests import resumed
from trimtab.act.replicas.sightings import observed
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import StepState
from trimtab.act.replicas.throttle_answers import throttle_read, throttle_written


def absorb(state: ExecutionState, event: Event) -> ExecutionState:
    """The state after a fact."""
    return _BY_EVENT[type(event)](state, event)


def _sensed(state: ExecutionState, event: LoadSensed) -> ExecutionState:
    """Load as it is now: what is no longer needed is dropped."""
    dropped = {
        record.step.number: ended(record, StepState.DROPPED, state.now, event.unneeded[record.step.partition])
        for record in state.pending
        if record.step.partition in event.unneeded
    }
    state = state.with_records(dropped)
    return well(
        replace(
            state,
            sensed_for_batch=state.batches,
            headroom=event.headroom,
            free=event.free,
            gains=event.gains,
            load_source=event.source,
        )
    )


def _waited(state: ExecutionState, event: WaitEnded) -> ExecutionState:
    return replace(state, fresh=False)


_BY_EVENT: Final[dict[type[Event], Callable[[ExecutionState, Any], ExecutionState]]] = {
    Resumed: resumed,
    StopRequested: stop_requested,
    CancelRequested: cancel_requested,
    ClusterObserved: observed,
    ReassignAnswered: reassigned,
    LogDirMovesAnswered: log_dirs_moved,
    CancelAnswered: cancelled,
    ElectionAnswered: elected,
    ThrottleRead: throttle_read,
    ThrottleWritten: throttle_written,
    LoadSensed: _sensed,
    WaitEnded: _waited,
    CommandFailed: command_failed,
}
