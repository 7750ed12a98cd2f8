"""The interface between executions of this balancer and Kafka: observations, the port, commands and events.

`KafkaAdminPort` is the real port; tests bring fakes. Ids and names are Kafka's. Rules for every adapter,
besides those of `trimtab.act.execution.port`:

- Errors of single partitions are returned in `Answers`, never raised; only a call that failed as a whole
  raises `PortError`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, Self

from trimtab.act.execution.port import ClaimPort, Command, Event, Failure, Query


class TopicPartition(NamedTuple):
    """A partition by name; equal to the Kafka client's own tuple of that name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class ObservedBroker:
    """A registered broker; a fenced one is registered but dead or not yet back."""

    id: int
    fenced: bool = False
    host: str | None = None
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionPlacement:
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
class ObservedReassignment:
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
class ObservedLogDir:
    """A log dir with its room; sizes are None where the broker does not tell them."""

    path: str
    online: bool = True
    cordoned: bool = False
    total_bytes: int | None = None
    usable_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ObservedReplica:
    """One replica's copy in one log dir; `future` is a copy on its way to become the replica there."""

    path: str
    size_bytes: int
    future: bool = False


@dataclass(frozen=True)
class ClusterObservation:
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
    brokers: Mapping[int, ObservedBroker]
    placements: Mapping[TopicPartition, PartitionPlacement]
    reassignments: Mapping[TopicPartition, ObservedReassignment]
    log_dirs: Mapping[int, tuple[ObservedLogDir, ...]] = field(default_factory=dict)
    copies: Mapping[tuple[TopicPartition, int], tuple[ObservedReplica, ...]] = field(default_factory=dict)
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

    def of_topics(self, topics: frozenset[str]) -> Self:
        """The same with the lists of these topics alone."""
        leaders = {topic: value for topic, value in self.leader_replicas.items() if topic in topics}
        followers = {topic: value for topic, value in self.follower_replicas.items() if topic in topics}
        return replace(self, leader_replicas=leaders, follower_replicas=followers)


OwnRates = Mapping[int, Mapping[str, float]]
"""Broker -> name of a throttle's rate -> bytes per second, for those that a broker has of its own."""


class ClusterPort(ClaimPort, Protocol):
    """The seam between an execution and a cluster."""

    def observe(
        self, partitions: Collection[TopicPartition], brokers: Collection[int], *, wide: bool
    ) -> ClusterObservation:
        """Look at these partitions, at all reassignments, and at the log dirs of these brokers.

        Parameters
        ----------
        partitions
            Whose placement and copies are wanted; those that do not exist are left out of the answer.
        brokers
            Whose log dirs and copies are wanted; one that does not answer is left out.
        wide
            Also look over every partition of the cluster for `ClusterObservation.unhealthy`.
        """
        ...

    def reassign(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...]],
        resized: Collection[TopicPartition] = (),
    ) -> Answers:
        """Ask for new replica lists (Kafka's order), each refused if it would change the replication factor.

        A list with the same brokers in another order takes effect at once.

        Parameters
        ----------
        resized
            Those whose replication factor is meant to change, and that are not refused for it.
        """
        ...

    def min_in_sync(self, topics: Collection[str]) -> Mapping[str, int]:
        """`min.insync.replicas` of these topics; 1 of those that do not exist."""
        ...

    def cancel_reassignments(self, partitions: Collection[TopicPartition]) -> Answers:
        """Roll back what is in flight; where nothing is, the answer is `NoReassignmentInProgress`."""
        ...

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Answers:
        """Give leadership to the first of each list; one that leads already is a yes."""
        ...

    def move_log_dirs(self, targets: Mapping[tuple[TopicPartition, int], str]) -> Answers:
        """Send the replica on that broker to that log dir.

        For a replica that the broker does not hold yet, the dir is remembered for its arrival; Kafka says
        `ReplicaNotAvailable` then, which is a yes here. If any broker of a partition refuses, the partition's
        answer is that failure.
        """
        ...

    def read_throttle(self, topics: Collection[str]) -> ThrottleConfig:
        """The cluster-wide default rates, and the lists of these topics (those that exist)."""
        ...

    def own_rates(self, brokers: Collection[int]) -> OwnRates:
        """The throttle rates that these brokers have of their own.

        Each is asked itself; one that does not answer is left out: it throttles nobody.
        """
        ...

    def write_throttle(self, config: ThrottleConfig) -> Mapping[str, Failure]:
        """Make rates and lists what `config` says: None removes a setting; other topics are not touched.

        Returns
        -------
        Mapping
            Topic -> failure for the lists that could not be written (a deleted topic is no failure); the
            empty string stands for the rates.
        """
        ...

    def read_cordons(self, brokers: Collection[int]) -> Mapping[int, str | None]:
        """`cordoned.log.dirs` that these brokers have of their own, None where it is not set.

        A broker that has no such setting (Kafka before 4.3) is left out. Each is asked itself; one that does
        not answer fails the call.
        """
        ...

    def write_cordons(self, values: Mapping[int, str | None]) -> Mapping[int, Failure]:
        """Set `cordoned.log.dirs` of these brokers (`*` for all log dirs); None removes it.

        Returns
        -------
        Mapping
            Broker -> failure. Each is asked itself, since a broker takes only changes of its own settings.
        """
        ...


@dataclass(frozen=True)
class ObserveReplicas(Query):
    """Look at the cluster (`ClusterPort.observe`). Answer: `ReplicasObserved`."""

    partitions: tuple[TopicPartition, ...]
    brokers: tuple[int, ...]
    wide: bool = False


@dataclass(frozen=True)
class Reassign(Command):
    """Ask for these replica lists. Answer: `ReassignAnswered`.

    `directories` are told to the brokers first, so that new replicas land there. The replication factor of
    those in `resized` is meant to change.
    """

    targets: Mapping[TopicPartition, tuple[int, ...]]
    directories: Mapping[tuple[TopicPartition, int], str]
    resized: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True)
class MoveLogDirs(Command):
    """Send replicas to other log dirs of their brokers. Answer: `LogDirMovesAnswered`."""

    targets: Mapping[tuple[TopicPartition, int], str]


@dataclass(frozen=True)
class PartitionCommand(Command):
    """A command about a set of partitions."""

    partitions: tuple[TopicPartition, ...]


class CancelReassignments(PartitionCommand):
    """Roll these partitions back. Answer: `CancelAnswered`."""


class ElectPreferred(PartitionCommand):
    """Let the first of each list lead. Answer: `ElectionAnswered`."""


@dataclass(frozen=True)
class ReadThrottle(Command):
    """Find out what others have set, so that it can be given back. Answer: `ThrottleRead`."""

    topics: tuple[str, ...]


@dataclass(frozen=True)
class WriteThrottle(Command):
    """Set, change or give back rates and lists. Answer: `ThrottleWritten`.

    `kept_topics` and `kept_rates` say what is ours afterwards; all else in `config` is given back.
    """

    config: ThrottleConfig
    retained_topics: frozenset[str] = frozenset()
    retained_rates: bool = False


@dataclass(frozen=True)
class ReadCordons(Command):
    """Find out what `cordoned.log.dirs` of these brokers is. Answer: `CordonsRead`."""

    brokers: tuple[int, ...]


@dataclass(frozen=True)
class WriteCordons(Command):
    """Set `cordoned.log.dirs` of brokers; None removes it. Answer: `CordonsWritten`."""

    values: Mapping[int, str | None]


class CheckReplicaLoad(PartitionCommand):
    """Find out whether the partitions still to be moved need moving. Answer: `ReplicaLoadChecked`."""


@dataclass(frozen=True)
class ReplicasObserved(Event):
    """The answer to `ObserveReplicas`: the observation."""

    observation: ClusterObservation


@dataclass(frozen=True)
class PartitionsAnswered(Event):
    """Kafka's word on each partition."""

    answers: Answers


class ReassignAnswered(PartitionsAnswered):
    """The answer to `Reassign`, partition by partition."""


class LogDirMovesAnswered(PartitionsAnswered):
    """The answer to `MoveLogDirs`, replica by replica."""


class CancelAnswered(PartitionsAnswered):
    """The answer to `CancelReassignments`, partition by partition."""


class ElectionAnswered(PartitionsAnswered):
    """The answer to `ElectPreferred`, partition by partition."""


@dataclass(frozen=True)
class ThrottleRead(Event):
    """Answer to `ReadThrottle`: what others had set before us."""

    config: ThrottleConfig


@dataclass(frozen=True)
class ThrottleWritten(Event):
    """Answer to `WriteThrottle`; failures by topic, the empty string stands for the rates."""

    failures: Mapping[str, Failure] = field(default_factory=dict)


@dataclass(frozen=True)
class CordonsRead(Event):
    """Answer to `ReadCordons`; a broker that has no such setting is missing."""

    values: Mapping[int, str | None]


@dataclass(frozen=True)
class CordonsWritten(Event):
    """Answer to `WriteCordons`; failures by broker."""

    failures: Mapping[int, Failure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NetworkHeadroom:
    """The room of a broker's network for copies, bytes per second; infinite where not limited."""

    network_in: float
    network_out: float


Vector = tuple[float, ...]
"""A figure for each resource, in its unit."""


@dataclass(frozen=True)
class ReplicaLoadChecked(Event):
    """Answer to `CheckReplicaLoad`.

    Attributes
    ----------
    unneeded
        Partition -> why none of its remaining steps is needed any more.
    headroom
        Broker -> free network, where known.
    free
        Broker -> what it may still take on the way, per resource and in its unit, before it passes θ.
    gains
        Step number -> broker -> what it takes on when the step is done, per resource.
    source
        What the load was read from, for people.
    """

    unneeded: Mapping[TopicPartition, str] = field(default_factory=dict)
    headroom: Mapping[int, NetworkHeadroom] = field(default_factory=dict)
    free: Mapping[int, Vector] = field(default_factory=dict)
    gains: Mapping[int, Mapping[int, Vector]] = field(default_factory=dict)
    source: str = ""
