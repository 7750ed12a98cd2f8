"""The steps of an execution: one change that Kafka can see, on one partition, and how far it is.

A step's states and the only ways between them are the table `STEP_TRANSITIONS`; docs/balancers/
replicas-execution.md says them in words, and a test holds the two together.
"""

from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import Any, Final, Self

from trimtab.act.execution.record import StepRecord, transitions
from trimtab.act.replicas.port import TopicPartition


class ReplicaStepKind(StrEnum):
    """The thing that a step changes."""

    LEAD = "lead"
    """The order of the replica list (same brokers), then preferred election: metadata only."""
    COPY = "copy"
    """The brokers of the replica list: data is copied to those that are added; where some are only dropped,
    none is."""
    LOG_DIR = "log_dir"
    """The log dir of a replica on its broker: data is copied within the broker."""


class StepPhase(IntEnum):
    """The time when a step's turn comes; a later phase begins when nothing of an earlier one can be begun."""

    RELIEF = 0
    """Leadership that goes to a replica which is there already: relieves at once."""
    COPY = 1
    """Copies between brokers, and between the log dirs of a broker."""
    SETTLE = 2
    """Leadership that can only go to where a copy has arrived."""


class ReplicaStepState(StrEnum):
    """The progress of a step."""

    PENDING = "pending"
    """Not begun."""
    REQUESTED = "requested"
    """Written down as about to be asked for; whether Kafka knows of it is unknown until the next look."""
    MOVING = "moving"
    """Kafka has accepted it: the list is changing, or data is being copied."""
    ELECTING = "electing"
    """The list is as it should be; the leader is not yet."""
    ROLLING_BACK = "rolling_back"
    """Cancelled; the old list is not yet seen to be back."""
    DONE = "done"
    """The cluster is as the step wants it."""
    DROPPED = "dropped"
    """No longer needed: the goal it served holds already."""
    SKIPPED = "skipped"
    """Does not apply any more (deleted topic, changed replication factor, changed placement)."""
    ROLLED_BACK = "rolled_back"
    """Cancelled, and the old list is back."""
    FAILED = "failed"
    """Could not be done; `ReplicaStepRecord.reason` says why. Nothing of it is in flight."""


ACTIVE: Final = frozenset(
    {
        ReplicaStepState.REQUESTED,
        ReplicaStepState.MOVING,
        ReplicaStepState.ELECTING,
        ReplicaStepState.ROLLING_BACK,
    }
)
"""States in which something of the step may be under way in the cluster."""

ENDED: Final = frozenset(
    {
        ReplicaStepState.DONE,
        ReplicaStepState.DROPPED,
        ReplicaStepState.SKIPPED,
        ReplicaStepState.ROLLED_BACK,
        ReplicaStepState.FAILED,
    }
)
"""States that a step never leaves, except that a resumed execution may begin `ROLLED_BACK` ones again."""

STEP_TRANSITIONS: Final = transitions(
    ReplicaStepState,
    pending="requested done dropped skipped failed",
    requested="pending moving electing rolling_back done skipped failed",
    moving="pending electing rolling_back done skipped failed",
    electing="rolling_back done skipped failed",
    rolling_back="requested rolled_back done skipped failed",
    rolled_back="pending",
    done="",
    dropped="",
    skipped="",
    failed="",
)

UNMEASURED: Final[dict[str, Any]] = {
    "min_remaining_bytes": None,
    "max_remaining_bytes": None,
    "nearer_at": None,
    "source_bytes": None,
    "measured_at": None,
    "written_bytes_per_second": 0.0,
}
"""The fields of a record that `trimtab.act.replicas.catch_up` keeps, before the first look."""


@dataclass(frozen=True, slots=True)
class ReplicaStep:
    """One change to one partition; never changes once the execution is made.

    Attributes
    ----------
    number
        Position in the execution, from 1; steps are begun in this order within their phase.
    before, after
        Replica lists (Kafka's order) that this step expects and leaves.
    leader
        Who should lead afterwards, for `LEAD` steps: the first of `after`, or None for a new order alone.
    bytes
        Size of one copy times the number of brokers added (or dirs changed); 0 for `LEAD`.
    follows
        Number of a step of the same partition that must have ended before this one begins.
    directories
        (broker, log dir) for replicas that must land in a given dir.
    old_directories
        (broker, log dir) that a `LOG_DIR` step leaves, to go back there when it is cancelled.
    moves
        `order` of the plan's moves that this step carries out.
    """

    number: int
    kind: ReplicaStepKind
    phase: StepPhase
    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    leader: int | None = None
    bytes: int = 0
    follows: int | None = None
    directories: tuple[tuple[int, str], ...] = ()
    old_directories: tuple[tuple[int, str], ...] = ()
    moves: tuple[int, ...] = ()

    @property
    def added(self) -> tuple[int, ...]:
        """Brokers that get a copy."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removed(self) -> tuple[int, ...]:
        """Brokers that lose theirs."""
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def resizes(self) -> bool:
        """Whether it changes the replication factor."""
        return len(self.after) != len(self.before)

    @property
    def destinations(self) -> tuple[int, ...]:
        """Brokers without which it cannot be done."""
        if self.kind is ReplicaStepKind.COPY:
            return self.added
        if self.kind is ReplicaStepKind.LEAD:
            return () if self.leader is None else (self.leader,)
        return tuple(broker for broker, _ in self.directories)

    @property
    def copies(self) -> int:
        """The number of copies that it makes."""
        return len(self.added) or len(self.directories)

    def __str__(self) -> str:
        return f"step {self.number} ({self.kind} {self.partition})"


@dataclass(frozen=True, slots=True)
class ReplicaStepRecord(StepRecord[ReplicaStep, ReplicaStepState]):
    """A step and how far it is; this is what the journal keeps.

    Attributes
    ----------
    copied_bytes
        Size that the new copies were seen to have at the last look; more bytes count as getting further.
    topic_id
        The topic's id when first seen, to tell a topic created anew under the same name.
    rollback
        The state to end in once rolled back: `ROLLED_BACK` when cancelled by the user, `FAILED` when given
        up.
    min_remaining_bytes, max_remaining_bytes, nearer_at
        When its copy was last seen to get nearer to its end, what was left of it then, and the most that has
        been left since (`trimtab.act.replicas.catch_up`).
    source_bytes, measured_at, written_bytes_per_second
        Size of what it is copied from, when that was last seen, and how fast it grows.
    """

    ACTIVE = ACTIVE
    ENDED = ENDED

    state: ReplicaStepState = ReplicaStepState.PENDING
    copied_bytes: int = 0
    topic_id: str | None = None
    rollback: ReplicaStepState | None = None
    min_remaining_bytes: int | None = None
    max_remaining_bytes: int | None = None
    nearer_at: float | None = None
    source_bytes: int | None = None
    measured_at: float | None = None
    written_bytes_per_second: float = 0.0

    def end(self, state: ReplicaStepState, now: float, reason: str = "") -> Self:
        """The record at its end; without another reason it keeps the one it has."""
        return StepRecord.end(self, state, now, reason or self.reason)

    def resumed(self, now: float, ended: bool) -> Self:
        """See `StepRecord.resumed`: what was rolled back begins again."""
        # Time in which nobody looked does not count as time in which a copy got no nearer.
        record = replace(self, **UNMEASURED) if self.active and self.nearer_at is not None else self
        if record.state is ReplicaStepState.ROLLED_BACK:
            state = ReplicaStepState.PENDING
        elif (
            record.state is ReplicaStepState.ROLLING_BACK and record.rollback is ReplicaStepState.ROLLED_BACK
        ):
            state = (
                ReplicaStepState.REQUESTED
            )  # whether the cancelling took effect is for the next look to tell
        else:
            return record
        return replace(record, state=state, rollback=None, ended_at=None, attempts=0, reason="")
