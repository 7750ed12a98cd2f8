"""What a look at the cluster changes: steps that got on, brokers that are gone, and the pace."""

from dataclasses import replace

from trimtab.act.execution.failing import well
from trimtab.act.replicas.approach import ROOM, rate_to_keep_up, relieved
from trimtab.act.replicas.commands import Observe
from trimtab.act.replicas.events import ClusterObserved
from trimtab.act.replicas.health import lost_brokers, unhealthy_since_begun
from trimtab.act.replicas.reconcile import reconcile
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import StepKind
from trimtab.act.replicas.throttle import free_network, next_copies_per_broker, next_rate, rate_ceiling


def observed(state: ExecutionState, event: ClusterObserved) -> ExecutionState:
    """What a look shows: steps that got on or ended, brokers that are gone, the pace that follows."""
    seen = event.observation
    if seen.cluster_id != state.cluster_id:
        return replace(
            state,
            give_up=f"this is cluster {seen.cluster_id}, the execution belongs to {state.cluster_id}: "
            "check the address",
        )
    state = well(replace(state, seen=seen, fresh=True))
    if state.brokers is None:
        state = replace(state, brokers=seen.alive)
    assert state.brokers is not None
    needed = {b for record in state.records if not record.ended for b in record.step.after}
    gone = (state.brokers | needed) - seen.alive
    state = replace(state, gone_since={b: state.gone_since.get(b, state.now) for b in sorted(gone)})
    if seen.unhealthy is not None:
        state = replace(state, looked_wide_at=state.now, wide_look_seconds=state.now - seen.at)
        if state.baseline is None:
            state = replace(state, baseline=seen.unhealthy)
    asked = frozenset(state.awaiting.partitions) if isinstance(state.awaiting, Observe) else frozenset()
    copying = any(record.step.kind is not StepKind.LEAD for record in state.active)
    changed = {}
    for record in state.records:
        if record.step.partition in asked:
            after = reconcile(record, seen, state.now, state.settings)
            if after is not record:
                changed[record.step.number] = after
    state = state.with_records(changed)
    state = relieved(state, [number for number, after in changed.items() if after.ended])
    return _pace(state, copies_ended=copying and not state.active)


def _pace(state: ExecutionState, *, copies_ended: bool) -> ExecutionState:
    """Additive increase, multiplicative decrease of copies in flight and of the throttle's rate."""
    assert state.seen is not None
    # A partition of ours that fell behind recovers through our throttle: a lower rate would keep it there.
    ours = {record.step.partition for record in state.active}
    unwell = set(unhealthy_since_begun(state, state.seen)) - ours
    trouble = bool(unwell) or bool(lost_brokers(state, state.seen))
    wide = state.seen.unhealthy is not None
    if not wide and not copies_ended:
        return state
    copies = state.copies_per_broker
    if (trouble and wide) or (copies_ended and not trouble):
        copies = next_copies_per_broker(state.settings, copies, healthy=not trouble)
    rate = state.rate_bytes_per_second
    if wide and any(record.step.kind is StepKind.COPY for record in state.active):
        brokers = {b for r in state.active for b in (*r.step.added, *r.step.before)}
        ceiling = rate_ceiling(state.settings, state.headroom, brokers)
        needed = min(ROOM * rate_to_keep_up(state.active, state.seen), free_network(state.headroom, brokers))
        rate = next_rate(state.settings, rate, ceiling, healthy=not trouble, needed=needed)
    return replace(state, copies_per_broker=copies, rate_bytes_per_second=rate)
