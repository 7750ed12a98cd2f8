"""How an execution ends: as what, and only after the brokers' balancing has been given back."""

from dataclasses import replace

from trimtab.act.bundles.hold import order_to_give_back
from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import StepState
from trimtab.act.execution.commands import Command, Finish
from trimtab.act.execution.status import Status


def end(state: BundlesState, outcome: Status) -> tuple[BundlesState, Command]:
    """Clean up, to end with that status; nothing may be in flight."""
    # How the switches stand is read anew: others may have changed them since.
    return clean_up(replace(state, status=Status.CLEANING, outcome=outcome, overrides=None))


def clean_up(state: BundlesState) -> tuple[BundlesState, Command]:
    """Give back what we changed, then end."""
    order = order_to_give_back(state)
    if order is not None:
        return order
    assert state.outcome is not None
    return replace(state, status=state.outcome, outcome=None), Finish()


def outcome_of_steps(state: BundlesState) -> Status:
    """The final status of an execution whose steps have all ended."""
    good = all(record.state is StepState.DONE for record in state.records)
    return Status.FINISHED if good else Status.INCOMPLETE
