"""The state of an execution of this balancer: a value that `machine` makes from the last and an event."""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from trimtab.act.execution.state import Execution, PersistedState
from trimtab.act.replicas.messages import ReplicaLoadChecked
from trimtab.act.replicas.port import ClusterObservation, ThrottleConfig, TopicPartition
from trimtab.act.replicas.settings import ReplicasExecutionSettings
from trimtab.act.replicas.steps import ReplicaStepRecord

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
