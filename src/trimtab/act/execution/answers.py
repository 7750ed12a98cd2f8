"""What each fact changes in the state of an execution; `machine` decides what follows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from trimtab.act.execution.approach import ROOM, UNMEASURED, rate_to_keep_up, relieved
from trimtab.act.execution.commands import Observe, WriteThrottle
from trimtab.act.execution.events import (
    CancelAnswered,
    CancelRequested,
    ClusterObserved,
    CommandFailed,
    ElectionAnswered,
    Event,
    LoadSensed,
    LogDirMovesAnswered,
    ReassignAnswered,
    Resumed,
    StopRequested,
    ThrottleRead,
    ThrottleWritten,
    WaitEnded,
)
from trimtab.act.execution.health import lost_brokers, unhealthy_since_begun
from trimtab.act.execution.observation import Answers, Failure
from trimtab.act.execution.reconcile import ended, reconcile, set_back
from trimtab.act.execution.state import FINAL, ExecutionState, Status, ThrottleMemory
from trimtab.act.execution.steps import StepKind, StepRecord, StepState
from trimtab.act.execution.throttle import (
    forgetting,
    free_network,
    next_copies_per_broker,
    next_rate,
    rate_ceiling,
    remembering,
)


def absorb(state: ExecutionState, event: Event) -> ExecutionState:
    """The state after a fact."""
    return _BY_EVENT[type(event)](state, event)


# ---------------------------------------------------------------- from outside


def _resumed(state: ExecutionState, event: Resumed) -> ExecutionState:
    """Go on: an ended-early execution begins again, what was rolled back included."""
    state = replace(
        state,
        now=event.at,
        awaiting=None,
        seen=None,
        fresh=False,
        looked_wide_at=None,
        sensed_for_batch=None,
        throttle_in_force=None,
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
    # Time in which nobody looked does not count as time in which a copy got no nearer.
    state = state.with_records(
        {r.step.number: replace(r, **UNMEASURED) for r in state.active if r.nearer_at is not None}
    )
    again = {}
    for r in state.records:
        if r.state is StepState.ROLLED_BACK:
            again[r.step.number] = replace(r, state=StepState.PENDING)
        elif r.state is StepState.ROLLING_BACK and r.rollback is StepState.ROLLED_BACK:
            # Whether the cancelling took effect is for the next look to tell.
            again[r.step.number] = replace(r, state=StepState.REQUESTED)
    again = {n: replace(r, rollback=None, ended_at=None, attempts=0, reason="") for n, r in again.items()}
    return replace(state.with_records(again), status=Status.RUNNING, reason="", outcome=None)


def _stop(state: ExecutionState, event: StopRequested) -> ExecutionState:
    if state.status in (Status.RUNNING, Status.WAITING):
        return replace(state, status=Status.STOPPING, reason=event.reason, waiting_since=None)
    return state


def _cancel(state: ExecutionState, event: CancelRequested) -> ExecutionState:
    if state.status in (Status.RUNNING, Status.WAITING, Status.STOPPING):
        return replace(state, status=Status.CANCELLING, reason=event.reason, waiting_since=None)
    return state


# ---------------------------------------------------------------- looks


def _observed(state: ExecutionState, event: ClusterObserved) -> ExecutionState:
    seen = event.observation
    if seen.cluster_id != state.cluster_id:
        return replace(
            state,
            give_up=f"this is cluster {seen.cluster_id}, the execution belongs to {state.cluster_id}: "
            "check the address",
        )
    state = _well(replace(state, seen=seen, fresh=True))
    if state.brokers is None:
        state = replace(state, brokers=seen.alive)
    assert state.brokers is not None
    needed = {b for record in state.records if not record.ended for b in record.step.after}
    gone = (state.brokers | needed) - seen.alive
    state = replace(state, gone_since={b: state.gone_since.get(b, state.now) for b in sorted(gone)})
    if seen.unhealthy is not None:
        state = replace(state, looked_wide_at=state.now, wide_look_seconds=state.now - seen.at)
        if state.baseline is None:
            state = replace(state, baseline=seen.unhealthy)
    asked = frozenset(state.awaiting.partitions) if isinstance(state.awaiting, Observe) else frozenset()
    copying = any(record.step.kind is not StepKind.LEAD for record in state.active)
    changed = {}
    for record in state.records:
        if record.step.partition in asked:
            after = reconcile(record, seen, state.now, state.settings)
            if after is not record:
                changed[record.step.number] = after
    state = state.with_records(changed)
    state = relieved(state, [number for number, after in changed.items() if after.ended])
    return _pace(state, copies_ended=copying and not state.active)


def _pace(state: ExecutionState, *, copies_ended: bool) -> ExecutionState:
    """Additive increase, multiplicative decrease of copies in flight and of the throttle's rate."""
    assert state.seen is not None
    # A partition of ours that fell behind recovers through our throttle: a lower rate would keep it there.
    ours = {record.step.partition for record in state.active}
    unwell = set(unhealthy_since_begun(state, state.seen)) - ours
    trouble = bool(unwell) or bool(lost_brokers(state, state.seen))
    wide = state.seen.unhealthy is not None
    if not wide and not copies_ended:
        return state
    copies = state.copies_per_broker
    if (trouble and wide) or (copies_ended and not trouble):
        copies = next_copies_per_broker(state.settings, copies, healthy=not trouble)
    rate = state.rate_bytes_per_second
    if wide and any(record.step.kind is StepKind.COPY for record in state.active):
        brokers = {b for r in state.active for b in (*r.step.added, *r.step.before)}
        ceiling = rate_ceiling(state.settings, state.headroom, brokers)
        needed = min(ROOM * rate_to_keep_up(state.active, state.seen), free_network(state.headroom, brokers))
        rate = next_rate(state.settings, rate, ceiling, healthy=not trouble, needed=needed)
    return replace(state, copies_per_broker=copies, rate_bytes_per_second=rate)


# ---------------------------------------------------------------- answers of Kafka


def _reassigned(state: ExecutionState, event: ReassignAnswered) -> ExecutionState:
    return _asked(state, event.answers, (StepKind.COPY, StepKind.LEAD))


def _log_dirs_moved(state: ExecutionState, event: LogDirMovesAnswered) -> ExecutionState:
    return _asked(state, event.answers, (StepKind.LOG_DIR,))


def _asked(state: ExecutionState, answers: Answers, kinds: tuple[StepKind, ...]) -> ExecutionState:
    changed = {}
    for record in state.active:
        if record.step.kind not in kinds or record.step.partition not in answers:
            continue
        failure = answers[record.step.partition]
        if record.state is StepState.REQUESTED:
            changed[record.step.number] = (
                replace(record, state=StepState.MOVING, advanced_at=state.now)
                if failure is None
                else _refused(state, record, failure)
            )
    return _well(replace(state.with_records(changed), fresh=False))


def _refused(state: ExecutionState, record: StepRecord, failure: Failure) -> StepRecord:
    if failure.code in GONE:
        return ended(record, StepState.SKIPPED, state.now, f"{record.step.partition.topic} has been deleted")
    if failure.code == "InvalidReplicationFactor":
        return ended(record, StepState.SKIPPED, state.now, failure.message)
    why = f"Kafka refused: {failure.code}: {failure.message}"
    if failure.transient:
        return set_back(record, state.now, state.settings, why)
    return ended(record, StepState.FAILED, state.now, why)


GONE: Final = frozenset({"UnknownTopicOrPartition", "UnknownTopicId"})
"""Kafka's codes for a partition that does not exist."""


def _cancelled(state: ExecutionState, event: CancelAnswered) -> ExecutionState:
    """Whatever the answer, the next look tells; a transient refusal is tried again soon."""
    changed = {}
    for record in state.active:
        failure = event.answers.get(record.step.partition)
        if record.state is StepState.ROLLING_BACK and failure is not None and failure.transient:
            attempts = record.attempts + 1
            again = state.now + state.settings.backoff(attempts)
            changed[record.step.number] = replace(record, attempts=attempts, not_before=again)
    return _well(replace(state.with_records(changed), fresh=False))


def _elected(state: ExecutionState, event: ElectionAnswered) -> ExecutionState:
    changed = {}
    for record in state.active:
        failure = event.answers.get(record.step.partition)
        if record.state is not StepState.ELECTING or failure is None:
            continue
        attempts = record.attempts + 1
        why = f"broker {record.step.leader} could not take over: {failure.code}: {failure.message}"
        if failure.code in GONE:
            changed[record.step.number] = _refused(state, record, failure)
        elif attempts >= state.settings.attempts:
            changed[record.step.number] = ended(record, StepState.FAILED, state.now, why)
        else:
            again = state.now + state.settings.backoff(attempts)
            changed[record.step.number] = replace(record, attempts=attempts, not_before=again, reason=why)
    return _well(replace(state.with_records(changed), fresh=False))


def _throttle_read(state: ExecutionState, event: ThrottleRead) -> ExecutionState:
    return _well(replace(state, throttle=remembering(state.throttle, event.config), throttle_in_force=None))


def _throttle_written(state: ExecutionState, event: ThrottleWritten) -> ExecutionState:
    assert isinstance(state.awaiting, WriteThrottle)
    if event.failures:
        name, failure = sorted(event.failures.items())[0]
        subject = f"the throttle list of {name}" if name else "the throttle rate"
        if failure.code.endswith("AuthorizationFailed") and state.batches == 0:
            # Refused outright before anything was begun: nothing of ours is there to be given back.
            reason = f"Kafka refuses {subject}: {failure.message}: grant AlterConfigs or use --throttle none"
            return replace(state, status=Status.STOPPING, reason=reason, throttle=ThrottleMemory())
        return _failed(state, Failure(failure.code, f"{subject}: {failure.message}", failure.transient))
    config, kept = state.awaiting.config, state.awaiting.kept_topics
    memory = forgetting(state.throttle, kept, rates_touched=state.awaiting.kept_rates)
    in_force = replace(
        config,
        leader_replicas={t: v for t, v in config.leader_replicas.items() if t in kept},
        follower_replicas={t: v for t, v in config.follower_replicas.items() if t in kept},
    )
    return _well(replace(state, throttle=memory, throttle_in_force=in_force))


def _sensed(state: ExecutionState, event: LoadSensed) -> ExecutionState:
    dropped = {
        record.step.number: ended(record, StepState.DROPPED, state.now, event.unneeded[record.step.partition])
        for record in state.pending
        if record.step.partition in event.unneeded
    }
    state = state.with_records(dropped)
    return _well(
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


# ---------------------------------------------------------------- failures of whole calls


def _command_failed(state: ExecutionState, event: CommandFailed) -> ExecutionState:
    return _failed(state, event.failure)


def _failed(state: ExecutionState, failure: Failure) -> ExecutionState:
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
        throttle_in_force=None if isinstance(state.awaiting, WriteThrottle) else state.throttle_in_force,
        give_up=give_up,
    )


def _well(state: ExecutionState) -> ExecutionState:
    return replace(state, failing_since=None, failures_in_a_row=0)


_BY_EVENT: Final[dict[type[Event], Callable[[ExecutionState, Any], ExecutionState]]] = {
    Resumed: _resumed,
    StopRequested: _stop,
    CancelRequested: _cancel,
    ClusterObserved: _observed,
    ReassignAnswered: _reassigned,
    LogDirMovesAnswered: _log_dirs_moved,
    CancelAnswered: _cancelled,
    ElectionAnswered: _elected,
    ThrottleRead: _throttle_read,
    ThrottleWritten: _throttle_written,
    LoadSensed: _sensed,
    WaitEnded: _waited,
    CommandFailed: _command_failed,
}
