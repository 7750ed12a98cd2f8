"""The meaning of one look at the cluster: for the execution, what holds it up, its pace, and its steps.

Everything is decided from what the cluster shows, not from what we think we did: that is what makes it safe
to resume after a crash between asking and hearing the answer.
"""

from dataclasses import replace

from trimtab.act.execution.transitions import absorb_observation, lost_brokers
from trimtab.act.replicas.catch_up import DISK_SPACE, measured, rate_to_keep_up, relieved
from trimtab.act.replicas.messages import ObserveReplicas, ReplicasObserved
from trimtab.act.replicas.port import ClusterObservation, PartitionPlacement, TopicPartition
from trimtab.act.replicas.settings import ReplicasExecutionSettings
from trimtab.act.replicas.state import ReplicasExecutionState
from trimtab.act.replicas.steps import ReplicaStepKind, ReplicaStepRecord, ReplicaStepState, StepPhase
from trimtab.act.replicas.throttle import (
    brokers_of,
    free_network,
    next_copies_per_broker,
    next_rate,
    rate_ceiling,
)


def observed(state: ReplicasExecutionState, event: ReplicasObserved) -> ReplicasExecutionState:
    """The state after a look: steps that got on or ended, brokers that are gone, the pace that follows."""
    seen = event.observation
    state = absorb_observation(replace(state, observation=seen), seen.cluster_id, seen.alive)
    if state.give_up:
        return state
    if seen.unhealthy is not None:
        state = replace(state, full_poll_at=state.now, full_poll_seconds=state.now - seen.at)
        if state.baseline is None:
            state = replace(state, baseline=seen.unhealthy)
    asked = (
        frozenset(state.awaiting.partitions) if isinstance(state.awaiting, ObserveReplicas) else frozenset()
    )
    copying = any(record.step.kind is not ReplicaStepKind.LEAD for record in state.active)
    changed = {}
    for record in state.records:
        if record.step.partition in asked:
            after = reconcile(record, seen, state.now, state.settings)
            if after is not record:
                changed[record.step.number] = after
    state = state.with_records(changed)
    state = relieved(state, [number for number, after in changed.items() if after.ended])
    return _adapt_copies(state, copies_ended=copying and not state.active)


def _adapt_copies(state: ReplicasExecutionState, *, copies_ended: bool) -> ReplicasExecutionState:
    """Additive increase, multiplicative decrease of copies in flight and of the throttle's rate."""
    # A partition of ours that fell behind recovers through our throttle: a lower rate would keep it there.
    ours = {record.step.partition for record in state.active}
    unwell = set(newly_unhealthy(state, state.observation)) - ours
    trouble = bool(unwell) or bool(lost_brokers(state, state.observation.alive))
    wide = state.observation.unhealthy is not None
    if not wide and not copies_ended:
        return state
    copies = state.initial_copies_per_broker
    if (trouble and wide) or (copies_ended and not trouble):
        copies = next_copies_per_broker(state.settings, copies, healthy=not trouble)
    rate = state.rate_bytes_per_second
    if wide and any(record.step.kind is ReplicaStepKind.COPY for record in state.active):
        brokers = brokers_of(record.step for record in state.active)
        headroom = state.load.headroom
        ceiling = rate_ceiling(state.settings, headroom, brokers)
        needed = min(
            DISK_SPACE * rate_to_keep_up(state.active, state.observation), free_network(headroom, brokers)
        )
        rate = next_rate(state.settings, rate, ceiling, healthy=not trouble, needed=needed)
    return replace(state, initial_copies_per_broker=copies, rate_bytes_per_second=rate)


def reconcile(
    record: ReplicaStepRecord,
    observation: ClusterObservation,
    now: float,
    settings: ReplicasExecutionSettings,
) -> ReplicaStepRecord:
    """The record after a look that covered its partition."""
    if record.ended:
        return record
    placement = observation.placements.get(record.step.partition)
    if placement is None:
        return record.end(ReplicaStepState.SKIPPED, now, f"{record.step.partition.topic} has been deleted")
    if record.topic_id is None:
        record = replace(record, topic_id=placement.topic_id)
    elif placement.topic_id is not None and placement.topic_id != record.topic_id:
        reason = f"{record.step.partition.topic} has been deleted and created anew"
        return record.end(ReplicaStepState.SKIPPED, now, reason)
    by_kind = {ReplicaStepKind.COPY: _copy, ReplicaStepKind.LEAD: _lead, ReplicaStepKind.LOG_DIR: _log_dir}
    return by_kind[record.step.kind](record, placement, observation, now, settings)


def _copy(
    record: ReplicaStepRecord,
    placement: PartitionPlacement,
    observation: ClusterObservation,
    now: float,
    settings: ReplicasExecutionSettings,
) -> ReplicaStepRecord:
    step = record.step
    flying = observation.reassignments.get(step.partition)
    ours = flying is not None and flying.target == frozenset(step.after)
    held = frozenset(placement.replicas)
    lagging = record.lagging(now, settings)
    # A list that only grows shows its new brokers from the first moment on; that they have arrived is told by
    # their being in sync.
    there = bool(step.removed) or set(step.added) <= set(placement.in_sync) or not lagging
    arrived = there and held == frozenset(step.after)
    if record.state is ReplicaStepState.ROLLING_BACK:
        if ours:
            return record
        if flying is None and arrived:
            return record.end(ReplicaStepState.DONE, now, "had arrived before it could be rolled back")
        if out_of_order(record, observation) and record.attempts < settings.max_attempts:
            return record
        if held == frozenset(step.before) or flying is not None or not lagging:
            return record.end(record.rollback or ReplicaStepState.ROLLED_BACK, now)
        return record
    if ours and (record.state is not ReplicaStepState.PENDING or record.attempts > 0):
        return _progress(record.advanced(ReplicaStepState.MOVING, now), observation, now)
    if record.state is ReplicaStepState.PENDING:
        return record if flying is not None else _still_applies(record, placement, now)
    if flying is not None:
        reason = f"another reassignment took it over, to brokers {sorted(flying.target)}"
        return record.end(ReplicaStepState.FAILED, now, reason)
    if arrived:
        return replace(record, copied_bytes=step.bytes).end(ReplicaStepState.DONE, now)
    if record.state is ReplicaStepState.REQUESTED:
        return _still_applies(record.set_back(now, settings, "Kafka did not take it up"), placement, now)
    if lagging:
        return record
    if len(placement.replicas) not in (len(step.before), len(step.after)):
        return _still_applies(replace(record, state=ReplicaStepState.MOVING), placement, now)
    return record.end(
        ReplicaStepState.FAILED,
        now,
        f"ended from outside: the replicas are {list(placement.replicas)}, not {list(step.after)}",
    )


def out_of_order(record: ReplicaStepRecord, observation: ClusterObservation) -> bool:
    """True if a rolled back copy has left the old brokers in another order, as Kafka's cancelling does.

    Who comes first is the preferred leader, so the order is part of what has to be restored.
    """
    step = record.step
    placement = observation.placements.get(step.partition)
    return (
        placement is not None
        and step.kind is ReplicaStepKind.COPY
        and step.partition not in observation.reassignments
        and frozenset(placement.replicas) == frozenset(step.before)
        and placement.replicas != step.before
    )


def _lead(
    record: ReplicaStepRecord,
    placement: PartitionPlacement,
    observation: ClusterObservation,
    now: float,
    settings: ReplicasExecutionSettings,
) -> ReplicaStepRecord:
    step = record.step
    in_order = placement.replicas == step.after
    flying = step.partition in observation.reassignments
    if flying and record.state is ReplicaStepState.PENDING and step.phase is StepPhase.SETTLE:
        return record  # a list that only grows is in order before its copies have arrived
    if in_order and step.leader in (None, placement.leader):
        return record.end(ReplicaStepState.DONE, now, "" if record.started_at else "was so already")
    lagging = record.lagging(now, settings)
    if record.state is ReplicaStepState.ROLLING_BACK:
        if placement.replicas == step.before or not lagging:
            return record.end(record.rollback or ReplicaStepState.ROLLED_BACK, now)
        return record
    if flying and record.state is ReplicaStepState.PENDING:
        return record
    if frozenset(placement.replicas) != frozenset(step.after) and not (lagging and record.active):
        if (
            record.state is ReplicaStepState.PENDING
            and step.phase is StepPhase.SETTLE
            and step.follows is not None
        ):
            return record  # its copy has not arrived yet; the batch chooser knows when it never will
        return _still_applies(record, placement, now)
    if record.state in (ReplicaStepState.PENDING, ReplicaStepState.ELECTING):
        return record
    if in_order:
        return record.advanced(ReplicaStepState.ELECTING, now)
    if record.state is ReplicaStepState.REQUESTED or not lagging:
        return record.set_back(now, settings, "Kafka did not take up the new order")
    return record


def _log_dir(
    record: ReplicaStepRecord,
    placement: PartitionPlacement,
    observation: ClusterObservation,
    now: float,
    settings: ReplicasExecutionSettings,
) -> ReplicaStepRecord:
    step = record.step
    rolling_back = record.state is ReplicaStepState.ROLLING_BACK
    wanted = dict(step.old_directories if rolling_back else step.directories)
    gone = [broker for broker in wanted if broker not in placement.replicas]
    if gone:
        return record.end(ReplicaStepState.SKIPPED, now, f"broker {gone[0]} holds no replica of it any more")
    if any(broker not in observation.log_dirs for broker in wanted):
        return record
    there, coming = 0, 0
    for broker, path in wanted.items():
        copies = observation.copies.get((step.partition, broker), ())
        there += any(c.path == path and not c.future for c in copies) and not any(c.future for c in copies)
        coming += any(c.path == path and c.future for c in copies)
    if there == len(wanted):
        state = (record.rollback or ReplicaStepState.ROLLED_BACK) if rolling_back else ReplicaStepState.DONE
        return record.end(state, now, "" if record.started_at else "was so already")
    if record.state is ReplicaStepState.PENDING or rolling_back:
        return record
    if there + coming == len(wanted):
        return _progress(record.advanced(ReplicaStepState.MOVING, now), observation, now)
    lagging = record.lagging(now, settings)
    if record.state is ReplicaStepState.REQUESTED or not lagging:
        return record.set_back(now, settings, "the broker did not take it up")
    return record


def _still_applies(record: ReplicaStepRecord, placement: PartitionPlacement, now: float) -> ReplicaStepRecord:
    """A step that is not under way, checked against the placement it was made for."""
    if record.ended:
        return record
    step = record.step
    if len(placement.replicas) not in (len(step.before), len(step.after)):
        made_for = f"{len(step.before)} to become {len(step.after)}" if step.resizes else len(step.after)
        return record.end(
            ReplicaStepState.SKIPPED,
            now,
            f"the replication factor is now {len(placement.replicas)}, the step was made for {made_for}",
        )
    held = frozenset(placement.replicas)
    if held == frozenset(step.after) and step.kind is ReplicaStepKind.COPY:
        return record.end(ReplicaStepState.DONE, now, "was so already")
    if held != frozenset(step.before):
        return record.end(
            ReplicaStepState.SKIPPED,
            now,
            f"the replicas are now {list(placement.replicas)}, the step was made for {list(step.before)}",
        )
    return record


def _progress(record: ReplicaStepRecord, observation: ClusterObservation, now: float) -> ReplicaStepRecord:
    copied = copied_bytes(record, observation)
    record = measured(record, observation, copied, now)
    if copied is None or copied == record.copied_bytes:
        return record
    return replace(record, copied_bytes=copied, advanced_at=now)


def copied_bytes(record: ReplicaStepRecord, observation: ClusterObservation) -> int | None:
    """The bytes in the new copies so far; None where the brokers did not say."""
    step = record.step
    if step.kind is ReplicaStepKind.COPY:
        arriving = [(step.partition, broker) for broker in step.added]
        future = False
    else:
        arriving = [(step.partition, broker) for broker, _ in step.directories]
        future = True
    if not _readable(arriving, observation):
        return None
    copies = [copy for key in arriving for copy in observation.copies.get(key, ())]
    return sum(copy.size_bytes for copy in copies if copy.future is future)


def _readable(arriving: list[tuple[TopicPartition, int]], observation: ClusterObservation) -> bool:
    return bool(arriving) and all(broker in observation.log_dirs for _, broker in arriving)


def foreign_reassignments(
    state: ReplicasExecutionState, observation: ClusterObservation
) -> tuple[TopicPartition, ...]:
    """Partitions that somebody else is reassigning, in order."""
    ours = {
        record.step.partition: (frozenset(record.step.after), frozenset(record.step.before))
        for record in state.records
        if record.active or record.attempts > 0 or record.state is ReplicaStepState.ROLLED_BACK
    }
    return tuple(
        sorted(
            partition
            for partition, flying in observation.reassignments.items()
            if flying.target not in ours.get(partition, ())
        )
    )


def newly_unhealthy(
    state: ReplicasExecutionState, observation: ClusterObservation
) -> tuple[TopicPartition, ...]:
    """Partitions offline or under min ISR that were well when the execution began, in order."""
    if observation.unhealthy is None or state.baseline is None:
        return ()
    return tuple(sorted(observation.unhealthy - state.baseline))


def blocking_reason(state: ReplicasExecutionState) -> tuple[str, float] | None:
    """The reason to begin nothing just now, and how many seconds to bear it; None when there is none."""
    settings, seen = state.settings, state.observation
    lost = lost_brokers(state, seen.alive)
    if lost:
        text = f"broker {', '.join(map(str, lost))} is gone"
        return text, float("inf")  # the grace ends it
    foreign = foreign_reassignments(state, seen)
    if foreign:
        return f"another tool is reassigning {_named(foreign)}", settings.external_change_timeout_seconds
    unhealthy = newly_unhealthy(state, seen)
    if unhealthy:
        text = f"{_named(unhealthy)} went offline or under min.insync.replicas"
        return text, settings.unhealthy_timeout_seconds
    return None


def _named(partitions: tuple[TopicPartition, ...]) -> str:
    shown = ", ".join(str(partition) for partition in partitions[:3])
    return shown if len(partitions) <= 3 else f"{shown} and {len(partitions) - 3} more"
