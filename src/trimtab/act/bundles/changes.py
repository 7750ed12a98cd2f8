"""Unloads, splits and lookups: asking Pulsar for them, and what its answers change.

Whether anything was done a look tells, not an answer.
"""

from dataclasses import replace
from typing import Final

from trimtab.act.bundles.messages import (
    OwnersResolved,
    ResolveOwners,
    SplitBundle,
    SplitCompleted,
    UnloadCompleted,
)
from trimtab.act.bundles.port import BundlesObservation
from trimtab.act.bundles.state import BundlesExecutionState
from trimtab.act.bundles.steps import BundleStepKind, BundleStepRecord, BundleStepState
from trimtab.act.execution.messages import Command, CommandFailed, Failure
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.execution.transitions import failed, well

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
