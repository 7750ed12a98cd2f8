"""What each fact changes in the state of an execution; `machine` decides what follows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from trimtab.act.bundles.events import (
    BalancingRead,
    BalancingWritten,
    ClusterSeen,
    LookedUp,
    SplitAnswered,
    UnloadAnswered,
)
from trimtab.act.bundles.hold import balancing_read, balancing_written
from trimtab.act.bundles.replies import looked_up, split, unloaded
from trimtab.act.bundles.requests import resumed
from trimtab.act.bundles.sightings import observed
from trimtab.act.bundles.state import BundlesState
from trimtab.act.execution.asked import cancel_requested, stop_requested
from trimtab.act.execution.events import (
    CancelRequested,
    CommandFailed,
    Event,
    Resumed,
    StopRequested,
    WaitEnded,
)
from trimtab.act.execution.failing import failed
from trimtab.act.execution.status import Status

REFUSED: Final = frozenset({"401", "403"})
"""Not a matter of trying again: the brokers do not know us, or do not let us."""


def absorb(state: BundlesState, event: Event) -> BundlesState:
    """The state after a fact."""
    return _BY_EVENT[type(event)](state, event)


def _waited(state: BundlesState, event: WaitEnded) -> BundlesState:
    return replace(state, fresh=False)


def _failed(state: BundlesState, event: CommandFailed) -> BundlesState:
    """A whole call failed; with the wrong token nothing more is tried."""
    state = replace(failed(state, event.failure), overrides=None)
    if event.failure.code not in REFUSED:
        return state
    if state.hold.empty and not state.active:
        # Nothing of ours is there to be given back: it can end here.
        return replace(
            state,
            status=Status.CLEANING,
            outcome=Status.STOPPED,
            reason=event.failure.message,
            fresh=True,
            pause_until=0.0,
            give_up="",
        )
    left = "the brokers' own balancing is still switched off by us" if not state.hold.empty else ""
    return replace(state, give_up=": ".join(filter(None, [event.failure.message, left])))


_BY_EVENT: Final[dict[type[Event], Callable[[BundlesState, Any], BundlesState]]] = {
    Resumed: resumed,
    StopRequested: stop_requested,
    CancelRequested: cancel_requested,
    ClusterSeen: observed,
    BalancingRead: balancing_read,
    BalancingWritten: balancing_written,
    UnloadAnswered: unloaded,
    SplitAnswered: split,
    LookedUp: looked_up,
    WaitEnded: _waited,
    CommandFailed: _failed,
}
