"""The one way an execution of this level reaches a cluster: what an adapter must offer.

`trimtab.act.pulsar.port.PulsarAdminPort` is the real one. Rules for every adapter, besides those of
`trimtab.act.port`:

- Errors of single bundles are returned in `Answers`, never raised; their `code` is Pulsar's HTTP status,
  `307` where the broker that was redirected to does not answer, `no answer` where it is not known whether the
  call arrived.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from trimtab.act.bundles.observation import Answers, Balancing, BundlesSeen
from trimtab.act.execution.messages import Failure
from trimtab.act.port import ClaimPort


class BundlesPort(ClaimPort, Protocol):
    """The seam between an execution and a cluster."""

    def observe(
        self, namespaces: Collection[str], destinations: Collection[str] = (), *, deep: bool = False
    ) -> BundlesSeen:
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

    def read_balancing(self, *, everywhere: bool = False) -> Balancing:
        """The switches that are set for all brokers; `everywhere`: and what every broker makes of them."""
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

    def look_up(self, bundles: Collection[str]) -> Answers:
        """Ask who serves these bundles, as a client would: one without an owner is given one."""
        ...
