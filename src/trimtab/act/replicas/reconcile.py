"""The meaning of one look at the cluster: for the execution, what holds it up, its pace, and its steps.

Everything is decided from what the cluster shows, not from what we think we did: that is what makes it safe
to resume after a crash between asking and hearing the answer.
"""

from dataclasses import replace

from trimtab.act.execution.transitions import looked, lost_brokers
from trimtab.act.replicas.catch_up import ROOM, measured, rate_to_keep_up, relieved
from trimtab.act.replicas.messages import ClusterObserved, Observe
from trimtab.act.replicas.port import Observation, Placement, TopicPartition
from trimtab.act.replicas.settings import ExecutionSettings
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import Phase, StepKind, StepRecord, StepState
from trimtab.act.replicas.throttle import (
    brokers_of,
    free_network,
    next_copies_per_broker,
    next_rate,
    rate_ceiling,
)


def observed(state: ExecutionState, event: ClusterObserved) -> ExecutionState:
    """The state after a look: steps that got on or ended, brokers that are gone, the pace that follows."""
    seen = event.observation
    state = looked(replace(state, seen=seen), seen.cluster_id, seen.alive)
    if state.give_up:
        return state
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
    # A partition of ours that fell behind recovers through our throttle: a lower rate would keep it there.
    ours = {record.step.partition for record in state.active}
    unwell = set(unhealthy_since_begun(state, state.seen)) - ours
    trouble = bool(unwell) or bool(lost_brokers(state, state.seen.alive))
    wide = state.seen.unhealthy is not None
    if not wide and not copies_ended:
        return state
    copies = state.copies_per_broker
    if (trouble and wide) or (copies_ended and not trouble):
        copies = next_copies_per_broker(state.settings, copies, healthy=not trouble)
    rate = state.rate_bytes_per_second
    if wide and any(record.step.kind is StepKind.COPY for record in state.active):
        brokers = brokers_of(record.step for record in state.active)
        headroom = state.load.headroom
        ceiling = rate_ceiling(state.settings, headroom, brokers)
        needed = min(ROOM * rate_to_keep_up(state.active, state.seen), free_network(headroom, brokers))
        rate = next_rate(state.settings, rate, ceiling, healthy=not trouble, needed=needed)
    return replace(state, copies_per_broker=copies, rate_bytes_per_second=rate)


def reconcile(record: StepRecord, seen: Observation, now: float, settings: ExecutionSettings) -> StepRecord:
    """The record after a look that covered its partition."""
    if record.ended:
        return record
    placement = seen.placements.get(record.step.partition)
    if placement is None:
        return record.end(StepState.SKIPPED, now, f"{record.step.partition.topic} has been deleted")
    if record.topic_id is None:
        record = replace(record, topic_id=placement.topic_id)
    elif placement.topic_id is not None and placement.topic_id != record.topic_id:
        reason = f"{record.step.partition.topic} has been deleted and created anew"
        return record.end(StepState.SKIPPED, now, reason)
    by_kind = {StepKind.COPY: _copy, StepKind.LEAD: _lead, StepKind.LOG_DIR: _log_dir}
    return by_kind[record.step.kind](record, placement, seen, now, settings)


def _copy(
    record: StepRecord, placement: Placement, seen: Observation, now: float, settings: ExecutionSettings
) -> StepRecord:
    step = record.step
    flying = seen.reassignments.get(step.partition)
    ours = flying is not None and flying.target == frozenset(step.after)
    held = frozenset(placement.replicas)
    lagging = record.lagging(now, settings)
    # A list that only grows shows its new brokers from the first moment on; that they have arrived is told by
    # their being in sync.
    there = bool(step.removed) or set(step.added) <= set(placement.in_sync) or not lagging
    arrived = there and held == frozenset(step.after)
    if record.state is StepState.ROLLING_BACK:
        if ours:
            return record
        if flying is None and arrived:
            return record.end(StepState.DONE, now, "had arrived before it could be rolled back")
        if out_of_order(record, seen) and record.attempts < settings.attempts:
            return record
        if held == frozenset(step.before) or flying is not None or not lagging:
            return record.end(record.rollback or StepState.ROLLED_BACK, now)
        return record
    if ours and (record.state is not StepState.PENDING or record.attempts > 0):
        return _progress(record.advanced(StepState.MOVING, now), seen, now)
    if record.state is StepState.PENDING:
        return record if flying is not None else _still_applies(record, placement, now)
    if flying is not None:
        reason = f"another reassignment took it over, to brokers {sorted(flying.target)}"
        return record.end(StepState.FAILED, now, reason)
    if arrived:
        return replace(record, copied_bytes=step.bytes).end(StepState.DONE, now)
    if record.state is StepState.REQUESTED:
        return _still_applies(record.set_back(now, settings, "Kafka did not take it up"), placement, now)
    if lagging:
        return record
    if len(placement.replicas) not in (len(step.before), len(step.after)):
        return _still_applies(replace(record, state=StepState.MOVING), placement, now)
    return record.end(
        StepState.FAILED,
        now,
        f"ended from outside: the replicas are {list(placement.replicas)}, not {list(step.after)}",
    )


def out_of_order(record: StepRecord, seen: Observation) -> bool:
    """True if a rolled back copy has left the old brokers in another order, as Kafka's cancelling does.

    Who comes first is the preferred leader, so the order is part of what has to be restored.
    """
    step = record.step
    placement = seen.placements.get(step.partition)
    return (
        placement is not None
        and step.kind is StepKind.COPY
        and step.partition not in seen.reassignments
        and frozenset(placement.replicas) == frozenset(step.before)
        and placement.replicas != step.before
    )


def _lead(
    record: StepRecord, placement: Placement, seen: Observation, now: float, settings: ExecutionSettings
) -> StepRecord:
    step = record.step
    in_order = placement.replicas == step.after
    flying = step.partition in seen.reassignments
    if flying and record.state is StepState.PENDING and step.phase is Phase.SETTLE:
        return record  # a list that only grows is in order before its copies have arrived
    if in_order and step.leader in (None, placement.leader):
        return record.end(StepState.DONE, now, "" if record.started_at else "was so already")
    lagging = record.lagging(now, settings)
    if record.state is StepState.ROLLING_BACK:
        if placement.replicas == step.before or not lagging:
            return record.end(record.rollback or StepState.ROLLED_BACK, now)
        return record
    if flying and record.state is StepState.PENDING:
        return record
    if frozenset(placement.replicas) != frozenset(step.after) and not (lagging and record.active):
        if record.state is StepState.PENDING and step.phase is Phase.SETTLE and step.follows is not None:
            return record  # its copy has not arrived yet; the batch chooser knows when it never will
        return _still_applies(record, placement, now)
    if record.state in (StepState.PENDING, StepState.ELECTING):
        return record
    if in_order:
        return record.advanced(StepState.ELECTING, now)
    if record.state is StepState.REQUESTED or not lagging:
        return record.set_back(now, settings, "Kafka did not take up the new order")
    return record


def _log_dir(
    record: StepRecord, placement: Placement, seen: Observation, now: float, settings: ExecutionSettings
) -> StepRecord:
    step = record.step
    rolling_back = record.state is StepState.ROLLING_BACK
    wanted = dict(step.old_directories if rolling_back else step.directories)
    gone = [broker for broker in wanted if broker not in placement.replicas]
    if gone:
        return record.end(StepState.SKIPPED, now, f"broker {gone[0]} holds no replica of it any more")
    if any(broker not in seen.log_dirs for broker in wanted):
        return record
    there, coming = 0, 0
    for broker, path in wanted.items():
        copies = seen.copies.get((step.partition, broker), ())
        there += any(c.path == path and not c.future for c in copies) and not any(c.future for c in copies)
        coming += any(c.path == path and c.future for c in copies)
    if there == len(wanted):
        state = (record.rollback or StepState.ROLLED_BACK) if rolling_back else StepState.DONE
        return record.end(state, now, "" if record.started_at else "was so already")
    if record.state is StepState.PENDING or rolling_back:
        return record
    if there + coming == len(wanted):
        return _progress(record.advanced(StepState.MOVING, now), seen, now)
    lagging = record.lagging(now, settings)
    if record.state is StepState.REQUESTED or not lagging:
        return record.set_back(now, settings, "the broker did not take it up")
    return record


def _still_applies(record: StepRecord, placement: Placement, now: float) -> StepRecord:
    """A step that is not under way, checked against the placement it was made for."""
    if record.ended:
        return record
    step = record.step
    if len(placement.replicas) not in (len(step.before), len(step.after)):
        made_for = f"{len(step.before)} to become {len(step.after)}" if step.resizes else len(step.after)
        return record.end(
            StepState.SKIPPED,
            now,
            f"the replication factor is now {len(placement.replicas)}, the step was made for {made_for}",
        )
    held = frozenset(placement.replicas)
    if held == frozenset(step.after) and step.kind is StepKind.COPY:
        return record.end(StepState.DONE, now, "was so already")
    if held != frozenset(step.before):
        return record.end(
            StepState.SKIPPED,
            now,
            f"the replicas are now {list(placement.replicas)}, the step was made for {list(step.before)}",
        )
    return record


def _progress(record: StepRecord, seen: Observation, now: float) -> StepRecord:
    copied = copied_bytes(record, seen)
    record = measured(record, seen, copied, now)
    if copied is None or copied == record.copied_bytes:
        return record
    return replace(record, copied_bytes=copied, advanced_at=now)


def copied_bytes(record: StepRecord, seen: Observation) -> int | None:
    """The bytes in the new copies so far; None where the brokers did not say."""
    step = record.step
    if step.kind is StepKind.COPY:
        arriving = [(step.partition, broker) for broker in step.added]
        future = False
    else:
        arriving = [(step.partition, broker) for broker, _ in step.directories]
        future = True
    if not _readable(arriving, seen):
        return None
    copies = [copy for key in arriving for copy in seen.copies.get(key, ())]
    return sum(copy.size_bytes for copy in copies if copy.future is future)


def _readable(arriving: list[tuple[TopicPartition, int]], seen: Observation) -> bool:
    return bool(arriving) and all(broker in seen.log_dirs for _, broker in arriving)


def foreign_reassignments(state: ExecutionState, seen: Observation) -> tuple[TopicPartition, ...]:
    """Partitions that somebody else is reassigning, in order."""
    ours = {
        record.step.partition: (frozenset(record.step.after), frozenset(record.step.before))
        for record in state.records
        if record.active or record.attempts > 0 or record.state is StepState.ROLLED_BACK
    }
    return tuple(
        sorted(
            partition
            for partition, flying in seen.reassignments.items()
            if flying.target not in ours.get(partition, ())
        )
    )


def unhealthy_since_begun(state: ExecutionState, seen: Observation) -> tuple[TopicPartition, ...]:
    """Partitions offline or under min ISR that were well when the execution began, in order."""
    if seen.unhealthy is None or state.baseline is None:
        return ()
    return tuple(sorted(seen.unhealthy - state.baseline))


def why_wait(state: ExecutionState) -> tuple[str, float] | None:
    """The reason to begin nothing just now, and how many seconds to bear it; None when there is none."""
    settings, seen = state.settings, state.seen
    lost = lost_brokers(state, seen.alive)
    if lost:
        text = f"broker {', '.join(map(str, lost))} is gone"
        return text, float("inf")  # the grace ends it
    foreign = foreign_reassignments(state, seen)
    if foreign:
        return f"another tool is reassigning {_named(foreign)}", settings.foreign_wait_seconds
    unhealthy = unhealthy_since_begun(state, seen)
    if unhealthy:
        text = f"{_named(unhealthy)} went offline or under min.insync.replicas"
        return text, settings.unhealthy_wait_seconds
    return None


def _named(partitions: tuple[TopicPartition, ...]) -> str:
    shown = ", ".join(str(partition) for partition in partitions[:3])
    return shown if len(partitions) <= 3 else f"{shown} and {len(partitions) - 3} more"
