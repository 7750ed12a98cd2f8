"""A topic that is deleted or made anew meanwhile, and tables that are torn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.keys_world import CODECS, ORDERS, PLACE, Clock, World, a_plan, carried_out, runner
from trimtab.act.journal import Journal
from trimtab.act.keys.executor import EXECUTOR, observe, prepare, warnings
from trimtab.act.keys.machine import in_force
from trimtab.act.keys.state import (
    KeysExecutionSettings,
    KeysExecutionState,
    TableLocation,
    TablePublishingSettings,
)
from trimtab.model.errors import ActError
from trimtab_keys.core.routing import Route, RoutingTable

TORN = "table on trimtab-tables: is torn; publish it again with --set execution.keys.overwrite_invalid=true"


def _gone(world: World) -> None:
    world.topic_id = ""


def _anew(world: World) -> None:
    world.topic_id = "another id"


def _torn(world: World) -> None:
    world.damaged = TORN


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_gone, "there is no topic 'orders' any more, and the plan was made for that of id id of orders"),
        (_anew, "topic orders has the id another id, and the plan is for id of orders: it was deleted"),
        (_torn, "is torn; publish it again"),
    ],
)
@pytest.mark.parametrize("tables", [0, 1])
def test_a_loss_during_the_execution_ends_it(
    change: Callable[[World], None], told: str, tables: int, tmp_path: Path
) -> None:
    """Before or after a publication: no further table is published, and one sentence states the reason."""
    world = World()

    def watch(state: KeysExecutionState) -> None:
        if len(world.tables) == tables:
            change(world)

    state = carried_out(world, a_plan(), tmp_path, watch)
    assert (state.status, len(world.tables)) == ("incomplete", tables)
    assert told in state.records[-1].reason
    assert state.records[-1].state == "failed"


def test_a_topic_recreated_before_the_publication_gets_no_table(tmp_path: Path) -> None:
    """The order to publish names the topic that the plan is for."""
    world = World()
    publish = world.publish

    def late(place: TableLocation, topic_id: str, table: RoutingTable) -> int | None:
        _anew(world)
        return publish(place, topic_id, table)

    world.publish = late  # type: ignore[method-assign]
    state = carried_out(world, a_plan(), tmp_path)
    assert (state.status, world.tables) == ("incomplete", [])


def test_one_broker_that_lags_ends_nothing(tmp_path: Path) -> None:
    """It does not know the topic for a moment (`metadata_lag_seconds`)."""
    world = World()
    states = []

    def watch(state: KeysExecutionState) -> None:
        states.append(state)
        world.topic_id = "" if 2 < len(states) < 9 else "id of orders"

    assert carried_out(world, a_plan(), tmp_path, watch).status == "finished"
    assert any(state.lost for state in states)


@pytest.mark.parametrize("change", [_gone, _anew, _torn])
def test_an_execution_with_a_lost_topic_can_be_cancelled(
    change: Callable[[World], None], tmp_path: Path
) -> None:
    """The process was killed; the journal says `running` until a cancel ends it."""
    world, clock = World(), Clock()
    plan = a_plan()
    ready = prepare(plan, world.observe(ORDERS), False)
    state = EXECUTOR.new_execution(ready.cluster_id, ready.steps, KeysExecutionSettings(), clock())
    change(world)
    with Journal(tmp_path / "journal.sqlite", CODECS) as journal:
        number = journal.create(state, "orders@here", "{}", "test", {})
        journal.request(number, "cancel", "you", clock())
        kept = journal.state(number)
        assert isinstance(kept, KeysExecutionState)
        assert runner(world, journal, number, kept, clock).run().status == "cancelled"
        assert journal.entry(number).status == "cancelled"


def test_a_plan_for_a_missing_topic_is_rejected() -> None:
    """Before an execution begins."""
    world = World()
    _gone(world)
    with pytest.raises(ActError, match="there is no topic 'orders' any more"):
        observe(world, a_plan())


def test_a_journal_without_the_topics_id_ends_clearly(tmp_path: Path) -> None:
    """An older version wrote it: the topic is unknown."""
    world, clock = World(), Clock()
    ready = prepare(a_plan(), world.observe(ORDERS), False)
    old = replace(ORDERS, topic_id="")
    steps = tuple(replace(step, place=old) for step in ready.steps)
    state = EXECUTOR.new_execution(ready.cluster_id, steps, KeysExecutionSettings(), clock())
    codec = CODECS.of("keys")
    told = codec.step_to_json(state.records[0])
    del told["place"]["topic_id"]
    read = codec.record_from_json(told, codec.record_to_json(state.records[0]))
    assert read == state.records[0]
    observe = world.observe
    world.observe = lambda place: observe(ORDERS)  # type: ignore[method-assign]
    with Journal(tmp_path / "journal.sqlite", CODECS) as journal:
        number = journal.create(state, "orders@here", "{}", "test", {})
        ended = runner(world, journal, number, state, clock).run()
    assert (ended.status, world.tables) == ("incomplete", [])
    assert "since an older trimtab wrote it: apply the plan again" in ended.records[0].reason


def test_a_torn_table_is_replaced_on_request(tmp_path: Path) -> None:
    """Rejected with the name of the setting; with it, published above all reported versions, and then
    settled.
    """
    world = World()
    world.damaged, world.newest = TORN, 7
    ready = prepare(a_plan(), world.observe(ORDERS), False)
    with pytest.raises(
        ActError, match="topic orders: table on .* --set execution.keys.overwrite_invalid=true"
    ):
        warnings(world, ready, KeysExecutionSettings(), None)
    assert (
        warnings(
            world,
            ready,
            KeysExecutionSettings(publishing=TablePublishingSettings(overwrite_invalid=True)),
            None,
        )
        == []
    )
    state = carried_out(world, a_plan(), tmp_path, overwrite_invalid=True)
    first, second = world.tables
    assert (state.status, first.version, second.version) == ("finished", 8, 9)
    assert first.keys[b"ann"].earlier == (0, 1, 2, 3)
    assert first.groups[900] == Route((0,), (0, 1, 2, 3))
    assert 900 not in second.groups


def test_routes_before_a_torn_table_stay(tmp_path: Path) -> None:
    """If the previous table is readable it stays in force, and only the plan's changes apply."""
    world = World()
    world.tables = [RoutingTable(3, 4, 4, {900: Route((3,))})]
    world.damaged, world.newest = TORN, 5
    assert carried_out(world, a_plan(), tmp_path, overwrite_invalid=True).status == "finished"
    assert world.tables[1].version == 6
    assert world.tables[1].groups[900] == Route((3,))
    assert world.tables[1].keys[b"ann"].earlier == (PLACE,)
    _torn(world)
    again = prepare(a_plan(), world.observe(ORDERS), False)
    assert [str(step.kind) for step in again.steps] == ["publish", "settle"]
    (tmp_path / "again").mkdir()
    assert carried_out(world, a_plan(), tmp_path / "again", overwrite_invalid=True).status == "finished"
    assert world.tables[-1].groups == world.tables[2].groups
    assert (world.damaged, len(world.tables)) == ("", 4)


def test_a_torn_table_over_other_partitions_is_refused() -> None:
    """Its hash divided by three: over four, every key would change its group."""
    world = World()
    seen = replace(world.observe(ORDERS), damaged=TORN, base=3)
    with pytest.raises(ActError, match="its hash divides by 3"):
        prepare(a_plan(), seen, False)


def test_versions_that_clients_report_are_exceeded(tmp_path: Path) -> None:
    """No table is there, but producers follow version 5 of one: the next is version 6."""
    world = World()
    world.newest = 5
    state = carried_out(world, a_plan(), tmp_path)
    assert (state.status, [one.version for one in world.tables]) == ("finished", [6, 7])
    assert in_force(world.observe(ORDERS), 4).version == 7
