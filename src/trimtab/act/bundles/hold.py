"""Switching the brokers' own balancing off for as long as we act, and giving it back as it was."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from trimtab.act.bundles.messages import (
    BrokerBalancingRead,
    BrokerBalancingWritten,
    ReadBrokerBalancing,
    WriteBrokerBalancing,
)
from trimtab.act.bundles.port import OFF, SWITCHES, BrokerBalancing
from trimtab.act.bundles.state import BundlesExecutionState
from trimtab.act.execution.messages import Command, Failure, Wait
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.execution.transitions import failed, well


def order_to_hold(state: BundlesExecutionState) -> tuple[BundlesExecutionState, Command | None]:
    """The next order on the way to having the brokers' balancing off everywhere; None when it is."""
    if state.verified:
        return state, None
    if state.overrides is None:
        return state, ReadBrokerBalancing(all_brokers=state.held_since is not None)
    wrong = {switch: OFF for switch in SWITCHES if state.overrides.get(switch) != OFF}
    theirs = [s for s, before in state.hold.items() if state.overrides.get(s) not in (OFF, before)]
    if theirs:
        return stop_for_foreign_change(state, state.overrides, theirs), Wait(state.now)
    if wrong:
        # In the state, and so in the journal, before it is changed in the cluster.
        missing = {s: state.overrides.get(s) for s in SWITCHES if s not in state.hold}
        hold = {**state.hold, **missing}
        return replace(state, hold=hold, overrides=None, held_since=state.now), WriteBrokerBalancing(
            dict(wrong)
        )
    if state.held_since is None:
        # Off already, by somebody's will: theirs, and nothing of ours to give back; but is it in force?
        return replace(state, overrides=None, held_since=state.now), ReadBrokerBalancing(all_brokers=True)
    # Off for all, but not everywhere yet: look again.
    return replace(state, overrides=None), Wait(state.now + state.settings.poll_interval_seconds)


def order_to_give_back(state: BundlesExecutionState) -> tuple[BundlesExecutionState, Command | None]:
    """The next order on the way to having given everything back; None when nothing is ours any more."""
    if not state.hold:
        return state, None
    if state.overrides is None:
        return state, ReadBrokerBalancing()
    back = {
        switch: original
        for switch, original in state.hold.items()
        if state.overrides.get(switch) == OFF and original != OFF
    }
    return (replace(state, overrides=None), WriteBrokerBalancing(back)) if back else (state, None)


def stop_for_foreign_change(
    state: BundlesExecutionState, overrides: Mapping[str, str], switches: Iterable[str]
) -> BundlesExecutionState:
    """The state that stops because somebody else has changed these switches since."""
    theirs = " and ".join(f"{switch} is {overrides.get(switch, 'no longer set')}" for switch in switches)
    reason = f"somebody else has changed the brokers' balancing since: {theirs}; theirs is left"
    return replace(state, status=ExecutionStatus.STOPPING, reason=reason)


def balancing_read(state: BundlesExecutionState, event: BrokerBalancingRead) -> BundlesExecutionState:
    """The switches are known again; on the way out, what is no longer ours is let go of."""
    state = well(replace(state, overrides=event.balancing.overrides))
    if state.status is ExecutionStatus.CLEANING:
        return _release_switches(state, event.balancing.overrides)
    if not isinstance(state.awaiting, ReadBrokerBalancing) or not state.awaiting.all_brokers:
        return state
    on = _still_on(event.balancing)
    if not on and all(event.balancing.overrides.get(switch) == OFF for switch in SWITCHES):
        return replace(state, verified=True, held_since=None, fresh=False)
    since = state.now if state.held_since is None else state.held_since
    if on and state.now - since >= state.settings.unhealthy_timeout_seconds:
        broker, switch = on[0]
        reason = (
            f"broker {broker} goes on with {switch} although it is set to {OFF} for all brokers: restart it, "
            "or look at its log"
        )
        return replace(state, status=ExecutionStatus.STOPPING, reason=reason)
    return replace(state, held_since=since)


def balancing_written(state: BundlesExecutionState, event: BrokerBalancingWritten) -> BundlesExecutionState:
    """Pulsar has taken the switches, or refused."""
    assert isinstance(state.awaiting, WriteBrokerBalancing)
    state = replace(state, overrides=None)
    if event.failures:
        switch, failure = sorted(event.failures.items())[0]
        return failed(state, Failure(failure.code, f"{switch}: {failure.message}", failure.transient))
    return well(state)


def _still_on(balancing: BrokerBalancing) -> list[tuple[str, str]]:
    return sorted(
        (broker, switch)
        for broker, values in balancing.in_force.items()
        for switch in SWITCHES
        if values.get(switch, OFF).lower() != OFF
    )


def _release_switches(state: BundlesExecutionState, overrides: Mapping[str, str]) -> BundlesExecutionState:
    """Let go of what has been given back, and of what somebody else has changed meanwhile."""
    kept = {}
    for switch, original in state.hold.items():
        value = overrides.get(switch)
        if value == original:
            continue
        if value == OFF:
            kept[switch] = original
            continue
        theirs = "taken away" if value is None else f"set to {value}"
        before = "not set" if original is None else original
        state = state.noted(
            f"{switch} was {theirs} by somebody else meanwhile: left so (before us it was {before})"
        )
    return replace(state, hold=kept)
