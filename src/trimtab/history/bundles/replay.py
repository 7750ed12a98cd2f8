"""Replays of recorded load reports: strategies decide at each tick of a recording or of a simulated world.

In a simulated world (`World`), the load of a bundle follows the bundle to the broker that a strategy moved it
to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from trimtab.files.bundles.policies import OperatorPolicies
from trimtab.files.bundles.recording import NO_SETTINGS, ScenarioSettings
from trimtab.model.bundles.policies import BundlePolicies, ClusterMetadata
from trimtab.model.bundles.reports import TRAFFIC, BrokerReport, BundleStats, ReportTick, ResourceUsage
from trimtab.model.errors import PlanError
from trimtab.plan.bundles.reported import departed, owners
from trimtab.plan.bundles.strategies import shedder
from trimtab.plan.pulsar.decision import ShedDecision, placer
from trimtab.plan.pulsar.leader import LeaderMemory, LeaderRules, inform, shed
from trimtab.plan.pulsar.options import DEFAULT_VARIANT, make_options
from trimtab.plan.pulsar.selection import AssignmentState
from trimtab.plan.pulsar.splits import SplitState, find_owner_splits, find_splits
from trimtab_common.errors import SettingsError

MOVING = ("cpu", "bandwidth_in", "bandwidth_out")
"""Resources that follow a bundle."""


@dataclass(frozen=True)
class ReplayedCluster:
    """Bundles whose owner differs from the recording.

    Attributes
    ----------
    owner
        The broker of each bundle that was moved.
    """

    owner: Mapping[str, str] = field(default_factory=dict)

    def moved(self, destinations: Mapping[str, str]) -> ReplayedCluster:
        """The cluster after these bundles moved to these brokers."""
        return ReplayedCluster({**self.owner, **destinations}) if destinations else self

    def answered(self, tick: ReportTick) -> ReportTick:
        """The tick as this cluster would have reported it.

        A bundle whose new broker is not in the tick (it has died) is where the recording has it.
        """
        changed: dict[str, _MutableReport] = {}
        for name, report in tick.brokers.items():
            for bundle in report.bundles:
                target = self.owner.get(bundle, name)
                if target != name and target in tick.brokers and bundle not in tick.brokers[target].bundles:
                    for broker in (name, target):
                        if broker not in changed:
                            changed[broker] = _MutableReport(tick.brokers[broker])
                    _move(report, bundle, changed[name], changed[target])
        return ReportTick(
            tick.at,
            {
                name: changed[name].report() if name in changed else report
                for name, report in tick.brokers.items()
            },
        )


class _MutableReport:
    """A report that is changed bundle by bundle, and then becomes a value again."""

    def __init__(self, report: BrokerReport) -> None:
        self._report = report
        self.bundles = dict.fromkeys(report.bundles)
        self.last_stats = dict(report.last_stats)
        self._usage = {name: getattr(report, name).usage for name in MOVING}
        self._totals = {name: getattr(report, name) for name in TRAFFIC}

    def add(self, stats: BundleStats, usage: Mapping[str, float], sign: int) -> None:
        """Add or subtract the load of a bundle; no load falls below zero."""
        for name, share in usage.items():
            self._usage[name] = max(0.0, self._usage[name] + sign * share)
        for name in TRAFFIC:
            self._totals[name] = max(0.0, self._totals[name] + sign * float(getattr(stats, name)))

    def report(self) -> BrokerReport:
        """The report that the broker would have made."""
        resources = {
            name: replace(getattr(self._report, name), usage=usage) for name, usage in self._usage.items()
        }
        return replace(
            self._report,
            bundles=tuple(self.bundles),
            last_stats=self.last_stats,
            **resources,
            **self._totals,
        )


def _move(recorded: BrokerReport, bundle: str, source: _MutableReport, target: _MutableReport) -> None:
    """Move one bundle; its shares are of the report as `recorded`."""
    stats = recorded.last_stats.get(bundle)
    carried = stats or BundleStats()
    usage = {
        "cpu": _share(
            recorded.cpu,
            carried.msg_throughput_in + carried.msg_throughput_out,
            recorded.msg_throughput_in + recorded.msg_throughput_out,
        ),
        "bandwidth_in": _share(recorded.bandwidth_in, carried.msg_throughput_in, recorded.msg_throughput_in),
        "bandwidth_out": _share(
            recorded.bandwidth_out, carried.msg_throughput_out, recorded.msg_throughput_out
        ),
    }
    source.add(carried, usage, -1)
    source.bundles.pop(bundle, None)
    source.last_stats.pop(bundle, None)
    target.add(carried, usage, 1)
    target.bundles[bundle] = None
    if stats is not None:
        target.last_stats[bundle] = stats


def _share(resource: ResourceUsage, part: float, whole: float) -> float:
    return resource.usage * min(part / whole, 1.0) if whole > 0 and resource.limit > 0 else 0.0


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
    """The state between two ticks; `trimtab.history.bundles.spark` writes and reads it.

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
    splits: SplitState = field(default_factory=SplitState)


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
    """Make one decision a tick.

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
    """Run one tick: the leader reads the reports and decides, and owners change.

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
        found, splits = find_owner_splits(view, splits, scenario.options, scenario.metadata)
    elif not scenario.shedder.extensible:
        found = find_splits(view, scenario.options, scenario.metadata)
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


def _unsplit(splits: SplitState, observation: ReportTick, decision: ShedDecision) -> SplitState:
    """The split counters of owners, as if no bundle had been split."""
    hits = {broker: dict(counts) for broker, counts in splits.hits.items()}
    for broker, counts in hits.items():
        counts |= {
            bundle: decision.splits[bundle]["hits"]
            for bundle in observation.brokers[broker].bundles
            if bundle in decision.splits and "hits" in decision.splits[bundle]
        }
    return SplitState(hits)


def _generator(state: Mapping[str, Any]) -> np.random.Generator:
    source = np.random.PCG64()
    source.state = cast("Any", state)
    return np.random.Generator(source)


@dataclass(frozen=True)
class StrategyRequest:
    """One strategy as requested.

    Attributes
    ----------
    strategy
        The shedder by its name in Pulsar, as given.
    placement
        Likewise; None where there is none.
    options
        Pulsar's options by name, as texts: common ones, then its own.
    variant, seed
        Whose rules, and of all that is drawn; None where it has none of its own.
    """

    strategy: str
    placement: str | None
    options: Mapping[str, str]
    variant: str | None = None
    seed: int | None = None

    @property
    def names(self) -> str:
        """Shedder and placement, in words."""
        return self.strategy if self.placement is None else f"{self.strategy} and {self.placement}"

    def settled(self, variant: str, seed: int, *, world_answers: bool) -> StrategyRequest:
        """The same request with all defaults filled in.

        Where the world answers, every unload needs a destination: Pulsar's default placement, or for
        `AvgShedder`, which plans its own, itself.
        """
        placement = self.placement
        if placement is None and world_answers and not shedder(self.strategy).extensible:
            own = self.strategy.rpartition(".")[2] == "AvgShedder"
            placement = "AvgShedder" if own else "LeastLongTermMessageRate"
        return replace(
            self,
            placement=placement,
            variant=self.variant or variant,
            seed=seed if self.seed is None else self.seed,
        )

    def scenario(
        self, *, java_order: bool, world_answers: bool, laid_down: OperatorPolicies | None = None
    ) -> ShedderScenario:
        """The scenario to replay; in a cluster without policies and quotas if none are laid down.

        Raises
        ------
        TrimtabError
            If a strategy, a placement, an option or the variant is not known.
        """
        metadata = ClusterMetadata(policies=BundlePolicies() if laid_down is None else laid_down.policies)
        return ShedderScenario(
            shedder(self.strategy, metadata),
            make_options(self.options, self.variant or DEFAULT_VARIANT),
            None if self.placement is None else placer(self.placement),
            metadata,
            seed=self.seed or 0,
            java_order=java_order,
            world_answers=world_answers,
            quotas={} if laid_down is None else laid_down.quotas,
        )


def strategy_requests(
    strategies: Sequence[str],
    placements: Sequence[str],
    overrides: Sequence[str],
    listed: tuple[ScenarioSettings, Mapping[str, ScenarioSettings]] = (NO_SETTINGS, {}),
) -> tuple[dict[str, StrategyRequest], dict[str, str]]:
    """The strategies by name, and the options that all have in common.

    Parameters
    ----------
    strategies
        `STRATEGY`, or `NAME=STRATEGY` where one is to appear twice; the name is else the class's.
    placements
        `PLACEMENT` for all, or `NAME=PLACEMENT` for one, which goes first.
    overrides
        `option=value` for all, or `NAME.option=value` for one, which goes first.
    listed
        The same from a file, for all and for each strategy. What is for one goes before what is for all, and
        of two of a kind the one that is not from the file.

    Raises
    ------
    SettingsError
        If two have one name, a name stands for no strategy, or two placements are for the same.
    """
    common, own = listed
    chosen = {name: one.strategy for name, one in own.items()}
    for given in strategies:
        label, _, strategy = given.rpartition("=")
        name = label.strip() or strategy.strip().rpartition(".")[2]
        if name in chosen:
            raise SettingsError(
                f"--strategy {given}: there is another by the name {name}; give one a name of its own, as "
                f"--strategy second={strategy.strip()}"
            )
        chosen[name] = strategy.strip()
    placed = _placements(placements, chosen)
    options = _options(overrides, chosen)
    for_all = {**common.options, **options[""]}
    found = {}
    for name, strategy in chosen.items():
        words = own.get(name, NO_SETTINGS)
        ranked = (placed.get(name), words.placement, placed.get(""), common.placement)
        found[name] = StrategyRequest(
            strategy,
            next((one for one in ranked if one is not None), None),
            {**for_all, **words.options, **options[name]},
            words.variant,
            words.seed,
        )
    return found, for_all


def _placements(placements: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Placements by the strategy's name; the empty name is for all other strategies."""
    placed: dict[str, str] = {}
    for given in placements:
        label, equals, placement = given.rpartition("=")
        name = _name(f"--placement {given}", label, chosen) if equals else ""
        if name in placed:
            raise SettingsError(
                f"--placement {given}: {placed[name]} was named for {name or 'all'} already; name one, or "
                "write --placement STRATEGY=PLACEMENT"
            )
        placed[name] = placement.strip()
    return placed


def _options(overrides: Sequence[str], chosen: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Options by the strategy's name; the empty name has the options of all strategies."""
    options: dict[str, dict[str, str]] = {"": {}, **{name: {} for name in chosen}}
    for override in overrides:
        whole, equals, value = override.partition("=")
        label, dot, option = whole.rpartition(".")
        if not equals or not option.strip():
            raise SettingsError(f"--set {override!r} is not name=value; write --set loadBalancerX=value")
        options[_name(f"--set {override}", label, chosen) if dot else ""][option.strip()] = value.strip()
    return options


def _name(values: str, label: str, chosen: Mapping[str, str]) -> str:
    """The strategy that a setting is for, by its name or full Java class name."""
    for name in (label.strip(), label.strip().rpartition(".")[2]):
        if name in chosen:
            return name
    raise SettingsError(
        f"{values}: no strategy has the name {label.strip() or repr(label)}; those named are "
        f"{', '.join(chosen)}"
    )
