"""The way to a broker under the extensible load manager: filters, then strategy; nothing is preallocated."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from trimtab.model.bundle_policies import ClusterMetadata
from trimtab.model.bundle_range import namespace_of
from trimtab.plan.bundles.assign.candidates import (
    available_brokers,
    by_anti_affinity,
    by_policies,
    group_bundles,
    of_load_manager,
)
from trimtab.plan.bundles.assign.round_robin import RoundRobinBrokerSelector
from trimtab.plan.bundles.assign.select import PlacementRules, excluded_namespaces
from trimtab.plan.bundles.assign.state import AssignmentState
from trimtab.plan.bundles.assign.versions import of_newest_version
from trimtab.plan.bundles.decision import Placement
from trimtab.plan.bundles.hash_order import concurrent_hash_map_order, copied_map_order
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.view import LoadView

S = TypeVar("S")


@dataclass(frozen=True)
class Filtered:
    """The brokers that a bundle may go to.

    Attributes
    ----------
    candidates
        In the order of the available brokers.
    left
        How many each filter left.
    failed
        Whether the filter by version failed; the others count all the same.
    """

    candidates: list[str]
    left: Mapping[str, int]
    failed: bool = False


def filtered(
    namespace: str,
    view: LoadView,
    metadata: ClusterMetadata,
    options: Options,
    *,
    excluded: Collection[str] = (),
    non_persistent: bool = False,
) -> Filtered:
    """What the filters of the extensible manager leave of the available brokers.

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
    candidates = by_anti_affinity(
        namespace,
        candidates,
        view,
        metadata.policies,
        failure_domains=options.failure_domains_enabled,
        counted=group_bundles,
    )
    left["anti_affinity"] = len(candidates)
    candidates = by_policies(namespace, candidates, metadata, non_persistent=non_persistent)
    left["policies"] = len(candidates)
    return Filtered(candidates, left, failed)


def select_broker(
    bundle: str,
    view: LoadView,
    rules: PlacementRules[S],
    state: AssignmentState[S],
    chance: np.random.Generator,
    *,
    excluded: Collection[str] = (),
    non_persistent: bool = False,
) -> tuple[Placement, AssignmentState[S]]:
    """A broker for a bundle that nobody owns.

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
    found = filtered(
        namespace_of(bundle), view, rules.metadata, options, excluded=excluded, non_persistent=non_persistent
    )
    available = available_brokers(view, rules.metadata)
    ordered = copied_map_order(concurrent_hash_map_order(available), found.candidates)
    why: dict[str, object] = {"candidates_left": found.left}
    if namespace_of(bundle) in excluded_namespaces(options):
        why["selector"] = "RoundRobinBrokerSelector"
        chosen, turn = RoundRobinBrokerSelector().choose(
            bundle, ordered, view, state.round_robin, options, chance
        )
        state = replace(state, round_robin=turn)
    else:
        chosen, placement = rules.placer.choose(bundle, ordered, view, state.placement, options, chance)
        state = replace(state, placement=placement)
    return replace(chosen, why={**why, **chosen.why}), state
