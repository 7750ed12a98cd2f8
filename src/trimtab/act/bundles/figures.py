"""Figures of an execution: what it would do, told before it begins, and how far it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.act.bundles.batch import MINUTE
from trimtab.act.bundles.state import (
    BundlesExecutionState,
    BundleStep,
    BundleStepKind,
    BundleStepState,
    UnloadSettings,
)
from trimtab.act.execution import state as execution


@dataclass(frozen=True)
class BundlesForecast:
    """All batches in order, if every step goes well at the first attempt; clients disconnected, least time.

    Attributes
    ----------
    seconds
        The least that limits and pauses make of it; the calls themselves come on top.
    """

    batches: tuple[tuple[BundleStep, ...], ...]
    seconds: float

    @property
    def sessions(self) -> int:
        """Clients disconnected in all; one whose bundle moves twice counts twice."""
        return sum(step.sessions for batch in self.batches for step in batch)

    @property
    def unloads(self) -> int:
        """The number of bundles that are unloaded."""
        return sum(step.kind is BundleStepKind.UNLOAD for batch in self.batches for step in batch)

    @property
    def splits(self) -> int:
        """The number of bundles that are split."""
        return sum(step.kind is BundleStepKind.SPLIT for batch in self.batches for step in batch)


def forecast(steps: Sequence[BundleStep], settings: UnloadSettings) -> BundlesForecast:
    """Batch after batch in the plan's order, with the pauses that the limits ask for."""
    pace = settings.limits
    batches: list[tuple[BundleStep, ...]] = []
    now = 0.0
    asked: list[tuple[float, int]] = []
    left = list(steps)
    while left:
        batch: list[BundleStep] = []
        spent = sum(sessions for at, sessions in asked if now - at < MINUTE)
        waiting = {step.number for step in left}
        for step in left:
            if step.follows in waiting or (batch and batch[0].kind is not step.kind):
                continue
            if batch and (step.kind is BundleStepKind.SPLIT or len(batch) >= pace.max_unloads_per_batch):
                break
            if (
                step.kind is BundleStepKind.UNLOAD
                and spent
                and spent + step.sessions > pace.max_sessions_per_minute
            ):
                continue
            batch.append(step)
            spent += step.sessions
        if not batch:
            now = min(at for at, _ in asked if now - at < MINUTE) + MINUTE
            continue
        begun = {step.number for step in batch}
        left = [step for step in left if step.number not in begun]
        batches.append(tuple(batch))
        if batch[0].kind is BundleStepKind.UNLOAD:
            asked += [(now, step.sessions) for step in batch]
            now += pace.batch_pause_seconds if left else 0.0
    return BundlesForecast(tuple(batches), now)


@dataclass(frozen=True, kw_only=True)
class BundlesProgress(execution.ExecutionProgress):
    """Figures of one moment: steps, clients disconnected."""

    in_flight: tuple[str, ...]
    sessions_disturbed: int
    sessions_left: int


def progress_of(state: BundlesExecutionState) -> BundlesProgress:
    """Progress figures of an execution state."""
    unloads = [record for record in state.records if record.step.kind is BundleStepKind.UNLOAD]
    return BundlesProgress(
        **state.progress(),
        in_flight=tuple(str(record.step) for record in state.active),
        sessions_disturbed=sum(r.step.sessions * r.unloads for r in unloads),
        sessions_left=sum(
            r.step.sessions for r in unloads if r.requested_at is None and r.state is BundleStepState.PENDING
        ),
    )
