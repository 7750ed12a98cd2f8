"""Steps under way: Kafka's answers, copies given up and rolled back, leaders elected."""

from dataclasses import replace
from typing import Final

from trimtab.act.execution.messages import Command, Failure
from trimtab.act.execution.transitions import well, without_destination
from trimtab.act.replicas.catch_up import outrun, relieved
from trimtab.act.replicas.messages import (
    CancelAnswered,
    CancelReassignments,
    ElectionAnswered,
    ElectPreferred,
    LogDirMovesAnswered,
    MoveLogDirs,
    Reassign,
    ReassignAnswered,
)
from trimtab.act.replicas.port import Answers
from trimtab.act.replicas.reconcile import out_of_order
from trimtab.act.replicas.state import ReplicasExecutionState
from trimtab.act.replicas.steps import ReplicaStepKind, ReplicaStepRecord, ReplicaStepState

MISSING: Final = frozenset({"UnknownTopicOrPartition", "UnknownTopicId"})
"""Kafka's codes for a partition that does not exist."""


def reassigned(state: ReplicasExecutionState, event: ReassignAnswered) -> ReplicasExecutionState:
    """Kafka's answer to each reassignment that was asked for."""
    return _requested(state, event.answers, (ReplicaStepKind.COPY, ReplicaStepKind.LEAD))


def log_dirs_moved(state: ReplicasExecutionState, event: LogDirMovesAnswered) -> ReplicasExecutionState:
    """Kafka's answer to each move between log dirs."""
    return _requested(state, event.answers, (ReplicaStepKind.LOG_DIR,))


def _requested(
    state: ReplicasExecutionState, answers: Answers, kinds: tuple[ReplicaStepKind, ...]
) -> ReplicasExecutionState:
    changed = {}
    for record in state.active:
        if record.step.kind not in kinds or record.step.partition not in answers:
            continue
        failure = answers[record.step.partition]
        if record.state is ReplicaStepState.REQUESTED:
            changed[record.step.number] = (
                replace(record, state=ReplicaStepState.MOVING, advanced_at=state.now)
                if failure is None
                else _refused(state, record, failure)
            )
    return well(replace(state.with_records(changed), fresh=False))


def _refused(state: ReplicasExecutionState, record: ReplicaStepRecord, failure: Failure) -> ReplicaStepRecord:
    if failure.code in MISSING:
        return record.end(
            ReplicaStepState.SKIPPED, state.now, f"{record.step.partition.topic} has been deleted"
        )
    if failure.code == "InvalidReplicationFactor":
        return record.end(ReplicaStepState.SKIPPED, state.now, failure.message)
    why = f"Kafka refused: {failure.code}: {failure.message}"
    if failure.transient:
        return record.set_back(state.now, state.settings, why)
    return record.end(ReplicaStepState.FAILED, state.now, why)


def cancelled(state: ReplicasExecutionState, event: CancelAnswered) -> ReplicasExecutionState:
    """Whatever the answer, the next look tells; a transient refusal is tried again soon."""
    changed = {}
    for record in state.active:
        failure = event.answers.get(record.step.partition)
        if record.state is ReplicaStepState.ROLLING_BACK and failure is not None and failure.transient:
            changed[record.step.number] = _retry(record, state)
    return well(replace(state.with_records(changed), fresh=False))


def elected(state: ReplicasExecutionState, event: ElectionAnswered) -> ReplicasExecutionState:
    """Kafka's answer to each election; a follower that could not take over is tried again."""
    changed = {}
    for record in state.active:
        failure = event.answers.get(record.step.partition)
        if record.state is not ReplicaStepState.ELECTING or failure is None:
            continue
        attempts = record.attempts + 1
        why = f"broker {record.step.leader} could not take over: {failure.code}: {failure.message}"
        if failure.code in MISSING:
            changed[record.step.number] = _refused(state, record, failure)
        elif attempts >= state.settings.max_attempts:
            changed[record.step.number] = record.end(ReplicaStepState.FAILED, state.now, why)
        else:
            changed[record.step.number] = _retry(record, state, why)
    return well(replace(state.with_records(changed), fresh=False))


def give_up_hopeless(state: ReplicasExecutionState) -> ReplicasExecutionState:
    """Roll back copies whose destination is dead or that do not get on; fail what waits for the dead."""
    left = (r for r in state.records if not r.ended and r.state is not ReplicaStepState.ROLLING_BACK)
    without = without_destination(state, left)
    hopeless = {n: f"broker {broker}, its destination, is dead" for n, broker in without.items()}
    for record in state.active:
        copying = record.step.kind is not ReplicaStepKind.LEAD and record.state is ReplicaStepState.MOVING
        still = state.now - (record.advanced_at if record.advanced_at is not None else state.now)
        if copying and still >= state.settings.stall_timeout_seconds:
            hopeless.setdefault(record.step.number, f"no progress in {still:.0f} s")
    state = relieved(state, outrunning := outrun(state))
    hopeless = outrunning | hopeless
    state = state.changing(
        [record for record in state.pending if record.step.number in hopeless],
        lambda record: record.end(ReplicaStepState.FAILED, state.now, hopeless[record.step.number]),
    )
    return roll_back(state, hopeless, ReplicaStepState.FAILED)


def roll_back(
    state: ReplicasExecutionState, why: dict[int, str], final: ReplicaStepState
) -> ReplicasExecutionState:
    """Mark steps under way as to be rolled back, to end as `final`.

    Parameters
    ----------
    why
        Step number -> reason; an empty one leaves the reason that the record has.
    """
    chosen = [
        r for r in state.active if r.step.number in why and r.state is not ReplicaStepState.ROLLING_BACK
    ]
    return state.changing(
        chosen,
        lambda record: replace(
            record,
            state=ReplicaStepState.ROLLING_BACK,
            rollback=final,
            reason=why[record.step.number] or record.reason,
            not_before=0.0,
            advanced_at=state.now,
        ),
    )


def order_for_active(state: ReplicasExecutionState) -> tuple[ReplicasExecutionState, Command | None]:
    """The next order for steps under way: rolling back, then elections."""
    rolling = [r for r in state.active if r.state is ReplicaStepState.ROLLING_BACK]
    disordered = [r for r in rolling if out_of_order(r, state.observation)]
    again = [r for r in disordered if r.not_before <= state.now or r.attempts == 0]
    if again:
        state = state.changing(again, lambda r: _retry(r, state))
        return state, Reassign({r.step.partition: r.step.before for r in again}, {})
    due = [r for r in state.active if r.not_before <= state.now and r not in disordered]
    later = state.now + state.settings.metadata_lag_seconds
    for kind in ReplicaStepKind:
        chosen = [r for r in due if r.state is ReplicaStepState.ROLLING_BACK and r.step.kind is kind]
        if chosen:
            state = state.changing(chosen, lambda r: replace(r, not_before=later))
            return state, _rollback_command(kind, chosen)
    electing = [r for r in due if r.state is ReplicaStepState.ELECTING]
    if electing:
        state = state.changing(electing, lambda r: replace(r, not_before=later))
        return state, ElectPreferred(tuple(record.step.partition for record in electing))
    return state, None


def _retry(
    record: ReplicaStepRecord, state: ReplicasExecutionState, why: str | None = None
) -> ReplicaStepRecord:
    attempts = record.attempts + 1
    again = state.now + state.settings.backoff(attempts)
    reason = record.reason if why is None else why
    return replace(record, attempts=attempts, not_before=again, reason=reason)


def _rollback_command(kind: ReplicaStepKind, records: list[ReplicaStepRecord]) -> Command:
    steps = [record.step for record in records]
    if kind is ReplicaStepKind.COPY:
        return CancelReassignments(tuple(step.partition for step in steps))
    if kind is ReplicaStepKind.LEAD:
        return Reassign({step.partition: step.before for step in steps}, {})
    return MoveLogDirs({(s.partition, broker): path for s in steps for broker, path in s.old_directories})
