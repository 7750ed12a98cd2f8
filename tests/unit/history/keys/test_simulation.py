"""Streams of keyed records in virtual time: consumers by hand, policies, and the order guard's own code."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.files.keys.settings import KeysSettings
from trimtab.history.keys.ordered_simulation import (
    FixedTable,
    OrderedSimulation,
    OrderingDelays,
    PeriodicPlanner,
    PublisherObservation,
    planned_table,
)
from trimtab.history.keys.simulation import (
    ConsumerCapacity,
    KeysSimulationRun,
    KeysSimulationSettings,
    KeyStream,
    SimulatedConsumers,
    simulate,
)
from trimtab_common.errors import InputError
from trimtab_keys.core.order import OrderingConfig
from trimtab_keys.core.policies import policy_named
from trimtab_keys.core.routing import POSITIVE, RoutingTable, key_group, murmur2

HOT = b"hot"
KEYS = [HOT, *(b"%d" % one for one in range(20))]


def stream(seed: int, seconds: float = 2.0, per_second: int = 100) -> KeyStream:
    """Every third record has the hot key."""
    chance = Random(seed)
    at = sorted(chance.uniform(0, seconds) for _ in range(int(seconds * per_second)))
    which = [0 if chance.random() < 0.34 else chance.randrange(1, len(KEYS)) for _ in at]
    return KeyStream(at, which, KEYS, producers=2)


def test_a_consumer_works_one_record_after_the_other_and_not_while_it_stands_still() -> None:
    """Half a second each; from 1 to 2 it stands still, be it in the midst of a record, idle, or behind."""
    still = ConsumerCapacity(2.0, [[(1.0, 2.0)]])
    consumers = SimulatedConsumers(1, still)
    assert consumers.receive(0, 0.0) == 0.5
    assert consumers.receive(0, 0.6) == pytest.approx(2.1)
    assert consumers.receive(0, 1.5) == pytest.approx(2.6)
    assert consumers.backlog(0.4) == [3.0]
    assert consumers.backlog(2.2) == [1.0]
    assert SimulatedConsumers(1, still).receive(0, 1.2) == pytest.approx(2.5)
    assert [consumers.awake(0, at) for at in (0.5, 1.0, 1.5, 2.0, 3.0)] == [0.5, 2.0, 2.0, 2.0, 3.0]


def test_an_interrupted_consumer_becomes_free() -> None:
    """Of four records of half a second the first is done and the second half; it stands still as it would."""
    consumers = SimulatedConsumers(1, ConsumerCapacity(2.0, [[(0.1, 0.2), (1.2, 1.4)]]))
    assert [consumers.receive(0, 0.0) for _ in range(3)] == pytest.approx([0.6, 1.1, 1.8])
    consumers.drop(0, 0.8)
    assert consumers.backlog(0.8) == [0.0]
    assert consumers.receive(0, 0.8) == pytest.approx(1.5), "the stall that was reckoned with comes again"
    idle = SimulatedConsumers(1, ConsumerCapacity(2.0))
    idle.drop(0, 5.0)
    assert idle.receive(0, 1.0) == 1.5, "a free one is no later free"


def test_measures_of_a_run_by_hand() -> None:
    """Of three records of a key the second is done before the first: one in four has overtaken."""
    made = KeyStream([0.0, 1.0, 2.0, 3.0], [0, 0, 1, 0], [b"a", b"b"])
    found = KeysSimulationRun(made, [0, 1, 1, 1], [3.0, 1.5, 2.5, 4.0], 2)
    assert found.records == [1, 3]
    assert found.max_over_mean == 1.5
    assert found.overtaken == 0.25
    assert (found.delay_seconds(0.5), found.delay_seconds(1.0)) == (0.5, 3.0)
    assert found.partitions_per_key == (2 * 3 + 1) / 4


def test_the_hash_keeps_order_and_choice_balances() -> None:
    """A key in one place is done in its order; spread over all it is not, and loads are balanced."""
    made, world = stream(1, 20), KeysSimulationSettings(6, ConsumerCapacity(30.0))
    hashed = simulate(made, lambda: policy_named("hash"), world)
    assert hashed.overtaken == 0
    assert hashed.place == [(murmur2(made.keys[one]) & POSITIVE) % 6 for one in made.which]
    spread = simulate(made, lambda: policy_named("d_choices"), world)
    assert spread.overtaken > 0
    assert spread.max_over_mean < 1.2 < 1.8 < hashed.max_over_mean
    assert spread.delay_seconds(0.99) < hashed.delay_seconds(0.99) / 5


def test_added_partitions_have_a_consumer() -> None:
    """IPOOA asks for one where half of the others are overloaded, too."""
    world = KeysSimulationSettings(2, ConsumerCapacity(10.0), spare=3, poll_seconds=0.25)
    found = simulate(stream(2, 10), lambda: policy_named("ipooa"), world, contents=True)
    assert found.added == found.partitions - 2 > 0
    assert min(found.done) > 0


class Drawn:
    """Tables as they come: groups and the hot key go anywhere, whether or not the last change is over."""

    def __init__(self, seed: int, partitions: int) -> None:
        self.chance, self.partitions = Random(seed), partitions
        self.table = RoutingTable(0, partitions, partitions)

    next_plan_at = inf

    def next_table(self, observation: PublisherObservation, /) -> RoutingTable:
        """The next one."""
        count, old = self.partitions, self.table
        groups, keys = dict(old.groups), dict(old.keys)
        for key in self.chance.sample(KEYS, 4):
            group = key_group(key, count)
            groups[group] = old.group_route(group).moved((self.chance.randrange(count),))
        places = tuple(self.chance.sample(range(count), self.chance.randint(1, count)))
        keys[HOT] = old.route(key_group(HOT, count), HOT).moved(places)
        self.table = RoutingTable(old.version + 1, count, count, groups, keys)
        return self.table


@given(st.integers(0, 10**6), st.integers(1, 20), st.sampled_from([None, 0.001, 0.05]))
def test_the_guard_keeps_each_keys_order_under_any_tables(
    seed: int, run_records: int, tell_seconds: float | None
) -> None:
    """Nothing overtakes, and everything is done, however tables and news come."""
    still = [[(0.3, 0.5)], [], [(0.2, 0.3), (1.0, 1.4)], []]
    pace = OrderingDelays(heartbeat_seconds=tell_seconds)
    world = KeysSimulationSettings(4, ConsumerCapacity(40.0, still), poll_seconds=0.1)
    run = OrderedSimulation(
        stream(seed),
        world,
        Drawn(seed, 4),
        publish_seconds=0.4,
        delays=pace,
        settings=OrderingConfig(run_records=run_records),
    )
    found = run.run()
    assert found.overtaken == 0
    assert min(done - at for done, at in zip(found.done, found.stream.at, strict=True)) > 0
    assert min(found.held) >= 0


def test_bad_streams_are_refused() -> None:
    """Each with what is wrong about it."""
    with pytest.raises(InputError, match="0 times and 0 keys"):
        KeyStream([], [], [])
    with pytest.raises(InputError, match="descend"):
        KeyStream([1.0, 0.5], [0, 0], [b"a"])
    with pytest.raises(InputError, match="not one of 1"):
        KeyStream([1.0], [1], [b"a"])
    with pytest.raises(InputError, match="0 records a second"):
        ConsumerCapacity(0)


@pytest.mark.parametrize("plans", [False, True])
def test_the_guards_work_depends_on_records_and_not_on_time(plans: bool) -> None:
    """Two hundred records in two seconds, and in half an hour: consumers act once something has happened."""
    settings = KeysSettings(epsilon=(0.1,))
    for stretch in (1.0, 1000.0):
        made, world = stream(3), KeysSimulationSettings(4, ConsumerCapacity(40.0 / stretch))
        made = replace(made, at=[at * stretch for at in made.at])
        table = planned_table(KEYS, [34.0, *[3.3] * 20], settings, world)
        publisher = PeriodicPlanner(KEYS, 0.5 * stretch, settings, world) if plans else FixedTable(table)
        run = OrderedSimulation(made, world, publisher, publish_seconds=0.01)
        found = run.run()
        assert found.overtaken == 0
        assert run.tables >= 1
        assert run._number < 40 * len(made.at), stretch
