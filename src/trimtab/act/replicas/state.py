"""Settings, steps and state of executions of this balancer.

A step is one change that Kafka can see, on one partition. Its states and the only ways between them are the
table `STEP_TRANSITIONS`. docs/balancers/replicas-execution.md describes them; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, Final, Self

from trimtab.act.execution.settings import RetryPolicy, require_above_zero
from trimtab.act.execution.state import Execution, PersistedState
from trimtab.act.execution.steps import StepRecord, transitions
from trimtab.act.replicas.port import ClusterObservation, ReplicaLoadChecked, ThrottleConfig, TopicPartition
from trimtab_common.errors import SettingsError


@dataclass(frozen=True)
class ReplicasExecutionSettings(RetryPolicy):
    """Limits, retries and time-outs of an execution; the defaults suit a busy cluster.

    Attributes
    ----------
    throttle
        `auto`: the brokers' free network capacity, or `throttle_initial_bytes_per_second` if unknown, adapted
        while copies run; `none`; or bytes per second.
    throttle_initial_bytes_per_second
        Initial rate of `auto` if the free network capacity is unknown.
    throttle_min_bytes_per_second
        Lowest rate of `auto`.
    throttle_headroom_fraction
        Share of a broker's free network capacity for copies.
    initial_copies_per_broker
        Initial number of concurrent copies per broker, as source or destination. It rises by one after each
        batch of copies without problems, and is halved after a problem.
    max_copies_per_broker
        Maximum number of concurrent copies per broker.
    max_copies_per_cluster
        Maximum number of partitions copied at once.
    max_leaders_per_batch
        Maximum number of leader moves between two checks of the whole cluster.
    disk_reserve_fraction
        Share of a log dir that must be free after all copies of a batch.
    skip_unneeded
        Whether steps are skipped that newer samples show to be unneeded.
    cordon_drained
        Whether drained brokers are cordoned before the first batch, if Kafka supports it.
    stall_timeout_seconds
        Time without progress after which a copy is rolled back.
    external_change_timeout_seconds
        Time to wait for another tool's reassignment before the execution stops.
    unhealthy_timeout_seconds
        Time to wait for the recovery of offline or under-min-ISR partitions before the execution stops.
    in_sync_timeout_seconds
        Time that a leader move waits for its replica to be in sync before it is skipped.
    settle_seconds
        Maximum lag of a broker's metadata behind the controller.
    """

    throttle: str | float = "auto"
    throttle_initial_bytes_per_second: float = 50_000_000.0
    throttle_min_bytes_per_second: float = 1_000_000.0
    throttle_headroom_fraction: float = 0.5
    initial_copies_per_broker: int = 5
    max_copies_per_broker: int = 20
    max_copies_per_cluster: int = 100
    max_leaders_per_batch: int = 500
    disk_reserve_fraction: float = 0.05
    skip_unneeded: bool = True
    cordon_drained: bool = True
    stall_timeout_seconds: float = 300.0
    in_sync_timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Refuse values that no execution could work with."""
        self.fixed_rate  # noqa: B018 - reading it checks the form of `throttle`
        super().__post_init__()
        require_above_zero(
            self,
            "execution",
            "throttle_initial_bytes_per_second",
            "throttle_min_bytes_per_second",
            "initial_copies_per_broker",
            "max_copies_per_broker",
            "max_copies_per_cluster",
            "max_leaders_per_batch",
        )
        for name in ("throttle_headroom_fraction", "disk_reserve_fraction"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingsError(f"execution.{name} is {getattr(self, name)}: it must be 0 to below 1")

    @property
    def follows_headroom(self) -> bool:
        """Whether the throttle follows what the brokers' networks have left."""
        return self.throttle == "auto"

    @property
    def fixed_rate(self) -> float | None:
        """Bytes per second when a number was asked for; None for `auto` and `none`."""
        if self.throttle in ("auto", "none"):
            return None
        try:
            rate = float(self.throttle)
        except ValueError:
            rate = -1.0
        if not 0 < rate < float("inf"):
            raise SettingsError(
                f"execution.throttle is {self.throttle!r}: write auto, none, or bytes per second like "
                "20000000"
            )
        return rate


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
"""The fields of a record that `trimtab.act.replicas.reconcile` keeps, before the first look."""


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
        """Brokers that lose a replica by this step."""
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
        been left since (`trimtab.act.replicas.reconcile`).
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


NO_OBSERVATION: Final = ClusterObservation(
    at=0.0, cluster_id="", controller=None, brokers={}, placements={}, reassignments={}
)
NOTHING_SENSED: Final = ReplicaLoadChecked(at=0.0)


@dataclass(frozen=True)
class ThrottleMemory:
    """The settings that we have changed, or are about to change, and their values before.

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
        """True if nothing in the cluster is ours."""
        return not self.rates_touched and not self.topics


@dataclass(frozen=True)
class Cordon:
    """A broker that we cordon, or are about to.

    Attributes
    ----------
    before
        The broker's own `cordoned.log.dirs` before us; None where it was not set.
    is_set
        Whether Kafka has confirmed ours.
    """

    broker: int
    before: str | None
    is_set: bool = False


@dataclass(frozen=True, kw_only=True)
class PersistedReplicasState(PersistedState[ReplicaStepRecord, ReplicasExecutionSettings]):
    """The part that the journal keeps, and all that a resumed execution needs.

    Attributes
    ----------
    baseline
        Partitions that were unhealthy before we touched anything; None before the first look.
    throttle
        What must be given back.
    initial_copies_per_broker, rate_bytes_per_second
        The pace at present; a rate of None is no throttle.
    drained
        Brokers that the plan drains.
    cordons
        Those of them that have a cordon of ours, and what must be given back unless the drain ends.
    notes
        Sentences on settings of the cluster, for receipts.
    """

    baseline: frozenset[TopicPartition] | None = None
    throttle: ThrottleMemory = field(default_factory=ThrottleMemory)
    initial_copies_per_broker: int = 1
    rate_bytes_per_second: float | None = None
    drained: tuple[int, ...] = ()
    cordons: tuple[Cordon, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """True if no throttle setting and no cordon is ours."""
        return self.throttle.empty and not self.cordons


@dataclass(frozen=True, kw_only=True)
class ReplicasExecutionState(PersistedReplicasState, Execution[ReplicaStepRecord, ReplicasExecutionSettings]):
    """Everything the state machine knows.

    Attributes
    ----------
    observation
        The last look; an empty one before the first.
    full_poll_at, full_poll_seconds
        When the whole cluster was looked at last, and how long that took.
    load, sensed_for_batch
        The load as sensed last, and the number of batches begun then.
    throttle_in_force
        What we set last; None where that is not known.
    cordons_settled
        Drained brokers that need no order: they are cordoned, or cannot be.
    """

    balancer: ClassVar[str] = "replicas"
    persisted_type: ClassVar[type[PersistedReplicasState]] = PersistedReplicasState

    observation: ClusterObservation = NO_OBSERVATION
    full_poll_at: float | None = None
    full_poll_seconds: float = 0.0
    load: ReplicaLoadChecked = NOTHING_SENSED
    sensed_for_batch: int | None = None
    throttle_in_force: ThrottleConfig | None = None
    cordons_settled: frozenset[int] = frozenset()

    @property
    def is_full_observation(self) -> bool:
        """True if the last look was at the whole cluster."""
        return self.observation.unhealthy is not None
