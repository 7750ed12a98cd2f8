"""A receipt: what an execution did, when, what was measured afterwards, and what was left."""

from dataclasses import dataclass
from typing import Generic, TypeVar


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The outcome of one step, at any balancer.

    Attributes
    ----------
    kind
        What it changed, in the balancer's own word.
    state
        `done`, `dropped`, `skipped`, `failed`, `rolled_back` or `pending`.
    reason
        Why it ended so, where that is not plain.
    moves
        `order` of the plan's moves that it stood for.
    """

    kind: str
    state: str
    reason: str
    moves: tuple[int, ...]
    started_at: float | None
    ended_at: float | None


OutcomeT = TypeVar("OutcomeT", bound=StepOutcome)


@dataclass(frozen=True)
class Receipt(Generic[OutcomeT]):
    """The end of an execution of any balancer; times are seconds since 1970.

    Attributes
    ----------
    status
        `finished`, `incomplete`, `stopped` or `cancelled`.
    """

    execution: int
    cluster: str
    cluster_id: str
    status: str
    reason: str
    started_at: float
    ended_at: float
    batches: int
    outcomes: tuple[OutcomeT, ...]

    @property
    def done(self) -> tuple[OutcomeT, ...]:
        """The steps that were done."""
        return tuple(outcome for outcome in self.outcomes if outcome.state == "done")

    @property
    def left(self) -> tuple[OutcomeT, ...]:
        """The steps that were not, for whatever reason but that they were not needed."""
        return tuple(outcome for outcome in self.outcomes if outcome.state not in ("done", "dropped"))

    @property
    def seconds(self) -> float:
        """From the first look to the last."""
        return self.ended_at - self.started_at
