"""State changes that all balancers share: requests, failures, observations, missing brokers."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from trimtab.act.execution.messages import (
    CancelRequested,
    CommandFailed,
    Event,
    Failure,
    Resumed,
    StopRequested,
    WaitEnded,
)
from trimtab.act.execution.state import FINAL, ExecutionStatus, StateT


def stop(state: StateT, event: StopRequested) -> StateT:
    """Begin nothing more."""
    return _ending(state, event, ExecutionStatus.STOPPING)


def cancel(state: StateT, event: CancelRequested) -> StateT:
    """Roll back what is under way, where that can be done."""
    return _ending(state, event, ExecutionStatus.CANCELLING)


def _ending(state: StateT, event: StopRequested | CancelRequested, to: ExecutionStatus) -> StateT:
    if (
        state.status not in (ExecutionStatus.RUNNING, ExecutionStatus.WAITING, ExecutionStatus.STOPPING)
        or state.status is to
    ):
        return state
    return replace(state, status=to, reason=event.reason, waiting_since=None)


def resume(state: StateT, event: Resumed) -> StateT:
    """Go on: all but what is kept is forgotten, and an execution that ended early begins again."""
    state = state.reset(event.at)
    if state.status in (ExecutionStatus.FINISHED, ExecutionStatus.INCOMPLETE):
        return state
    records = tuple(record.resumed(event.at, state.status in FINAL) for record in state.records)
    return replace(state, records=records, status=ExecutionStatus.RUNNING, reason="", outcome=None)


def wait_ended(state: StateT, event: WaitEnded) -> StateT:
    """Look again."""
    return replace(state, fresh=False)


def command_failed(state: StateT, event: CommandFailed) -> StateT:
    """A whole call failed."""
    return failed(state, event.failure)


COMMON: Final[Mapping[type[Event], Callable[[Any, Any], Any]]] = {
    Resumed: resume,
    StopRequested: stop,
    CancelRequested: cancel,
    WaitEnded: wait_ended,
    CommandFailed: command_failed,
}
"""What the facts that are told at every balancer change."""


def failed(state: StateT, failure: Failure) -> StateT:
    """Pause longer each time; give up when it is of no use or has lasted too long."""
    failures = state.failures_in_a_row + 1
    since = state.now if state.failing_since is None else state.failing_since
    lasted = state.now - since
    give_up = ""
    if lasted >= state.settings.unreachable_timeout_seconds or (
        not failure.transient and failures >= state.settings.max_attempts
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


def absorb_observation(state: StateT, cluster_id: str, alive: frozenset[Any]) -> StateT:
    """The cluster has been looked at: which brokers are gone, and since when.

    Parameters
    ----------
    cluster_id
        Of the cluster that answered; any other than the execution's is not acted on.
    alive
        Brokers that answer.
    """
    if cluster_id != state.cluster_id:
        wrong = (
            f"this is cluster {cluster_id}, the execution belongs to {state.cluster_id}: check the address"
        )
        return replace(state, give_up=wrong)
    brokers = alive if state.brokers is None else state.brokers
    needed = {broker for record in state.records if not record.ended for broker in record.step.destinations}
    gone = sorted((brokers | needed) - alive)
    gone_since = {broker: state.missing_since.get(broker, state.now) for broker in gone}
    return well(replace(state, fresh=True, brokers=brokers, missing_since=gone_since))


def is_lost(state: StateT, broker: Any) -> bool:
    """True if a broker has been gone for longer than the grace."""
    since = state.missing_since.get(broker)
    return since is not None and state.now - since >= state.settings.broker_timeout_seconds


def lost_brokers(state: StateT, alive: Collection[Any]) -> tuple[Any, ...]:
    """Brokers gone since the execution began, for less than the grace: their fate is open, in order."""
    gone = (state.brokers or frozenset()) - frozenset(alive)
    return tuple(sorted(broker for broker in gone if not is_lost(state, broker)))


def without_destination(state: StateT, records: Iterable[Any]) -> dict[int, Any]:
    """Step number -> the broker it needs, for those of these steps whose broker has been given up."""
    return {
        record.step.number: broker
        for record in records
        for broker in record.step.destinations
        if is_lost(state, broker)
    }
