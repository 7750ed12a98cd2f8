"""The way to a broker under the extensible load manager: filters, then strategy; nothing is preallocated."""

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

import numpy as np

from trimtab.model.bundle_policies import ClusterMetadata
from trimtab.model.bundle_range import namespace_of
from trimtab.plan.bundles.assign.candidates import (
    available_brokers,
    by_anti_affinity,
    by_policies,
    of_load_manager,
)
from trimtab.plan.bundles.assign.versions import of_newest_version
from trimtab.plan.bundles.decision import Placement, Placer
from trimtab.plan.bundles.hash_order import concurrent_hash_map_order
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.view import LoadView

S = TypeVar("S")


def select_broker(
    bundle: str,
    view: LoadView,
    metadata: ClusterMetadata,
    placer: Placer[S],
    state: S,
    options: Options,
    chance: np.random.Generator,
    *,
    excluded: Collection[str] = (),
    non_persistent: bool = False,
) -> tuple[Placement, S]:
    """A broker for a bundle that nobody owns.

    Other than under the modular manager: a broker *at* `loadBalancerBrokerMaxTopics` takes nothing more; a
    namespace's bundles are not spread by their number; policies come last, so that filters before them may
    leave none of the brokers that they allow; what is left when a filter fails is kept; an overloaded choice
    is not thought over; and where nobody is left, there is no broker.

    Parameters
    ----------
    view
        Who owns what is looked up in its reports and preallocations.
    excluded
        Brokers that must not get it: the one that is just giving it up.

    References
    ----------
    Pulsar 4.0 and 4.2, `ExtensibleLoadManagerImpl.selectAsync` with `BrokerLoadManagerClassFilter`,
    `BrokerMaxTopicCountFilter`, `BrokerVersionFilter`, `AntiAffinityGroupPolicyFilter` and
    `BrokerIsolationPoliciesFilter`, in this order.
    """
    namespace = namespace_of(bundle)
    candidates = [broker for broker in available_brokers(view, metadata) if broker not in excluded]
    left = {"available": len(candidates)}
    candidates = of_load_manager(candidates, metadata)
    left["load_manager"] = len(candidates)
    topics = view.reported_topics
    candidates = [broker for broker in candidates if topics.get(broker, 0) < options.broker_max_topics]
    left["max_topics"] = len(candidates)
    if options.prefer_later_versions:
        candidates = of_newest_version(candidates, metadata) or candidates
        left["version"] = len(candidates)
    candidates = by_anti_affinity(
        namespace, candidates, view, metadata.policies, failure_domains=options.failure_domains_enabled
    )
    left["anti_affinity"] = len(candidates)
    candidates = by_policies(namespace, candidates, metadata, non_persistent=non_persistent)
    left["policies"] = len(candidates)
    ordered = concurrent_hash_map_order(candidates)
    chosen, after = placer.choose(bundle, ordered, view, state, options, chance)
    return replace(chosen, why={"candidates_left": left, **chosen.why}), after
