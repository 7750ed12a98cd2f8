"""What steps under way need next: the rest of a split, or a lookup for a bundle that nobody asks for."""

from dataclasses import replace

from trimtab.act.bundles.commands import LookUp, Split
from trimtab.act.bundles.observation import BundlesSeen
from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import BundleRecord, StepKind, StepState
from trimtab.act.execution.commands import Command


def order_for_active(state: BundlesState) -> tuple[BundlesState, Command] | None:
    """The next order for what is under way; None when there is nothing to do but to wait."""
    assert state.seen is not None
    for record in state.active:
        if record.state is StepState.CUTTING and record.not_before <= state.now:
            return split_order(state, record)
    unowned = [record for record in state.active if _needs_lookup(state, record)]
    if unowned:
        state = state.with_records(
            {record.step.number: replace(record, looked_up_at=state.now) for record in unowned}
        )
        return state, LookUp(tuple(record.step.bundle for record in unowned))
    return None


def split_order(state: BundlesState, record: BundleRecord) -> tuple[BundlesState, Command]:
    """Ask for the cuts that are missing, as many at once as the load manager takes."""
    assert state.seen is not None
    bundle, boundaries = cuts_at_once(record, state.seen)
    record = replace(
        record,
        state=StepState.REQUESTED,
        started_at=record.started_at if record.started_at is not None else state.now,
        asked_at=state.now,
        advanced_at=state.now,
        origin=state.seen.owners.get(bundle),
    )
    state = state.with_records({record.step.number: record})
    return state, Split(record.step.number, bundle, boundaries)


def cuts_at_once(record: BundleRecord, seen: BundlesSeen) -> tuple[str, tuple[int, ...]]:
    """The bundle that holds the first boundary still missing, and those of them that it can be asked for.

    The modular load manager takes several boundaries of one bundle in one call, the extensible one refuses
    more than one (apache/pulsar#22254).
    """
    step = record.step
    there = seen.cuts(step.range) or ()
    missing = [one for one in step.boundaries if one not in there]
    around = seen.bundle_around(step.namespace, missing[0])
    assert around is not None, f"{step}: no bundle around 0x{missing[0]:08x}"
    inside = tuple(one for one in missing if around.low < one < around.high)
    return around.key, inside[:1] if seen.extensible else inside


def _needs_lookup(state: BundlesState, record: BundleRecord) -> bool:
    """Whether an unloaded bundle has been without an owner for so long that no client seems to ask for it."""
    assert state.seen is not None
    if record.step.kind is not StepKind.UNLOAD or record.step.bundle in state.seen.owners:
        return False
    if state.seen.silent and record.origin in state.seen.silent:
        return False  # its owner may have it still: a lookup would tell a dead address
    pace = state.settings.pace
    since = record.advanced_at if record.looked_up_at is None else record.looked_up_at
    patience = pace.assign_after_seconds if record.looked_up_at is None else state.settings.settle_seconds
    return since is not None and state.now - since >= patience
