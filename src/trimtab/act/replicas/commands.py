"""What an execution of this level orders besides what all levels do."""

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.act.execution.commands import Command, Look
from trimtab.act.replicas.observation import ThrottleConfig, TopicPartition


@dataclass(frozen=True)
class Observe(Look):
    """Look at the cluster (`ClusterPort.observe`). Answer: `ClusterObserved`."""

    partitions: tuple[TopicPartition, ...]
    brokers: tuple[int, ...]
    wide: bool = False


@dataclass(frozen=True)
class Reassign(Command):
    """Ask for these replica lists. Answer: `ReassignAnswered`.

    `directories` are told to the brokers first, so that new replicas land there.
    """

    targets: Mapping[TopicPartition, tuple[int, ...]]
    directories: Mapping[tuple[TopicPartition, int], str]


@dataclass(frozen=True)
class MoveLogDirs(Command):
    """Send replicas to other log dirs of their brokers. Answer: `LogDirMovesAnswered`."""

    targets: Mapping[tuple[TopicPartition, int], str]


@dataclass(frozen=True)
class CancelReassignments(Command):
    """Roll these partitions back. Answer: `CancelAnswered`."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class ElectPreferred(Command):
    """Let the first of each list lead. Answer: `ElectionAnswered`."""

    partitions: tuple[TopicPartition, ...]


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
    kept_topics: frozenset[str] = frozenset()
    kept_rates: bool = False


@dataclass(frozen=True)
class SenseLoad(Command):
    """Find out whether the partitions still to be moved need moving. Answer: `LoadSensed`."""

    partitions: tuple[TopicPartition, ...]
