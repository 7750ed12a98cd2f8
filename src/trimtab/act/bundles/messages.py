"""Facts of Pulsar that an execution is told, and orders that it gives, besides those of all balancers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.act.bundles.port import Answers, BrokerBalancing, BundlesObservation
from trimtab.act.execution.messages import Command, Event, Failure, Query


@dataclass(frozen=True)
class ObserveBundles(Query):
    """Look at owners and boundaries (`BundlesPort.observe`). Answer: `BundlesObserved`.

    Attributes
    ----------
    deep
        Ask also for the switches that are set, and for the health of `destinations`.
    """

    namespaces: tuple[str, ...]
    destinations: tuple[str, ...] = ()
    deep: bool = False


@dataclass(frozen=True)
class ReadBrokerBalancing(Query):
    """Read the switches, with `all_brokers` on every broker. Answer: `BrokerBalancingRead`."""

    all_brokers: bool = False


@dataclass(frozen=True)
class WriteBrokerBalancing(Command):
    """Set switches for all brokers; None takes a setting away. Answer: `BrokerBalancingWritten`."""

    values: Mapping[str, str | None]


@dataclass(frozen=True)
class UnloadBundles(Command):
    """Send bundles to these brokers. Answer: `UnloadCompleted`."""

    targets: Mapping[str, str]


@dataclass(frozen=True)
class SplitBundle(Command):
    """Cut a bundle at these boundaries, its parts to stay where they are. Answer: `SplitCompleted`."""

    step: int
    bundle: str
    boundaries: tuple[int, ...]


@dataclass(frozen=True)
class ResolveOwners(Command):
    """Ask who serves these bundles, as a client would: one without an owner gets one. Answer:
    `OwnersResolved`.
    """

    bundles: tuple[str, ...]


class CheckBundleLoad(Query):
    """Find out which unloads are still needed, and which would do harm. Answer: `BundleLoadChecked`."""


@dataclass(frozen=True)
class BundleLoadChecked(Event):
    """Answer to `CheckBundleLoad`: why steps are not to be begun, by number.

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
class BundlesObserved(Event):
    """Answer to `ObserveBundles`."""

    observation: BundlesObservation


@dataclass(frozen=True)
class BrokerBalancingRead(Event):
    """Answer to `ReadBrokerBalancing`."""

    balancing: BrokerBalancing


@dataclass(frozen=True)
class BrokerBalancingWritten(Event):
    """Answer to `WriteBrokerBalancing`; failures by switch."""

    failures: Mapping[str, Failure] = field(default_factory=dict)


@dataclass(frozen=True)
class UnloadCompleted(Event):
    """Answer to `UnloadBundles`: Pulsar's word on each bundle."""

    answers: Answers


@dataclass(frozen=True)
class SplitCompleted(Event):
    """Answer to `SplitBundle`: yes is None, and yes is also said where nothing was cut."""

    failure: Failure | None


class OwnersResolved(UnloadCompleted):
    """Answer to `ResolveOwners`: Pulsar's word on each bundle."""
