"""What brokers tell of a topic, of the groups that read it, and of what lies where its tables are."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support.fake_keyed_topic import CONNECTION, TABLES, FakeGroup, FakeKafka
from trimtab.systems.kafka.keyed_topic import ConsumerGroup, KeyedTopic, PublishedRouting
from trimtab_common.errors import ConnectError, InputError
from trimtab_keys.core.routing import Route, RoutingTable
from trimtab_keys.format import ClientHeartbeat, PublishedTable, table_bytes

COMMITS = {("orders", 0): 5, ("orders", 1): 7}
ID = "id of orders"


def seen(**groups: FakeGroup) -> dict[str, ConsumerGroup]:
    """The groups of those that are taken for readers of the topic."""
    return {one.name: one for one in FakeKafka(groups).topic().groups(range(2))}


def a_text(version: int, topic_id: str = ID, **groups: tuple[int, ...]) -> bytes:
    """A published table of two partitions."""
    routes = {int(name[1:]): Route(places) for name, places in groups.items()}
    return table_bytes(PublishedTable("orders", topic_id, RoutingTable(version, 2, 2, routes)))


def a_beat(version: int, topic_id: str = ID, process: str = "p1") -> ClientHeartbeat:
    """A producer's."""
    return ClientHeartbeat(
        process=process, role="producer", client="c", topic="orders", topic_id=topic_id, at=0.0,
        version=version, partitions=2, wrapped=True,
    )  # fmt: skip


def test_every_group_that_reads_the_topic_is_listed() -> None:
    """By its commits or by its members, idle ones among them; others are left out."""
    found = seen(
        billing=FakeGroup(COMMITS, {"m1": [0], "m2": [1], "m3": []}),
        audit=FakeGroup({}, {"a1": [0, 1]}),
        down=FakeGroup({("orders", 1): 3}, state="Empty"),
        other=FakeGroup({("else", 0): 5}, {"o1": None}),
    )
    assert sorted(found) == ["audit", "billing", "down"]
    assert found["billing"].assigned == {"m1": {0}, "m2": {1}, "m3": frozenset()}
    assert found["billing"].committed == {0: 5, 1: 7}
    assert (found["down"].committed, found["down"].assigned) == ({1: 3}, {})
    assert not any(one.rebalancing or one.unlisted_reason for one in found.values())


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_a_rebalancing_group_is_distinguished(state: str) -> None:
    """During a rebalance brokers do not report members' topics; a group with commits elsewhere only does not
    count.
    """
    found = seen(
        billing=FakeGroup(COMMITS, {"m1": [0]}, state),
        new=FakeGroup({}, {"n1": [0]}, state),
        other=FakeGroup({("else", 0): 5}, {"o1": None}, state),
    )
    assert sorted(found) == ["billing", "new"]
    assert all(one.rebalancing and not one.assigned for one in found.values())


@pytest.mark.parametrize(
    ("group", "told"),
    [
        (FakeGroup(COMMITS, {"m1": [0]}, kind="consumer"), "KIP-848"),
        (FakeGroup({}, {"m1": [0]}, kind="consumer"), "KIP-848"),
        (FakeGroup(COMMITS, {"m1": [0]}, kind="streams"), "of type streams"),
        (FakeGroup(COMMITS, error="[Error 30] GroupAuthorizationFailedError"), "cannot be described"),
        (FakeGroup(COMMITS, error="[Error 69] GroupIdNotFoundError"), "cannot be described"),
        (FakeGroup(COMMITS, state="Dead", kind=""), "calls it dead"),
    ],
)
def test_a_group_with_unknown_members_is_distinguished(group: FakeGroup, told: str) -> None:
    """Of another protocol, refused, or unknown to its own broker."""
    assert told in seen(billing=group)["billing"].unlisted_reason


@pytest.mark.parametrize(
    "group",
    [
        FakeGroup({("else", 0): 5}, {"m1": [0]}, kind="consumer"),
        FakeGroup({}, {}, kind="consumer", state="Empty"),
        FakeGroup({}, {"m1": [0]}, kind="share"),
        FakeGroup({}, error="[Error 69] GroupIdNotFoundError", state="Dead"),
    ],
)
def test_groups_that_have_no_order_here_are_no_readers(group: FakeGroup) -> None:
    """Of other topics, without order, missing since they were listed."""
    assert seen(other=group) == {}


def test_a_named_group_is_always_read() -> None:
    """Though it reads nothing."""
    kafka = FakeKafka({"billing": FakeGroup(COMMITS, {"m1": [0, 1]})})
    assert [one.name for one in kafka.topic().groups(range(2), "gone")] == ["billing", "gone"]
    assert kafka.topic().consumers("gone") == ConsumerGroup("gone")


def test_with_two_groups_a_name_is_required() -> None:
    """One alone needs no name."""
    kafka = FakeKafka({"billing": FakeGroup(COMMITS), "audit": FakeGroup({}, {"a1": [0, 1]})})
    with pytest.raises(InputError, match=r"is read by 2 consumer groups \(audit, billing\): say whose load"):
        kafka.topic().consumers()
    assert kafka.topic().consumers("audit").assigned == {"a1": {0, 1}}
    del kafka.groups["audit"]
    assert kafka.topic().consumers().name == "billing"
    kafka.groups.clear()
    assert kafka.topic().consumers() == ConsumerGroup()


def test_the_topic_of_tables_gets_a_partition_for_heartbeats() -> None:
    """A topic with a single partition would be read by all processes, including heartbeats."""
    kafka = FakeKafka()
    assert kafka.topic().has_tables()
    kafka.topic().make_tables_topic()
    assert kafka.added == []
    kafka.tables_partitions = 1
    assert not kafka.topic().has_tables()
    kafka.topic().make_tables_topic()
    assert kafka.added == [{TABLES: 2}]


def test_a_missing_topic_is_distinguished_from_an_unknown_one() -> None:
    """Its absence is an answer; a broker that does not know its leader yet gives none."""
    kafka = FakeKafka()
    assert kafka.topic().describe().ends == {0: 100, 1: 100}
    kafka.code = 5
    with pytest.raises(ConnectError, match="LeaderNotAvailable"):
        kafka.topic().find()
    kafka.code, kafka.topic_id = 0, ""
    assert kafka.topic().find() is None
    with pytest.raises(InputError, match="there is no topic 'orders'"):
        kafka.topic().describe()


def test_a_damaged_table_is_distinguished_from_a_missing_one() -> None:
    """The hidden routes stay in force; its version and base are recovered, and so are heartbeats."""
    kafka = FakeKafka()
    assert kafka.topic().published(ID) == PublishedRouting()
    kafka.log = [a_text(7)[:-20]]
    found = kafka.topic().published(ID)
    assert (found.table, found.base, found.newest) == (None, 2, 7)
    assert "torn or no JSON" in found.damaged
    assert "--set execution.keys.overwrite_invalid=true" in found.damaged
    kafka.log = [a_text(6, g5=(0,)), b"x"]
    found = kafka.topic().published(ID)
    assert found.table == RoutingTable(6, 2, 2, {5: Route((0,))})
    assert (bool(found.damaged), found.base, found.newest) == (True, 0, 6)
    kafka.heartbeats = [(a_beat(9), 0.0), (a_beat(11, "id of before", "p2"), time.time())]
    assert (kafka.topic().published(ID).newest, kafka.topic().published(ID).heartbeats) == (9, ())


def test_a_number_at_which_a_text_was_cut_off_does_not_count() -> None:
    """It may have had more digits."""
    whole = a_text(123)
    cut = whole[: whole.index(b"123") + 2]
    kafka = FakeKafka(log=[cut])
    assert kafka.topic().published(ID).newest == 0
    kafka.log = [whole.replace(b"123", b"%d" % 2**63)]
    assert kafka.topic().published(ID).newest == 0


def test_a_table_of_a_topic_that_was_deleted_is_nobodys() -> None:
    """As if there were none, but for its version; published over one of the topic as it is, it is damage."""
    kafka = FakeKafka(log=[a_text(4, "id of before")])
    found = kafka.topic().published(ID)
    assert (found.table, found.damaged, found.newest) == (None, "", 4)
    kafka.log = [a_text(5), a_text(4, "id of before")]
    found = kafka.topic().published(ID)
    assert found.table is not None
    assert found.table.version == 5
    assert "id of before was published over" in found.damaged


def test_two_tables_of_one_version_are_rivals() -> None:
    """Or of a higher one that was published over; not where routes are the same, nor below a newer one."""
    kafka = FakeKafka(log=[a_text(1, g5=(0,)), a_text(1, g7=(0,))])
    found = kafka.topic().published(ID)
    assert found.table == RoutingTable(1, 2, 2, {7: Route((0,))})
    assert found.foreign_table == RoutingTable(1, 2, 2, {5: Route((0,))})
    kafka.log = [a_text(1), a_text(2, g5=(0,)), a_text(1, g7=(0,))]
    found = kafka.topic().published(ID)
    assert found.foreign_table is not None
    assert (found.foreign_table.version, found.newest) == (2, 2)
    kafka.log += [a_text(3)]
    assert kafka.topic().published(ID).foreign_table is None
    kafka.log = [a_text(1, g5=(0,)), a_text(1, g5=(0,))]
    assert kafka.topic().published(ID).foreign_table is None


def test_a_damaged_file_is_reported_as_well(tmp_path: Path) -> None:
    """A table that was edited by hand."""
    path = tmp_path / "table.json"
    topic = KeyedTopic(CONNECTION, FakeKafka(), "orders", str(path))
    assert topic.published(ID) == PublishedRouting()
    path.write_bytes(a_text(3, g5=(0,)).replace(b'"version": 3', b'"version": 4'))
    found = topic.published(ID)
    assert (found.table, found.newest) == (None, 4)
    assert "checksum" in found.damaged
