"""One round of the leader: processes reports, chooses bundles to unload, finds destinations.

As in `ModularLoadManagerImpl`: bundle data are updated from every report first, unloads older than the grace
time are forgotten, a lone broker sheds nothing, and every chosen bundle is remembered. Replays and simulated
leaders use the same round.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.model.bundles.reports import BrokerReport, BundleData
from trimtab.model.bundles.snapshot import namespace_of
from trimtab.plan.pulsar.candidates import available_brokers, may_leave
from trimtab.plan.pulsar.decision import Placer, ShedDecision, Shedder
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.selection import (
    AssignmentState,
    PlacementRules,
    excluded_namespaces,
    forget_preallocated,
    select_broker,
    select_broker_extensible,
)
from trimtab.plan.pulsar.view import (
    EMPTY_TABLE,
    BrokerLoad,
    BundleTable,
    HashMapOrder,
    LeaderLoadView,
    is_bound_to_broker,
    shedding_order,
    updated,
)

S = TypeVar("S")


def unexpired(
    recently_unloaded: Mapping[str, float], at: float, options: PulsarBrokerConfig
) -> dict[str, float]:
    """Bundles whose unload is recent: the grace time is not over, or ends at this time.

    Times are seconds since 1970.
    """
    grace = options.shedding_grace_period_minutes * 60 * 1000
    return {bundle: then for bundle, then in recently_unloaded.items() if round((at - then) * 1000) <= grace}


def shed_round(
    decision: ShedDecision,
    view: LeaderLoadView,
    rules: PlacementRules[S],
    assignment: AssignmentState[S],
    chance: np.random.Generator,
) -> tuple[ShedDecision, AssignmentState[S]]:
    """`ModularLoadManagerImpl.doLoadShedding` for the bundles that a shedder chose.

    A bundle stays where it is if its namespace is excluded from shedding (4.2), if policies leave no other
    broker or anti-affinity forbids it, or if the placement finds no broker for it or its own; else it is
    unloaded to the broker found. Nothing is preallocated: every bundle of a round is placed by the same load.
    Brokers and bundles are gone through in the order of the decision, whose destinations are not looked at:
    `AvgShedder` gives its own as the placement, whose state is then the shedder's after its decision.
    """
    unloads: dict[str, tuple[str, ...]] = {}
    destinations: dict[str, str] = {}
    placements: dict[str, object] = {}
    refused: dict[str, str] = {}
    for owner, bundle in _allowed(decision, view, rules.metadata, rules.options, refused):
        if rules.placer.extensible:
            found, assignment = select_broker_extensible(
                bundle, view, rules, assignment, chance, excluded=(owner,)
            )
        else:
            found, assignment = select_broker(bundle, view, rules, assignment, chance)
        placements[bundle] = {"broker": found.broker, "pool": list(found.pool), **found.facts}
        if found.broker is None:
            refused[bundle] = "there is no broker for it"
        elif found.broker == owner:
            refused[bundle] = "the placement would put it back on its broker"
        else:
            destinations[bundle] = found.broker
            unloads[owner] = (*unloads.get(owner, ()), bundle)
    why = {**decision.facts, "placements": placements, "refused": refused}
    return ShedDecision(unloads, destinations, why), assignment


def completed(
    decision: ShedDecision,
    view: LeaderLoadView,
    rules: PlacementRules[S],
    assignment: AssignmentState[S],
    chance: np.random.Generator,
) -> tuple[ShedDecision, AssignmentState[S]]:
    """A decision whose shedder left destinations open, with those of the extensible manager's placement.

    There an unload without a destination releases the bundle, and the next lookup places it by the same
    rules, never on its previous broker. A bundle without a possible broker stays open.
    """
    destinations, placements = dict(decision.destinations), {}
    for owner, chosen in decision.unloads.items():
        for bundle in chosen:
            if bundle in destinations:
                continue
            found, assignment = select_broker_extensible(
                bundle, view, rules, assignment, chance, excluded=(owner,)
            )
            placements[bundle] = {"broker": found.broker, "pool": list(found.pool), **found.facts}
            if found.broker is not None:
                destinations[bundle] = found.broker
    if not placements:
        return decision, assignment
    why = {**decision.facts, "placements": placements}
    return replace(decision, destinations=destinations, facts=why), assignment


def permitted(
    decision: ShedDecision, view: LeaderLoadView, metadata: ClusterMetadata, options: PulsarBrokerConfig
) -> ShedDecision:
    """A shedder's decision without the bundles that must stay under any placement.

    For shedders without a placement; the facts list remaining bundles under `refused`.
    """
    refused: dict[str, str] = {}
    unloads: dict[str, tuple[str, ...]] = {}
    for owner, bundle in _allowed(decision, view, metadata, options, refused):
        unloads[owner] = (*unloads.get(owner, ()), bundle)
    if not refused:
        return decision
    destinations = {one: broker for one, broker in decision.destinations.items() if one not in refused}
    return ShedDecision(unloads, destinations, {**decision.facts, "refused": refused})


def _allowed(
    decision: ShedDecision,
    view: LeaderLoadView,
    metadata: ClusterMetadata,
    options: PulsarBrokerConfig,
    refused: dict[str, str],
) -> Iterator[tuple[str, str]]:
    """Broker and bundle of permitted unloads; reasons of the others are added to `refused`."""
    for owner, chosen in decision.unloads.items():
        for bundle in chosen:
            forbidden = _forbidden(bundle, owner, view, metadata, options)
            if forbidden is None:
                yield owner, bundle
            else:
                refused[bundle] = forbidden


def _forbidden(
    bundle: str, owner: str, view: LeaderLoadView, metadata: ClusterMetadata, options: PulsarBrokerConfig
) -> str | None:
    """The reason why a bundle must stay with its broker, independent of the placement; None without one."""
    if len(available_brokers(view, metadata)) <= 1:
        return "a lone broker sheds nothing"
    if is_bound_to_broker(bundle):
        return "it belongs to its broker"
    if namespace_of(bundle) in excluded_namespaces(options):
        return "its namespace is in loadBalancerSheddingExcludedNamespaces"
    if not may_leave(bundle, owner, view, metadata):
        return "policies or anti-affinity keep it where it is"
    return None


Preallocated = Mapping[str, Mapping[str, BundleData]]
"""By broker, its preallocated bundles without a report, with their data."""


@dataclass(frozen=True)
class LeaderRules:
    """The configuration of a leader.

    Attributes
    ----------
    placer
        Chooses where a bundle goes, as the load manager asks it; None leaves all without a destination but
        those for which the shedder names one itself.
    metadata
        Policies, and what else the leader knows of the cluster besides its load.
    java_order
        Whether brokers and bundles come in the order of Java's hash maps, as they do in Pulsar; else in that
        of the reports. Where two are equal, the first is chosen.
    quotas
        What the leader takes bundles for before it has heard of them, where they have a resource quota.
    destination_first
        Whether a destination is chosen before a bundle is unloaded, as in Pulsar 4; else the bundle is
        released, and whoever looks it up next has it placed, as the article tells it.
    """

    shedder: Shedder[Any]
    options: PulsarBrokerConfig
    placer: Placer[Any] | None = None
    metadata: ClusterMetadata = field(default_factory=ClusterMetadata)
    java_order: bool = True
    quotas: Mapping[str, BundleData] = field(default_factory=dict)
    destination_first: bool = True


@dataclass(frozen=True, eq=False)
class LeaderMemory:
    """The state between two rounds.

    Attributes
    ----------
    shedder
        State of the shedder.
    assignment
        State of the leader and the placement strategy.
    bundles
        The leader's running means.
    recently_unloaded
        When each bundle was unloaded, seconds since 1970; kept for the grace time.
    recently_unloaded_brokers
        When each broker was last unloaded from, seconds since 1970.
    order
        Iteration order of the leader's maps of brokers and bundles.
    """

    shedder: Any
    assignment: AssignmentState[Any]
    bundles: BundleTable = EMPTY_TABLE
    recently_unloaded: Mapping[str, float] = field(default_factory=dict)
    recently_unloaded_brokers: Mapping[str, float] = field(default_factory=dict)
    order: HashMapOrder = field(default_factory=HashMapOrder)


M = TypeVar("M", bound=LeaderMemory)


def inform(
    memory: M,
    at: float,
    reports: Mapping[str, BrokerReport],
    rules: LeaderRules,
    preallocated: Preallocated = MappingProxyType({}),
    leader_owns: Collection[str] = (),
) -> tuple[LeaderLoadView, M]:
    """Process all reports as one more sample of each bundle.

    Parameters
    ----------
    at
        Seconds since 1970.
    preallocated, leader_owns
        Where bundles are placed between rounds: those not yet reported, and those that the leader's own
        broker owns.

    Returns
    -------
    tuple
        The leader's view, in the order in which Pulsar goes through it, and its memory.
    """
    order = memory.order.with_brokers(reports)
    names = order.brokers.names if rules.java_order else tuple(reports)
    bundles, in_between = updated(memory.bundles, {name: reports[name] for name in names}, rules.quotas)
    order = order.with_bundles(bundles.names)
    view = LeaderLoadView(
        at,
        {name: BrokerLoad(reports[name], preallocated.get(name, {})) for name in names},
        bundles.in_order(shedding_order(order.bundles.names)) if rules.java_order else bundles,
        unexpired(memory.recently_unloaded, at, rules.options),
        memory.recently_unloaded_brokers,
        in_between,
    )
    assignment = memory.assignment
    if preallocated or assignment.preallocated:
        view, assignment = forget_preallocated(view, assignment, leader_owns)
    if rules.placer is not None:
        placement = rules.placer.noted(assignment.placement, view, rules.options)
        assignment = replace(assignment, placement=placement)
    informed = replace(
        memory,
        shedder=rules.shedder.noted(memory.shedder, view, rules.options),
        assignment=assignment,
        bundles=bundles,
        recently_unloaded=view.recently_unloaded,
        order=order,
    )
    return view, informed


def idle(view: LeaderLoadView, rules: LeaderRules) -> str | None:
    """The reason why the shedder is not called (`ModularLoadManagerImpl.doLoadShedding`), if any."""
    if not rules.options.enabled:
        return "loadBalancerEnabled is false"
    if not rules.options.shedding_enabled:
        return "loadBalancerSheddingEnabled is false"
    alone = len(available_brokers(view, rules.metadata)) <= 1
    return "a lone broker sheds nothing" if alone else None


def shed(
    view: LeaderLoadView, memory: M, rules: LeaderRules, chance: np.random.Generator
) -> tuple[ShedDecision, M]:
    """Choose bundles to unload and their destinations, and record them."""
    reason = idle(view, rules)
    if reason is not None:
        return ShedDecision(facts={"outcome": reason}), memory
    decision, shedder = rules.shedder.decide(view, memory.shedder, rules.options, chance)
    memory = with_shedder(memory, shedder, rules)
    if not rules.destination_first:
        decision = replace(decision, destinations={})
    elif not rules.shedder.extensible and rules.placer is None:
        decision = permitted(decision, view, rules.metadata, rules.options)
    elif rules.shedder.extensible:
        if rules.placer is not None and rules.placer.extensible:
            placed = completed(decision, view, placement_rules(rules), memory.assignment, chance)
            decision, memory = placed[0], with_assignment(memory, placed[1], rules)
    else:
        found = shed_round(decision, view, placement_rules(rules), memory.assignment, chance)
        decision, memory = found[0], with_assignment(memory, found[1], rules)
    unloaded = (bundle for bundles in decision.unloads.values() for bundle in bundles)
    after = replace(
        memory,
        recently_unloaded={**memory.recently_unloaded, **dict.fromkeys(unloaded, view.at)},
        recently_unloaded_brokers={
            **memory.recently_unloaded_brokers,
            **dict.fromkeys(decision.unloads, view.at),
        },
    )
    return decision, after


def placement_rules(rules: LeaderRules) -> PlacementRules[Any]:
    """The part of the rules that placements go by; there must be a placement strategy."""
    assert rules.placer is not None
    return PlacementRules(rules.placer, rules.options, rules.metadata)


def with_shedder(memory: M, shedder: Any, rules: LeaderRules) -> M:
    """The state after the shedder's decision."""
    memory = replace(memory, shedder=shedder)
    if _is_one_object(rules):
        memory = replace(memory, assignment=replace(memory.assignment, placement=shedder))
    return memory


def with_assignment(memory: M, assignment: AssignmentState[Any], rules: LeaderRules) -> M:
    """The state after bundles are placed."""
    memory = replace(memory, assignment=assignment)
    return replace(memory, shedder=assignment.placement) if _is_one_object(rules) else memory


def _is_one_object(rules: LeaderRules) -> bool:
    """True for `AvgShedder`, which is shedder and placement in one object, with one memory."""
    return rules.placer is not None and type(rules.placer.initial) is type(rules.shedder.initial)
