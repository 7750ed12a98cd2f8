"""Calls that failed as a whole: pause longer each time, give up in the end."""

from dataclasses import replace

from trimtab.act.execution.failure import Failure
from trimtab.act.execution.state import StateT


def failed(state: StateT, failure: Failure) -> StateT:
    """Pause longer each time; give up when it is of no use or has lasted too long."""
    failures = state.failures_in_a_row + 1
    since = state.now if state.failing_since is None else state.failing_since
    lasted = state.now - since
    give_up = ""
    if lasted >= state.settings.give_up_seconds or (
        not failure.transient and failures >= state.settings.attempts
    ):
        give_up = f"{failure.code}: {failure.message} (tried {failures} times in {lasted:.0f} s)"
    return replace(
        state,
        failures_in_a_row=failures,
        failing_since=since,
        pause_until=state.now + state.settings.backoff(failures),
        fresh=False,
        give_up=give_up,
    )


def well(state: StateT) -> StateT:
    """The cluster answered: nothing fails in a row any more."""
    return replace(state, failing_since=None, failures_in_a_row=0)
