"""Observations of a Pulsar cluster while an execution runs: values only, in Pulsar's own names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from trimtab.act.execution.messages import Failure
from trimtab.model.bundles.range import BundleRange

SHEDDING: Final = "loadBalancerSheddingEnabled"
AUTO_SPLIT: Final = "loadBalancerAutoBundleSplitEnabled"
SWITCHES: Final = (SHEDDING, AUTO_SPLIT)
"""The brokers' own balancing, as far as it acts by itself; both are dynamic under either load manager."""
OFF: Final = "false"


@dataclass(frozen=True)
class BundlesSeen:
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
    silent
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
    silent: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] | None = None
    unhealthy: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.cluster.partition("@")[0]

    @property
    def alive(self) -> frozenset[str]:
        """Brokers that are registered and answer."""
        return self.brokers - frozenset(self.silent)

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
class Balancing:
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


Answers = Mapping[str, Failure | None]
"""What Pulsar said for each bundle of a call; None is yes, and yes is no proof."""
