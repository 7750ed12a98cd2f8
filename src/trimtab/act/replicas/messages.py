"""Facts of Kafka that an execution is told, and orders that it gives, besides those of all balancers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.act.execution.messages import Command, Event, Failure, Query
from trimtab.act.replicas.port import Answers, ClusterObservation, ThrottleConfig, TopicPartition


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
    """An order about partitions."""

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
    """Answer to `ObserveReplicas`."""

    observation: ClusterObservation


@dataclass(frozen=True)
class PartitionsAnswered(Event):
    """Kafka's word on each partition."""

    answers: Answers


class ReassignAnswered(PartitionsAnswered):
    """Answer to `Reassign`."""


class LogDirMovesAnswered(PartitionsAnswered):
    """Answer to `MoveLogDirs`."""


class CancelAnswered(PartitionsAnswered):
    """Answer to `CancelReassignments`."""


class ElectionAnswered(PartitionsAnswered):
    """Answer to `ElectPreferred`."""


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
