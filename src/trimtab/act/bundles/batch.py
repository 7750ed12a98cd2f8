"""Batches of unloads and splits: their choice, the requests to Pulsar, and the effect of its answers.

Pulsar answers yes to requests that do nothing, so only an observation shows whether a step is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from trimtab.act.bundles.port import (
    BundlesObservation,
    OwnersResolved,
    ResolveOwners,
    SplitBundle,
    SplitCompleted,
    UnloadBundles,
    UnloadCompleted,
)
from trimtab.act.bundles.state import (
    BundlesExecutionState,
    BundleStep,
    BundleStepKind,
    BundleStepRecord,
    BundleStepState,
)
from trimtab.act.execution.port import Command, CommandFailed, Failure
from trimtab.act.execution.state import ExecutionStatus, failed, well
from trimtab.act.execution.steps import Blocked, Choice, held_by_earlier

REFUSED: Final = frozenset({"401", "403"})
"""Not a matter of trying again: the brokers do not know us, or do not let us."""
OWNER_DOWN: Final = "307"
"""Redirected to a broker that does not answer: it owns the bundle, or leads, and has just died."""
UNKNOWN: Final = "no answer"
"""True if Pulsar got it is not known."""


def order_for_active(state: BundlesExecutionState) -> tuple[BundlesExecutionState, Command | None]:
    """The next order for what is under way; None when there is nothing to do but to wait."""
    for record in state.active:
        if record.state is BundleStepState.CUTTING and record.not_before <= state.now:
            return split_order(state, record)
    unowned = [record for record in state.active if _requires_lookup(state, record)]
    if unowned:
        state = state.changing(unowned, lambda record: replace(record, lookup_at=state.now))
        return state, ResolveOwners(tuple(record.step.bundle for record in unowned))
    return state, None


def split_order(
    state: BundlesExecutionState, record: BundleStepRecord
) -> tuple[BundlesExecutionState, Command]:
    """Ask for the cuts that are missing, as many at once as the load manager takes."""
    bundle, boundaries = concurrent_splits(record, state.observation)
    origin = state.observation.owners.get(bundle)
    state = state.changing([record], lambda one: requested(one, state.now, origin))
    return state, SplitBundle(record.step.number, bundle, boundaries)


def requested(record: BundleStepRecord, now: float, origin: str | None) -> BundleStepRecord:
    """The record as written down before Pulsar is asked."""
    return replace(
        record,
        state=BundleStepState.REQUESTED,
        started_at=now if record.started_at is None else record.started_at,
        requested_at=now,
        unloaded_at=(*record.unloaded_at, now) if record.step.kind is BundleStepKind.UNLOAD else (),
        advanced_at=now,
        origin=origin,
    )


def concurrent_splits(
    record: BundleStepRecord, observation: BundlesObservation
) -> tuple[str, tuple[int, ...]]:
    """The bundle that holds the first boundary still missing, and those of them that it can be asked for.

    The modular load manager takes several boundaries of one bundle in one call, the extensible one refuses
    more than one (apache/pulsar#22254).
    """
    step = record.step
    there = observation.cuts(step.range) or ()
    missing = [one for one in step.boundaries if one not in there]
    around = observation.bundle_around(step.namespace, missing[0])
    assert around is not None, f"{step}: no bundle around 0x{missing[0]:08x}"
    inside = tuple(one for one in missing if around.low < one < around.high)
    return around.key, inside[:1] if observation.extensible else inside


def _requires_lookup(state: BundlesExecutionState, record: BundleStepRecord) -> bool:
    """True if an unloaded bundle has been without an owner for so long that no client seems to ask for it."""
    if record.step.kind is not BundleStepKind.UNLOAD or record.step.bundle in state.observation.owners:
        return False
    if state.observation.unreachable and record.origin in state.observation.unreachable:
        return False  # its owner may have it still: a lookup would tell a dead address
    pace = state.settings.limits
    since = record.advanced_at if record.lookup_at is None else record.lookup_at
    patience = pace.assign_after_seconds if record.lookup_at is None else state.settings.metadata_lag_seconds
    return since is not None and state.now - since >= patience


def unloaded(state: BundlesExecutionState, event: UnloadCompleted) -> BundlesExecutionState:
    """Pulsar's answer to each unload."""
    changed = {}
    refused: Failure | None = None
    for record in state.active:
        if record.state is not BundleStepState.REQUESTED or record.step.bundle not in event.answers:
            continue
        failure = event.answers[record.step.bundle]
        if failure is not None and failure.code in REFUSED:
            refused = failure
        changed[record.step.number] = _answered(state, record, failure, BundleStepState.MOVING)
    return _after(state, changed, refused)


def split(state: BundlesExecutionState, event: SplitCompleted) -> BundlesExecutionState:
    """Pulsar's answer to a split."""
    changed = {}
    failure = event.failure
    for record in state.active:
        if record.state is BundleStepState.REQUESTED and record.requested_at is not None:
            changed[record.step.number] = _answered(state, record, failure, BundleStepState.REQUESTED)
    refused = failure if failure is not None and failure.code in REFUSED else None
    return _after(state, changed, refused)


def apply_lookup(state: BundlesExecutionState, event: OwnersResolved) -> BundlesExecutionState:
    """A lookup gives an owner or does not; the next look tells which."""
    return well(replace(state, fresh=False))


def _after(
    state: BundlesExecutionState, changed: dict[int, BundleStepRecord], refused: Failure | None
) -> BundlesExecutionState:
    state = replace(state.with_records(changed), fresh=False)
    if refused is None:
        return well(state)
    return replace(failed(state, refused), give_up=f"{refused.message}: the brokers' balancing is still off")


def _answered(
    state: BundlesExecutionState, record: BundleStepRecord, failure: Failure | None, accepted: BundleStepState
) -> BundleStepRecord:
    now, settings = state.now, state.settings
    if failure is None:
        return replace(record, state=accepted, advanced_at=now)
    if failure.code.startswith("4") or failure.code == OWNER_DOWN:
        # After any other answer it may have been done all the same.
        record = replace(record, unloaded_at=record.unloaded_at[:-1])
    if failure.code in REFUSED or failure.code == UNKNOWN:
        return record  # the next look tells what became of it
    why = f"Pulsar refused: {failure.code}: {failure.message}"
    if failure.code == OWNER_DOWN:
        whom = state.observation.leader if record.origin is None else record.origin
        later = now + settings.limits.session_timeout_seconds
        back = record.set_back(now, settings, failure.message)
        return back if back.ended else replace(back, waits_for=whom, not_before=later)
    if failure.code == "404":
        # Gone, or just not known to the broker that was asked: the next look at its boundaries tells.
        return record.set_back(now, settings, why)
    if failure.transient or failure.code in ("409", "412", "500"):
        return record.set_back(now, settings, why)
    return record.end(BundleStepState.FAILED, now, why)


def command_failed(state: BundlesExecutionState, event: CommandFailed) -> BundlesExecutionState:
    """A whole call failed; with the wrong token nothing more is tried."""
    state = replace(failed(state, event.failure), overrides=None)
    if event.failure.code not in REFUSED:
        return state
    if not state.hold and not state.active:
        # Nothing of ours is there to be given back: it can end here.
        return replace(
            state,
            status=ExecutionStatus.CLEANING,
            outcome=ExecutionStatus.STOPPED,
            reason=event.failure.message,
            fresh=True,
            pause_until=0.0,
            give_up="",
        )
    left = "the brokers' own balancing is still switched off by us" if state.hold else ""
    return replace(state, give_up=": ".join(filter(None, [event.failure.message, left])))


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
