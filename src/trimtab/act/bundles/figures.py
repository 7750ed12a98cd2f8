"""Figures of an execution: what it would do, told before it begins, and how far it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.act.bundles.batch import MINUTE
from trimtab.act.bundles.settings import UnloadSettings
from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import Step, StepKind, StepState
from trimtab.act.execution import state as execution


@dataclass(frozen=True)
class Forecast:
    """All batches in order, if every step goes well at the first attempt; clients disconnected, least time.

    Attributes
    ----------
    seconds
        The least that limits and pauses make of it; the calls themselves come on top.
    """

    batches: tuple[tuple[Step, ...], ...]
    seconds: float

    @property
    def sessions(self) -> int:
        """Clients disconnected in all; one whose bundle moves twice counts twice."""
        return sum(step.sessions for batch in self.batches for step in batch)

    @property
    def unloads(self) -> int:
        """The number of bundles that are unloaded."""
        return sum(step.kind is StepKind.UNLOAD for batch in self.batches for step in batch)

    @property
    def splits(self) -> int:
        """The number of bundles that are split."""
        return sum(step.kind is StepKind.SPLIT for batch in self.batches for step in batch)


def forecast(steps: Sequence[Step], settings: UnloadSettings) -> Forecast:
    """Batch after batch in the plan's order, with the pauses that the limits ask for."""
    pace = settings.pace
    batches: list[tuple[Step, ...]] = []
    now = 0.0
    asked: list[tuple[float, int]] = []
    left = list(steps)
    while left:
        batch: list[Step] = []
        spent = sum(sessions for at, sessions in asked if now - at < MINUTE)
        waiting = {step.number for step in left}
        for step in left:
            if step.follows in waiting or (batch and batch[0].kind is not step.kind):
                continue
            if batch and (step.kind is StepKind.SPLIT or len(batch) >= pace.unloads_per_batch):
                break
            if step.kind is StepKind.UNLOAD and spent and spent + step.sessions > pace.sessions_per_minute:
                continue
            batch.append(step)
            spent += step.sessions
        if not batch:
            now = min(at for at, _ in asked if now - at < MINUTE) + MINUTE
            continue
        begun = {step.number for step in batch}
        left = [step for step in left if step.number not in begun]
        batches.append(tuple(batch))
        if batch[0].kind is StepKind.UNLOAD:
            asked += [(now, step.sessions) for step in batch]
            now += pace.pause_seconds if left else 0.0
    return Forecast(tuple(batches), now)


@dataclass(frozen=True, kw_only=True)
class Progress(execution.Progress):
    """Figures of one moment: steps, clients disconnected."""

    under_way: tuple[str, ...]
    sessions_disturbed: int
    sessions_left: int


def progress_of(state: BundlesState) -> Progress:
    """Figures of a state."""
    unloads = [record for record in state.records if record.step.kind is StepKind.UNLOAD]
    return Progress(
        **state.progress(),
        under_way=tuple(str(record.step) for record in state.active),
        sessions_disturbed=sum(r.step.sessions * r.unloads for r in unloads),
        sessions_left=sum(
            r.step.sessions for r in unloads if r.asked_at is None and r.state is StepState.PENDING
        ),
    )
