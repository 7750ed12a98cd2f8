"""The state of an execution: a value; `machine` makes each from the one before and an event."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from trimtab.act.execution.commands import Command
from trimtab.act.execution.events import Headroom
from trimtab.act.execution.observation import Observation, ThrottleConfig, TopicPartition
from trimtab.act.execution.settings import ExecutionSettings
from trimtab.act.execution.steps import StepRecord


class Status(StrEnum):
    """How far an execution is."""

    RUNNING = "running"
    WAITING = "waiting"
    """Begins nothing new until something in the cluster is over; `ExecutionState.reason` says what."""
    STOPPING = "stopping"
    """Begins nothing new; ends when what is in flight has finished."""
    CANCELLING = "cancelling"
    """Rolls back what is in flight."""
    CLEANING = "cleaning"
    """Nothing is in flight; gives the throttle settings back."""
    FINISHED = "finished"
    """Every step is done, or was found not to be needed any more."""
    INCOMPLETE = "incomplete"
    """Ended, but some step failed or did not apply any more."""
    STOPPED = "stopped"
    """Ended early; steps not begun are still pending and can be resumed."""
    CANCELLED = "cancelled"
    """Ended early, with what was in flight rolled back; can be resumed."""


FINAL: Final = frozenset({Status.FINISHED, Status.INCOMPLETE, Status.STOPPED, Status.CANCELLED})
"""In these, no throttle and no reassignment of the execution is left in the cluster."""

STATUS_TRANSITIONS: Final[dict[Status, frozenset[Status]]] = {
    Status.RUNNING: frozenset({Status.WAITING, Status.STOPPING, Status.CANCELLING, Status.CLEANING}),
    Status.WAITING: frozenset({Status.RUNNING, Status.STOPPING, Status.CANCELLING, Status.CLEANING}),
    Status.STOPPING: frozenset({Status.RUNNING, Status.CANCELLING, Status.CLEANING}),
    Status.CANCELLING: frozenset({Status.RUNNING, Status.CLEANING}),
    Status.CLEANING: frozenset(
        {Status.RUNNING, Status.FINISHED, Status.INCOMPLETE, Status.STOPPED, Status.CANCELLED}
    ),
    Status.STOPPED: frozenset({Status.RUNNING}),
    Status.CANCELLED: frozenset({Status.RUNNING}),
    Status.FINISHED: frozenset(),
    Status.INCOMPLETE: frozenset(),
}


@dataclass(frozen=True)
class ThrottleMemory:
    """What we have changed, or are about to change, and what was there before.

    Attributes
    ----------
    original
        Values to be given back: rates, and lists of the topics that we have touched.
    rates_touched
        Whether the rates are ours at present.
    """

    original: ThrottleConfig = field(default_factory=ThrottleConfig)
    rates_touched: bool = False

    @property
    def topics(self) -> frozenset[str]:
        """Topics whose lists are, or may be, ours at present."""
        return frozenset(self.original.leader_replicas)

    @property
    def empty(self) -> bool:
        """Whether nothing in the cluster is ours."""
        return not self.rates_touched and not self.topics


@dataclass(frozen=True)
class ExecutionState:
    """Everything the state machine knows.

    The first group is what the journal keeps, and all that a resumed execution needs; the second group is
    learnt anew from the cluster.

    Attributes
    ----------
    cluster_id
        Of the only cluster this execution may act on.
    records
        Every step and how far it is, ordered by number.
    status, reason
        How far the execution is, and why.
    outcome
        The final status that `CLEANING` leads to.
    brokers
        Alive at the first look; None before it.
    baseline
        Partitions that were unhealthy before we touched anything; None before the first look.
    throttle
        What must be given back.
    copies_per_broker, rate_bytes_per_second
        The pace at present; a rate of None is no throttle.
    batches
        How many have been begun.
    """

    settings: ExecutionSettings
    cluster_id: str
    records: tuple[StepRecord, ...]
    status: Status = Status.RUNNING
    reason: str = ""
    outcome: Status | None = None
    brokers: frozenset[int] | None = None
    baseline: frozenset[TopicPartition] | None = None
    throttle: ThrottleMemory = field(default_factory=ThrottleMemory)
    copies_per_broker: int = 1
    rate_bytes_per_second: float | None = None
    batches: int = 0

    now: float = 0.0
    awaiting: Command | None = None
    seen: Observation | None = None
    fresh: bool = False
    looked_wide_at: float | None = None
    wide_look_seconds: float = 0.0
    sensed_for_batch: int | None = None
    headroom: Mapping[int, Headroom] = field(default_factory=dict)
    free: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    gains: Mapping[int, Mapping[int, tuple[float, ...]]] = field(default_factory=dict)
    load_source: str = ""
    chosen: tuple[int, ...] = ()
    throttle_in_force: ThrottleConfig | None = None
    gone_since: Mapping[int, float] = field(default_factory=dict)
    blocked_since: Mapping[int, float] = field(default_factory=dict)
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
    def active(self) -> tuple[StepRecord, ...]:
        """Steps of which something may be under way."""
        return tuple(record for record in self.records if record.active)

    @property
    def pending(self) -> tuple[StepRecord, ...]:
        """Steps not begun."""
        return tuple(record for record in self.records if not record.active and not record.ended)

    def with_records(self, changed: Mapping[int, StepRecord]) -> "ExecutionState":
        """The same with some records replaced, keyed by step number."""
        if not changed:
            return self
        return replace(self, records=tuple(changed.get(r.step.number, r) for r in self.records))
