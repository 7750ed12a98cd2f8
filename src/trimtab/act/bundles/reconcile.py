"""The meaning of one look at the cluster: for the execution, what holds it up, and each of its steps.

Everything is decided from what the cluster shows, not from what we think we did, nor from what Pulsar
answered: it says yes to unloads and splits that do nothing.
"""

from dataclasses import replace
from typing import Final

from trimtab.act.bundles.port import OFF, SWITCHES, BundlesObservation, BundlesObserved, ObserveBundles
from trimtab.act.bundles.state import (
    BundlesExecutionState,
    BundleStepKind,
    BundleStepRecord,
    BundleStepState,
    UnloadSettings,
)
from trimtab.act.execution.state import ExecutionStatus, absorb_observation, lost_brokers


def observed(state: BundlesExecutionState, event: BundlesObserved) -> BundlesExecutionState:
    """The state after a look: steps that got on or ended, brokers that are gone, what others moved."""
    seen = event.observation
    state = absorb_observation(replace(state, observation=seen), seen.cluster, seen.alive)
    if state.give_up:
        return state
    state = replace(state, poll_seconds=max(0.0, state.now - seen.at))
    if seen.unhealthy is not None and state.unwell is None:
        state = replace(state, unwell=frozenset(seen.unhealthy))
    state = noticing(state, seen)
    asked = state.awaiting.namespaces if isinstance(state.awaiting, ObserveBundles) else ()
    disturbing = any(record.step.kind is BundleStepKind.UNLOAD for record in state.active)
    changed: dict[int, BundleStepRecord] = {}
    for record in state.records:
        if record.step.namespace not in asked:
            continue
        after = reconcile(record, seen, state.now, state.settings)
        if (
            state.status is ExecutionStatus.CANCELLING
            and after.state is BundleStepState.PENDING
            and record.active
        ):
            after = replace(after, reason=f"cancelled; {after.reason}")
        if after is not record:
            changed[record.step.number] = after
    state = state.with_records(changed)
    if disturbing and not any(record.step.kind is BundleStepKind.UNLOAD for record in state.active):
        state = replace(state, batch_ended_at=state.now)
    return state


def reconcile(
    record: BundleStepRecord, observation: BundlesObservation, now: float, settings: UnloadSettings
) -> BundleStepRecord:
    """The record after a look that covered its namespace and all brokers."""
    if record.ended:
        return record
    if record.step.follows is not None and record.state is BundleStepState.PENDING:
        return record  # what it is about may not be there yet; the batch chooser knows when it never will
    return current(record, observation, now, settings)


def current(
    record: BundleStepRecord, observation: BundlesObservation, now: float, settings: UnloadSettings
) -> BundleStepRecord:
    """The record after a look, whatever it follows."""
    record = _awaited(record, observation, settings)
    namespace = record.step.namespace
    if namespace not in observation.boundaries:
        return record.end(BundleStepState.SKIPPED, now, f"namespace {namespace} is gone")
    kind = _unload if record.step.kind is BundleStepKind.UNLOAD else _split
    return kind(record, observation, now, settings)


def _awaited(
    record: BundleStepRecord, observation: BundlesObservation, settings: UnloadSettings
) -> BundleStepRecord:
    """A broker that was waited for answers again, or its session is over: no need to wait so long."""
    if record.waits_for is None or record.waits_for in observation.unreachable:
        return record
    if record.waits_for not in observation.brokers:
        return replace(record, waits_for=None, not_before=0.0)
    # It is well, so somebody else on the way (the leader) was not: tried again soon, but not at once.
    soon = (record.advanced_at or 0.0) + settings.backoff(record.attempts)
    return replace(record, waits_for=None, not_before=min(record.not_before, soon))


def _unload(
    record: BundleStepRecord, observation: BundlesObservation, now: float, settings: UnloadSettings
) -> BundleStepRecord:
    step = record.step
    if not observation.has(step.range):
        begun = record.active or record.attempts > 0
        return record.end(
            BundleStepState.FAILED if begun else BundleStepState.SKIPPED,
            now,
            missing_reason(record, observation),
        )
    owner = observation.owners.get(step.bundle)
    if owner == step.target:
        return record.end(BundleStepState.DONE, now, "" if record.started_at else "was so already")
    if record.state is BundleStepState.PENDING:
        return _still_applies(record, owner, now)
    if owner is None:
        return _unowned(record, observation, now, settings)
    if owner != record.origin:
        return record.set_back(now, settings, f"went to {owner}, not to {step.target}")
    if record.lagging(now, settings):
        return record
    return record.set_back(now, settings, f"Pulsar left it with {owner}")


def _still_applies(record: BundleStepRecord, owner: str | None, now: float) -> BundleStepRecord:
    """A step that has not been begun is for the owner that the plan knew."""
    step = record.step
    if record.attempts == 0 and owner is not None and step.source is not None and owner != step.source:
        return record.end(
            BundleStepState.SKIPPED, now, f"{owner} owns it now, the step was made for {step.source}"
        )
    return record


def _unowned(
    record: BundleStepRecord, observation: BundlesObservation, now: float, settings: UnloadSettings
) -> BundleStepRecord:
    since = record.advanced_at if record.advanced_at is not None else now
    if observation.unreachable and now - since < settings.limits.session_timeout_seconds:
        return record  # a broker that does not answer may have it
    if now - since < settings.limits.owner_timeout_seconds:
        return record
    return record.set_back(now, settings, f"nobody took it in {now - since:.0f} s")


def _split(
    record: BundleStepRecord, observation: BundlesObservation, now: float, settings: UnloadSettings
) -> BundleStepRecord:
    step = record.step
    cuts = observation.cuts(step.range)
    begun = record.state is not BundleStepState.PENDING or record.attempts > 0
    if cuts is None:
        return record.end(
            BundleStepState.FAILED if begun else BundleStepState.SKIPPED,
            now,
            missing_reason(record, observation),
        )
    foreign = sorted(set(cuts) - set(step.boundaries))
    missing = [one for one in step.boundaries if one not in cuts]
    if foreign and not begun:
        return record.end(BundleStepState.SKIPPED, now, f"somebody else has split it at {_hex(foreign)}")
    if not missing:
        also = f"somebody else has split it, too, at {_hex(foreign)}" if foreign else ""
        return record.end(BundleStepState.DONE, now, also or ("" if begun else "was so already"))
    cut = len(step.boundaries) - len(missing)
    if cut > record.cut and begun:
        return replace(record.advanced(BundleStepState.CUTTING, now), cut=cut, not_before=0.0)
    if record.state is not BundleStepState.REQUESTED or record.lagging(now, settings):
        return record
    why = "Pulsar said yes and cut nothing (it cuts no bundle of fewer than two topics)"
    return record.set_back(now, settings, why)


def missing_reason(record: BundleStepRecord, observation: BundlesObservation) -> str:
    """Why a bundle is not there any more, as far as can be told."""
    inside = observation.cuts(record.step.range)
    if inside:
        return f"the bundle is gone: split at {_hex(inside)}"
    return "the bundle is gone: its namespace has other boundaries now"


def _hex(boundaries: "tuple[int, ...] | list[int]") -> str:
    shown = ", ".join(f"0x{one:08x}" for one in boundaries[:4])
    return shown if len(boundaries) <= 4 else f"{shown} and {len(boundaries) - 4} more"


BROKERS_OWN: Final = ("pulsar/", "sla-monitor/")
"""Tenants of the brokers themselves: heartbeats, and what they tell each other."""


def foreign_moves(state: BundlesExecutionState, observation: BundlesObservation) -> list[str]:
    """Bundles that went from one living broker to another, and not by our doing; for people, in order.

    Those of the brokers' own namespaces go where the leader is.
    """
    ours = {
        record.step.bundle
        for record in state.records
        if record.active or (record.state is BundleStepState.PENDING and record.attempts > 0)
    }
    return [
        f"{bundle} from {before} to {observation.owners[bundle]}"
        for bundle, before in sorted(state.last_owner.items())
        if bundle not in ours
        and not bundle.startswith(BROKERS_OWN)
        and before in observation.alive
        and before in (state.brokers or ())
        and observation.owners.get(bundle, before) != before
    ]


def noticing(state: BundlesExecutionState, observation: BundlesObservation) -> BundlesExecutionState:
    """The state with what others have moved since the last look, and who owns what now."""
    found = foreign_moves(state, observation)
    # Before the brokers' own balancing is off, it is its right to move what it likes.
    if found and (state.verified or state.foreign_at is not None):
        shown = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
        text = f"somebody else has moved {shown}"
        # Whoever did it may have switched the brokers' own balancing on again.
        state = replace(state, foreign_at=state.now, foreign=text, verified=False, held_since=None)
        state = state.noted(text)
    return replace(state, last_owner={**state.last_owner, **observation.owners})


def blocking_reason(state: BundlesExecutionState) -> tuple[str, float] | None:
    """The reason to begin nothing just now, and how many seconds to bear it; None when there is none."""
    settings, seen = state.settings, state.observation
    if seen.leader is None:
        return "the cluster has no leader", settings.unhealthy_timeout_seconds
    lost = lost_brokers(state, seen.alive)
    if lost:
        return f"broker {', '.join(lost)} is gone", float("inf")  # the grace ends it
    if (
        state.foreign_at is not None
        and state.now - state.foreign_at < settings.limits.external_change_cooldown_seconds
    ):
        return state.foreign, settings.external_change_timeout_seconds
    unwell = sorted((set(seen.unhealthy or ()) & seen.alive) - (state.unwell or frozenset()))
    if unwell:
        why = (seen.unhealthy or {})[unwell[0]]
        return (
            f"broker {', '.join(unwell)} cannot serve a message ({why})",
            settings.unhealthy_timeout_seconds,
        )
    return None


def foreign_switch_changes(state: BundlesExecutionState, observation: BundlesObservation) -> list[str]:
    """The switches of ours that somebody else has changed."""
    if observation.overrides is None or not (state.verified or state.foreign_at is not None):
        return []
    return [switch for switch in SWITCHES if observation.overrides.get(switch) != OFF]
