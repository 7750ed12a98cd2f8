"""Facts of Kafka that an execution is told: the answers to its orders."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.act.execution.events import Event
from trimtab.act.execution.failure import Failure
from trimtab.act.replicas.observation import Answers, Observation, ThrottleConfig, TopicPartition


@dataclass(frozen=True)
class ClusterObserved(Event):
    """Answer to `Observe`."""

    observation: Observation


@dataclass(frozen=True)
class ReassignAnswered(Event):
    """Answer to `Reassign`: Kafka's word on each partition."""

    answers: Answers


@dataclass(frozen=True)
class LogDirMovesAnswered(Event):
    """Answer to `MoveLogDirs`."""

    answers: Answers


@dataclass(frozen=True)
class CancelAnswered(Event):
    """Answer to `CancelReassignments`."""

    answers: Answers


@dataclass(frozen=True)
class ElectionAnswered(Event):
    """Answer to `ElectPreferred`."""

    answers: Answers


@dataclass(frozen=True)
class ThrottleRead(Event):
    """Answer to `ReadThrottle`: what others had set before us."""

    config: ThrottleConfig


@dataclass(frozen=True)
class ThrottleWritten(Event):
    """Answer to `WriteThrottle`; failures by topic, the empty string stands for the rates."""

    failures: Mapping[str, Failure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Headroom:
    """What a broker's network can still take for copies, bytes per second; infinite where not limited."""

    network_in: float
    network_out: float


@dataclass(frozen=True)
class LoadSensed(Event):
    """Answer to `SenseLoad`.

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
    headroom: Mapping[int, Headroom] = field(default_factory=dict)
    free: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    gains: Mapping[int, Mapping[int, tuple[float, ...]]] = field(default_factory=dict)
    source: str = ""
