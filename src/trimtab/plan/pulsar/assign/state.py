"""The memory of the modular load manager's leader about placements, and when it forgets."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from trimtab.plan.pulsar.assign.round_robin import RoundRobinState
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.view import LeaderLoadView

S = TypeVar("S")


@dataclass(frozen=True)
class AssignmentState(Generic[S]):
    """The leader's memory about placements.

    Attributes
    ----------
    placement
        State of the placement strategy.
    round_robin
        State of the selector for namespaces excluded from shedding.
    preallocated
        The broker of every bundle that was placed and not yet reported (`preallocatedBundleToBroker`).
    destinations
        Where bundles go that were unloaded with a destination, each used once; by `destination_key`.
    """

    placement: S
    round_robin: RoundRobinState = field(default_factory=RoundRobinState)
    preallocated: Mapping[str, str] = field(default_factory=dict)
    destinations: Mapping[str, str] = field(default_factory=dict)


def with_destination(
    state: AssignmentState[S], bundle: str, broker: str, options: PulsarBrokerConfig
) -> AssignmentState[S]:
    """The state after a bundle was unloaded with a destination (`setNamespaceBundleAffinity`)."""
    key = destination_key(bundle, options)
    return replace(state, destinations={**state.destinations, key: broker})


def destination_key(bundle: str, options: PulsarBrokerConfig) -> str:
    """The key of a remembered destination: the bundle's; in 4.0.7 its range alone (#25518).

    There the bundles of two namespaces with the same range take each other's destination.
    """
    return bundle if options.variant == "pulsar-4.2" else bundle.rpartition("/")[2]


def forget_preallocated(
    view: LeaderLoadView, state: AssignmentState[S], leader_owns: Collection[str] = ()
) -> tuple[LeaderLoadView, AssignmentState[S]]:
    """View and state after new reports were taken in (`updateBundleData`).

    Which broker a bundle was given to is forgotten. Its rate is forgotten too, unless the leader itself owns
    the bundle and the broker's report does not list it yet: Pulsar compares with what the *leader* owns,
    whichever broker the bundle was given to. What stays has the bundle's newest means. What was given to a
    broker that is gone is forgotten as well (`reapDeadBrokerPreallocations`).

    Parameters
    ----------
    view
        With the new reports, the new means, and what was preallocated so far.
    leader_owns
        Bundles that the leader itself owns.
    """
    forgotten = {bundle for load in view.brokers.values() for bundle in load.preallocated}
    brokers = {
        name: replace(
            load,
            preallocated={
                bundle: view.bundles[bundle] if bundle in view.bundles.row else data
                for bundle, data in load.preallocated.items()
                if bundle in leader_owns and bundle not in load.report.bundles
            },
        )
        for name, load in view.brokers.items()
    }
    kept = {
        bundle: broker
        for bundle, broker in state.preallocated.items()
        if bundle not in forgotten and broker in view.brokers
    }
    return replace(view, brokers=brokers), replace(state, preallocated=kept)
