"""What heartbeats and questions of many processes cost together, by the code that they run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from trimtab_keys.clients import table_router as module
from trimtab_keys.clients.metadata_connection import FETCH_SECONDS, TopicDescription
from trimtab_keys.clients.ordered_consumer import HEARS_PER_SECOND, POLL_SECONDS
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.clients.table_router import RequestIntervals, TableFollower
from trimtab_keys.format import EXPIRY_HEARTBEATS, LONGEST_SECONDS, ClientHeartbeat, read_heartbeat

STEP_SECONDS = 1.0
PAGE = Path(__file__).parents[4] / "docs/balancers/keys.md"


@dataclass
class World:
    """A cluster that stays as it is, and processes that follow its tables.

    Attributes
    ----------
    now
        The time.
    offset
        Behind the last heartbeat.
    asked
        Requests of all processes, by kind.
    gone_at
        By process, when whoever publishes takes it for gone, by its last heartbeat.
    version
        Of the table that all follow.
    """

    now: float = 0.0
    offset: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    gone_at: dict[str, float] = field(default_factory=dict)
    version: int = 0
    processes: list[Process] = field(default_factory=list)

    def join(self, count: int, chance: Random) -> None:
        """So many processes begin within three seconds."""
        known = len(self.processes)
        self.processes += [Process(self, f"p{known + one}", chance.uniform(0, 3)) for one in range(count)]

    def run(self, seconds: float) -> None:
        """Let them take their turns."""
        until = self.now + seconds
        while self.now < until:
            self.now += STEP_SECONDS
            for one in self.processes:
                if self.now >= one.begins:
                    one.follower._poll_and_report()

    def per_second(self, seconds: float) -> dict[str, float]:
        """Requests a second of all processes, for so long."""
        self.asked.clear()
        self.run(seconds)
        return {name: count / seconds for name, count in self.asked.items()}


class Side:
    """The side connection of one process."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name, self.told = world, name, 0.0

    def topic(self) -> TopicDescription:
        """The topic, and that of tables with both partitions."""
        self._world.asked["looks"] += 1
        return TopicDescription("id", 24, 2)

    def read(self, key: bytes) -> None:
        """No table was written, and a request waits for one."""

    def write_record(self, key: bytes, value: bytes | None, appended: Any) -> None:
        """Append a heartbeat; it has to come before its process counts as gone."""
        world, beat = self._world, read_heartbeat(value or b"")
        assert beat is not None
        assert world.now <= world.gone_at.get(self._name, world.now), f"{self._name} was taken for gone"
        # In time are four heartbeats that are lost, and a turn that comes late.
        last = world.gone_at.get(self._name)
        if last is not None:
            assert last - world.now >= beat_margin(self.told) - STEP_SECONDS
        self.told = beat.every_seconds
        world.gone_at[self._name] = world.now + beat.lasting_seconds
        world.asked["heartbeats"] += 1
        appended(world.offset)
        world.offset += 1


def beat_margin(every_seconds: float) -> float:
    """What is left of the time for which a heartbeat counts when the next one comes."""
    return (EXPIRY_HEARTBEATS - 1) * every_seconds


class Process:
    """One that follows tables.

    Attributes
    ----------
    begins
        When it takes its first turn.
    """

    def __init__(self, world: World, name: str, delay: float) -> None:
        def beat() -> ClientHeartbeat:
            return ClientHeartbeat(
                process=name, role="producer", client="c", topic="t", topic_id="", at=0.0,
                version=world.version, partitions=24, wrapped=True,
            )  # fmt: skip

        self.begins = world.now + delay
        self.follower = TableFollower(
            RoutingConfig({}, tables_topic="tables"), "t", lambda *_: None, beat, lambda: world.now
        )
        self.follower._side = Side(world, name)  # type: ignore[assignment]


def steady(count: int) -> World:
    """So many processes that have been there for a while."""
    world = World()
    world.join(count, Random(count))
    world.run(60)
    return world


def figures(count: int) -> dict[str, float]:
    """What the page says of so many idle processes together, a second."""
    world = steady(count)
    found = world.per_second(40)
    intervals = [one.follower.intervals for one in world.processes]
    return {
        "interval": sum(one.every_seconds for one in intervals) / count,
        "heartbeats": found["heartbeats"],
        "looks": found["looks"],
        "fetches": count / FETCH_SECONDS,
        "hears": sum(1 / one.spread(POLL_SECONDS, HEARS_PER_SECOND) for one in intervals),
    }


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (10, {"interval": 3, "heartbeats": 3.3, "looks": 5, "fetches": 1, "hears": 200}),
        (100, {"interval": 3, "heartbeats": 33, "looks": 50, "fetches": 10, "hears": 2000}),
        (5000, {"interval": 20, "heartbeats": 250, "looks": 500, "fetches": 500, "hears": 2000}),
    ],
)
def test_the_page_states_the_cost_of_idle_processes(count: int, expected: dict[str, float]) -> None:
    """Computed by the code of the processes; heartbeats are not read, whatever their number."""
    found = figures(count)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=0.05), name
    row = " | ".join(f"{value:,g}" for value in expected.values())
    assert f"| {count:,} | {row} | 0 |" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("count", [200, 500, 1000])
def test_heartbeats_stay_at_their_bound_in_between(count: int) -> None:
    """As many a second, however many processes write them, before each waits as long as it may."""
    assert steady(count).per_second(40)["heartbeats"] == pytest.approx(module.HEARTBEATS_PER_SECOND, rel=0.2)


def test_processes_that_join_and_leave_change_the_interval_of_the_others() -> None:
    """1,000 join 20, and leave again: within three long intervals all is as before, and no process was
    overdue.
    """
    world = steady(20)
    few = world.processes[:]
    assert {one.follower.intervals.every_seconds for one in few} == {3}
    world.join(980, Random(1))
    world.run(60)
    assert all(one.follower.intervals.every_seconds > 10 for one in few)
    world.processes = few
    world.run(3 * LONGEST_SECONDS)
    assert {one.follower.intervals.every_seconds for one in few} == {3}


def test_a_new_table_is_reported_immediately_at_any_interval() -> None:
    """A publisher waits for that; it costs one heartbeat of each process."""
    world = steady(1000)
    world.version = 1
    world.asked.clear()
    world.run(STEP_SECONDS)
    assert world.asked["heartbeats"] == 1000


def test_an_interval_holds_from_the_heartbeat_that_names_it() -> None:
    """What is learned from an answer counts for the next one: the last has promised a shorter time."""
    intervals = RequestIntervals(3.0)
    assert intervals.next_interval() == 3.0
    intervals.appended(0, 100.0)
    assert intervals.next_interval() == 3.0
    intervals.appended(3000, 103.0)
    assert intervals.every_seconds == 3.0
    assert intervals.next_interval() == LONGEST_SECONDS
    assert intervals.processes == 3000


def test_offsets_that_restart_are_no_crowd() -> None:
    """The topic of tables was deleted and recreated."""
    intervals = RequestIntervals(3.0)
    for offset, at in ((10_000, 0.0), (10, 3.0), (20, 6.0)):
        intervals.appended(offset, at)
        intervals.next_interval()
    assert (intervals.every_seconds, intervals.processes) == (3.0, 10.0)
