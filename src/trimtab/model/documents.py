"""The parts that the documents of all balancers share: the origin and quality of a snapshot, a receipt.

A receipt says what an execution did, when, what was measured afterwards, and what was left.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from trimtab_common.documents import Name


@dataclass(frozen=True)
class Quality:
    """The trust that a snapshot's loads deserve.

    Attributes
    ----------
    valid_share
        Share of the expected samples that were there and sound, 0 to 1.
    oldest_sample_seconds
        Age of the oldest sample used, at the time the snapshot was taken.
    cpu
        "measured" (a fitted model of measured broker CPU), "shares" (measured broker CPU split by fixed
        shares) or "absent" (no CPU signal: CPU is not balanced).
    extra
        Further facts, by names that begin with `x_` in files.
    """

    valid_share: float = 1.0
    oldest_sample_seconds: float = 0.0
    cpu: str = "measured"
    extra: tuple[tuple[str, object], ...] = ()

    @property
    def nominal_capacity(self) -> tuple[str, ...]:
        """Resources of which no capacity is known: all brokers got the same made-up one, to compare them."""
        named = dict(self.extra).get("x_nominal_capacity", ())
        return tuple(str(name) for name in named) if isinstance(named, list | tuple) else ()


@dataclass(frozen=True)
class SnapshotReference:
    """The snapshot that a plan was made from.

    Attributes
    ----------
    taken_at
        RFC 3339, UTC.
    sha256
        Hex digest of the snapshot's bytes (of a folder: of its files' digests in name order).
    """

    cluster: Name
    taken_at: Name
    sha256: Name


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
