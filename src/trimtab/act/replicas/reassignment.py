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
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import StepKind, StepRecord, StepState

GONE: Final = frozenset({"UnknownTopicOrPartition", "UnknownTopicId"})
"""Kafka's codes for a partition that does not exist."""


def reassigned(state: ExecutionState, event: ReassignAnswered) -> ExecutionState:
    """Kafka's answer to each reassignment that was asked for."""
    return _asked(state, event.answers, (StepKind.COPY, StepKind.LEAD))


def log_dirs_moved(state: ExecutionState, event: LogDirMovesAnswered) -> ExecutionState:
    """Kafka's answer to each move between log dirs."""
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
    return well(replace(state.with_records(changed), fresh=False))


def _refused(state: ExecutionState, record: StepRecord, failure: Failure) -> StepRecord:
    if failure.code in GONE:
        return record.end(StepState.SKIPPED, state.now, f"{record.step.partition.topic} has been deleted")
    if failure.code == "InvalidReplicationFactor":
        return record.end(StepState.SKIPPED, state.now, failure.message)
    why = f"Kafka refused: {failure.code}: {failure.message}"
    if failure.transient:
        return record.set_back(state.now, state.settings, why)
    return record.end(StepState.FAILED, state.now, why)


def cancelled(state: ExecutionState, event: CancelAnswered) -> ExecutionState:
    """Whatever the answer, the next look tells; a transient refusal is tried again soon."""
    changed = {}
    for record in state.active:
        failure = event.answers.get(record.step.partition)
        if record.state is StepState.ROLLING_BACK and failure is not None and failure.transient:
            changed[record.step.number] = _tried_again(record, state)
    return well(replace(state.with_records(changed), fresh=False))


def elected(state: ExecutionState, event: ElectionAnswered) -> ExecutionState:
    """Kafka's answer to each election; a follower that could not take over is tried again."""
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
            changed[record.step.number] = record.end(StepState.FAILED, state.now, why)
        else:
            changed[record.step.number] = _tried_again(record, state, why)
    return well(replace(state.with_records(changed), fresh=False))


def give_up_hopeless(state: ExecutionState) -> ExecutionState:
    """Roll back copies whose destination is dead or that do not get on; fail what waits for the dead."""
    left = (r for r in state.records if not r.ended and r.state is not StepState.ROLLING_BACK)
    without = without_destination(state, left)
    hopeless = {n: f"broker {broker}, its destination, is dead" for n, broker in without.items()}
    for record in state.active:
        copying = record.step.kind is not StepKind.LEAD and record.state is StepState.MOVING
        still = state.now - (record.advanced_at if record.advanced_at is not None else state.now)
        if copying and still >= state.settings.stall_seconds:
            hopeless.setdefault(record.step.number, f"no progress in {still:.0f} s")
    state = relieved(state, outrunning := outrun(state))
    hopeless = outrunning | hopeless
    state = state.changing(
        [record for record in state.pending if record.step.number in hopeless],
        lambda record: record.end(StepState.FAILED, state.now, hopeless[record.step.number]),
    )
    return roll_back(state, hopeless, StepState.FAILED)


def roll_back(state: ExecutionState, why: dict[int, str], final: StepState) -> ExecutionState:
    """Mark steps under way as to be rolled back, to end as `final`.

    Parameters
    ----------
    why
        Step number -> reason; an empty one leaves the reason that the record has.
    """
    chosen = [r for r in state.active if r.step.number in why and r.state is not StepState.ROLLING_BACK]
    return state.changing(
        chosen,
        lambda record: replace(
            record,
            state=StepState.ROLLING_BACK,
            rollback=final,
            reason=why[record.step.number] or record.reason,
            not_before=0.0,
            advanced_at=state.now,
        ),
    )


def order_for_active(state: ExecutionState) -> tuple[ExecutionState, Command | None]:
    """The next order for steps under way: rolling back, then elections."""
    rolling = [r for r in state.active if r.state is StepState.ROLLING_BACK]
    disordered = [r for r in rolling if out_of_order(r, state.seen)]
    again = [r for r in disordered if r.not_before <= state.now or r.attempts == 0]
    if again:
        state = state.changing(again, lambda r: _tried_again(r, state))
        return state, Reassign({r.step.partition: r.step.before for r in again}, {})
    due = [r for r in state.active if r.not_before <= state.now and r not in disordered]
    later = state.now + state.settings.settle_seconds
    for kind in StepKind:
        chosen = [r for r in due if r.state is StepState.ROLLING_BACK and r.step.kind is kind]
        if chosen:
            state = state.changing(chosen, lambda r: replace(r, not_before=later))
            return state, _rollback_command(kind, chosen)
    electing = [r for r in due if r.state is StepState.ELECTING]
    if electing:
        state = state.changing(electing, lambda r: replace(r, not_before=later))
        return state, ElectPreferred(tuple(record.step.partition for record in electing))
    return state, None


def _tried_again(record: StepRecord, state: ExecutionState, why: str | None = None) -> StepRecord:
    attempts = record.attempts + 1
    again = state.now + state.settings.backoff(attempts)
    reason = record.reason if why is None else why
    return replace(record, attempts=attempts, not_before=again, reason=reason)


def _rollback_command(kind: StepKind, records: list[StepRecord]) -> Command:
    steps = [record.step for record in records]
    if kind is StepKind.COPY:
        return CancelReassignments(tuple(step.partition for step in steps))
    if kind is StepKind.LEAD:
        return Reassign({step.partition: step.before for step in steps}, {})
    return MoveLogDirs({(s.partition, broker): path for s in steps for broker, path in s.old_directories})
