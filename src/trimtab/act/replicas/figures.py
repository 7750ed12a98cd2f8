"""Figures of an execution: what it would do, told before it begins, and how far it is.

Batches, bytes and, with a throttle, time beforehand; bytes left, rate and time left while it runs.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trimtab.act.execution import state as execution
from trimtab.act.replicas.batch import choose_batch
from trimtab.act.replicas.machine import new_execution
from trimtab.act.replicas.port import Observation, Placement
from trimtab.act.replicas.reconcile import reconcile
from trimtab.act.replicas.settings import ExecutionSettings
from trimtab.act.replicas.state import ExecutionState
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
    state = replace(new_execution(seen.cluster_id, steps, settings, now), seen=seen)
    batches = []
    while (choice := choose_batch(state)).batch:
        batches.append(BatchForecast(choice.batch, _busiest(choice.batch)))
        chosen = {step.number for step in choice.batch}
        done = [replace(r, state=StepState.DONE) if r.step.number in chosen else r for r in state.records]
        seen = _after(seen, choice.batch)
        state = replace(state, seen=seen, records=tuple(reconcile(r, seen, now, settings) for r in done))
        if any(step.kind is not StepKind.LEAD for step in choice.batch):
            copies = next_copies_per_broker(settings, state.copies_per_broker, healthy=True)
            state = replace(state, copies_per_broker=copies)
    blocked = [(r.step, choice.blocked.get(r.step.number)) for r in state.records]
    return Forecast(tuple(batches), tuple((step, why.reason) for step, why in blocked if why is not None))


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


RATE_WINDOW_SECONDS = 15.0
"""Over how long the rate is averaged: long enough to hold the brokers' own throttle windows."""


@dataclass(frozen=True, kw_only=True)
class Progress(execution.Progress):
    """Figures of one moment; `seconds_left` is None while no rate is known or copies get no nearer."""

    steps_active: int
    bytes_copied: int
    bytes_total: int
    bytes_per_second: float
    seconds_left: float | None
    throttle_bytes_per_second: float | None

    @property
    def bytes_left(self) -> int:
        """The bytes still to be copied."""
        return max(0, self.bytes_total - self.bytes_copied)


class ProgressMeter:
    """Turns the states of one execution into figures; keeps the last seconds for the rate."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def __call__(self, state: ExecutionState) -> Progress:
        """Figures after this state."""
        counted = [r for r in state.records if r.state not in _NOT_TO_COME]
        copied = sum(_copied(record) for record in counted)
        total = sum(_whole(record) for record in counted)
        if not self._samples or self._samples[-1][1] != copied or state.now - self._samples[-1][0] >= 1.0:
            self._samples.append((state.now, copied))
        while len(self._samples) > 2 and state.now - self._samples[0][0] > RATE_WINDOW_SECONDS:
            self._samples.popleft()
        (first_at, first), (last_at, last) = self._samples[0], self._samples[-1]
        rate = (last - first) / (last_at - first_at) if last_at > first_at else 0.0
        left = max(0, total - copied)
        # What is written meanwhile has to be copied, too.
        nearer = rate - sum(r.written_bytes_per_second * r.step.copies for r in counted if r.active)
        return Progress(
            **state.progress(),
            steps_active=len(state.active),
            bytes_copied=copied,
            bytes_total=total,
            bytes_per_second=max(0.0, rate),
            seconds_left=0.0 if left == 0 else (left / nearer if nearer > 0 else None),
            throttle_bytes_per_second=state.rate_bytes_per_second,
        )


_NOT_TO_COME = (StepState.DROPPED, StepState.SKIPPED, StepState.FAILED, StepState.ROLLED_BACK)


def _copied(record: StepRecord) -> int:
    if record.state is StepState.DONE:
        return record.step.bytes
    return min(record.copied_bytes, _whole(record)) if record.active else 0


def _whole(record: StepRecord) -> int:
    """The bytes to be copied in all: while it is copied, with those written since it was planned."""
    if not record.active or record.source_bytes is None:
        return record.step.bytes
    return max(record.step.bytes, record.step.copies * record.source_bytes)
