"""Scenarios of a simulated Pulsar (a broker joins, dies, is overloaded), and figures for each strategy."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from simulated_clusters.leader import LeaderSettings, WorldEvent, WorldSettings
from simulated_clusters.state import ClusterTopics, one_topic_a_bundle, topics_named
from simulated_clusters.world import PulsarWorld
from trimtab.model.bundles.snapshot import BundleRange, bundles_between, initial_boundaries, topic_hash
from trimtab.plan.bundles.strategies import SHEDDERS
from trimtab.plan.bundles.strategies import shedder as strategy
from trimtab_common.errors import SettingsError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


NAMESPACE = "public/default"
MEBIBYTE = 1024 * 1024
CAPACITY = 100.0 * MEBIBYTE
"""Bytes per second each way of every broker."""
MESSAGE_BYTES = 10 * 1024


@dataclass(frozen=True)
class ScenarioResult:
    """The result of a scenario.

    Attributes
    ----------
    usage
        Share of the most used resource of each living broker at the end.
    unloads
        Bundles closed by order of the leader, splits' halves included.
    returned
        Those of them that went back to the broker that they left.
    splits
        Bundles split.
    topics_interrupted
        Topics whose clients were closed, each as often as it was.
    longest_gap_seconds
        The longest that clients were without their broker.
    waiting
        Bundles whose clients still wait.
    """

    usage: Mapping[str, float]
    unloads: int
    returned: int
    splits: int
    topics_interrupted: int
    longest_gap_seconds: float
    waiting: int


def outcome(world: PulsarWorld) -> ScenarioResult:
    """The result of a world so far."""
    happened = Counter(one.what for one in world.history)
    dead: set[str] = {one.broker for one in world.history if one.what == "died"}
    closed = [one for one in world.history if one.what == "closed"]
    return ScenarioResult(
        usage=world.usage(),
        unloads=sum(one.broker not in dead for one in closed),
        returned=_returned(world.history),
        splits=happened["split"],
        topics_interrupted=sum(one.topics for one in closed),
        longest_gap_seconds=max(
            (one.seconds for one in world.history if one.what == "connected"), default=0.0
        ),
        waiting=len(world.waiting),
    )


def _returned(history: Sequence[WorldEvent]) -> int:
    """The number of bundles that were connected to just the broker that had closed them."""
    left: dict[str, str] = {}
    count = 0
    for one in history:
        if one.what == "closed":
            left[one.bundle] = one.broker
        elif one.what == "connected":
            count += left.pop(one.bundle, None) == one.broker
    return count


def broker_joins(settings: WorldSettings, *, minutes: int = 20, usage: float = 0.6) -> PulsarWorld:
    """Nine brokers alike, ten bundles each, and an idle tenth from the first minute on.

    Parameters
    ----------
    usage
        Share of each of the nine that is used.
    """
    names = [f"broker-{number}:8080" for number in range(10)]
    boundaries = initial_boundaries(90)
    traffic = np.tile(_traffic(usage * CAPACITY / 10), (90, 1))
    topics = ClusterTopics({NAMESPACE: one_topic_a_bundle(NAMESPACE, boundaries, traffic)})
    capacities = dict.fromkeys(names[:9], CAPACITY)
    world = PulsarWorld(topics, {NAMESPACE: boundaries}, capacities, settings)
    for number, bundle in enumerate(_bundles(world)):
        world.place(bundle, names[number % 9])
    world.run_until(1.0)
    world.start(names[9], CAPACITY)
    world.run_until(minutes * 60.0 + 1.0)
    return world


def owner_dies(settings: WorldSettings, *, minutes: int = 5) -> PulsarWorld:
    """Four brokers with eight bundles of 25 topics each, of which one that is not the leader dies."""
    names = [f"broker-{number}:8080" for number in range(4)]
    boundaries = initial_boundaries(32)
    topics = [f"persistent://{NAMESPACE}/orders-{number}" for number in range(800)]
    traffic = np.tile(_traffic(0.3 * CAPACITY / 200), (800, 1))
    world = PulsarWorld(
        ClusterTopics({NAMESPACE: topics_named(topics, traffic)}),
        {NAMESPACE: boundaries},
        dict.fromkeys(names, CAPACITY),
        settings,
    )
    for number, bundle in enumerate(_bundles(world)):
        world.place(bundle, names[number % 4])
    world.run_until(90.0)
    leader = world.store.leader
    world.kill(next(name for name in names if leader is None or name != leader.broker))
    world.run_until(minutes * 60.0)
    return world


def broker_overloaded(settings: WorldSettings, *, minutes: float = 3) -> PulsarWorld:
    """Ten bundles each on a broker at 29 %, one at 95 % and eight at 30 %: several must go at once."""
    names = [f"broker-{number}:8080" for number in range(10)]
    boundaries = initial_boundaries(100)
    shares = [{0: 0.029, 9: 0.095}.get(number % 10, 0.03) for number in range(100)]
    traffic = np.array([_traffic(share * CAPACITY) for share in shares])
    topics = ClusterTopics({NAMESPACE: one_topic_a_bundle(NAMESPACE, boundaries, traffic)})
    world = PulsarWorld(topics, {NAMESPACE: boundaries}, dict.fromkeys(names, CAPACITY), settings)
    for number, bundle in enumerate(_bundles(world)):
        world.place(bundle, names[number % 10])
    world.run_until(minutes * 60.0)
    return world


def lone_hot_bundle(settings: WorldSettings, *, topics: int, minutes: int = 10) -> PulsarWorld:
    """Four brokers, on one of which a single bundle takes 90 %, while the others are at 20 %.

    Parameters
    ----------
    topics
        How many the hot bundle has. A single one cannot be divided.
    """
    names = [f"broker-{number}:8080" for number in range(4)]
    # The first half of the ring is the hot bundle; the other is cut into twelve.
    high = 1 << 31
    boundaries = (0, *(high + number * (high // 12) for number in range(12)), 0xFFFFFFFF)
    hot = _named_below(topics, high)
    quiet = one_topic_a_bundle(NAMESPACE, boundaries[1:], np.tile(_traffic(0.05 * CAPACITY), (12, 1)))
    loaded = topics_named(hot, np.tile(_traffic(0.9 * CAPACITY / topics), (topics, 1)))
    joined = replace(
        loaded,
        hashes=np.concatenate([loaded.hashes, quiet.hashes]),
        traffic=np.concatenate([loaded.traffic, quiet.traffic]),
    )
    world = PulsarWorld(
        ClusterTopics({NAMESPACE: joined}), {NAMESPACE: boundaries}, dict.fromkeys(names, CAPACITY), settings
    )
    for number, bundle in enumerate(_bundles(world)):
        world.place(bundle, names[0] if number == 0 else names[1 + number % 3])
    world.run_until(minutes * 60.0)
    return world


def _traffic(bytes_per_second: float) -> np.ndarray:
    """As much in as out, in messages of `MESSAGE_BYTES`."""
    rate = bytes_per_second / MESSAGE_BYTES
    return np.array([bytes_per_second, bytes_per_second, rate, rate])


def _bundles(world: PulsarWorld) -> tuple[BundleRange, ...]:
    return bundles_between(NAMESPACE, world.store.boundaries[NAMESPACE])


def _named_below(count: int, limit: int) -> list[str]:
    """So many names of topics whose hashes are below a limit."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        name = f"persistent://{NAMESPACE}/clicks-{number}"
        if topic_hash(name) < limit:
            found.append(name)
        number += 1
    return found


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


HEADINGS = (
    "emptiest",
    "fullest",
    "unloads",
    "came back",
    "splits",
    "clients closed",
    "longest gap",
    "waiting",
)


def scenario_text(outcomes: Iterable[ScenarioOutcome]) -> Iterator[RenderableType]:
    """A table for each scenario, with a row for each shedder, as soon as it has been played."""
    for name, played in groupby(outcomes, key=lambda one: one.scenario):
        yield f"[bold]{name}[/]: {SCENARIOS[name].text}"
        yield _table(played)
    yield (
        "[dim]emptiest, fullest: usage of living brokers at the end; clients closed: producer and consumer "
        "of every topic, as often as they were; waiting: bundles whose clients have no broker yet[/]"
    )


def _table(played: Iterable[ScenarioOutcome]) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("  strategy", no_wrap=True, min_width=22)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))
    for one in played:
        found = one.outcome
        table.add_row(
            f"  {one.shedder}",
            *(f"{share:.0%}" for share in (min(found.usage.values()), max(found.usage.values()))),
            str(found.unloads),
            str(found.returned),
            str(found.splits),
            f"{2 * found.topics_interrupted:,}",
            f"{found.longest_gap_seconds:.1f} s" if found.longest_gap_seconds else "–",
            str(found.waiting),
        )
    return table


def scenario_document(outcomes: Iterable[ScenarioOutcome]) -> list[dict[str, Any]]:
    """The same as plain JSON values."""
    return [
        {"scenario": one.scenario, "strategy": one.shedder, **dataclasses.asdict(one.outcome)}
        for one in outcomes
    ]
