"""What follows when nothing is in flight: the end, a wait, or the next batch."""

from dataclasses import replace

from trimtab.act.bundles.batches import Blocked, Choice, choose_batch
from trimtab.act.bundles.commands import Unload
from trimtab.act.bundles.ending import clean_up, end, outcome_of_steps
from trimtab.act.bundles.health import given_up, steps_without_destination, taken_back, why_wait
from trimtab.act.bundles.hold import order_to_hold
from trimtab.act.bundles.looks import next_look
from trimtab.act.bundles.reconcile import current, ended
from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import BundleRecord, Step, StepKind, StepState
from trimtab.act.bundles.under_way import split_order
from trimtab.act.execution.commands import Command, Wait
from trimtab.act.execution.status import Status


def between_batches(state: BundlesState) -> tuple[BundlesState, Command]:
    """End, wait, or begin the next batch; nothing of ours is in flight."""
    assert state.seen is not None
    if state.status is Status.CANCELLING:
        return end(state, Status.CANCELLED)
    if state.status is Status.STOPPING:
        return end(state, Status.STOPPED)
    if state.status is Status.CLEANING:
        return clean_up(state)
    if state.seen.unhealthy is None or state.seen.overrides is None:
        return state, next_look(state, deep=True)
    theirs = taken_back(state, state.seen)
    if theirs:
        reason = f"somebody else has changed the brokers' balancing since: {theirs}; theirs is left"
        return end(replace(state, reason=reason), Status.STOPPED)
    seen = state.seen
    state = _judged(state)
    if not state.pending:
        return end(state, outcome_of_steps(state))
    wait = why_wait(state, seen)
    if wait is not None:
        return _wait(state, *wait)
    if state.status is Status.WAITING:
        state = replace(state, status=Status.RUNNING, reason="", waiting_since=None)
    order = order_to_hold(state)
    if order is not None:
        return order
    pause = state.settings.pace.pause_seconds
    if state.batch_ended_at is not None and state.now - state.batch_ended_at < pause:
        return state, Wait(state.batch_ended_at + pause)
    choice = choose_batch(state.records, seen, state.now, state.settings.pace)
    if not choice.batch:
        return _nothing_to_begin(state, choice)
    return _begin(state, choice.batch)


def _judged(state: BundlesState) -> BundlesState:
    """Steps whose turn has come at last held against the cluster; those without a destination fail."""
    assert state.seen is not None
    done = {r.step.number for r in state.records if r.state is StepState.DONE}
    changed = {
        record.step.number: current(record, state.seen, state.now, state.settings)
        for record in state.pending
        if record.step.follows in done
    }
    state = state.with_records(changed)
    dead = steps_without_destination(state)
    return state.with_records(
        {
            record.step.number: ended(
                record, StepState.FAILED, state.now, f"{dead[record.step.number]}, its destination, is dead"
            )
            for record in state.pending
            if record.step.number in dead
        }
    )


def _begin(state: BundlesState, batch: tuple[Step, ...]) -> tuple[BundlesState, Command]:
    state = replace(state, batches=state.batches + 1, blocked_since={})
    by_number = {record.step.number: record for record in state.records}
    if batch[0].kind is StepKind.SPLIT:
        return split_order(state, by_number[batch[0].number])
    seen = state.seen
    assert seen is not None
    asked = {
        step.number: replace(
            by_number[step.number],
            state=StepState.REQUESTED,
            started_at=_first(by_number[step.number].started_at, state.now),
            asked_at=state.now,
            advanced_at=state.now,
            origin=seen.owners.get(step.bundle),
            looked_up_at=None,
            reason="",
        )
        for step in batch
    }
    targets = {step.bundle: step.target for step in batch if step.target is not None}
    return state.with_records(asked), Unload(targets)


def _first(at: float | None, now: float) -> float:
    return now if at is None else at


def _wait(state: BundlesState, reason: str, patience: float) -> tuple[BundlesState, Command]:
    since = state.now if state.waiting_since is None else state.waiting_since
    if state.now - since >= patience:
        stopped = f"{reason}, for {state.now - since:.0f} s: stopped; resume when it is over"
        return end(replace(state, reason=stopped), Status.STOPPED)
    state = replace(state, status=Status.WAITING, reason=reason, waiting_since=since)
    return state, Wait(state.now + state.settings.check_seconds)


def _nothing_to_begin(state: BundlesState, choice: Choice) -> tuple[BundlesState, Command]:
    """Every pending step is blocked: end those that will stay so, wait for the others."""
    changed = {}
    since = dict(state.blocked_since)
    for record in state.pending:
        number = record.step.number
        blocked = choice.blocked[number]
        if not blocked.in_the_way:
            since.setdefault(number, state.now)
        if _is_hopeless(state, record, blocked, state.now - since.get(number, state.now)):
            outcome = StepState.SKIPPED if blocked.for_good else StepState.FAILED
            changed[number] = ended(record, outcome, state.now, blocked.reason)
    state = replace(state.with_records(changed), blocked_since=since)
    if changed:
        return between_batches(state)
    known = [blocked.until for blocked in choice.blocked.values() if blocked.until is not None]
    soon = state.now + state.settings.poll_seconds
    # A broker may come back earlier than its session ends, so that is looked for meanwhile.
    latest = state.now + state.settings.check_seconds
    return state, Wait(min(latest, max(soon, min(known, default=soon))))


def _is_hopeless(state: BundlesState, record: BundleRecord, blocked: Blocked, seconds: float) -> bool:
    if blocked.for_good:
        return True
    if blocked.in_the_way:
        return False
    if record.step.target is not None and given_up(state, record.step.target):
        return True
    return seconds >= state.settings.unhealthy_wait_seconds
