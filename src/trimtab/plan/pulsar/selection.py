"""The whole selection of a broker: candidates, filters, strategy, second choice, preallocation.

`ModularLoadManagerImpl` and `ModularLoadManagerWrapper` of Pulsar 4.0.7 and 4.2.4, with the memory of the
leader about placements; and the extensible load manager, whose selection is shorter: filters, then strategy,
without preallocation.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from trimtab.model.bundles.policies import SYSTEM_NAMESPACE, ClusterMetadata
from trimtab.model.bundles.snapshot import namespace_of
from trimtab.plan.pulsar.candidates import (
    available_brokers,
    by_anti_affinity,
    by_policies,
    group_bundles,
    of_load_manager,
    of_newest_version,
    with_fewest_bundles,
    without_many_topics,
)
from trimtab.plan.pulsar.decision import BrokerChoice, Placer
from trimtab.plan.pulsar.java import concurrent_hash_map_order, copied_map_order, hash_map_order
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.placers import ROUND_ROBIN, RoundRobinState
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
        Destinations of bundles that were unloaded with one, each used once; by `destination_key`.
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

    The preallocated broker of a bundle is forgotten. Its rate is forgotten too, unless the leader itself owns
    the bundle and the broker's report does not list it yet: Pulsar compares with the bundles of the *leader*,
    whichever broker has the preallocation. Remaining entries have the bundle's newest means. Preallocations
    to a missing broker are forgotten as well (`reapDeadBrokerPreallocations`).

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


@dataclass(frozen=True)
class PlacementRules(Generic[S]):
    """The rules that stay the same from placement to placement."""

    placer: Placer[S]
    options: PulsarBrokerConfig
    metadata: ClusterMetadata = field(default_factory=ClusterMetadata)


def excluded_namespaces(options: PulsarBrokerConfig) -> Collection[str]:
    """Namespaces that shedding leaves alone and placement deals out in turn; Pulsar 4.0.7 has none."""
    return options.shedding_excluded_namespaces if options.variant == "pulsar-4.2" else ()


def select_broker(
    bundle: str,
    view: LeaderLoadView,
    rules: PlacementRules[S],
    state: AssignmentState[S],
    chance: np.random.Generator,
) -> tuple[BrokerChoice, AssignmentState[S]]:
    """A broker for a bundle, without giving it the bundle (`selectBroker`).

    Shedding uses it to determine whether a bundle would leave its broker at all. The strategy is called twice
    if its first choice is overloaded, so strategies with state take two samples.
    """
    namespace, options = namespace_of(bundle), rules.options
    brokers = available_brokers(view, rules.metadata)
    allowed = by_policies(namespace, brokers, rules.metadata)
    candidates, why = _filtered(namespace, allowed, view, rules)
    # Turns and sums are taken in the order of Pulsar's set of candidates, which is used again and again, so
    # that it is as large as all brokers have made it.
    candidates = hash_map_order(candidates, len(brokers))
    if namespace in excluded_namespaces(options):
        why["selector"] = "RoundRobinBrokerSelector"
        chosen, turn = ROUND_ROBIN.choose(bundle, candidates, view, state.round_robin, options, chance)
        state = replace(state, round_robin=turn)
    else:
        chosen, state = _placement(bundle, candidates, view, rules, state, chance)
    overload = options.broker_overloaded_threshold_percentage / 100.0
    load = None if chosen.broker is None else view.brokers.get(chosen.broker)
    if load is not None and load.report.weighted_usage(options.weights) > overload:
        # A filtered broker may be better than an overloaded one.
        why["overloaded_choice"] = chosen.broker
        why["first"] = chosen.facts
        again, state = _placement(bundle, hash_map_order(allowed, len(brokers)), view, rules, state, chance)
        chosen = again if again.broker is not None else chosen
    return replace(chosen, facts={**why, **chosen.facts}), state


def _placement(
    bundle: str,
    candidates: list[str],
    view: LeaderLoadView,
    rules: PlacementRules[S],
    state: AssignmentState[S],
    chance: np.random.Generator,
) -> tuple[BrokerChoice, AssignmentState[S]]:
    chosen, placement = rules.placer.choose(bundle, candidates, view, state.placement, rules.options, chance)
    return chosen, replace(state, placement=placement)


def _filtered(
    namespace: str, allowed: list[str], view: LeaderLoadView, rules: PlacementRules[S]
) -> tuple[list[str], dict[str, object]]:
    """The candidates after every filter; all that policies allow where a filter fails or leaves nobody."""
    options, metadata = rules.options, rules.metadata
    left = {"policies": len(allowed)}
    candidates = without_many_topics(allowed, view, options.broker_max_topics)
    left["max_topics"] = len(candidates)
    domains = options.failure_domains_enabled
    candidates = by_anti_affinity(namespace, candidates, view, metadata.policies, failure_domains=domains)
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


def assign(
    bundle: str,
    view: LeaderLoadView,
    rules: PlacementRules[S],
    state: AssignmentState[S],
    chance: np.random.Generator,
) -> tuple[BrokerChoice, LeaderLoadView, AssignmentState[S]]:
    """The broker that a lookup gives a bundle to, and the leader's view after it.

    A destination set by an unload comes first, and only once; then the broker that the bundle is preallocated
    to; then `select_broker`, whose answer is preallocated: the bundle's long-term rate counts on that broker
    from then on.

    References
    ----------
    `ModularLoadManagerWrapper.getLeastLoaded`, `ModularLoadManagerImpl.selectBrokerForAssignment`.
    """
    key = destination_key(bundle, rules.options)
    if key in state.destinations:
        destination = state.destinations[key]
        rest = {one: broker for one, broker in state.destinations.items() if one != key}
        chosen = BrokerChoice(destination, (destination,), {"outcome": "destination of the unload"})
        return chosen, view, replace(state, destinations=rest)
    if bundle in state.preallocated:
        broker = state.preallocated[bundle]
        return BrokerChoice(broker, (broker,), {"outcome": "already preallocated"}), view, state
    chosen, state = select_broker(bundle, view, rules, state, chance)
    if chosen.broker is None:
        return chosen, view, state
    if chosen.broker in view.brokers:
        view = view.with_preallocated(bundle, view.known_of(bundle), chosen.broker)
    return chosen, view, replace(state, preallocated={**state.preallocated, bundle: chosen.broker})


@dataclass(frozen=True)
class FilteredBrokers:
    """The brokers that a bundle may go to, as they come, and how many each filter left.

    Attributes
    ----------
    failed
        Whether the filter by version failed; the others count all the same.
    """

    candidates: list[str]
    left: Mapping[str, int]
    failed: bool = False


def filtered(
    namespace: str,
    view: LeaderLoadView,
    metadata: ClusterMetadata,
    options: PulsarBrokerConfig,
    *,
    excluded: Collection[str] = (),
) -> FilteredBrokers:
    """The available brokers that the filters of the extensible manager leave.

    References
    ----------
    `BrokerLoadManagerClassFilter`, `BrokerMaxTopicCountFilter`, `BrokerVersionFilter`,
    `AntiAffinityGroupPolicyFilter` and `BrokerIsolationPoliciesFilter`, in this order.
    """
    candidates = [broker for broker in available_brokers(view, metadata) if broker not in excluded]
    left = {"available": len(candidates)}
    candidates = of_load_manager(candidates, metadata)
    left["load_manager"] = len(candidates)
    topics = view.reported_topics
    candidates = [broker for broker in candidates if topics.get(broker, 0) < options.broker_max_topics]
    left["max_topics"] = len(candidates)
    failed = False
    if options.prefer_later_versions and candidates:
        newest = of_newest_version(candidates, metadata)
        failed, candidates = newest is None, candidates if newest is None else newest
        left["version"] = len(candidates)
    domains, policies = options.failure_domains_enabled, metadata.policies
    candidates = by_anti_affinity(
        namespace, candidates, view, policies, failure_domains=domains, counted=group_bundles
    )
    left["anti_affinity"] = len(candidates)
    candidates = by_policies(namespace, candidates, metadata)
    left["policies"] = len(candidates)
    return FilteredBrokers(candidates, left, failed)


def select_broker_extensible(
    bundle: str,
    view: LeaderLoadView,
    rules: PlacementRules[S],
    state: AssignmentState[S],
    chance: np.random.Generator,
    *,
    excluded: Collection[str] = (),
) -> tuple[BrokerChoice, AssignmentState[S]]:
    """A broker for an unowned bundle.

    Other than under the modular manager: a broker *at* `loadBalancerBrokerMaxTopics` takes nothing more; a
    namespace's bundles are not spread by their number; an anti-affinity group counts by bundles; policies
    come last, so that filters before them may leave none of the brokers that they allow; what is left when a
    filter fails is kept; an overloaded choice is not thought over; and where nobody is left, there is no
    broker.

    Parameters
    ----------
    view
        Who owns what is looked up in its reports.
    excluded
        Brokers that must not get it: the one that is just giving it up.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `ExtensibleLoadManagerImpl.selectAsync`; 4.2.4 deals namespaces excluded from
    shedding out in turn.
    """
    options = rules.options
    found = filtered(namespace_of(bundle), view, rules.metadata, options, excluded=excluded)
    available = available_brokers(view, rules.metadata)
    ordered = copied_map_order(concurrent_hash_map_order(available), found.candidates)
    why: dict[str, object] = {"candidates_left": found.left}
    if namespace_of(bundle) in excluded_namespaces(options):
        why["selector"] = "RoundRobinBrokerSelector"
        chosen, turn = ROUND_ROBIN.choose(bundle, ordered, view, state.round_robin, options, chance)
        state = replace(state, round_robin=turn)
    else:
        chosen, placement = rules.placer.choose(bundle, ordered, view, state.placement, options, chance)
        state = replace(state, placement=placement)
    return replace(chosen, facts={**why, **chosen.facts}), state
