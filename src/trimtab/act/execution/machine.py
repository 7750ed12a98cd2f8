"""An execution as a pure state machine: facts in, one order at a time out.

`handle(state, event)` is the only way to change a state; it knows no network, no journal and no clock (times
come in with the events). The runner performs the order and answers it with one event, and so on until the
order is `Finish`. Whoever writes each state down before performing its order can be killed at any moment: the
state read back, told `Resumed`, looks at the cluster and goes on from what it sees.

What holds after every event (checked by `trimtab.act.execution.invariants`):

- a final status means that nothing of ours is in flight and no throttle setting is ours;
- before a throttle setting is changed, its old value is in the state;
- nothing is begun unless the status is `RUNNING` and the cluster was looked at since the last order.
"""

from collections.abc import Iterable
from dataclasses import replace

from trimtab.act.execution import answers
from trimtab.act.execution.approach import UNMEASURED, outrun, relieved
from trimtab.act.execution.batches import Blocked, Choice, choose_batch
from trimtab.act.execution.commands import (
    CancelReassignments,
    Command,
    ElectPreferred,
    Finish,
    GiveUp,
    MoveLogDirs,
    Observe,
    ReadThrottle,
    Reassign,
    SenseLoad,
    Wait,
    WriteThrottle,
)
from trimtab.act.execution.events import Event
from trimtab.act.execution.health import given_up, steps_without_destination, why_wait
from trimtab.act.execution.reconcile import ended, out_of_order
from trimtab.act.execution.settings import ExecutionSettings
from trimtab.act.execution.state import ExecutionState, Status
from trimtab.act.execution.steps import Step, StepKind, StepRecord, StepState
from trimtab.act.execution.throttle import (
    first_rate,
    topics_of,
    wanted_config,
)


def new_execution(
    cluster_id: str, steps: Iterable[Step], settings: ExecutionSettings, now: float
) -> ExecutionState:
    """The state before the first look; its first event is `Resumed`."""
    return ExecutionState(
        settings=settings,
        cluster_id=cluster_id,
        records=tuple(StepRecord(step) for step in steps),
        copies_per_broker=settings.copies_per_broker,
        now=now,
    )


def handle(state: ExecutionState, event: Event) -> tuple[ExecutionState, Command]:
    """The state after a fact, and what to do next."""
    return decide(absorb(state, event))


def absorb(state: ExecutionState, event: Event) -> ExecutionState:
    """The state after a fact; nothing is ordered yet."""
    return answers.absorb(replace(state, now=max(state.now, event.at)), event)


def decide(state: ExecutionState) -> tuple[ExecutionState, Command]:
    """The next order, with the state marked as having given it."""
    state, command = _decide(state)
    return replace(state, awaiting=command), command


def _decide(state: ExecutionState) -> tuple[ExecutionState, Command]:
    if state.final:
        return state, Finish()
    if state.give_up:
        return state, GiveUp(state.give_up)
    if state.pause_until > state.now:
        return state, Wait(state.pause_until)
    if not state.fresh or state.seen is None:
        return state, _look(state)
    if state.status is Status.CANCELLING:
        state = _roll_back(state, {record.step.number: "" for record in state.active}, StepState.ROLLED_BACK)
    else:
        state = _give_up_hopeless(state)
    order = _order_for_active(state)
    if order is not None:
        return order
    if state.active:
        return _adapt_throttle(state) or (state, Wait(state.now + state.settings.poll_seconds))
    return _between_batches(state)


# ---------------------------------------------------------------- looking


def _look(state: ExecutionState) -> Command:
    """A narrow look at what is under way, or a wide one between batches and every `check_seconds`."""
    # In a large cluster a wide look takes seconds: it must not be all that we do.
    interval = max(state.settings.check_seconds, 9 * state.wide_look_seconds)
    overdue = state.looked_wide_at is None or state.now - state.looked_wide_at >= interval or not state.active
    records = [record for record in state.records if record.active or (overdue and not record.ended)]
    brokers: set[int] = set()
    for record in records:
        brokers.update(record.step.added)
        brokers.update(broker for broker, _ in record.step.directories)
        if overdue and record.active and record.step.kind is StepKind.COPY:
            brokers.update(_leaders(state, record))
    partitions = dict.fromkeys(record.step.partition for record in records)
    return Observe(tuple(partitions), tuple(sorted(brokers)), wide=overdue)


def _leaders(state: ExecutionState, record: StepRecord) -> tuple[int, ...]:
    """Whom a copy is read from, by the last look: their size tells how much of it is left."""
    placement = None if state.seen is None else state.seen.placements.get(record.step.partition)
    return () if placement is None or placement.leader is None else (placement.leader,)


# ---------------------------------------------------------------- what is under way


def _give_up_hopeless(state: ExecutionState) -> ExecutionState:
    """Roll back copies whose destination is dead or that do not get on; fail what waits for the dead."""
    without = steps_without_destination(state)
    hopeless = {n: f"broker {broker}, its destination, is dead" for n, broker in without.items()}
    for record in state.active:
        copying = record.step.kind is not StepKind.LEAD and record.state is StepState.MOVING
        still = state.now - (record.advanced_at if record.advanced_at is not None else state.now)
        if copying and still >= state.settings.stall_seconds:
            hopeless.setdefault(record.step.number, f"no progress in {still:.0f} s")
    state = relieved(state, outrunning := outrun(state))
    hopeless = outrunning | hopeless
    pending = {
        record.step.number: ended(record, StepState.FAILED, state.now, hopeless[record.step.number])
        for record in state.pending
        if record.step.number in hopeless
    }
    return _roll_back(state.with_records(pending), hopeless, StepState.FAILED)


def _roll_back(state: ExecutionState, why: dict[int, str], final: StepState) -> ExecutionState:
    changed = {}
    for record in state.active:
        if record.step.number in why and record.state is not StepState.ROLLING_BACK:
            changed[record.step.number] = replace(
                record,
                state=StepState.ROLLING_BACK,
                rollback=final,
                reason=why[record.step.number] or record.reason,
                not_before=0.0,
                advanced_at=state.now,
            )
    return state.with_records(changed)


def _order_for_active(state: ExecutionState) -> tuple[ExecutionState, Command] | None:
    """What the steps under way need next: rolling back, then elections."""
    assert state.seen is not None
    rolling = [r for r in state.active if r.state is StepState.ROLLING_BACK]
    disordered = [r for r in rolling if out_of_order(r, state.seen)]
    again = [r for r in disordered if r.not_before <= state.now or r.attempts == 0]
    if again:
        state = state.with_records({r.step.number: _tried_again(r, state) for r in again})
        return state, Reassign({r.step.partition: r.step.before for r in again}, {})
    rolling = [r for r in rolling if r.not_before <= state.now and r not in disordered]
    for kind in StepKind:
        chosen = [record for record in rolling if record.step.kind is kind]
        if chosen:
            later = state.now + state.settings.settle_seconds
            state = state.with_records({r.step.number: replace(r, not_before=later) for r in chosen})
            return state, _rollback_command(kind, chosen)
    electing = [r for r in state.active if r.state is StepState.ELECTING and r.not_before <= state.now]
    if electing:
        later = state.now + state.settings.settle_seconds
        state = state.with_records({r.step.number: replace(r, not_before=later) for r in electing})
        return state, ElectPreferred(tuple(record.step.partition for record in electing))
    return None


def _tried_again(record: StepRecord, state: ExecutionState) -> StepRecord:
    attempts = record.attempts + 1
    return replace(record, attempts=attempts, not_before=state.now + state.settings.backoff(attempts))


def _rollback_command(kind: StepKind, records: list[StepRecord]) -> Command:
    steps = [record.step for record in records]
    if kind is StepKind.COPY:
        return CancelReassignments(tuple(step.partition for step in steps))
    if kind is StepKind.LEAD:
        return Reassign({step.partition: step.before for step in steps}, {})
    return MoveLogDirs({(s.partition, broker): path for s in steps for broker, path in s.old_directories})


# ---------------------------------------------------------------- throttle


def _adapt_throttle(state: ExecutionState) -> tuple[ExecutionState, Command] | None:
    return _throttle_for(state, [record.step for record in state.active])


def _throttle_for(state: ExecutionState, steps: list[Step]) -> tuple[ExecutionState, Command] | None:
    """The order that puts the throttle for these steps in force; None when it is."""
    rate = state.rate_bytes_per_second
    copies = topics_of(steps) if rate is not None else frozenset()
    unknown = copies - state.throttle.topics
    if unknown or (copies and not state.throttle.rates_touched):
        return state, ReadThrottle(tuple(sorted(unknown)))
    if state.throttle.empty:
        return None
    wanted = wanted_config(state.throttle, rate if copies else None, steps)
    if wanted == state.throttle_in_force:
        return None
    return state, WriteThrottle(wanted, kept_topics=copies, kept_rates=bool(copies))


def _clean_up(state: ExecutionState) -> tuple[ExecutionState, Command]:
    """Give back what we changed, then end."""
    order = _throttle_for(state, [])
    if order is not None:
        return order
    assert state.outcome is not None
    return replace(state, status=state.outcome, outcome=None), Finish()


# ---------------------------------------------------------------- between batches


def _between_batches(state: ExecutionState) -> tuple[ExecutionState, Command]:
    assert state.seen is not None
    if state.seen.unhealthy is None:
        return state, _look(state)
    if state.status is Status.CANCELLING:
        return _clean_up(_clean(state, Status.CANCELLED))
    if state.status is Status.STOPPING:
        return _clean_up(_clean(state, Status.STOPPED))
    if state.status is Status.CLEANING:
        return _clean_up(state)
    if not state.pending:
        return _clean_up(_clean(state, _outcome(state)))
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
    return _begin(state, choice.batch)


def _clean(state: ExecutionState, outcome: Status) -> ExecutionState:
    return replace(state, status=Status.CLEANING, outcome=outcome)


def _outcome(state: ExecutionState) -> Status:
    good = all(record.state in (StepState.DONE, StepState.DROPPED) for record in state.records)
    return Status.FINISHED if good else Status.INCOMPLETE


def _wait(state: ExecutionState, reason: str, patience: float) -> tuple[ExecutionState, Command]:
    since = state.now if state.waiting_since is None else state.waiting_since
    if state.now - since >= patience:
        stopped = f"{reason}, for {state.now - since:.0f} s: stopped; resume when it is over"
        return _clean_up(_clean(replace(state, reason=stopped), Status.STOPPED))
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
        return _decide(state)
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


def _begin(state: ExecutionState, batch: tuple[Step, ...]) -> tuple[ExecutionState, Command]:
    """Put the throttle in force, then ask Kafka for the batch."""
    copies = [step for step in batch if step.kind is StepKind.COPY]
    if copies and state.rate_bytes_per_second is None and state.settings.throttle != "none":
        brokers = {broker for step in copies for broker in (*step.added, *step.before)}
        rate = first_rate(state.settings, state.headroom, brokers)
        state = replace(state, rate_bytes_per_second=rate)
    order = _throttle_for(state, list(batch))
    if order is not None:
        return order
    kinds = {step.kind for step in batch}
    if StepKind.LOG_DIR in kinds and StepKind.COPY in kinds:
        batch = tuple(step for step in batch if step.kind is StepKind.COPY)
    state = replace(
        state, batches=state.batches + 1, blocked_since={}, looked_wide_at=state.now, chosen=numbers(batch)
    )
    state = state.with_records(
        {
            record.step.number: replace(
                record,
                state=StepState.REQUESTED,
                started_at=record.started_at or state.now,
                advanced_at=state.now,
                reason="",
                copied_bytes=0,
                **UNMEASURED,
            )
            for record in state.records
            if record.step.number in state.chosen
        }
    )
    if batch[0].kind is StepKind.LOG_DIR:
        return state, MoveLogDirs(
            {(s.partition, broker): path for s in batch for broker, path in s.directories}
        )
    return state, Reassign(
        {step.partition: step.after for step in batch},
        {(s.partition, broker): path for s in batch for broker, path in s.directories if broker in s.added},
    )


def numbers(steps: Iterable[Step]) -> tuple[int, ...]:
    """Their numbers, in order."""
    return tuple(step.number for step in steps)
