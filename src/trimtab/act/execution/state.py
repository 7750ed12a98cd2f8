"""What the states of executions of all levels have in common: a value, made anew by every event."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from trimtab.act.execution.commands import Command
from trimtab.act.execution.settings import Patience
from trimtab.act.execution.status import FINAL, Status


class NumberedStep(Protocol):
    """A step of any level; never changes once the execution is made."""

    @property
    def number(self) -> int:
        """Position in the execution, from 1."""
        ...


class AnyRecord(Protocol):
    """A step and how far it is, at any level."""

    @property
    def step(self) -> NumberedStep:
        """What is to be done."""
        ...

    @property
    def state(self) -> str:
        """How far it is; the words are the level's own."""
        ...

    @property
    def reason(self) -> str:
        """Why it ended as it did, where that is not plain."""
        ...

    @property
    def active(self) -> bool:
        """Whether something of it may be under way in the cluster."""
        ...

    @property
    def ended(self) -> bool:
        """Whether it has come to an end, of whatever kind."""
        ...


RecordT = TypeVar("RecordT", bound=AnyRecord)
SettingsT = TypeVar("SettingsT", bound=Patience)


@dataclass(frozen=True, kw_only=True)
class Execution(Generic[RecordT, SettingsT]):
    """What every state machine knows of its execution.

    The first group is what the journal keeps; the second is learnt anew.

    Attributes
    ----------
    level
        Whose state machine it belongs to.
    cluster_id
        Of the only cluster this execution may act on.
    records
        Every step and how far it is, ordered by number.
    status, reason
        How far the execution is, and why.
    outcome
        The final status that `CLEANING` leads to.
    batches
        How many have been begun.
    awaiting
        The order given last.
    fresh
        Whether the cluster has been looked at since.
    give_up
        Why the process is to end here; empty while it goes on.
    """

    level: ClassVar[str]

    settings: SettingsT
    cluster_id: str
    records: tuple[RecordT, ...]
    status: Status = Status.RUNNING
    reason: str = ""
    outcome: Status | None = None
    batches: int = 0

    now: float = 0.0
    awaiting: Command | None = None
    fresh: bool = False
    waiting_since: float | None = None
    failing_since: float | None = None
    failures_in_a_row: int = 0
    pause_until: float = 0.0
    give_up: str = ""

    @property
    def final(self) -> bool:
        """Whether it has ended, with nothing of it left in the cluster."""
        return self.status in FINAL

    @property
    def active(self) -> tuple[RecordT, ...]:
        """Steps of which something may be under way."""
        return tuple(record for record in self.records if record.active)

    @property
    def pending(self) -> tuple[RecordT, ...]:
        """Steps not begun."""
        return tuple(record for record in self.records if not record.active and not record.ended)

    def with_records(self, changed: Mapping[int, RecordT]) -> Self:
        """The same with some records replaced, keyed by step number."""
        if not changed:
            return self
        return replace(self, records=tuple(changed.get(r.step.number, r) for r in self.records))


AnyExecution = Execution[Any, Any]
"""A state of whatever level."""

StateT = TypeVar("StateT", bound=AnyExecution)
