"""The state machine of executions of this balancer, and the switches of the brokers' own balancing.

An unload cannot be rolled back: a cancelled execution gets an owner for every bundle in transit, and begins
nothing any more. Invariants after every event:

- a final status means that nothing of ours is in flight and no switch of the brokers' balancing is ours;
- before a switch is changed, its old value is in the state;
- nothing is begun unless the status is `RUNNING`, the brokers' balancing was seen to be off in every broker
  that answers, and the cluster was observed since the last command.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, cast

from trimtab.act.bundles import reconcile
from trimtab.act.bundles.batch import (
    apply_lookup,
    begin,
    choose_batch,
    command_failed,
    order_for_active,
    split,
    unloaded,
)
from trimtab.act.bundles.port import (
    OFF,
    SWITCHES,
    BrokerBalancing,
    BrokerBalancingRead,
    BrokerBalancingWritten,
    BundleLoadChecked,
    BundlesObserved,
    BundlesPort,
    CheckBundleLoad,
    ObserveBundles,
    OwnersResolved,
    ReadBrokerBalancing,
    ResolveOwners,
    SplitBundle,
    SplitCompleted,
    UnloadBundles,
    UnloadCompleted,
    WriteBrokerBalancing,
)
from trimtab.act.bundles.reconcile import current, foreign_switch_changes, observed
from trimtab.act.bundles.state import (
    BundlesExecutionState,
    BundleStep,
    BundleStepRecord,
    BundleStepState,
    UnloadSettings,
)
from trimtab.act.execution.machine import ExecutionMachine
from trimtab.act.execution.port import Command, CommandFailed, Event, Failure, Wait
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.execution.state import COMMON, ExecutionStatus, failed, well, without_destination
from trimtab.act.execution.steps import Blocked


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


def new_execution(
    cluster: str, steps: Iterable[BundleStep], settings: UnloadSettings, now: float
) -> BundlesExecutionState:
    """The state before the first look; its first event is `Resumed`."""
    records = tuple(BundleStepRecord(step) for step in steps)
    return BundlesExecutionState(settings=settings, cluster_id=cluster, records=records, now=now)


def load_sensed(state: BundlesExecutionState, event: BundleLoadChecked) -> BundlesExecutionState:
    """Load as it is now: what is no longer needed is dropped, what would do harm is left out."""
    ended = {number: (BundleStepState.DROPPED, why) for number, why in event.unneeded.items()}
    ended |= {number: (BundleStepState.SKIPPED, why) for number, why in event.harmful.items()}
    now = state.now

    def end(record: BundleStepRecord) -> BundleStepRecord:
        how, why = ended[record.step.number]
        return record.end(how, now, why)

    state = state.changing([record for record in state.pending if record.step.number in ended], end)
    return well(replace(state, sensed_for_batch=state.batches, sensed_at=state.now))


class BundlesMachine(ExecutionMachine[BundlesPort, BundlesExecutionState]):
    """The state machine of this balancer."""

    changes = (UnloadBundles, SplitBundle, WriteBrokerBalancing, ResolveOwners)
    success_states = frozenset({BundleStepState.DONE, BundleStepState.DROPPED})
    facts: ClassVar = {
        **COMMON,
        BundlesObserved: observed,
        BrokerBalancingRead: balancing_read,
        BrokerBalancingWritten: balancing_written,
        UnloadCompleted: unloaded,
        SplitCompleted: split,
        OwnersResolved: apply_lookup,
        BundleLoadChecked: load_sensed,
        CommandFailed: command_failed,
    }

    blocking_reason = staticmethod(reconcile.blocking_reason)
    choose = staticmethod(choose_batch)
    begin = staticmethod(begin)
    give_back = staticmethod(order_to_give_back)

    @classmethod
    def next_query(cls, state: BundlesExecutionState, *, whole: bool = False) -> Command:
        """Owners and boundaries while something is under way; switches and health, too, between batches."""
        records = [record for record in state.records if not record.ended]
        namespaces = dict.fromkeys(record.step.namespace for record in records)
        deep = whole or not state.active
        destinations = dict.fromkeys(broker for record in records for broker in record.step.destinations)
        return ObserveBundles(tuple(namespaces), tuple(destinations) if deep else (), deep=deep)

    @classmethod
    def next_in_flight(cls, state: BundlesExecutionState) -> tuple[BundlesExecutionState, Command | None]:
        """The next command for unloads and splits in flight, or a wait; None if none is in flight."""
        state, order = order_for_active(state)
        if order is None and state.active:
            order = Wait(state.now + max(state.settings.poll_interval_seconds, 4 * state.poll_seconds))
        return state, order

    @classmethod
    def evaluate(cls, state: BundlesExecutionState) -> BundlesExecutionState:
        """See `ExecutionMachine.evaluate`: switches that others changed; steps whose turn has come, or never
        will.
        """
        seen = state.observation
        theirs = foreign_switch_changes(state, seen)
        if theirs:
            return stop_for_foreign_change(state, seen.overrides or {}, theirs)
        done = {r.step.number for r in state.records if r.state is BundleStepState.DONE}
        state = state.changing(
            [record for record in state.pending if record.step.follows in done],
            lambda record: current(record, seen, state.now, state.settings),
        )
        dead = without_destination(state, state.pending)
        return state.changing(
            [record for record in state.pending if record.step.number in dead],
            lambda record: record.end(
                BundleStepState.FAILED, state.now, f"{dead[record.step.number]}, its destination, is dead"
            ),
        )

    @classmethod
    def before_batch(cls, state: BundlesExecutionState) -> tuple[BundlesExecutionState, Command | None]:
        """See `ExecutionMachine.before_batch`: balancing is off everywhere, and clients have had time to
        settle.

        Then the load is sensed, once for a batch, and not more often than brokers are looked at whole.
        """
        pace = state.settings.limits
        state, order = order_to_hold(state)
        if order is not None:
            return state, order
        if state.batch_ended_at is not None and state.now < state.batch_ended_at + pace.batch_pause_seconds:
            return state, Wait(state.batch_ended_at + pace.batch_pause_seconds)
        due = state.sensed_for_batch != state.batches
        due = due and state.now - state.sensed_at >= state.settings.check_interval_seconds
        return state, CheckBundleLoad() if due and pace.check_load else None

    @classmethod
    def end(
        cls, state: BundlesExecutionState, outcome: ExecutionStatus
    ) -> tuple[BundlesExecutionState, Command]:
        """See `ExecutionMachine.end`: how the switches stand is read anew, others may have changed them
        since.
        """
        return super().end(replace(state, overrides=None), outcome)

    @classmethod
    def ends_as(cls, record: BundleStepRecord, blocked: Blocked) -> BundleStepState:
        """The final state of a step that is never started."""
        return BundleStepState.SKIPPED if blocked.permanent else BundleStepState.FAILED

    @classmethod
    def blocked_seconds(cls, settings: UnloadSettings) -> float:
        """The longest time that an external cause may block a step."""
        return settings.unhealthy_timeout_seconds

    @classmethod
    def waiting_seconds(cls, settings: RetryPolicy) -> float:
        """See `ExecutionMachine.waiting_seconds`: a deep look asks every broker."""
        return settings.check_interval_seconds

    def perform(self, command: Command, state: BundlesExecutionState) -> Event:
        """Send a command to Pulsar and return the event that answers it."""
        port = self.port
        match command:
            case ObserveBundles(namespaces, destinations, deep):
                return self.event(BundlesObserved, port.observe(namespaces, destinations, deep=deep))
            case CheckBundleLoad():
                if self.sense is None:
                    return BundleLoadChecked(self.clock())
                traffic = port.traffic()
                return cast("BundleLoadChecked", self.sense(state.records, self.clock(), traffic))
            case ReadBrokerBalancing(all_brokers):
                return self.event(BrokerBalancingRead, port.read_balancing(all_brokers=all_brokers))
            case WriteBrokerBalancing(values):
                return self.event(BrokerBalancingWritten, port.write_balancing(values))
            case UnloadBundles(targets):
                return self.event(UnloadCompleted, port.unload(targets))
            case SplitBundle(_, bundle, boundaries):
                return self.event(SplitCompleted, port.split(bundle, boundaries))
            case ResolveOwners(bundles):
                return self.event(OwnersResolved, port.lookup(bundles))
        raise AssertionError(f"no way to perform {command}")
