"""What going on with an execution changes."""

from dataclasses import replace

from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import StepState
from trimtab.act.execution.events import Resumed
from trimtab.act.execution.status import FINAL, Status


def resumed(state: BundlesState, event: Resumed) -> BundlesState:
    """Go on: an ended-early execution begins again; what was under way is looked at first."""
    state = replace(
        state,
        now=event.at,
        awaiting=None,
        seen=None,
        fresh=False,
        batch_ended_at=None,
        verified=False,
        held_since=None,
        overrides=None,
        last_owner={},
        foreign_at=None,
        foreign="",
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
    # Time in which nobody looked does not count as time in which Pulsar did nothing.
    again = {
        r.step.number: replace(r, advanced_at=event.at, looked_up_at=None) for r in state.records if r.active
    }
    again |= {
        r.step.number: replace(r, attempts=0, not_before=0.0, waits_for=None)
        for r in state.records
        if r.state is StepState.PENDING and r.attempts and state.status in FINAL
    }
    return replace(state.with_records(again), status=Status.RUNNING, reason="", outcome=None)
