"""What Pulsar's answers to unloads, splits and lookups change; whether anything was done, a look tells."""

from dataclasses import replace

from trimtab.act.bundles.events import LookedUp, SplitAnswered, UnloadAnswered
from trimtab.act.bundles.reconcile import ended, set_back
from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import BundleRecord, StepState
from trimtab.act.execution.failing import failed, well
from trimtab.act.execution.failure import Failure

REFUSED = ("401", "403")
OWNER_DOWN = "307"
"""Redirected to a broker that does not answer: it owns the bundle, or leads, and has just died."""
UNKNOWN = "no answer"
"""Whether Pulsar got it is not known."""


def unloaded(state: BundlesState, event: UnloadAnswered) -> BundlesState:
    """Pulsar's answer to each unload."""
    changed = {}
    refused: Failure | None = None
    for record in state.active:
        if record.state is not StepState.REQUESTED or record.step.bundle not in event.answers:
            continue
        failure = event.answers[record.step.bundle]
        if failure is not None and failure.code in REFUSED:
            refused = failure
        changed[record.step.number] = _answered(state, record, failure, StepState.MOVING)
    return _after(state, changed, refused)


def split(state: BundlesState, event: SplitAnswered) -> BundlesState:
    """Pulsar's answer to a split."""
    changed = {}
    failure = event.failure
    for record in state.active:
        if record.state is StepState.REQUESTED and record.asked_at is not None:
            changed[record.step.number] = _answered(state, record, failure, StepState.REQUESTED)
    refused = failure if failure is not None and failure.code in REFUSED else None
    return _after(state, changed, refused)


def looked_up(state: BundlesState, event: LookedUp) -> BundlesState:
    """A lookup gives an owner or does not; the next look tells which."""
    return well(replace(state, fresh=False))


def _after(state: BundlesState, changed: dict[int, BundleRecord], refused: Failure | None) -> BundlesState:
    state = replace(state.with_records(changed), fresh=False)
    if refused is None:
        return well(state)
    return replace(failed(state, refused), give_up=f"{refused.message}: the brokers' balancing is still off")


def _answered(
    state: BundlesState, record: BundleRecord, failure: Failure | None, accepted: StepState
) -> BundleRecord:
    now, settings = state.now, state.settings
    if failure is None:
        return replace(record, state=accepted, advanced_at=now)
    if failure.code in REFUSED or failure.code == UNKNOWN:
        return record  # the next look tells what became of it
    why = f"Pulsar refused: {failure.code}: {failure.message}"
    if failure.code == OWNER_DOWN:
        leader = None if state.seen is None else state.seen.leader
        whom = leader if record.origin is None else record.origin
        later = now + settings.pace.session_timeout_seconds
        back = set_back(record, now, settings, failure.message)
        return back if back.ended else replace(back, waits_for=whom, not_before=later)
    if failure.code == "404":
        # Gone, or just not known to the broker that was asked: the next look at its boundaries tells.
        return set_back(record, now, settings, why)
    if failure.transient or failure.code in ("409", "412", "500"):
        return set_back(record, now, settings, why)
    return ended(record, StepState.FAILED, now, why)
