"""Recorded reports in, decisions out: what a strategy would have done at every tick."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from trimtab.history.bundles.world import World
from trimtab.model.bundle_policies import ClusterMetadata
from trimtab.model.bundles import BundleData, ReportTick
from trimtab.model.errors import PlanError
from trimtab.plan.bundles.assign.candidates import available_brokers
from trimtab.plan.bundles.assign.select import PlacementRules
from trimtab.plan.bundles.assign.state import AssignmentState
from trimtab.plan.bundles.averages import EMPTY_TABLE, BundleTable, take_in
from trimtab.plan.bundles.decision import Decision, Placer, Shedder
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.shed.round import permitted, shed_round, unexpired
from trimtab.plan.bundles.view import BrokerLoad, LoadView, MapOrder, shedding_order


@dataclass(frozen=True)
class Scenario:
    """What is replayed with: a strategy and its settings.

    Attributes
    ----------
    shedder
        Chooses what is unloaded.
    options
        Pulsar's options.
    seed
        Of all that is drawn.
    placer
        Chooses where it goes, as the load manager asks it; None leaves bundles without a destination but for
        those that the shedder names itself.
    metadata
        Policies, and what else the leader knows of the cluster besides its load.
    java_order
        Whether brokers and bundles come in the order of Java's hash maps, as they do in Pulsar; else in that
        of the recording. Where two are equal, the first is chosen.
    world_answers
        Whether the load of a bundle goes where it was unloaded to. False: the recording is fed as it is.
    quotas
        What the leader takes bundles for before it has heard of them, where they have a resource quota.
    """

    shedder: Shedder[Any]
    options: Options
    seed: int = 0
    placer: Placer[Any] | None = None
    metadata: ClusterMetadata = field(default_factory=ClusterMetadata)
    java_order: bool = True
    world_answers: bool = False
    quotas: Mapping[str, BundleData] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ReplayState:
    """All that one tick leaves to the next; `trimtab.history.bundles.saved` writes and reads it.

    Attributes
    ----------
    bundles
        The leader's running means.
    recently_unloaded
        When each bundle was unloaded, seconds since 1970; kept for the grace time.
    recently_unloaded_brokers
        When each broker was last unloaded from, seconds since 1970.
    shedder
        What the shedder remembers.
    assignment
        What the leader and the placement strategy remember.
    chance
        The state of the random numbers.
    world
        Which bundles are elsewhere than in the recording.
    order
        In which order the leader's maps give brokers and bundles back.
    """

    shedder: Any
    assignment: AssignmentState[Any]
    chance: Mapping[str, Any]
    bundles: BundleTable = EMPTY_TABLE
    recently_unloaded: Mapping[str, float] = field(default_factory=dict)
    recently_unloaded_brokers: Mapping[str, float] = field(default_factory=dict)
    world: World = field(default_factory=World)
    order: MapOrder = field(default_factory=MapOrder)


def first_state(scenario: Scenario) -> ReplayState:
    """The state before the first tick."""
    return ReplayState(
        shedder=scenario.shedder.initial,
        assignment=AssignmentState(None if scenario.placer is None else scenario.placer.initial),
        chance=np.random.PCG64(scenario.seed).state,
    )


def replay(
    ticks: Iterable[ReportTick], scenario: Scenario, state: ReplayState | None = None
) -> Iterator[tuple[ReportTick, Decision, ReplayState]]:
    """One decision a tick.

    Parameters
    ----------
    ticks
        In order of time.
    scenario
        What decides.
    state
        Where an earlier replay stopped; None begins anew.

    Yields
    ------
    tuple
        The tick as the strategy saw it, its decision, and the state after it.
    """
    now = first_state(scenario) if state is None else state
    for tick in ticks:
        seen, decision, now = step(tick, scenario, now)
        yield seen, decision, now


def step(
    tick: ReportTick, scenario: Scenario, state: ReplayState
) -> tuple[ReportTick, Decision, ReplayState]:
    """One tick: the leader takes the reports in, decides, and the world answers.

    As in `ModularLoadManagerImpl`: bundle data are updated from every report first, what was unloaded longer
    ago than the grace time is forgotten, a lone broker sheds nothing, and every bundle chosen is remembered.

    Returns
    -------
    tuple
        The tick as the strategy saw it, its decision, and the state after it.
    """
    seen = state.world.answered(tick) if scenario.world_answers else tick
    order = state.order.with_brokers(seen.brokers)
    if scenario.java_order:
        seen = ReportTick(seen.at, {name: seen.brokers[name] for name in order.brokers.names})
    bundles, in_between = take_in(state.bundles, seen.brokers, scenario.quotas)
    order = order.with_bundles(bundles.names)
    recent = unexpired(state.recently_unloaded, tick.at, scenario.options)
    view = replace(
        _view(seen, bundles, order if scenario.java_order else None),
        recently_unloaded=recent,
        recently_unloaded_brokers=state.recently_unloaded_brokers,
        rates_in_between=in_between,
    )
    chance = _generator(state.chance)
    shedder, assignment = _noted(state, view, scenario)
    idle = _idle(view, scenario)
    if idle is None:
        decision, shedder = scenario.shedder.decide(view, shedder, scenario.options, chance)
        decision, shedder, assignment = _placed(decision, view, shedder, scenario, assignment, chance)
    else:
        decision = Decision(why={"outcome": idle})
    chosen = [bundle for unloaded in decision.unloads.values() for bundle in unloaded]
    world = state.world
    if scenario.world_answers:
        homeless = [bundle for bundle in chosen if bundle not in decision.destinations]
        if homeless:
            raise PlanError(
                f"bundle {homeless[0]} was unloaded without a destination: this shedding strategy names "
                "none, so that the world cannot answer; name a placement strategy too"
            )
        world = world.moved({bundle: decision.destinations[bundle] for bundle in chosen})
    after = replace(
        state,
        shedder=shedder,
        assignment=assignment,
        chance=chance.bit_generator.state,
        bundles=bundles,
        order=order,
        recently_unloaded=recent | dict.fromkeys(chosen, tick.at),
        recently_unloaded_brokers={
            **state.recently_unloaded_brokers,
            **dict.fromkeys(decision.unloads, tick.at),
        },
        world=world,
    )
    return seen, decision, after


def _view(seen: ReportTick, bundles: BundleTable, order: MapOrder | None) -> LoadView:
    """What the leader knows, in the order in which Pulsar goes through it."""
    if order is not None:
        bundles = bundles.in_order(shedding_order(order.bundles.names))
    return LoadView(seen.at, {name: BrokerLoad(report) for name, report in seen.brokers.items()}, bundles)


def _noted(state: ReplayState, view: LoadView, scenario: Scenario) -> tuple[Any, AssignmentState[Any]]:
    """What shedding and placement remember once the reports were taken in."""
    shedder = scenario.shedder.noted(state.shedder, view, scenario.options)
    if scenario.placer is None:
        return shedder, state.assignment
    placement = scenario.placer.noted(state.assignment.placement, view, scenario.options)
    return shedder, replace(state.assignment, placement=placement)


def _idle(view: LoadView, scenario: Scenario) -> str | None:
    """Why the shedder is not even asked (`ModularLoadManagerImpl.doLoadShedding`)."""
    if not scenario.options.enabled:
        return "loadBalancerEnabled is false"
    if not scenario.options.shedding_enabled:
        return "loadBalancerSheddingEnabled is false"
    alone = len(available_brokers(view, scenario.metadata)) <= 1
    return "a lone broker sheds nothing" if alone else None


def _placed(
    decision: Decision,
    view: LoadView,
    shedder: Any,
    scenario: Scenario,
    assignment: AssignmentState[Any],
    chance: np.random.Generator,
) -> tuple[Decision, Any, AssignmentState[Any]]:
    """What the load manager makes of a decision; the states of shedder and placement after it.

    `AvgShedder` is shedder and placement in one object: where it is both, the two share their state.
    """
    if scenario.shedder.extensible:
        return decision, shedder, assignment
    if scenario.placer is None:
        return permitted(decision, view, scenario.metadata, scenario.options), shedder, assignment
    shared = type(scenario.placer.initial) is type(scenario.shedder.initial)
    if shared:
        assignment = replace(assignment, placement=shedder)
    rules = PlacementRules(scenario.placer, scenario.options, scenario.metadata)
    found = shed_round(decision, view, rules, assignment, chance)
    return found.decision, found.assignment.placement if shared else shedder, found.assignment


def _generator(state: Mapping[str, Any]) -> np.random.Generator:
    source = np.random.PCG64()
    source.state = cast("Any", state)
    return np.random.Generator(source)
