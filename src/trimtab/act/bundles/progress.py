"""How far an execution is, in figures: steps, clients disconnected, time since it began."""

from dataclasses import dataclass

from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import StepKind, StepState


@dataclass(frozen=True, slots=True)
class Progress:
    """Figures of one moment."""

    status: str
    reason: str
    batch: int
    steps_ended: int
    steps_total: int
    under_way: tuple[str, ...]
    sessions_disturbed: int
    sessions_left: int


def progress_of(state: BundlesState) -> Progress:
    """Figures of a state."""
    unloads = [record for record in state.records if record.step.kind is StepKind.UNLOAD]
    return Progress(
        status=state.status,
        reason=state.reason,
        batch=state.batches,
        steps_ended=sum(record.ended for record in state.records),
        steps_total=len(state.records),
        under_way=tuple(str(record.step) for record in state.active),
        sessions_disturbed=sum(r.step.sessions for r in unloads if r.asked_at is not None),
        sessions_left=sum(
            r.step.sessions for r in unloads if r.asked_at is None and r.state is StepState.PENDING
        ),
    )
