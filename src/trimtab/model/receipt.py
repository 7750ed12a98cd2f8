"""A receipt: what an execution did, when, what was measured afterwards, and what was left."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from trimtab.model.imbalance import Measures


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one step, at any level.

    Attributes
    ----------
    kind
        What it changed, in the level's own word.
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


@dataclass(frozen=True, slots=True)
class ReplicaOutcome(Outcome):
    """What became of one step of the level `replicas`.

    Attributes
    ----------
    kind
        `lead` (leadership), `copy` (between brokers) or `log_dir` (within a broker).
    bytes
        What it copied, or would have.
    """

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    bytes: int


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


@dataclass(frozen=True)
class Receipt(Generic[OutcomeT]):
    """The end of an execution of any level; times are seconds since 1970.

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
        """What was done."""
        return tuple(outcome for outcome in self.outcomes if outcome.state == "done")

    @property
    def left(self) -> tuple[OutcomeT, ...]:
        """What was not, for whatever reason but that it was not needed."""
        return tuple(outcome for outcome in self.outcomes if outcome.state not in ("done", "dropped"))

    @property
    def seconds(self) -> float:
        """From the first look to the last."""
        return self.ended_at - self.started_at


@dataclass(frozen=True)
class ReplicasReceipt(Receipt[ReplicaOutcome]):
    """The end of an execution of the level `replicas`.

    Attributes
    ----------
    measured
        σ, worst γ and peak under the placement reached, by the newest telemetry, or by the plan's loads where
        there is none from after the last step (`measured_from` says which); None where no load is known.
    """

    measured: Measures | None = None
    measured_from: str = ""

    @property
    def copied_bytes(self) -> int:
        """Bytes of all copies that were done."""
        return sum(outcome.bytes for outcome in self.done)
