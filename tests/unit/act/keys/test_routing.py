"""Routing tables carried out: added partitions, publication, followers, earlier places, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.keys_world import ORDERS, PLACE, World, a_plan, carried_out
from trimtab.act.keys.executor import prepare
from trimtab.act.keys.machine import settled
from trimtab.act.keys.state import KeyClient, KeyConsumerGroup, KeysObservation
from trimtab.model.errors import ActError
from trimtab.model.keys import reverted
from trimtab_common.errors import InputError
from trimtab_keys.core.routing import Route, RoutingTable


def test_a_table_is_published_followed_and_settled(tmp_path: Path) -> None:
    """First with the earlier places of all that moves; without them once what lay there is committed."""
    world, plan = World(), a_plan()
    state = carried_out(world, plan, tmp_path)
    assert (state.status, state.version) == ("finished", 2)
    first, second = world.tables
    assert first.keys[b"ann"].earlier == (PLACE,)
    assert len(first.keys[b"ann"].partitions) == 2
    assert {group: route.earlier for group, route in first.groups.items()} == {
        int(move.name): move.before for move in plan.moves[1:]
    }
    assert second == replace(settled(first), version=2, passed=(100,) * 4)
    assert not any(route.earlier for route in (*second.groups.values(), *second.keys.values()))


def test_a_table_states_the_offsets_at_its_publication(tmp_path: Path) -> None:
    """Committed, or before the log begins; of partitions that are just being added nothing yet."""
    seen = KeysObservation(
        "here", "id", None, (0, 7, 0), (9, 9, 9), "billing", (KeyConsumerGroup("billing", {0: 5}),)
    )
    assert seen.passed == (5, 7, 0)
    world = World()
    carried_out(world, a_plan(max_partitions=5, capacity=20.0), tmp_path)
    first, second = world.tables
    assert first.partitions == 5
    assert len(first.passed) == 5
    assert max(first.passed) <= 100
    assert second.passed == (100,) * 5


def test_the_topic_of_tables_is_made_first(tmp_path: Path) -> None:
    """It is unknown before; a consumer that does not keep order is awaited, and nothing
    is published.
    """
    world = World()
    world.there = False
    assert carried_out(world, a_plan(), tmp_path).status == "finished"
    world = World()
    world.there = world.wrapped = False
    (tmp_path / "two").mkdir()
    state = carried_out(world, a_plan(), tmp_path / "two")
    assert (state.status, world.tables) == ("stopped", [])
    assert "member m1 of group billing would break the order" in state.reason


def test_added_partitions_are_there_before_a_table_names_them(tmp_path: Path) -> None:
    """Nothing is published while no consumer has them: the execution ends, and names the
    missing partitions.
    """
    world = World()
    world.unseen_partitions = True
    state = carried_out(world, a_plan(max_partitions=8, capacity=50.0), tmp_path)
    assert (state.status, world.tables, world.partitions) == ("incomplete", [], 6)
    assert "no consumer is seen to have partitions 4, 5" in state.records[0].reason
    assert state.records[1].reason == "the step before ended as failed"


def test_added_partitions_are_used(tmp_path: Path) -> None:
    """Six instead of four, assigned to the consumer, then used in the table."""
    world = World()
    state = carried_out(world, a_plan(max_partitions=8, capacity=50.0), tmp_path)
    assert (state.status, world.partitions) == ("finished", 6)
    assert world.tables[0].partitions == 6
    assert {4, 5} <= {part for route in world.tables[0].groups.values() for part in route.partitions}


def test_a_killed_process_is_ignored_after_its_heartbeats_expire(tmp_path: Path) -> None:
    """With many processes each sends heartbeats rarely, and they expire later: no step fails before."""
    world = World()
    world.killed, world.killed_looks = (KeyClient("p9", "producer", 0, True, lasting_seconds=100.0),), 180
    state = carried_out(world, a_plan(), tmp_path, follow_timeout_seconds=30.0)
    assert (state.status, world.killed_looks < 0) == ("finished", True)
    world = World()
    world.killed, world.killed_looks = (KeyClient("p9", "producer", 0, True, lasting_seconds=100.0),), 10**6
    (tmp_path / "two").mkdir()
    state = carried_out(world, a_plan(), tmp_path / "two", follow_timeout_seconds=30.0)
    assert state.status == "incomplete"
    assert "producer p9 follows 0, for 100 s" in state.records[0].reason


def test_a_producer_that_does_not_follow_is_named(tmp_path: Path) -> None:
    """A producer goes by the plain hash: the execution ends, the earlier places stay in the table."""
    world = World()
    world.stuck = "the topic of tables cannot be read"
    state = carried_out(world, a_plan(), tmp_path)
    assert state.status == "incomplete"
    assert "producer p1 follows 1, by the plain hash: the topic of tables cannot" in state.records[0].reason
    assert len(world.tables) == 1


def test_earlier_places_stay_while_consumers_have_not_passed_them(tmp_path: Path) -> None:
    """A consumer that stalls: the table is in force, and what it settles is left for later."""
    world = World()
    world.stalled = True
    state = carried_out(world, a_plan(), tmp_path)
    assert (state.status, len(world.tables)) == ("incomplete", 1)
    assert [str(one.state) for one in state.records] == ["done", "failed"]


def test_the_routes_of_a_faster_publisher_are_not_lost(tmp_path: Path) -> None:
    """Another table was published between observation and publication: its routes stay."""
    world = World()
    world.peers = 1
    state = carried_out(world, a_plan(), tmp_path)
    assert state.status == "finished"
    assert world.tables[-1].groups[900].partitions == (3,)


def test_a_plan_is_taken_back(tmp_path: Path) -> None:
    """All routes as before: the plain hash again, under a higher version; the same once more does nothing."""
    world, plan = World(), a_plan()
    carried_out(world, plan, tmp_path)
    again = prepare(plan, world.observe(ORDERS), False)
    assert again.steps == ()
    (tmp_path / "back").mkdir()
    state = carried_out(world, reverted(plan), tmp_path / "back")
    assert state.status == "finished"
    assert (world.tables[-1].groups, world.tables[-1].keys) == ({}, {})
    assert world.tables[-1].version == 4


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"wrapped": False}, "member m1 of group billing would break the order of keys that move"),
        ({"sends_heartbeats": False}, "nobody is seen to keep order"),
        ({"topic_id": "another"}, "deleted and made anew"),
        ({"partitions": 5}, "somebody has added some"),
    ],
)
def test_a_plan_that_would_break_order_is_rejected(
    change: dict[str, object], told: str, tmp_path: Path
) -> None:
    """Before anything is published."""
    world = World()
    for name, value in change.items():
        setattr(world, name, value)
    with pytest.raises(ActError, match=told):
        carried_out(world, a_plan(), tmp_path)
    assert world.tables == []


def test_routes_that_changed_since_are_refused_or_left_out() -> None:
    """A group of the plan goes elsewhere by now."""
    world, plan = World(), a_plan()
    group = int(plan.moves[1].name)
    world.tables.append(RoutingTable(1, 4, 4, {group: Route((PLACE,)), 5: Route((0,))}))
    other = next(one for one in range(4) if one not in (*plan.moves[1].before, *plan.moves[1].after))
    world.tables[0] = RoutingTable(1, 4, 4, {group: Route((other,))})
    seen = world.observe(ORDERS)
    with pytest.raises(ActError, match=f"move_group/{group} goes to {other} by table 1"):
        prepare(plan, seen, False)
    (step, _) = prepare(plan, seen, True).steps
    assert f"move_group/{group}" not in step.routes


def test_a_hash_names_no_key() -> None:
    """A manually edited plan that splits a key known only by its hash is rejected by name."""
    seen = World().observe(ORDERS)
    with pytest.raises(InputError, match="key hmac:12 is a hash"):
        prepare(a_plan(key="hmac:12"), seen, False)
