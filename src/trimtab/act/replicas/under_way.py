"""What is done about steps under way: copies without hope are given up, rolled back, and leaders elected."""

from dataclasses import replace

from trimtab.act.execution.commands import Command
from trimtab.act.replicas.approach import outrun, relieved
from trimtab.act.replicas.commands import CancelReassignments, ElectPreferred, MoveLogDirs, Reassign
from trimtab.act.replicas.health import steps_without_destination
from trimtab.act.replicas.reconcile import ended, out_of_order
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import StepKind, StepRecord, StepState


def give_up_hopeless(state: ExecutionState) -> ExecutionState:
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
    return roll_back(state.with_records(pending), hopeless, StepState.FAILED)


def roll_back(state: ExecutionState, why: dict[int, str], final: StepState) -> ExecutionState:
    """Mark steps under way as to be rolled back, to end as `final`.

    Parameters
    ----------
    why
        Step number -> reason; an empty one leaves the reason that the record has.
    """
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


def order_for_active(state: ExecutionState) -> tuple[ExecutionState, Command] | None:
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
