"""What a look at the cluster changes: steps that got on, brokers that are gone, what others moved."""

from dataclasses import replace

from trimtab.act.bundles.commands import Observe
from trimtab.act.bundles.events import ClusterSeen
from trimtab.act.bundles.health import noticing
from trimtab.act.bundles.reconcile import reconcile
from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import BundleRecord, StepKind, StepState
from trimtab.act.execution.failing import well
from trimtab.act.execution.status import Status


def observed(state: BundlesState, event: ClusterSeen) -> BundlesState:
    """What a look shows: steps that got on or ended, brokers that are gone, what others moved."""
    seen = event.observation
    if seen.cluster != state.cluster_id:
        return replace(
            state,
            give_up=f"this is cluster {seen.cluster}, the execution belongs to {state.cluster_id}: "
            "check the address",
        )
    state = well(replace(state, seen=seen, fresh=True, look_seconds=max(0.0, state.now - seen.at)))
    if state.brokers is None:
        state = replace(state, brokers=seen.alive)
    assert state.brokers is not None
    needed = {r.step.target for r in state.records if not r.ended and r.step.target is not None}
    gone = (state.brokers | needed) - seen.alive
    state = replace(state, gone_since={b: state.gone_since.get(b, state.now) for b in sorted(gone)})
    if seen.unhealthy is not None and state.unwell is None:
        state = replace(state, unwell=frozenset(seen.unhealthy))
    state = noticing(state, seen)
    asked = state.awaiting.namespaces if isinstance(state.awaiting, Observe) else ()
    disturbing = any(record.step.kind is StepKind.UNLOAD for record in state.active)
    changed: dict[int, BundleRecord] = {}
    for record in state.records:
        if record.step.namespace not in asked:
            continue
        after = reconcile(record, seen, state.now, state.settings)
        if state.status is Status.CANCELLING and after.state is StepState.PENDING and record.active:
            after = replace(after, reason=f"cancelled; {after.reason}")
        if after is not record:
            changed[record.step.number] = after
    state = state.with_records(changed)
    if disturbing and not any(record.step.kind is StepKind.UNLOAD for record in state.active):
        state = replace(state, batch_ended_at=state.now)
    return state
