"""The interface between executions of this balancer and Pulsar: observations, the port, commands and events.

`PulsarAdminPort` is the real port. Names are Pulsar's. Rules for every adapter, besides those of
`trimtab.act.execution.port`:

- Errors of single bundles are returned in `Answers`, never raised; their `code` is Pulsar's HTTP status,
  `307` if the broker of a redirect does not answer, `no answer` if it is unknown whether the call arrived.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Protocol

from trimtab.act.execution.port import ClaimPort, Command, Event, Failure, Query
from trimtab.model.bundles.snapshot import BundleRange

SHEDDING: Final = "loadBalancerSheddingEnabled"
AUTO_SPLIT: Final = "loadBalancerAutoBundleSplitEnabled"
SWITCHES: Final = (SHEDDING, AUTO_SPLIT)
"""The brokers' own balancing, as far as it acts by itself; both are dynamic under either load manager."""
OFF: Final = "false"


@dataclass(frozen=True)
class BundlesObservation:
    """One look at the cluster; asking it changes nothing and assigns nothing.

    Attributes
    ----------
    at
        When the look was begun, seconds since 1970.
    cluster
        What tells this cluster from others: its name, `@`, and the address that its metadata give (names
        alone are not unique).
    extensible, leader
        Whether the extensible load manager is in charge, not the modular one, and the id of the broker that
        decides about placement (None while there is none), as the last deep look showed.
    brokers
        Ids (`host:port`) of all registered brokers; one that died stays registered until its session ends.
    unreachable
        Registered brokers that did not tell what they own, and why.
    owners
        Bundle -> id of the broker that says it serves it. A bundle that is missing has no owner, or a silent
        one.
    boundaries
        Of the namespaces asked for, all boundaries, rising; one that does not exist is missing.
    overrides
        Of `SWITCHES`, those that are set for all brokers; None when this look did not ask.
    unhealthy
        Of the brokers whose health was asked for, those that cannot write and read a message, and why; None
        when none was asked.
    """

    at: float
    cluster: str
    extensible: bool
    leader: str | None
    brokers: frozenset[str]
    owners: Mapping[str, str]
    boundaries: Mapping[str, tuple[int, ...]]
    unreachable: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] | None = None
    unhealthy: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """The cluster's name without its address."""
        return self.cluster.partition("@")[0]

    @property
    def alive(self) -> frozenset[str]:
        """Brokers that are registered and answer."""
        return self.brokers - frozenset(self.unreachable)

    def has(self, bundle: BundleRange) -> bool:
        """True if this is a bundle of its namespace now."""
        return (bundle.low, bundle.high) in pairwise(self.boundaries.get(bundle.namespace, ()))

    def cuts(self, bundle: BundleRange) -> tuple[int, ...] | None:
        """Boundaries strictly inside a range; None if its ends, or its namespace, are not there."""
        boundaries = self.boundaries.get(bundle.namespace, ())
        if bundle.low not in boundaries or bundle.high not in boundaries:
            return None
        return tuple(one for one in boundaries if bundle.low < one < bundle.high)

    def bundle_around(self, namespace: str, boundary: int) -> BundleRange | None:
        """The bundle that a boundary would cut; None if it is one already."""
        for low, high in pairwise(self.boundaries.get(namespace, ())):
            if low < boundary < high:
                return BundleRange(namespace, low, high)
        return None


@dataclass(frozen=True)
class BrokerBalancing:
    """The state of the switches of the brokers' own balancing.

    Attributes
    ----------
    overrides
        Switch -> value that is set for all brokers; a switch that is missing follows the brokers' own files.
    in_force
        Broker -> switch -> value, as that broker tells; a silent one is missing.
    """

    overrides: Mapping[str, str]
    in_force: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BundleTraffic:
    """A bundle's traffic a second, as its broker counts it; messages are those in and those out together."""

    bytes_in: float
    bytes_out: float
    messages: float


Answers = Mapping[str, Failure | None]
"""What Pulsar said for each bundle of a call; None is yes, and yes is no proof."""


class BundlesPort(ClaimPort, Protocol):
    """The seam between an execution and a cluster."""

    def observe(
        self, namespaces: Collection[str], destinations: Collection[str] = (), *, deep: bool = False
    ) -> BundlesObservation:
        """Look at all owners, and at the boundaries of these namespaces; assigns nothing.

        Parameters
        ----------
        namespaces
            Those that do not exist are left out of the answer.
        destinations
            Brokers whose health is wanted, of those that answer.
        deep
            Also ask for the switches that are set, the leader, the load manager, and the health of the
            destinations.
        """
        ...

    def read_balancing(self, *, all_brokers: bool = False) -> BrokerBalancing:
        """The switches that are set for all brokers; `all_brokers`: and what every broker makes of them."""
        ...

    def traffic(self) -> Mapping[str, BundleTraffic]:
        """The traffic of bundles, as far as brokers tell; never fails."""
        ...

    def write_balancing(self, values: Mapping[str, str | None]) -> Mapping[str, Failure]:
        """Set switches for all brokers, None takes a setting away; those that were refused, with why."""
        ...

    def unload(self, targets: Mapping[str, str]) -> Answers:
        """Make the owners let go of bundles (keys), each to be taken by its broker (value)."""
        ...

    def split(self, bundle: str, boundaries: Collection[int]) -> Failure | None:
        """Cut a bundle; its parts stay with its owner, and nobody is disconnected."""
        ...

    def lookup(self, bundles: Collection[str]) -> Answers:
        """Ask who serves these bundles, as a client would: one without an owner is given one."""
        ...


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
    """The answer to `ObserveBundles`: the observation."""

    observation: BundlesObservation


@dataclass(frozen=True)
class BrokerBalancingRead(Event):
    """The answer to `ReadBrokerBalancing`: Pulsar's switches as the brokers report them."""

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
