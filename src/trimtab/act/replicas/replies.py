"""What Kafka's answers to reassignments, moves between log dirs, cancellings and elections change."""

from dataclasses import replace
from typing import Final

from trimtab.act.execution.failing import well
from trimtab.act.execution.failure import Failure
from trimtab.act.replicas.events import (
    CancelAnswered,
    ElectionAnswered,
    LogDirMovesAnswered,
    ReassignAnswered,
)
from trimtab.act.replicas.observation import Answers
from trimtab.act.replicas.reconcile import ended, set_back
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
        return ended(record, StepState.SKIPPED, state.now, f"{record.step.partition.topic} has been deleted")
    if failure.code == "InvalidReplicationFactor":
        return ended(record, StepState.SKIPPED, state.now, failure.message)
    why = f"Kafka refused: {failure.code}: {failure.message}"
    if failure.transient:
        return set_back(record, state.now, state.settings, why)
    return ended(record, StepState.FAILED, state.now, why)


def cancelled(state: ExecutionState, event: CancelAnswered) -> ExecutionState:
    """Whatever the answer, the next look tells; a transient refusal is tried again soon."""
    changed = {}
    for record in state.active:
        failure = event.answers.get(record.step.partition)
        if record.state is StepState.ROLLING_BACK and failure is not None and failure.transient:
            attempts = record.attempts + 1
            again = state.now + state.settings.backoff(attempts)
            changed[record.step.number] = replace(record, attempts=attempts, not_before=again)
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
            changed[record.step.number] = ended(record, StepState.FAILED, state.now, why)
        else:
            again = state.now + state.settings.backoff(attempts)
            changed[record.step.number] = replace(record, attempts=attempts, not_before=again, reason=why)
    return well(replace(state.with_records(changed), fresh=False))
