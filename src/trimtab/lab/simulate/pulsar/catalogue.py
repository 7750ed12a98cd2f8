"""The scenarios by name, each run under any of Pulsar's shedders."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from trimtab.lab.simulate.pulsar.leader import LeaderSettings
from trimtab.lab.simulate.pulsar.scenarios import (
    ScenarioResult,
    broker_joins,
    broker_overloaded,
    lone_hot_bundle,
    outcome,
    owner_dies,
)
from trimtab.lab.simulate.pulsar.settings import WorldSettings
from trimtab.lab.simulate.pulsar.world import PulsarWorld
from trimtab.plan.bundles.strategies import SHEDDERS
from trimtab.plan.bundles.strategies import shedder as strategy
from trimtab_common.errors import SettingsError


@dataclass(frozen=True)
class SimulationScenario:
    """A scenario.

    Attributes
    ----------
    text
        What happens in it, in a few words.
    run
        The world at its end.
    """

    text: str
    run: Callable[[WorldSettings], PulsarWorld]


SCENARIOS: Final = {
    "broker-joins": SimulationScenario("an idle broker joins nine at 60 %; 20 minutes", broker_joins),
    "owner-dies": SimulationScenario("one of four brokers dies, not the leader; 5 minutes", owner_dies),
    "broker-overloaded": SimulationScenario(
        "one broker at 95 %, one at 29 %, eight at 30 %; 15 minutes", partial(broker_overloaded, minutes=15)
    ),
    "hot-bundle": SimulationScenario(
        "one bundle of 200 topics makes its broker 90 % full; 10 minutes",
        partial(lone_hot_bundle, topics=200),
    ),
    "hot-topic": SimulationScenario("the same with a single topic", partial(lone_hot_bundle, topics=1)),
}


@dataclass(frozen=True)
class ScenarioOutcome:
    """The result of a scenario under one shedder.

    Attributes
    ----------
    scenario, shedder
        Their names.
    outcome
        The figures at its end.
    """

    scenario: str
    shedder: str
    outcome: ScenarioResult


def staged(name: str) -> SimulationScenario:
    """The scenario of this name.

    Raises
    ------
    SettingsError
        If there is none.
    """
    if name not in SCENARIOS:
        raise SettingsError(f"scenario {name} is not known: choose of {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


def strategies_named(names: Sequence[str]) -> Sequence[str]:
    """The strategies to play: those named, or all of Pulsar's.

    Raises
    ------
    PlanError
        If one is not known.
    """
    # Ours is compiled before it first decides, which takes a minute; who wants it asks for it.
    chosen = names or [name for name in SHEDDERS if name.endswith("Shedder")]
    for name in chosen:
        strategy(name)
    return chosen


def played(
    scenarios: Sequence[str], shedders: Sequence[str], *, destination_first: bool = True, seed: int = 0
) -> Iterator[ScenarioOutcome]:
    """Every scenario under every shedder, each in a world of its own.

    Parameters
    ----------
    scenarios, shedders
        By name.
    destination_first
        As `LeaderSettings.destination_first`.
    seed
        Of all chance in each of them.

    Raises
    ------
    TrimtabError
        If a scenario or a shedder is not known.
    """
    chosen = {name: staged(name) for name in scenarios}
    for name, scenario in chosen.items():
        for shedder in shedders:
            # AvgShedder plans where its bundles go, and has to be asked for it.
            placer = "AvgShedder" if shedder == "AvgShedder" else "LeastLongTermMessageRate"
            leader = LeaderSettings(shedder, placer, destination_first=destination_first)
            world = scenario.run(WorldSettings(leader, seed=seed))
            yield ScenarioOutcome(name, shedder, outcome(world))
