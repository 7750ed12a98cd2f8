"""Recorded reports in, decisions out: a strategy replayed tick after tick."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from trimtab.history.bundles.world import ReplayedCluster
from trimtab.model.bundles.reports import ReportTick
from trimtab.model.errors import PlanError
from trimtab.plan.bundles.reported import departed, owners
from trimtab.plan.pulsar.assign.state import AssignmentState
from trimtab.plan.pulsar.decision import ShedDecision
from trimtab.plan.pulsar.leader import LeaderMemory, LeaderRules, inform, shed
from trimtab.plan.pulsar.split import extensible, modular


@dataclass(frozen=True, kw_only=True)
class ShedderScenario(LeaderRules):
    """A strategy and its settings.

    Attributes
    ----------
    seed
        Of all that is drawn.
    world_answers
        Whether the load of a bundle goes where it was unloaded to. False: the recording is fed as it is.
    """

    seed: int = 0
    world_answers: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class ReplayState(LeaderMemory):
    """All that one tick leaves to the next; `trimtab.history.bundles.saved` writes and reads it.

    Attributes
    ----------
    chance
        The state of the random numbers.
    world
        Which bundles are elsewhere than in the recording.
    splits
        In how many cycles in a row bundles were above a limit, under the extensible load manager.
    """

    chance: Mapping[str, Any]
    world: ReplayedCluster = field(default_factory=ReplayedCluster)
    splits: extensible.SplitState = field(default_factory=extensible.SplitState)


def first_state(scenario: ShedderScenario) -> ReplayState:
    """The state before the first tick."""
    return ReplayState(
        shedder=scenario.shedder.initial,
        assignment=AssignmentState(None if scenario.placer is None else scenario.placer.initial),
        chance=np.random.PCG64(scenario.seed).state,
    )


def replay(
    ticks: Iterable[ReportTick], scenario: ShedderScenario, state: ReplayState | None = None
) -> Iterator[tuple[ReportTick, ShedDecision, ReplayState]]:
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
    tick: ReportTick, scenario: ShedderScenario, state: ReplayState
) -> tuple[ReportTick, ShedDecision, ReplayState]:
    """One tick: the leader takes the reports in, decides, and the world answers.

    Returns
    -------
    tuple
        The tick as the strategy saw it, its decision, and the state after it. Under `splits` the decision's
        `why` has the bundles above a limit, and what Pulsar would make of each: the leader of the modular
        manager, or the owners under the extensible one.

    Raises
    ------
    PlanError
        If the world should answer an unload that has no destination.
    """
    seen = state.world.answered(tick) if scenario.world_answers else tick
    view, informed = inform(state, tick.at, seen.brokers, scenario)
    chance = _generator(state.chance)
    decision, after = shed(view, informed, scenario, chance)
    splits, found = state.splits, None
    if scenario.shedder.owners_split:
        found, splits = extensible.find_splits(view, splits, scenario.options, scenario.metadata)
    elif not scenario.shedder.extensible:
        found = modular.find_splits(view, scenario.options, scenario.metadata)
    if found is not None and (above := found.facts.get("bundles")):
        # Not made: reports do not say what each part would carry.
        decision = replace(decision, facts={**decision.facts, "splits": above})
    world = state.world
    if scenario.world_answers:
        chosen = [bundle for unloaded in decision.unloads.values() for bundle in unloaded]
        homeless = [bundle for bundle in chosen if bundle not in decision.destinations]
        if homeless:
            raise PlanError(
                f"bundle {homeless[0]} was unloaded without a destination: this shedding strategy names "
                "none, so that the world cannot answer; name a placement strategy too"
            )
        world = world.moved({bundle: decision.destinations[bundle] for bundle in chosen})
    # In the order in which the leader went through them.
    seen = ReportTick(seen.at, view.reports)
    return seen, decision, replace(after, chance=chance.bit_generator.state, world=world, splits=splits)


def decide_now(ticks: Sequence[ReportTick], scenario: ShedderScenario) -> tuple[ReportTick, ShedDecision]:
    """The decision at the last tick.

    The ticks before build up what a strategy remembers: averages, histories, hit counts. What it would have
    unloaded at them was not unloaded, and does not count as recent; what did change hands does. A bundle that
    an owner would have split at them was not split, and keeps its hits.

    Parameters
    ----------
    ticks
        In order of time, at least one.

    Returns
    -------
    tuple
        The last tick as the strategy saw it, and its decision.
    """
    state = first_state(scenario)
    unloaded: dict[str, float] = {}
    left: dict[str, float] = {}
    owner: dict[str, str] = {}
    seen, decision = ticks[-1], ShedDecision()
    for tick in ticks:
        now = owners(tick.brokers)
        for one in departed(owner, now, tick.at):
            unloaded[one.bundle] = left[one.broker] = one.at
        owner |= now
        state = replace(state, recently_unloaded=dict(unloaded), recently_unloaded_brokers=dict(left))
        seen, decision, state = step(tick, scenario, state)
        state = replace(state, splits=_unsplit(state.splits, seen, decision))
    return seen, decision


def _unsplit(
    splits: extensible.SplitState, observation: ReportTick, decision: ShedDecision
) -> extensible.SplitState:
    """The hits of owners with those of bundles that they decided to split, as if nothing were split."""
    hits = {broker: dict(counts) for broker, counts in splits.hits.items()}
    for broker, counts in hits.items():
        counts |= {
            bundle: decision.splits[bundle]["hits"]
            for bundle in observation.brokers[broker].bundles
            if bundle in decision.splits and "hits" in decision.splits[bundle]
        }
    return extensible.SplitState(hits)


def _generator(state: Mapping[str, Any]) -> np.random.Generator:
    source = np.random.PCG64()
    source.state = cast("Any", state)
    return np.random.Generator(source)
