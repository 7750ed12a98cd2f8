"""Orders that an execution gives; the runner performs them one at a time and answers each with one event."""

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.act.execution.observation import ThrottleConfig, TopicPartition


@dataclass(frozen=True)
class Command:
    """An order."""


@dataclass(frozen=True)
class Observe(Command):
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


@dataclass(frozen=True)
class Wait(Command):
    """Do nothing until that time (seconds since 1970) or until someone asks to stop. Answer: `WaitEnded`."""

    until: float


@dataclass(frozen=True)
class Finish(Command):
    """The execution has reached a final status: nothing of it is left in the cluster. No answer."""


@dataclass(frozen=True)
class GiveUp(Command):
    """The cluster cannot be reached or is another one; the execution can be resumed later. No answer."""

    reason: str
