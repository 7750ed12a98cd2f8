"""How far an execution is, in figures: bytes left, rate, time left."""

from collections import deque
from dataclasses import dataclass

from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import StepRecord, StepState

RATE_WINDOW_SECONDS = 15.0
"""Over how long the rate is averaged: long enough to hold the brokers' own throttle windows."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Figures of one moment; `seconds_left` is None while no rate is known or copies get no nearer."""

    status: str
    reason: str
    batch: int
    steps_ended: int
    steps_total: int
    steps_active: int
    bytes_copied: int
    bytes_total: int
    bytes_per_second: float
    seconds_left: float | None
    throttle_bytes_per_second: float | None

    @property
    def bytes_left(self) -> int:
        """What is still to be copied."""
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
        nearer = rate - sum(r.written_bytes_per_second * _copies(r) for r in counted if r.active)
        return Progress(
            status=state.status,
            reason=state.reason,
            batch=state.batches,
            steps_ended=sum(record.ended for record in state.records),
            steps_total=len(state.records),
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
    """What is to be copied in all: while it is copied, with what was written since it was planned."""
    if not record.active or record.source_bytes is None:
        return record.step.bytes
    return max(record.step.bytes, _copies(record) * record.source_bytes)


def _copies(record: StepRecord) -> int:
    return len(record.step.added) or len(record.step.directories)
