"""The state machine of executions of this balancer: its facts, its orders, and the hands that perform them.

What holds after every event:

- a final status means that nothing of ours is in flight and no throttle setting is ours; cordons stay only
  on brokers whose drain has ended;
- before a throttle setting or a cordon is changed, its old value is in the state;
- nothing is begun unless the status is `RUNNING` and the cluster was looked at since the last order.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from trimtab.act.execution.machine import ExecutionMachine
from trimtab.act.execution.port import Command, CommandFailed, Event, SettingsChanged, Wait
from trimtab.act.execution.state import COMMON, ExecutionStatus, change_settings, failed, well
from trimtab.act.execution.steps import Blocked
from trimtab.act.replicas import reconcile
from trimtab.act.replicas.batch import (
    begin,
    cancelled,
    choose_batch,
    elected,
    give_up_hopeless,
    log_dirs_moved,
    order_for_active,
    reassigned,
    roll_back,
)
from trimtab.act.replicas.overrides import (
    brokers_of,
    cordons_read,
    cordons_written,
    first_rate,
    is_denied,
    order_for_throttle,
    order_to_cordon,
    order_to_end_cordons,
    reading_denied,
    throttle_read,
    throttle_unconfirmed,
    throttle_written,
)
from trimtab.act.replicas.port import (
    Answers,
    CancelAnswered,
    CancelReassignments,
    CheckReplicaLoad,
    ClusterPort,
    CordonsRead,
    CordonsWritten,
    ElectionAnswered,
    ElectPreferred,
    LogDirMovesAnswered,
    MoveLogDirs,
    ObserveReplicas,
    ReadCordons,
    ReadThrottle,
    Reassign,
    ReassignAnswered,
    ReplicaLoadChecked,
    ReplicasObserved,
    ThrottleRead,
    ThrottleWritten,
    WriteCordons,
    WriteThrottle,
)
from trimtab.act.replicas.reconcile import observed
from trimtab.act.replicas.state import (
    ReplicasExecutionSettings,
    ReplicasExecutionState,
    ReplicaStep,
    ReplicaStepKind,
    ReplicaStepRecord,
    ReplicaStepState,
)


def new_execution(
    cluster_id: str, steps: Iterable[ReplicaStep], settings: ReplicasExecutionSettings, now: float
) -> ReplicasExecutionState:
    """The state before the first look; its first event is `Resumed`."""
    return ReplicasExecutionState(
        settings=settings,
        cluster_id=cluster_id,
        records=tuple(ReplicaStepRecord(step) for step in steps),
        initial_copies_per_broker=settings.initial_copies_per_broker,
        now=now,
    )


def load_sensed(state: ReplicasExecutionState, event: ReplicaLoadChecked) -> ReplicasExecutionState:
    """Load as it is now: what is no longer needed is dropped."""
    state = state.changing(
        [record for record in state.pending if record.step.partition in event.unneeded],
        lambda r: r.end(ReplicaStepState.DROPPED, state.now, event.unneeded[r.step.partition]),
    )
    return well(replace(state, load=event, sensed_for_batch=state.batches))


def command_failed(state: ReplicasExecutionState, event: CommandFailed) -> ReplicasExecutionState:
    """A whole call failed; without the right to read settings brokers are drained without a cordon."""
    if isinstance(state.awaiting, ReadCordons) and is_denied(event.failure):
        return reading_denied(state, event.failure)
    return throttle_unconfirmed(failed(state, event.failure))


def settings_changed(state: ReplicasExecutionState, event: SettingsChanged) -> ReplicasExecutionState:
    """A new throttle is in force with the next look; copies go on."""
    state = change_settings(state, event)
    if "throttle" not in event.changes:
        return state
    copies = [record.step for record in state.active if record.step.kind is ReplicaStepKind.COPY]
    rate = first_rate(state.settings, state.load.headroom, brokers_of(copies)) if copies else None
    return replace(state, rate_bytes_per_second=rate)


class ReplicasMachine(ExecutionMachine[ClusterPort, ReplicasExecutionState]):
    """The state machine of this balancer; where there is a sense, it is asked before every batch."""

    changes = (Reassign, MoveLogDirs, CancelReassignments, ElectPreferred, WriteThrottle, WriteCordons)
    facts: ClassVar = {
        **COMMON,
        ReplicasObserved: observed,
        ReassignAnswered: reassigned,
        LogDirMovesAnswered: log_dirs_moved,
        CancelAnswered: cancelled,
        ElectionAnswered: elected,
        ThrottleRead: throttle_read,
        ThrottleWritten: throttle_written,
        CordonsRead: cordons_read,
        CordonsWritten: cordons_written,
        ReplicaLoadChecked: load_sensed,
        CommandFailed: command_failed,
        SettingsChanged: settings_changed,
    }
    success_states = frozenset({ReplicaStepState.DONE, ReplicaStepState.DROPPED})

    blocking_reason = staticmethod(reconcile.blocking_reason)
    choose = staticmethod(choose_batch)
    begin = staticmethod(begin)

    @classmethod
    def next_query(cls, state: ReplicasExecutionState, *, whole: bool = False) -> Command:
        """A narrow look at what is under way, or a wide one between batches and every `check_seconds`."""
        # In a large cluster a wide look takes seconds: it must not be all that we do.
        interval = max(state.settings.check_interval_seconds, 9 * state.full_poll_seconds)
        last = state.full_poll_at
        wide = whole or not state.active or last is None or state.now - last >= interval
        records = [record for record in state.records if record.active or (wide and not record.ended)]
        brokers: set[int] = set()
        for record in records:
            brokers.update(record.step.added, (broker for broker, _ in record.step.directories))
            if wide and record.active and record.step.kind is ReplicaStepKind.COPY:
                # Whom a copy is read from: its size tells how much of the copy is left.
                placement = state.observation.placements.get(record.step.partition)
                if placement is not None and placement.leader is not None:
                    brokers.add(placement.leader)
        partitions = dict.fromkeys(record.step.partition for record in records)
        return ObserveReplicas(tuple(partitions), tuple(sorted(brokers)), wide=wide)

    @classmethod
    def next_in_flight(cls, state: ReplicasExecutionState) -> tuple[ReplicasExecutionState, Command | None]:
        """See `ExecutionMachine.next_in_flight`: what is cancelled or without hope is rolled back first."""
        if state.status is ExecutionStatus.CANCELLING:
            everything = {record.step.number: "" for record in state.active}
            state = roll_back(state, everything, ReplicaStepState.ROLLED_BACK)
        else:
            state = give_up_hopeless(state)
        state, order = order_for_active(state)
        if order is None and state.active:
            order = order_for_throttle(state, [record.step for record in state.active])
            order = order or Wait(state.now + state.settings.poll_interval_seconds)
        return state, order

    @classmethod
    def before_batch(cls, state: ReplicasExecutionState) -> tuple[ReplicasExecutionState, Command | None]:
        """See `ExecutionMachine.before_batch`: drained brokers are cordoned; the load is sensed for each
        batch.
        """
        order = order_to_cordon(state)
        if order is not None:
            return state, order
        if state.sensed_for_batch == state.batches:
            return state, None
        return state, CheckReplicaLoad(
            tuple(dict.fromkeys(record.step.partition for record in state.pending))
        )

    @classmethod
    def give_back(cls, state: ReplicasExecutionState) -> tuple[ReplicasExecutionState, Command | None]:
        """See `ExecutionMachine.give_back`: the throttle, then the cordons, with which the end is written
        down.
        """
        order = order_for_throttle(state, [])
        return (state, order) if order is not None else order_to_end_cordons(state)

    @classmethod
    def ends_as(cls, record: ReplicaStepRecord, blocked: Blocked) -> ReplicaStepState:
        """See `ExecutionMachine.ends_as`: a leadership that never could be moved does not apply any more."""
        return (
            ReplicaStepState.SKIPPED if record.step.kind is ReplicaStepKind.LEAD else ReplicaStepState.FAILED
        )

    @classmethod
    def blocked_seconds(cls, settings: ReplicasExecutionSettings) -> float:
        """The longest time that an external cause may block a step."""
        return settings.in_sync_timeout_seconds

    def perform(self, command: Command, state: ReplicasExecutionState) -> Event:
        """Send a command to Kafka and return the event that answers it."""
        port = self.port
        match command:
            case CheckReplicaLoad():
                at = self.clock()
                return self.sense(state.records, at) if self.sense is not None else ReplicaLoadChecked(at)
            case ObserveReplicas(partitions, brokers, wide):
                return self.event(ReplicasObserved, port.observe(partitions, brokers, wide=wide))
            case Reassign():
                return self.event(ReassignAnswered, _reassign(port, command))
            case MoveLogDirs(targets):
                return self.event(LogDirMovesAnswered, port.move_log_dirs(targets))
            case CancelReassignments(partitions):
                return self.event(CancelAnswered, port.cancel_reassignments(partitions))
            case ElectPreferred(partitions):
                return self.event(ElectionAnswered, port.elect_preferred(partitions))
            case ReadThrottle(topics):
                return self.event(ThrottleRead, port.read_throttle(topics))
            case WriteThrottle(config):
                return self.event(ThrottleWritten, port.write_throttle(config))
            case ReadCordons(brokers):
                return self.event(CordonsRead, port.read_cordons(brokers))
            case WriteCordons(values):
                return self.event(CordonsWritten, port.write_cordons(values))
        raise AssertionError(f"no way to perform {command}")


def _reassign(port: ClusterPort, order: Reassign) -> Answers:
    refused = {}
    if order.directories:
        told = port.move_log_dirs(order.directories)
        refused = {partition: failure for partition, failure in told.items() if failure is not None}
    targets = {p: r for p, r in order.targets.items() if p not in refused}
    answers = port.reassign(targets, order.resized)
    return dict(answers) | refused
