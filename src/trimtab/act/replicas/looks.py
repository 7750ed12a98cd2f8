"""Which look at the cluster is asked for next: how wide, at which partitions and brokers."""

from trimtab.act.replicas.commands import Observe
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import StepKind, StepRecord


def next_look(state: ExecutionState) -> Observe:
    """A narrow look at what is under way, or a wide one between batches and every `check_seconds`."""
    # In a large cluster a wide look takes seconds: it must not be all that we do.
    interval = max(state.settings.check_seconds, 9 * state.wide_look_seconds)
    overdue = state.looked_wide_at is None or state.now - state.looked_wide_at >= interval or not state.active
    records = [record for record in state.records if record.active or (overdue and not record.ended)]
    brokers: set[int] = set()
    for record in records:
        brokers.update(record.step.added)
        brokers.update(broker for broker, _ in record.step.directories)
        if overdue and record.active and record.step.kind is StepKind.COPY:
            brokers.update(_leaders(state, record))
    partitions = dict.fromkeys(record.step.partition for record in records)
    return Observe(tuple(partitions), tuple(sorted(brokers)), wide=overdue)


def _leaders(state: ExecutionState, record: StepRecord) -> tuple[int, ...]:
    """Whom a copy is read from, by the last look: their size tells how much of it is left."""
    placement = None if state.seen is None else state.seen.placements.get(record.step.partition)
    return () if placement is None or placement.leader is None else (placement.leader,)
