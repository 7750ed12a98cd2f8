"""The parts that the documents of all balancers share: ranges of values, the origin of a snapshot, a receipt.

Ranges of names and numbers are parts of the types of fields. Planners may rely on them: whatever reads a file
has refused values beyond them. A receipt says what an execution did, when, what was measured afterwards, and
what was left.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from msgspec import Meta

from trimtab_common.documents import Name

Order = Annotated[int, Meta(ge=1)]
"""A place in the order of a plan's moves, from 1."""

Amount = Annotated[float, Meta(ge=0)]
"""A load, a capacity, or a measure."""

Hash = Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
"""A place in the hash range of a namespace of Pulsar."""

Limit = Annotated[float, Meta(ge=0, extra_json_schema={"exclusiveMinimum": 0})]
"""A capacity; whoever reads a file refuses 0 with the remedy."""

Bundle = Annotated[
    str,
    Meta(extra_json_schema={"pattern": "^[^/]+/[^/]+(/[^/]+)?/0x[0-9a-f]{8}_0x[0-9a-f]{8}$"}, min_length=1),
]
"""The key of a bundle of Pulsar: `tenant/namespace/0xLOW_0xHIGH`."""


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


AnyReceipt = Receipt[Any]
"""A receipt of any balancer; its outcomes are the balancer's own."""


@contextmanager
def collections_paused() -> Iterator[None]:
    """No garbage collection while the records of a large document are made.

    It would walk hundreds of thousands of records again and again, and finds no cycle.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
