"""Batches: the steps to begin now, in the plan's order, few at a time, few clients a minute."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trimtab.act.bundles.changes import requested, split_order
from trimtab.act.bundles.messages import UnloadBundles
from trimtab.act.bundles.state import BundlesExecutionState
from trimtab.act.bundles.steps import BundleStep, BundleStepKind, BundleStepRecord
from trimtab.act.execution.messages import Command
from trimtab.act.execution.record import Blocked, Choice, held_by_earlier

MINUTE = 60.0


def choose_batch(state: BundlesExecutionState) -> Choice[BundleStep]:
    """Pick the next batch, after a fresh deep look: one split, or a few unloads; no step may be active.

    Returns
    -------
    Choice
        Steps in order of number. A step that is blocked holds nobody up but those that follow it.
    """
    by_number = {record.step.number: record for record in state.records}
    batch: list[BundleStep] = []
    blocked: dict[int, Blocked] = {}
    spent = sessions_disturbed(state.records, state.now)
    for record in state.pending:
        step = record.step
        why = _held_up(record, by_number, state) or _over_limit(step, batch, spent, state)
        if why is not None:
            blocked[step.number] = why
            continue
        batch.append(step)
        spent += step.sessions if step.kind is BundleStepKind.UNLOAD else 0
    return Choice(tuple(batch), blocked)


def sessions_disturbed(records: Sequence[BundleStepRecord], now: float) -> int:
    """The number of clients that we have disconnected within the last minute, by the plan's count."""
    return sum(sessions for _, sessions in _disturbing(records, now))


def _disturbing(records: Sequence[BundleStepRecord], now: float) -> list[tuple[float, int]]:
    """Every unload of the last minute: when, and of how many clients."""
    return [(at, one.step.sessions) for one in records for at in one.unloaded_at if now - at < MINUTE]


def _held_up(
    record: BundleStepRecord, by_number: Mapping[int, BundleStepRecord], state: BundlesExecutionState
) -> Blocked | None:
    seen = state.observation
    step = record.step
    if step.follows is not None and (held := held_by_earlier(by_number[step.follows], must_succeed=True)):
        return held
    if record.waits_for is not None:
        return Blocked(record.reason, blocking=True, until=record.not_before)
    if record.not_before > state.now:
        return Blocked(f"will be tried again ({record.reason})", blocking=True, until=record.not_before)
    if step.target is not None and step.target not in seen.brokers:
        return Blocked(f"{step.target}, its destination, is gone")
    if step.target is not None and step.target in seen.unreachable:
        return Blocked(f"{step.target}, its destination, does not answer ({seen.unreachable[step.target]})")
    if step.target is not None and step.target in (seen.unhealthy or {}):
        why = (seen.unhealthy or {})[step.target]
        return Blocked(f"{step.target}, its destination, is not healthy ({why})")
    return None


def _over_limit(
    step: BundleStep, batch: Sequence[BundleStep], spent: int, state: BundlesExecutionState
) -> Blocked | None:
    pace = state.settings.limits
    if batch and (batch[0].kind is not step.kind or step.kind is BundleStepKind.SPLIT):
        return Blocked("its turn is after the batch before it", blocking=True)
    if step.kind is BundleStepKind.SPLIT:
        return None
    if len(batch) >= pace.max_unloads_per_batch:
        return Blocked("the batch is full", blocking=True)
    if spent and spent + step.sessions > pace.max_sessions_per_minute:
        asked = [at for at, _ in _disturbing(state.records, state.now)]
        return Blocked(
            f"{spent} clients were disconnected within a minute, {step.sessions} more would pass "
            f"{pace.max_sessions_per_minute}",
            blocking=True,
            until=min(asked) + MINUTE if asked else None,
        )
    return None


def begin(
    state: BundlesExecutionState, batch: tuple[BundleStep, ...]
) -> tuple[BundlesExecutionState, Command]:
    """Ask Pulsar for a batch: a split, or unloads."""
    state = replace(state, batches=state.batches + 1, blocked_since={})
    chosen = {step.number for step in batch}
    records = [record for record in state.records if record.step.number in chosen]
    if batch[0].kind is BundleStepKind.SPLIT:
        return split_order(state, records[0])
    owners = state.observation.owners
    asked = [requested(record, state.now, owners.get(record.step.bundle)) for record in records]
    state = state.changing(asked, lambda record: replace(record, lookup_at=None, reason=""))
    targets = {step.bundle: step.target for step in batch if step.target is not None}
    return state, UnloadBundles(targets)
