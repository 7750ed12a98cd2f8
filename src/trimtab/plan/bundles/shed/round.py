"""One round of shedding under the modular load manager: what a shedder chose, filtered and placed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from trimtab.model.bundle_policies import ClusterMetadata
from trimtab.model.bundle_range import namespace_of
from trimtab.plan.bundles.assign.candidates import available_brokers, may_leave
from trimtab.plan.bundles.assign.select import PlacementRules, excluded_namespaces, select_broker
from trimtab.plan.bundles.assign.state import AssignmentState
from trimtab.plan.bundles.decision import Decision
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.view import LoadView, is_bound_to_broker

S = TypeVar("S")


@dataclass(frozen=True)
class Round(Generic[S]):
    """What came of a round.

    Attributes
    ----------
    decision
        What is unloaded and where it goes. `why` has the shedder's numbers, each bundle's placement, and
        under `refused` why a bundle stays.
    assignment
        What the leader remembers about placements.
    recently_unloaded
        Those of before that still count, and those of this round; seconds since 1970.
    """

    decision: Decision
    assignment: AssignmentState[S]
    recently_unloaded: Mapping[str, float]


def unexpired(recently_unloaded: Mapping[str, float], at: float, options: Options) -> dict[str, float]:
    """Bundles whose unload still counts as recent: the grace time is not over, or ends this instant.

    Parameters
    ----------
    recently_unloaded
        When each was unloaded, seconds since 1970.
    at
        Now.
    """
    grace = options.shedding_grace_period_minutes * 60 * 1000
    return {bundle: then for bundle, then in recently_unloaded.items() if round((at - then) * 1000) <= grace}


def shed_round(
    decision: Decision,
    view: LoadView,
    rules: PlacementRules[S],
    assignment: AssignmentState[S],
    chance: np.random.Generator,
) -> Round[S]:
    """What `ModularLoadManagerImpl.doLoadShedding` does with the bundles that a shedder chose.

    A bundle stays where it is if its namespace is excluded from shedding (4.2), if policies leave no other
    broker or anti-affinity forbids it, or if the placement finds no broker for it or its own; else it is
    unloaded to the broker found. Nothing is preallocated: every bundle of a round is placed by the same load.

    Parameters
    ----------
    decision
        The shedder's; brokers and bundles are gone through in its order. Destinations in it are not looked
        at: `AvgShedder` gives its own as the placement, whose state is then the shedder's after its decision.
    view
        What the leader knows; a lone broker sheds nothing.
    rules, assignment
        By what bundles are placed, and what the leader remembers about placements.
    """
    unloads: dict[str, tuple[str, ...]] = {}
    destinations: dict[str, str] = {}
    placements: dict[str, object] = {}
    refused: dict[str, str] = {}
    for owner, chosen in decision.unloads.items():
        for bundle in chosen:
            forbidden = _forbidden(bundle, owner, view, rules.metadata, rules.options)
            if forbidden is not None:
                refused[bundle] = forbidden
                continue
            found, assignment = select_broker(bundle, view, rules, assignment, chance)
            placements[bundle] = {"broker": found.broker, "pool": list(found.pool), **found.why}
            if found.broker is None:
                refused[bundle] = "there is no broker for it"
            elif found.broker == owner:
                refused[bundle] = "the placement would put it back on its broker"
            else:
                destinations[bundle] = found.broker
                unloads[owner] = (*unloads.get(owner, ()), bundle)
    why = {**decision.why, "placements": placements, "refused": refused}
    recent = unexpired(view.recently_unloaded, view.at, rules.options) | dict.fromkeys(destinations, view.at)
    return Round(Decision(unloads, destinations, why), assignment, recent)


def permitted(decision: Decision, view: LoadView, metadata: ClusterMetadata, options: Options) -> Decision:
    """A shedder's decision without the bundles that must stay whatever a placement would say.

    Where no placement is asked; `why` says under `refused` what stays, if anything does.
    """
    refused: dict[str, str] = {}
    unloads: dict[str, tuple[str, ...]] = {}
    for owner, chosen in decision.unloads.items():
        for bundle in chosen:
            forbidden = _forbidden(bundle, owner, view, metadata, options)
            if forbidden is not None:
                refused[bundle] = forbidden
            else:
                unloads[owner] = (*unloads.get(owner, ()), bundle)
    if not refused:
        return decision
    destinations = {one: broker for one, broker in decision.destinations.items() if one not in refused}
    return Decision(unloads, destinations, {**decision.why, "refused": refused})


def _forbidden(
    bundle: str, owner: str, view: LoadView, metadata: ClusterMetadata, options: Options
) -> str | None:
    """Why a bundle must stay with its broker before any placement is asked."""
    if len(available_brokers(view, metadata)) <= 1:
        return "a lone broker sheds nothing"
    if is_bound_to_broker(bundle):
        return "it belongs to its broker"
    if namespace_of(bundle) in excluded_namespaces(options):
        return "its namespace is in loadBalancerSheddingExcludedNamespaces"
    if not may_leave(bundle, owner, view, metadata):
        return "policies or anti-affinity keep it where it is"
    return None
