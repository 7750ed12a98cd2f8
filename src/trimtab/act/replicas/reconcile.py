"""Copies that catch up with their leader, or are outrun by what is written meanwhile.

A copy that gains bytes may still never arrive: under a throttle below the rate at which its partition is
written, what is left of it grows. So the bytes left are watched, not the bytes copied.

The meaning of one look at the cluster: for the execution, what holds it up, its pace, and its steps.

Everything is decided from what the cluster shows, not from what we think we did: that is what makes it safe
to resume after a crash between asking and hearing the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from trimtab.act.execution.state import absorb_observation, lost_brokers
from trimtab.act.replicas.overrides import (
    brokers_of,
    free_network,
    next_copies_per_broker,
    next_rate,
    rate_ceiling,
    rate_text,
)
from trimtab.act.replicas.port import (
    ClusterObservation,
    ObserveReplicas,
    PartitionPlacement,
    ReplicasObserved,
    TopicPartition,
)
from trimtab.act.replicas.state import (
    UNMEASURED,
    ReplicasExecutionSettings,
    ReplicasExecutionState,
    ReplicaStepKind,
    ReplicaStepRecord,
    ReplicaStepState,
    StepPhase,
)

SMOOTHING: Final = 0.2
"""Weight of the newest look in the rate at which a partition is written."""
DISK_SPACE: Final = 2.0
"""A throttle this many times the rate of writing leaves half of itself for what is there already."""
BURST_SECONDS: Final = 20.0
"""Kafka's throttle passes bytes in bursts: what is left swings by less than this much writing."""


def measured(
    record: ReplicaStepRecord, observation: ClusterObservation, copied: int | None, now: float
) -> ReplicaStepRecord:
    """The record with what is left of its copy after a look, where the look shows both ends.

    Parameters
    ----------
    copied
        Bytes that the new copies hold; None where a destination did not answer.
    """
    if copied is None:
        # What piles up while a destination is away says nothing about the throttle.
        return record if record.nearer_at is None else replace(record, **UNMEASURED)
    source = _source_bytes(record, observation)
    if source is None:
        return record
    copies = record.step.copies
    left = max(0, copies * source - copied)
    if record.measured_at is None or record.source_bytes is None:
        return replace(_nearer(record, left, now), source_bytes=source, measured_at=now)
    if now <= record.measured_at:
        return record
    rate = max(0, source - record.source_bytes) / (now - record.measured_at)
    if record.written_bytes_per_second > 0:
        rate = SMOOTHING * rate + (1 - SMOOTHING) * record.written_bytes_per_second
    began_again = copied < record.copied_bytes / 2 and source >= record.source_bytes
    least, most = record.min_remaining_bytes, record.max_remaining_bytes
    if least is None or most is None or began_again:
        record = _nearer(record, left, now)
    elif left < least or left < most - BURST_SECONDS * copies * rate:
        # The second: it had fallen back, while more was written or less let through, and now makes up.
        record = _nearer(record, left, now)
    elif left > most:
        record = replace(record, max_remaining_bytes=left)
    return replace(record, source_bytes=source, measured_at=now, written_bytes_per_second=rate)


def _nearer(record: ReplicaStepRecord, left: int, now: float) -> ReplicaStepRecord:
    return replace(record, min_remaining_bytes=left, max_remaining_bytes=left, nearer_at=now)


def _source_bytes(record: ReplicaStepRecord, observation: ClusterObservation) -> int | None:
    """Size of what is copied from; None where this look does not show it."""
    step = record.step
    if step.kind is ReplicaStepKind.LOG_DIR:
        sources = [broker for broker, _ in step.directories]
    else:
        source = _source(record, observation)
        sources = [] if source is None else [source]
    sizes = [
        copy.size_bytes
        for broker in sources
        for copy in observation.copies.get((step.partition, broker), ())
        if not copy.future and broker not in step.added
    ]
    return max(sizes, default=None)


def _source(record: ReplicaStepRecord, observation: ClusterObservation) -> int | None:
    """Whom a copy between brokers is read from: the leader."""
    placement = observation.placements.get(record.step.partition)
    return None if placement is None else placement.leader


def rate_to_keep_up(records: Iterable[ReplicaStepRecord], observation: ClusterObservation) -> float:
    """The least rate of a throttle at which these copies do not fall behind, bytes per second and broker."""
    passing: dict[tuple[str, int], float] = {}
    for record in records:
        step = record.step
        if step.kind is not ReplicaStepKind.COPY:
            continue
        written = record.written_bytes_per_second
        for broker in step.added:
            passing["in", broker] = passing.get(("in", broker), 0.0) + written
        source = _source(record, observation)
        if source is not None:
            passing["out", source] = passing.get(("out", source), 0.0) + written * len(step.added)
    return max(passing.values(), default=0.0)


def outrun(state: ReplicasExecutionState) -> dict[int, str]:
    """Number of each copy that is to be given up because it would never arrive, with the reason.

    Where several share a broker, and so its throttle, the one that is written fastest; what that frees may
    be enough for the others. One that shares with a copy that does get nearer waits for that to end.
    """
    copying = [
        r
        for r in state.active
        if r.state is ReplicaStepState.MOVING and r.step.kind is not ReplicaStepKind.LEAD
    ]
    standing = [r for r in copying if _is_stalled(state, r)]
    standing.sort(key=lambda r: (-r.written_bytes_per_second, r.step.number))
    getting_on = [r for r in copying if r.nearer_at is not None and r not in standing]
    chosen: list[ReplicaStepRecord] = []
    for record in standing:
        if not any(_share(state, record, other) for other in [*getting_on, *chosen]):
            chosen.append(record)
    return {record.step.number: _stall_reason(state, record, copying) for record in chosen}


def relieved(state: ReplicasExecutionState, leaving_numbers: Collection[int]) -> ReplicasExecutionState:
    """The state with new patience for copies that shared a broker with those that ended or are given up."""
    leaving = [r for r in state.records if r.step.number in leaving_numbers]
    staying = [r for r in state.active if r.nearer_at is not None and r.step.number not in leaving_numbers]
    return state.changing(
        [r for r in staying if any(_share(state, r, other) for other in leaving)],
        lambda r: replace(r, nearer_at=state.now, min_remaining_bytes=None),
    )


def _is_stalled(state: ReplicasExecutionState, record: ReplicaStepRecord) -> bool:
    return (
        record.nearer_at is not None and state.now - record.nearer_at >= state.settings.stall_timeout_seconds
    )


def _share(state: ReplicasExecutionState, one: ReplicaStepRecord, other: ReplicaStepRecord) -> bool:
    """True if two copies pass one broker in one direction, and so hold each other back."""
    if one.step.kind is not other.step.kind:
        return False
    return bool(_ends(state, one) & _ends(state, other))


def _ends(state: ReplicasExecutionState, record: ReplicaStepRecord) -> set[tuple[str, int | None]]:
    step = record.step
    if step.kind is ReplicaStepKind.LOG_DIR:
        return {("dir", broker) for broker, _ in step.directories}
    return {("in", broker) for broker in step.added} | {("out", _source(record, state.observation))}


def _stall_reason(
    state: ReplicasExecutionState, record: ReplicaStepRecord, copying: list[ReplicaStepRecord]
) -> str:
    assert record.nearer_at is not None
    written = rate_text(record.written_bytes_per_second)
    stood = f"no nearer to its end in {state.now - record.nearer_at:.0f} s, since {written} are written to it"
    rate = state.rate_bytes_per_second
    if record.step.kind is ReplicaStepKind.LOG_DIR:
        return f"{stood}, faster than its broker copies between log dirs: move it when less is written"
    if rate is None:
        return f"{stood}, faster than it is copied without a throttle: move it when less is written"
    together = [r for r in copying if _share(state, r, record)]
    needed = rate_to_keep_up(together, state.observation)
    if needed < 0.8 * rate:
        return (
            f"{stood}, and it is copied slower than the throttle of {rate_text(rate)} a broker allows: look "
            "for a throttle of a broker's own, a full network or a slow disk"
        )
    among = f", shared by {len(together)} copies" if len(together) > 1 else ""
    return (
        f"{stood} and the throttle lets {rate_text(rate)} a broker through{among}: plan again and apply with "
        f"--throttle {_rounded(DISK_SPACE * needed)} or more"
    )


def _rounded(bytes_per_second: float) -> int:
    """To two digits, upwards; a fraction of a byte is noise of the looks."""
    whole = round(bytes_per_second)
    step = 10 ** max(0, len(str(whole)) - 2)
    return int(-(-whole // step) * step)


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
