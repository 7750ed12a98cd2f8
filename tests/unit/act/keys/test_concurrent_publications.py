"""Two trimtabs on one topic, and executions that are stopped, cancelled, killed and gone on with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.fake_keyed_topic import CONNECTION, FakeKafka
from support.keys_world import CODECS, ORDERS, PLACE, Clock, World, a_plan, carried_out, runner
from support.mortal import MortalJournal
from trimtab.act.control import Runner
from trimtab.act.execution.port import PortError
from trimtab.act.executor import StateCodecs
from trimtab.act.journal import Journal
from trimtab.act.keys.executor import EXECUTOR, prepare
from trimtab.act.keys.machine import KeysMachine, joined, with_routes
from trimtab.act.keys.state import (
    KeysExecutionSettings,
    KeysExecutionState,
    PublishTable,
    RoutingStep,
    RoutingStepKind,
    TableLocation,
    TopicDescribed,
)
from trimtab.act.lease import Lease, holder_text, this_process
from trimtab.model.errors import ActError
from trimtab.systems.kafka.keyed_topic import TablesPort
from trimtab_keys.core.routing import Route, RoutingTable
from trimtab_keys.format import PublishedTable, table_bytes

TWO = TableLocation("orders", "kafka:trimtab-tables", "", "id of orders")


def a_state(world: World, clock: Clock) -> KeysExecutionState:
    """An execution before its first event."""
    ready = prepare(a_plan(), world.observe(ORDERS), False)
    return EXECUTOR.new_execution(ready.cluster_id, ready.steps, KeysExecutionSettings(), clock())


def test_ends_are_read_after_producers_versions() -> None:
    """A producer may write by its old table until its heartbeat reports the new one: these offsets must be
    passed too.
    """
    kafka = FakeKafka()
    kafka.while_read = lambda: kafka.ends.__setitem__(0, 150)
    assert kafka.port().observe(TWO).ends == (150, 100)
    kafka.while_read = lambda: setattr(kafka, "topic_id", "another")
    assert kafka.port().observe(TWO).topic_id == "another"
    kafka.while_read = lambda: setattr(kafka, "topic_id", "")
    assert kafka.port().observe(TWO).topic_id == ""


def test_of_two_concurrent_publishers_one_detects_the_conflict() -> None:
    """Both read version 0, and one writes in between: the later writer detects it and merges both."""
    kafka = FakeKafka()
    plain = RoutingTable(0, 2, 2)
    one = with_routes(plain, {"move_group/4": (1,)}, 2)
    other = with_routes(plain, {"move_group/7": (0,)}, 2)
    second = kafka.port()
    first = kafka.port(lambda: told.append(second.publish(TWO, "id of orders", other)))
    told: list[int | None] = []
    assert first.publish(TWO, "id of orders", one) is None
    assert told == [1]
    seen = second.observe(TWO)
    assert (seen.table, seen.foreign_table) == (one, other)
    both = joined(one, other)
    assert both.groups == {4: Route((1,), (0, 1)), 7: Route((0,), (0, 1))}
    step = RoutingStep(1, RoutingStepKind.PUBLISH, TWO, 2, 2, {"move_group/4": (1,)})
    state = EXECUTOR.new_execution("here", (step,), KeysExecutionSettings(), 0.0)
    state, order = KeysMachine.decide(KeysMachine.absorb(state, TopicDescribed(1.0, seen)))
    assert isinstance(order, PublishTable)
    assert (order.table.version, order.table.groups) == (2, both.groups)
    assert second.publish(TWO, "id of orders", order.table) == 2
    assert second.observe(TWO).foreign_table is None


def test_an_overwritten_publication_is_detected_by_reading_back() -> None:
    """Another record was appended after ours before we read it back; or one of a deleted topic."""
    kafka = FakeKafka()
    table = with_routes(RoutingTable(0, 2, 2), {"move_group/4": (1,)}, 2)
    other = with_routes(RoutingTable(0, 2, 2), {"move_group/7": (0,)}, 2)
    port = kafka.port()
    topic = port._topic(TWO)

    def late(new: PublishedTable) -> None:
        kafka.log += [table_bytes(new), table_bytes(PublishedTable("orders", "id of orders", other))]

    topic.publish = late  # type: ignore[method-assign]
    port._topic = lambda place: topic  # type: ignore[method-assign]
    assert port.publish(TWO, "id of orders", table) is None
    assert kafka.port().publish(TWO, "id of before", replace(other, version=2)) is None
    assert kafka.added == []
    kafka.port().add_partitions(replace(TWO, topic_id="id of before"), 3)
    assert kafka.added == []
    kafka.port().add_partitions(TWO, 3)
    assert kafka.added == [{"orders": 3}]
    kafka.topic_id = ""
    assert kafka.port().publish(TWO, "id of orders", table) is None
    assert kafka.port().observe(TWO).topic_id == ""


def test_versions_are_compared_with_all_that_is_known() -> None:
    """A table of a topic of before stands there under version 4: nothing below 5 is published, then it is."""
    old = PublishedTable("orders", "id of before", RoutingTable(4, 2, 2))
    kafka = FakeKafka(log=[table_bytes(old)])
    assert kafka.port().publish(TWO, "id of orders", RoutingTable(1, 2, 2)) is None
    seen = kafka.port().observe(TWO)
    assert (seen.table, seen.damaged, seen.newest) == (None, "", 4)
    assert kafka.port().publish(TWO, "id of orders", RoutingTable(5, 2, 2)) == 5


def test_a_torn_table_is_published_over() -> None:
    """By the version that its text has."""
    kafka = FakeKafka(log=[table_bytes(PublishedTable("orders", "id of orders", RoutingTable(4, 2, 2)))[:-9]])
    seen = kafka.port().observe(TWO)
    assert (seen.table, seen.base, seen.newest) == (None, 2, 4)
    assert kafka.port().publish(TWO, "id of orders", RoutingTable(5, 2, 2)) == 5
    assert kafka.port().observe(TWO).damaged == ""


def test_an_unreadable_local_file_is_reported_as_an_answer(tmp_path: Path) -> None:
    """Not a crash that leaves the journal at `running`: tables are in a file whose place is a folder."""
    port = TablesPort(CONNECTION, FakeKafka())
    with pytest.raises(PortError, match="Refused: .* is a folder"):
        port.observe(replace(TWO, tables=str(tmp_path)))


def test_a_table_that_was_published_over_is_published_again(tmp_path: Path) -> None:
    """A slower publisher wrote the same version without our routes, before any client followed ours."""
    world = World()
    lost: list[RoutingTable] = []

    def watch(state: KeysExecutionState) -> None:
        if len(world.tables) == 1 and not lost:
            lost.append(world.tables.pop())
            world.tables.append(RoutingTable(1, 4, 4, {900: Route((3,), (0,))}))

    state = carried_out(world, a_plan(), tmp_path, watch)
    assert state.status == "finished"
    assert world.tables[-1].groups[900] == Route((3,))
    assert b"ann" in world.tables[-1].keys


def test_routes_published_meanwhile_are_not_settled_too_early(tmp_path: Path) -> None:
    """Another table followed ours: records written until all clients follow that one must be passed too."""
    world, passed = World(), [50]
    world.billing = lambda group: replace(group, committed=dict.fromkeys(range(4), passed[0]))

    def watch(state: KeysExecutionState) -> None:
        if state.records[0].state == "done" and len(world.tables) == 1:
            world.tables.append(with_routes(world.tables[0], {"move_group/900": (3,)}, 4))
            world.changed_at, world.slowness = world.looks, 20
            passed[0] = 150
        if len(world.tables) == 2:
            world.end = 200 + 5 * min(20, world.looks - world.changed_at)
            if state.ends_version == 2:
                assert state.ends == (295,) * 4  # as they were at the look before
                passed[0] = 300
        assert len(world.tables) < 3 or passed[0] == 300

    state = carried_out(world, a_plan(), tmp_path, watch)
    assert (state.status, state.ends_version) == ("finished", 2)
    assert world.tables[-1].version == 3


def test_own_routes_missing_from_the_table_are_not_settled(tmp_path: Path) -> None:
    """Another process removed them: the rest of the execution ends, and its table stays."""
    world = World()
    world.stalled = True

    def watch(state: KeysExecutionState) -> None:
        if state.records[0].state == "done" and len(world.tables) == 1:
            world.tables.append(RoutingTable(2, 4, 4))

    state = carried_out(world, a_plan(), tmp_path, watch)
    assert (state.status, len(world.tables)) == ("incomplete", 2)
    assert state.records[1].reason == "another table without these routes was published since"


@pytest.mark.parametrize(("ask", "status"), [(Runner.stop, "stopped"), (Runner.cancel, "cancelled")])
def test_a_published_table_stays_and_the_rest_is_left(
    ask: Callable[[Runner[KeysExecutionState]], None], status: str, tmp_path: Path
) -> None:
    """A table may be followed already; a stop waits until it is, and the earlier places are a resume's."""
    world, clock = World(slowness=9), Clock()
    with Journal(tmp_path / "journal.sqlite", CODECS) as journal:
        state = a_state(world, clock)
        number = journal.create(state, "orders@here", "{}", "test", {})

        def watch(state: KeysExecutionState) -> None:
            if len(world.tables) == 1 and state.status == "running":
                ask(running)

        running = runner(world, journal, number, state, clock, watch=watch)
        ended = running.run()
        assert (ended.status, len(world.tables)) == (status, 1)
        first = "done" if status == "stopped" else "pending"
        assert [str(one.state) for one in ended.records] == [first, "pending"]
        again = journal.state(number)
        assert isinstance(again, KeysExecutionState)
        assert runner(world, journal, number, again, clock).run().status == "finished"
    assert [one.version for one in world.tables] == [1, 2]


class Died(Exception):
    """The process is no more."""


def _die() -> None:
    raise Died


@pytest.mark.parametrize("before", [True, False])
def test_a_killed_execution_is_resumed(before: bool, tmp_path: Path) -> None:
    """At every write of the journal: the same two tables, published once each, and the same end."""
    writes = 1
    while True:
        folder = tmp_path / str(writes)
        folder.mkdir()
        world, clock = World(), Clock()
        codecs: StateCodecs = CODECS
        with MortalJournal(folder / "journal.sqlite", codecs, writes, before, _die) as journal:  # type: ignore[arg-type]
            state = a_state(world, clock)
            try:
                number = journal.create(state, "orders@here", "{}", "test", {})
                runner(world, journal, number, state, clock).run()
                assert writes > 5
                return
            except Died:
                pass
        with Journal(folder / "journal.sqlite", codecs) as journal:
            if not journal.entries():
                assert world.tables == []
            else:
                kept = journal.state(1)
                assert isinstance(kept, KeysExecutionState)
                assert runner(world, journal, 1, kept, clock).run().status == "finished"
                assert [one.version for one in world.tables] == [1, 2]
                assert world.tables[0].keys[b"ann"].earlier == (PLACE,)
        writes += 1


def test_a_second_trimtab_is_rejected_and_a_lost_lease_publishes_nothing(tmp_path: Path) -> None:
    """The claim is in the cluster; it is read before every change."""
    world, clock = World(), Clock()

    def a_lease(folder: str) -> Lease:
        return Lease(world, tmp_path / folder, "here", 60.0, clock, clock.sleep, folder)

    mine = a_lease("one")
    mine.acquire()
    with pytest.raises(ActError, match="is acting on cluster here"):
        a_lease("two").acquire()
    with Journal(tmp_path / "journal.sqlite", CODECS) as journal:
        state = a_state(world, clock)
        number = journal.create(state, "orders@here", "{}", "test", {})
        running = runner(world, journal, number, state, clock, mine)
        world.claims = {holder_text(this_process("another", clock()))}
        clock.sleep(2)
        with pytest.raises(ActError, match="has taken over cluster here"):
            running.run()
        assert world.tables == []
        assert journal.entry(number).status == "running"
        mine.release()
        world.claims = set()
        kept = journal.state(number)
        assert isinstance(kept, KeysExecutionState)
        again = a_lease("three")
        again.acquire()
        assert runner(world, journal, number, kept, clock, again).run().status == "finished"
        assert world.claims == set()
        again.release()
