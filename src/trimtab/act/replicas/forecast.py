"""What an execution would do, told before it begins: batches, bytes and, with a throttle, time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trimtab.act.replicas.batches import choose_batch
from trimtab.act.replicas.observation import Observation, Placement
from trimtab.act.replicas.reconcile import reconcile
from trimtab.act.replicas.settings import ExecutionSettings
from trimtab.act.replicas.steps import Step, StepKind, StepRecord, StepState
from trimtab.act.replicas.throttle import next_copies_per_broker


@dataclass(frozen=True, slots=True)
class BatchForecast:
    """One batch: its steps, and the bytes that the busiest broker takes in or gives."""

    steps: tuple[Step, ...]
    busiest_broker_bytes: int

    @property
    def bytes(self) -> int:
        """Bytes copied by the whole batch."""
        return sum(step.bytes for step in self.steps)


@dataclass(frozen=True)
class Forecast:
    """All batches in order, and the steps that could not be begun as things are now, with why."""

    batches: tuple[BatchForecast, ...]
    blocked: tuple[tuple[Step, str], ...]

    @property
    def bytes(self) -> int:
        """Bytes copied in all."""
        return sum(batch.bytes for batch in self.batches)

    def seconds(self, rate_bytes_per_second: float | None) -> float | None:
        """Time the copies take at a throttle: the busiest broker's bytes at that rate, batch after batch.

        None without throttle: how fast the brokers can copy is not known beforehand. Kafka lets about ten
        seconds' worth pass before a throttle bites, so short copies are quicker than told.
        """
        if rate_bytes_per_second is None:
            return None
        return sum(batch.busiest_broker_bytes / rate_bytes_per_second for batch in self.batches)


def forecast(steps: Sequence[Step], seen: Observation, now: float, settings: ExecutionSettings) -> Forecast:
    """Choose batch after batch as the execution will, if every step goes well."""
    records = tuple(StepRecord(step) for step in steps)
    copies_per_broker = settings.copies_per_broker
    batches = []
    while True:
        choice = choose_batch(records, seen, now, copies_per_broker, settings)
        if not choice.batch:
            break
        batches.append(BatchForecast(choice.batch, _busiest(choice.batch)))
        chosen = {step.number for step in choice.batch}
        records = tuple(replace(r, state=StepState.DONE) if r.step.number in chosen else r for r in records)
        seen = _after(seen, choice.batch)
        records = tuple(reconcile(r, seen, now, settings) for r in records)
        if any(step.kind is not StepKind.LEAD for step in choice.batch):
            copies_per_broker = next_copies_per_broker(settings, copies_per_broker, healthy=True)
    blocked = tuple(
        (r.step, choice.blocked[r.step.number].reason) for r in records if r.step.number in choice.blocked
    )
    return Forecast(tuple(batches), blocked)


def _busiest(batch: Sequence[Step]) -> int:
    load: Counter[int] = Counter()
    for step in batch:
        if step.kind is StepKind.COPY:
            each = step.bytes // max(1, len(step.added))
            for broker in step.added:
                load[broker] += each
            for broker in step.removed:
                load[broker] += each
    return max(load.values(), default=0)


def _after(seen: Observation, batch: Sequence[Step]) -> Observation:
    placements = dict(seen.placements)
    for step in batch:
        old = placements[step.partition]
        leader = step.leader if step.leader is not None else old.leader
        if leader not in step.after:
            leader = step.after[0]
        in_sync = tuple(b for b in step.after if b in old.in_sync or b in step.added)
        placements[step.partition] = Placement(step.after, leader, in_sync, old.topic_id)
    return replace(seen, placements=placements)
