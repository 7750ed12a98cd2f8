"""Facts of Pulsar that an execution is told: the answers to its orders."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.act.bundles.observation import Answers, Balancing, BundlesSeen
from trimtab.act.execution.events import Event
from trimtab.act.execution.failure import Failure


@dataclass(frozen=True)
class ClusterSeen(Event):
    """Answer to `Observe`."""

    observation: BundlesSeen


@dataclass(frozen=True)
class BalancingRead(Event):
    """Answer to `ReadBalancing`."""

    balancing: Balancing


@dataclass(frozen=True)
class BalancingWritten(Event):
    """Answer to `WriteBalancing`; failures by switch."""

    failures: Mapping[str, Failure] = field(default_factory=dict)


@dataclass(frozen=True)
class UnloadAnswered(Event):
    """Answer to `Unload`: Pulsar's word on each bundle."""

    answers: Answers


@dataclass(frozen=True)
class SplitAnswered(Event):
    """Answer to `Split`: yes is None, and yes is also said where nothing was cut."""

    failure: Failure | None


@dataclass(frozen=True)
class LookedUp(Event):
    """Answer to `LookUp`."""

    answers: Answers
