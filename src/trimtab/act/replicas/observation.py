"""Observations of a cluster while an execution runs: values only, in Kafka's own ids and names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trimtab.act.execution.messages import Failure


class TopicPartition(NamedTuple):
    """A partition by name; equal to the Kafka client's own tuple of that name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class BrokerSeen:
    """A registered broker; a fenced one is registered but dead or not yet back."""

    id: int
    fenced: bool = False
    host: str | None = None
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """A partition's place by any broker's metadata, which may lag the controller by a moment.

    Attributes
    ----------
    replicas
        Kafka's order; during a reassignment this includes the brokers being added and being removed.
    leader
        None while offline.
    topic_id
        Tells a topic from a later one of the same name; None where the cluster does not say.
    """

    replicas: tuple[int, ...]
    leader: int | None
    in_sync: tuple[int, ...]
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReassignmentSeen:
    """A reassignment in flight, as the controller tells it."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> frozenset[int]:
        """The brokers that hold the partition once it is through."""
        return frozenset(self.replicas) - frozenset(self.removing)

    @property
    def origin(self) -> frozenset[int]:
        """The brokers that held the partition before it, and do again if it is cancelled."""
        return frozenset(self.replicas) - frozenset(self.adding)


@dataclass(frozen=True, slots=True)
class LogDirSeen:
    """A log dir with its room; sizes are None where the broker does not tell them."""

    path: str
    online: bool = True
    cordoned: bool = False
    total_bytes: int | None = None
    usable_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ReplicaSeen:
    """One replica's copy in one log dir; `future` is a copy on its way to become the replica there."""

    path: str
    size_bytes: int
    future: bool = False


@dataclass(frozen=True)
class Observation:
    """One look at the cluster.

    Attributes
    ----------
    at
        When the look was begun, seconds since 1970.
    controller
        Id of the active controller, None while there is none.
    brokers
        All registered brokers.
    placements
        Of the partitions asked for; one that is missing here does not exist.
    reassignments
        All in flight in the whole cluster, whoever asked for them.
    log_dirs
        Of the brokers asked for; a broker that did not answer is missing.
    copies
        The copies of the partitions asked for on the brokers asked for: usually one, two while a replica
        changes its log dir.
    unhealthy
        Partitions of the whole cluster that are offline or under their min.insync.replicas; None when this
        look was not wide.
    """

    at: float
    cluster_id: str
    controller: int | None
    brokers: Mapping[int, BrokerSeen]
    placements: Mapping[TopicPartition, Placement]
    reassignments: Mapping[TopicPartition, ReassignmentSeen]
    log_dirs: Mapping[int, tuple[LogDirSeen, ...]] = field(default_factory=dict)
    copies: Mapping[tuple[TopicPartition, int], tuple[ReplicaSeen, ...]] = field(default_factory=dict)
    unhealthy: frozenset[TopicPartition] | None = None

    @property
    def alive(self) -> frozenset[int]:
        """Ids of the brokers that are registered and not fenced."""
        return frozenset(broker.id for broker in self.brokers.values() if not broker.fenced)


Answers = Mapping[TopicPartition, Failure | None]
"""What Kafka said for each partition of a call; None is yes."""


@dataclass(frozen=True)
class ThrottleConfig:
    """Replication throttle as it stands in the cluster's dynamic configuration.

    Attributes
    ----------
    leader_rate, follower_rate
        `leader.replication.throttled.rate` and `follower...` of the cluster-wide default (not of single
        brokers); None where not set.
    leader_replicas, follower_replicas
        Topic -> value of `leader.replication.throttled.replicas` and `follower...`; None where not set.
    """

    leader_rate: str | None = None
    follower_rate: str | None = None
    leader_replicas: Mapping[str, str | None] = field(default_factory=dict)
    follower_replicas: Mapping[str, str | None] = field(default_factory=dict)


OwnRates = Mapping[int, Mapping[str, float]]
"""Broker -> name of a throttle's rate -> bytes per second, for those that a broker has of its own."""
