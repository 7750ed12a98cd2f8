"""The whole way to a broker: candidates, filters, strategy, second thoughts, preallocation.

`ModularLoadManagerImpl` and `ModularLoadManagerWrapper` of Pulsar 4.0.7 and 4.2.4.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from trimtab.model.bundle_policies import SYSTEM_NAMESPACE, ClusterMetadata
from trimtab.model.bundle_range import namespace_of
from trimtab.model.bundles import (
    DEFAULT_MESSAGE_RATE,
    DEFAULT_MESSAGE_THROUGHPUT,
    BundleData,
    TimeAverage,
)
from trimtab.plan.bundles.assign.candidates import (
    available_brokers,
    by_anti_affinity,
    by_policies,
    of_load_manager,
    with_fewest_bundles,
    without_many_topics,
)
from trimtab.plan.bundles.assign.round_robin import ROUND_ROBIN, RoundRobinState
from trimtab.plan.bundles.assign.versions import of_newest_version
from trimtab.plan.bundles.decision import Placement, Placer
from trimtab.plan.bundles.hash_order import hash_map_order
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.view import LoadView

S = TypeVar("S")

_UNSEEN = TimeAverage(
    0,
    DEFAULT_MESSAGE_THROUGHPUT,
    DEFAULT_MESSAGE_THROUGHPUT,
    DEFAULT_MESSAGE_RATE,
    DEFAULT_MESSAGE_RATE,
)
UNSEEN_BUNDLE = BundleData(short=_UNSEEN, long=_UNSEEN)
"""What a bundle that nothing is known of is taken to carry."""


@dataclass(frozen=True)
class AssignmentState(Generic[S]):
    """What the leader remembers about placements.

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
    round_robin: RoundRobinState = ROUND_ROBIN.initial
    preallocated: Mapping[str, str] = field(default_factory=dict)
    destinations: Mapping[str, str] = field(default_factory=dict)


def excluded_namespaces(options: Options) -> Collection[str]:
    """Namespaces that shedding leaves alone and placement deals out in turn; Pulsar 4.0.7 has none."""
    return options.shedding_excluded_namespaces if options.variant == "pulsar-4.2" else ()


def select_broker(
    bundle: str,
    view: LoadView,
    metadata: ClusterMetadata,
    placer: Placer[S],
    state: AssignmentState[S],
    options: Options,
    chance: np.random.Generator,
    *,
    non_persistent: bool = False,
) -> tuple[Placement, AssignmentState[S]]:
    """A broker for a bundle, without giving it the bundle (`selectBroker`).

    Shedding asks the same to see whether a bundle would leave its broker at all.

    Parameters
    ----------
    bundle
        Its key.
    placer
        The placement strategy; it is asked twice where its first choice is overloaded, so that strategies
        that remember take two samples.
    non_persistent
        Whether the bundle holds non-persistent topics.
    """
    namespace = namespace_of(bundle)
    brokers = available_brokers(view, metadata)
    allowed = by_policies(namespace, brokers, metadata, non_persistent=non_persistent)
    candidates, why = _filtered(namespace, allowed, view, metadata, options)
    allowed, candidates = _in_order(allowed, len(brokers)), _in_order(candidates, len(brokers))
    if namespace in excluded_namespaces(options):
        why["selector"] = "RoundRobinBrokerSelector"
        chosen, turn = ROUND_ROBIN.choose(bundle, candidates, view, state.round_robin, options, chance)
        state = replace(state, round_robin=turn)
    else:
        chosen, placement = placer.choose(bundle, candidates, view, state.placement, options, chance)
        state = replace(state, placement=placement)
    overload = options.broker_overloaded_threshold_percentage / 100.0
    load = None if chosen.broker is None else view.brokers.get(chosen.broker)
    if load is not None and load.report.weighted_usage(options.weights) > overload:
        # Whoever was filtered out may be better than an overloaded broker.
        why["overloaded_choice"] = chosen.broker
        why["first"] = chosen.why
        again, placement = placer.choose(bundle, allowed, view, state.placement, options, chance)
        state = replace(state, placement=placement)
        chosen = again if again.broker is not None else chosen
    return replace(chosen, why={**why, **chosen.why}), state


def _filtered(
    namespace: str, allowed: list[str], view: LoadView, metadata: ClusterMetadata, options: Options
) -> tuple[list[str], dict[str, object]]:
    """The candidates after every filter; all that policies allow where a filter fails or leaves nobody."""
    left = {"policies": len(allowed)}
    candidates = without_many_topics(allowed, view, options.broker_max_topics)
    left["max_topics"] = len(candidates)
    candidates = by_anti_affinity(
        namespace,
        candidates,
        view,
        metadata.policies,
        failure_domains=options.failure_domains_enabled,
    )
    left["anti_affinity"] = len(candidates)
    if options.distribute_bundles_evenly_enabled or namespace == SYSTEM_NAMESPACE:
        candidates = with_fewest_bundles(namespace, candidates, view)
        left["fewest_bundles_of_namespace"] = len(candidates)
    candidates = of_load_manager(candidates, metadata)
    if options.prefer_later_versions:
        candidates = of_newest_version(candidates, metadata) or []
    left["filters"] = len(candidates)
    why: dict[str, object] = {"candidates_left": left}
    if not candidates and allowed:
        why["filters_undone"] = True
        return allowed, why
    return candidates, why


def _in_order(brokers: list[str], most: int) -> list[str]:
    """As Pulsar's set of candidates gives them back: turns and sums are taken in this order.

    The set is used again and again, so that it is as large as all brokers have made it.
    """
    return hash_map_order(brokers, most)


def assign(
    bundle: str,
    view: LoadView,
    metadata: ClusterMetadata,
    placer: Placer[S],
    state: AssignmentState[S],
    options: Options,
    chance: np.random.Generator,
    *,
    non_persistent: bool = False,
) -> tuple[Placement, LoadView, AssignmentState[S]]:
    """The broker that a lookup gives a bundle to, and the leader's view after it.

    A destination set by an unload comes first, and only once; then the broker that the bundle is preallocated
    to; then `select_broker`, whose answer is preallocated: the bundle's long-term rate counts on that broker
    from then on.

    References
    ----------
    `ModularLoadManagerWrapper.getLeastLoaded`, `ModularLoadManagerImpl.selectBrokerForAssignment`.
    """
    key = destination_key(bundle, options)
    if key in state.destinations:
        destination = state.destinations[key]
        rest = {one: broker for one, broker in state.destinations.items() if one != key}
        chosen = Placement(destination, (destination,), {"outcome": "destination of the unload"})
        return chosen, view, replace(state, destinations=rest)
    if bundle in state.preallocated:
        broker = state.preallocated[bundle]
        return Placement(broker, (broker,), {"outcome": "already preallocated"}), view, state
    chosen, state = select_broker(
        bundle, view, metadata, placer, state, options, chance, non_persistent=non_persistent
    )
    if chosen.broker is None:
        return chosen, view, state
    if chosen.broker in view.brokers:
        known = bundle in view.bundles
        data = view.bundles[bundle] if known else UNSEEN_BUNDLE
        view = view.with_preallocated(bundle, data, chosen.broker)
    return chosen, view, replace(state, preallocated={**state.preallocated, bundle: chosen.broker})


def with_destination(
    state: AssignmentState[S], bundle: str, broker: str, options: Options
) -> AssignmentState[S]:
    """The state after a bundle was unloaded with a destination (`setNamespaceBundleAffinity`)."""
    key = destination_key(bundle, options)
    return replace(state, destinations={**state.destinations, key: broker})


def destination_key(bundle: str, options: Options) -> str:
    """What a destination is remembered by: the bundle's key; in 4.0.7 its range alone (#25518).

    There the bundles of two namespaces with the same range take each other's destination.
    """
    return bundle if options.variant == "pulsar-4.2" else bundle.rpartition("/")[2]


def forget_preallocated(
    view: LoadView, state: AssignmentState[S], leader_owns: Collection[str] = ()
) -> tuple[LoadView, AssignmentState[S]]:
    """View and state after new reports were taken in (`updateBundleData`).

    Which broker a bundle was given to is forgotten. Its rate is forgotten too, unless the leader itself owns
    the bundle and the broker's report does not list it yet: Pulsar compares with what the *leader* owns,
    whichever broker the bundle was given to. What was given to a broker that is gone is forgotten as well
    (`reapDeadBrokerPreallocations`).

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
                bundle: data
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
