"""Calls that failed as a whole, and what they leave unknown of the throttle."""

from dataclasses import replace

from trimtab.act.execution import failing
from trimtab.act.execution.events import CommandFailed
from trimtab.act.execution.failure import Failure
from trimtab.act.replicas.commands import WriteThrottle
from trimtab.act.replicas.state import ExecutionState


def command_failed(state: ExecutionState, event: CommandFailed) -> ExecutionState:
    """A whole call failed."""
    return failed(state, event.failure)


def failed(state: ExecutionState, failure: Failure) -> ExecutionState:
    """As at every level; a throttle that may or may not have been written is in force no more."""
    state = failing.failed(state, failure)
    return replace(state, throttle_in_force=None) if isinstance(state.awaiting, WriteThrottle) else state
