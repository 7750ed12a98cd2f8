"""The orders that begin a batch: the throttle first, then the moves."""

from dataclasses import replace

from trimtab.act.execution.commands import Command
from trimtab.act.replicas.approach import UNMEASURED
from trimtab.act.replicas.commands import MoveLogDirs, Reassign
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import Step, StepKind, StepState
from trimtab.act.replicas.throttle import first_rate
from trimtab.act.replicas.throttle_orders import order_for_throttle


def begin(state: ExecutionState, batch: tuple[Step, ...]) -> tuple[ExecutionState, Command]:
    """Put the throttle in force, then ask Kafka for the batch."""
    copies = [step for step in batch if step.kind is StepKind.COPY]
    if copies and state.rate_bytes_per_second is None and state.settings.throttle != "none":
        brokers = {broker for step in copies for broker in (*step.added, *step.before)}
        rate = first_rate(state.settings, state.headroom, brokers)
        state = replace(state, rate_bytes_per_second=rate)
    order = order_for_throttle(state, batch)
    if order is not None:
        return order
    kinds = {step.kind for step in batch}
    if StepKind.LOG_DIR in kinds and StepKind.COPY in kinds:
        batch = tuple(step for step in batch if step.kind is StepKind.COPY)
    state = replace(
        state,
        batches=state.batches + 1,
        blocked_since={},
        looked_wide_at=state.now,
        chosen=tuple(step.number for step in batch),
    )
    state = state.with_records(
        {
            record.step.number: replace(
                record,
                state=StepState.REQUESTED,
                started_at=record.started_at or state.now,
                advanced_at=state.now,
                reason="",
                copied_bytes=0,
                **UNMEASURED,
            )
            for record in state.records
            if record.step.number in state.chosen
        }
    )
    if batch[0].kind is StepKind.LOG_DIR:
        return state, MoveLogDirs(
            {(s.partition, broker): path for s in batch for broker, path in s.directories}
        )
    return state, Reassign(
        {step.partition: step.after for step in batch},
        {(s.partition, broker): path for s in batch for broker, path in s.directories if broker in s.added},
    )
