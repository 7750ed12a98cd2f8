"""What follows when nothing is in flight: the end, a wait, or the next batch."""

from dataclasses import replace

from trimtab.act.execution.commands import Command, Wait
from trimtab.act.execution.status import Status
from trimtab.act.replicas.batch_orders import begin
from trimtab.act.replicas.batches import Blocked, Choice, choose_batch
from trimtab.act.replicas.commands import SenseLoad
from trimtab.act.replicas.ending import clean_up, end, outcome_of_steps
from trimtab.act.replicas.health import given_up, why_wait
from trimtab.act.replicas.looks import next_look
from trimtab.act.replicas.reconcile import ended
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import StepKind, StepRecord, StepState


def between_batches(state: ExecutionState) -> tuple[ExecutionState, Command]:
    """End, wait, or begin the next batch; nothing of ours is in flight."""
    assert state.seen is not None
    if state.seen.unhealthy is None:
        return state, next_look(state)
    if state.status is Status.CANCELLING:
        return end(state, Status.CANCELLED)
    if state.status is Status.STOPPING:
        return end(state, Status.STOPPED)
    if state.status is Status.CLEANING:
        return clean_up(state)
    if not state.pending:
        return end(state, outcome_of_steps(state))
    wait = why_wait(state, state.seen)
    if wait is not None:
        return _wait(state, *wait)
    if state.status is Status.WAITING:
        state = replace(state, status=Status.RUNNING, reason="", waiting_since=None)
    assert state.seen is not None
    if state.sensed_for_batch != state.batches:
        partitions = dict.fromkeys(record.step.partition for record in state.pending)
        return state, SenseLoad(tuple(partitions))
    choice = choose_batch(
        state.records,
        state.seen,
        state.now,
        state.copies_per_broker,
        state.settings,
        free=state.free,
        gains=state.gains,
    )
    if not choice.batch:
        return _nothing_to_begin(state, choice)
    return begin(state, choice.batch)


def _wait(state: ExecutionState, reason: str, patience: float) -> tuple[ExecutionState, Command]:
    since = state.now if state.waiting_since is None else state.waiting_since
    if state.now - since >= patience:
        stopped = f"{reason}, for {state.now - since:.0f} s: stopped; resume when it is over"
        return end(replace(state, reason=stopped), Status.STOPPED)
    state = replace(state, status=Status.WAITING, reason=reason, waiting_since=since)
    return state, Wait(state.now + state.settings.poll_seconds)


def _nothing_to_begin(state: ExecutionState, choice: Choice) -> tuple[ExecutionState, Command]:
    """Every pending step is blocked: end those that will stay so, wait for the others."""
    changed = {}
    since = dict(state.blocked_since)
    for record in state.pending:
        number = record.step.number
        blocked = choice.blocked[number]
        since.setdefault(number, state.now)
        if _hopeless(state, record, blocked, state.now - since[number]):
            outcome = StepState.SKIPPED if record.step.kind is StepKind.LEAD else StepState.FAILED
            changed[number] = ended(record, outcome, state.now, blocked.reason)
    state = replace(state.with_records(changed), blocked_since=since)
    if changed:
        return between_batches(state)
    return state, Wait(state.now + state.settings.poll_seconds)


def _hopeless(state: ExecutionState, record: StepRecord, blocked: Blocked, seconds: float) -> bool:
    if blocked.for_good:
        return True
    if blocked.in_the_way:
        return False
    # Nothing of ours is in flight, so neither sync nor disk space will come from our own doing.
    needed = record.step.added
    if any(given_up(state, broker) for broker in needed):
        return True
    return seconds >= state.settings.in_sync_wait_seconds
