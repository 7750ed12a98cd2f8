"""What one look at the cluster means for one step: leaves of the state machine, without memory of their own.

Everything is decided from what the cluster shows, not from what we think we did: that is what makes it safe
to resume after a crash between asking and hearing the answer.
"""

from dataclasses import replace

from trimtab.act.replicas.approach import measured
from trimtab.act.replicas.observation import Observation, Placement, TopicPartition
from trimtab.act.replicas.settings import ExecutionSettings
from trimtab.act.replicas.steps import Phase, StepKind, StepRecord, StepState


def reconcile(record: StepRecord, seen: Observation, now: float, settings: ExecutionSettings) -> StepRecord:
    """The record after a look that covered its partition."""
    if record.ended:
        return record
    placement = seen.placements.get(record.step.partition)
    if placement is None:
        return ended(record, StepState.SKIPPED, now, f"{record.step.partition.topic} has been deleted")
    if record.topic_id is None:
        record = replace(record, topic_id=placement.topic_id)
    elif placement.topic_id is not None and placement.topic_id != record.topic_id:
        reason = f"{record.step.partition.topic} has been deleted and created anew"
        return ended(record, StepState.SKIPPED, now, reason)
    by_kind = {StepKind.COPY: _copy, StepKind.LEAD: _lead, StepKind.LOG_DIR: _log_dir}
    return by_kind[record.step.kind](record, placement, seen, now, settings)


def ended(record: StepRecord, state: StepState, now: float, reason: str = "") -> StepRecord:
    """The record at its end."""
    return replace(record, state=state, reason=reason or record.reason, ended_at=now, advanced_at=now)


def advanced(record: StepRecord, state: StepState, now: float) -> StepRecord:
    """The record a state further (or as it was, if it is there already)."""
    return record if record.state is state else replace(record, state=state, advanced_at=now)


def set_back(record: StepRecord, now: float, settings: ExecutionSettings, why: str) -> StepRecord:
    """The record to be tried again later, or failed if it has been tried often enough."""
    attempts = record.attempts + 1
    if attempts >= settings.attempts:
        return ended(
            replace(record, attempts=attempts), StepState.FAILED, now, f"{why} ({attempts} attempts)"
        )
    return replace(
        record,
        state=StepState.PENDING,
        attempts=attempts,
        not_before=now + settings.backoff(attempts),
        advanced_at=now,
        reason=why,
    )


def _copy(
    record: StepRecord, placement: Placement, seen: Observation, now: float, settings: ExecutionSettings
) -> StepRecord:
    step = record.step
    flying = seen.reassignments.get(step.partition)
    ours = flying is not None and flying.target == frozenset(step.after)
    held = frozenset(placement.replicas)
    lagging = record.advanced_at is not None and now - record.advanced_at < settings.settle_seconds
    if record.state is StepState.ROLLING_BACK:
        if ours:
            return record
        if flying is None and held == frozenset(step.after):
            return ended(record, StepState.DONE, now, "had arrived before it could be rolled back")
        if out_of_order(record, seen) and record.attempts < settings.attempts:
            return record
        if held == frozenset(step.before) or flying is not None or not lagging:
            return ended(record, record.rollback or StepState.ROLLED_BACK, now)
        return record
    if ours and (record.state is not StepState.PENDING or record.attempts > 0):
        return _progress(advanced(record, StepState.MOVING, now), seen, now)
    if record.state is StepState.PENDING:
        return record if flying is not None else _still_applies(record, placement, now)
    if flying is not None:
        reason = f"another reassignment took it over, to brokers {sorted(flying.target)}"
        return ended(record, StepState.FAILED, now, reason)
    if held == frozenset(step.after):
        return ended(replace(record, copied_bytes=step.bytes), StepState.DONE, now)
    if record.state is StepState.REQUESTED:
        return _still_applies(set_back(record, now, settings, "Kafka did not take it up"), placement, now)
    if lagging:
        return record
    if len(placement.replicas) != len(step.after):
        return _still_applies(replace(record, state=StepState.MOVING), placement, now)
    return ended(
        record,
        StepState.FAILED,
        now,
        f"ended from outside: the replicas are {list(placement.replicas)}, not {list(step.after)}",
    )


def out_of_order(record: StepRecord, seen: Observation) -> bool:
    """Whether a rolled back copy has left the old brokers in another order, as Kafka's cancelling does.

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
    if in_order and step.leader in (None, placement.leader):
        return ended(record, StepState.DONE, now, "" if record.started_at else "was so already")
    lagging = record.advanced_at is not None and now - record.advanced_at < settings.settle_seconds
    if record.state is StepState.ROLLING_BACK:
        if placement.replicas == step.before or not lagging:
            return ended(record, record.rollback or StepState.ROLLED_BACK, now)
        return record
    if step.partition in seen.reassignments and record.state is StepState.PENDING:
        return record
    if frozenset(placement.replicas) != frozenset(step.after) and not (lagging and record.active):
        if record.state is StepState.PENDING and step.phase is Phase.SETTLE and step.follows is not None:
            return record  # its copy has not arrived yet; the batch chooser knows when it never will
        return _still_applies(record, placement, now)
    if record.state in (StepState.PENDING, StepState.ELECTING):
        return record
    if in_order:
        return advanced(record, StepState.ELECTING, now)
    if record.state is StepState.REQUESTED or not lagging:
        return set_back(record, now, settings, "Kafka did not take up the new order")
    return record


def _log_dir(
    record: StepRecord, placement: Placement, seen: Observation, now: float, settings: ExecutionSettings
) -> StepRecord:
    step = record.step
    rolling_back = record.state is StepState.ROLLING_BACK
    wanted = dict(step.old_directories if rolling_back else step.directories)
    gone = [broker for broker in wanted if broker not in placement.replicas]
    if gone:
        return ended(record, StepState.SKIPPED, now, f"broker {gone[0]} holds no replica of it any more")
    if any(broker not in seen.log_dirs for broker in wanted):
        return record
    there, coming = 0, 0
    for broker, path in wanted.items():
        copies = seen.copies.get((step.partition, broker), ())
        there += any(c.path == path and not c.future for c in copies) and not any(c.future for c in copies)
        coming += any(c.path == path and c.future for c in copies)
    if there == len(wanted):
        state = (record.rollback or StepState.ROLLED_BACK) if rolling_back else StepState.DONE
        return ended(record, state, now, "" if record.started_at else "was so already")
    if record.state is StepState.PENDING or rolling_back:
        return record
    if there + coming == len(wanted):
        return _progress(advanced(record, StepState.MOVING, now), seen, now)
    lagging = record.advanced_at is not None and now - record.advanced_at < settings.settle_seconds
    if record.state is StepState.REQUESTED or not lagging:
        return set_back(record, now, settings, "the broker did not take it up")
    return record


def _still_applies(record: StepRecord, placement: Placement, now: float) -> StepRecord:
    """A step that is not under way, checked against the placement it was made for."""
    if record.ended:
        return record
    step = record.step
    if len(placement.replicas) != len(step.after):
        return ended(
            record,
            StepState.SKIPPED,
            now,
            f"the replication factor is now {len(placement.replicas)}, the step was made for "
            f"{len(step.after)}",
        )
    held = frozenset(placement.replicas)
    if held == frozenset(step.after) and step.kind is StepKind.COPY:
        return ended(record, StepState.DONE, now, "was so already")
    if held != frozenset(step.before):
        return ended(
            record,
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
    """What the new copies hold so far; None where the brokers did not say."""
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
