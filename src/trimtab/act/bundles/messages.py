"""Facts of Pulsar that an execution is told, and orders that it gives, besides those of all levels."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.act.bundles.port import Answers, Balancing, BundlesSeen
from trimtab.act.execution.messages import Command, Event, Failure, Look


@dataclass(frozen=True)
class Observe(Look):
    """Look at owners and boundaries (`BundlesPort.observe`). Answer: `ClusterSeen`.

    Attributes
    ----------
    deep
        Ask also for the switches that are set, and for the health of `destinations`.
    """

    namespaces: tuple[str, ...]
    destinations: tuple[str, ...] = ()
    deep: bool = False


@dataclass(frozen=True)
class ReadBalancing(Look):
    """Find out how the switches stand; `everywhere` asks every broker, too. Answer: `BalancingRead`."""

    everywhere: bool = False


@dataclass(frozen=True)
class WriteBalancing(Command):
    """Set switches for all brokers; None takes a setting away. Answer: `BalancingWritten`."""

    values: Mapping[str, str | None]


@dataclass(frozen=True)
class Unload(Command):
    """Send bundles to these brokers. Answer: `UnloadAnswered`."""

    targets: Mapping[str, str]


@dataclass(frozen=True)
class Split(Command):
    """Cut a bundle at these boundaries, its parts to stay where they are. Answer: `SplitAnswered`."""

    step: int
    bundle: str
    boundaries: tuple[int, ...]


@dataclass(frozen=True)
class LookUp(Command):
    """Ask who serves these bundles, as a client would: one without an owner gets one. Answer: `LookedUp`."""

    bundles: tuple[str, ...]


class SenseLoad(Look):
    """Find out which unloads are still needed, and which would do harm. Answer: `LoadSensed`."""


@dataclass(frozen=True)
class LoadSensed(Event):
    """Answer to `SenseLoad`: why steps are not to be begun, by number.

    Attributes
    ----------
    unneeded
        The goals that they serve hold already.
    harmful
        Their taker would be above its limit.
    """

    unneeded: Mapping[int, str] = field(default_factory=dict)
    harmful: Mapping[int, str] = field(default_factory=dict)


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


class LookedUp(UnloadAnswered):
    """Answer to `LookUp`: Pulsar's word on each bundle."""
