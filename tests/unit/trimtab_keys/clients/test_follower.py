"""The thread beside an application, on a side connection that is made up."""

import threading
import time
from typing import Any, cast

import pytest

from trimtab_common.errors import SettingsError
from trimtab_keys.clients import table_router as module
from trimtab_keys.clients.metadata_connection import MetadataConnection, TopicDescription
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.clients.table_router import TableFollower
from trimtab_keys.core.routing import RoutingTable
from trimtab_keys.format import ClientHeartbeat, PublishedTable, read_heartbeat, table_bytes


class Side:
    """A topic that stays as it is; the topic of tables, where one is named, is empty."""

    def __init__(self, connection: object = None, topic: str = "t", tables_topic: str | None = None) -> None:
        self.closed, self.tables = False, 0 if tables_topic is None else 2

    def topic(self) -> TopicDescription:
        return TopicDescription("id", 3, self.tables)

    def close(self) -> None:
        self.closed = True


def beat() -> ClientHeartbeat:
    """Of a consumer."""
    return ClientHeartbeat(
        process="p",
        role="consumer",
        client="c",
        topic="t",
        topic_id="",
        at=0.0,
        version=0,
        partitions=3,
        wrapped=True,
    )


def test_tables_are_read_under_any_number_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that arrive faster than they are answered do not delay tables."""
    monkeypatch.setattr(module, "MetadataConnection", Side)
    looks = threading.Semaphore(0)

    def look(*_: object) -> None:
        looks.release()

    follower = TableFollower(RoutingConfig({}), "t", look, beat)

    def ask_again(side: MetadataConnection) -> None:
        time.sleep(0.001)
        follower.submit(ask_again)

    follower.start()
    follower.submit(ask_again)
    try:
        assert all(looks.acquire(timeout=30) for _ in range(4))
    finally:
        follower.stop()
    assert cast("Side", follower._side).closed


def test_failed_records_are_filled_although_no_table_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is filled in it; a topic of tables that is away must not leave places open."""

    class Away(Side):
        def read(self, *_: object) -> dict[bytes, bytes]:
            raise OSError("away")

        def write_record(self, *_: object) -> None:
            """Nobody hears it."""

    monkeypatch.setattr(module, "MetadataConnection", Away)
    looks = threading.Semaphore(0)

    def look(*_: object) -> str:
        looks.release()
        return "grown"

    follower = TableFollower(RoutingConfig({}, tables_topic="tables"), "t", look, beat)
    follower.start()
    try:
        assert all(looks.acquire(timeout=30) for _ in range(2))
        assert follower.trouble == "away; grown"
    finally:
        follower.stop()


class Tables(Side):
    """A topic of tables, and what was asked."""

    def __init__(self, tables: int) -> None:
        super().__init__()
        self.found, self.table = TopicDescription("id", 3, tables), b""
        self.looks = self.reads = 0
        self.heartbeats: list[ClientHeartbeat] = []

    def topic(self) -> TopicDescription:
        self.looks += 1
        return self.found

    def read(self, key: bytes) -> bytes | None:
        self.reads += 1
        return self.table or None

    def write_record(self, key: bytes, value: bytes, appended: Any) -> None:
        found = read_heartbeat(value)
        assert found is not None
        self.heartbeats.append(found)


def following(side: Tables, beat: Any = beat) -> tuple[TableFollower, list[float]]:
    """A follower that takes no turn by itself, and its clock."""
    now = [100.0]
    found = TableFollower(
        RoutingConfig({}, tables_topic="tables"), "t", lambda *_: None, beat, lambda: now[0]
    )
    found._side = side  # type: ignore[assignment]
    return found, now


def test_a_missing_topic_of_tables_is_checked_rarely() -> None:
    """Nothing is read from it or written to it, which would make it with one partition, or wait for it."""
    side = Tables(0)
    follower, now = following(side)
    for _ in range(20):
        follower._poll_and_report()
        now[0] += 0.2
    assert (side.looks, side.reads, side.heartbeats) == (2, 0, [])
    told = "is not there; publish with trimtab apply, or create it with 2 partitions, cleanup.policy=compact"
    assert f"{told} and segment.ms=60000" in str(follower.trouble)


def test_a_topic_of_tables_without_a_partition_for_heartbeats_is_read_all_the_same() -> None:
    """Tables are followed; missing heartbeats are reported."""
    side = Tables(1)
    side.table = table_bytes(PublishedTable("t", "id", RoutingTable(1, 3, 3)))
    follower, now = following(side)
    follower._poll_and_report()
    assert follower.table is not None
    assert "has 1 partition, expected 2" in str(follower.trouble)
    assert side.heartbeats == []
    side.found = TopicDescription("id", 3, 2)
    now[0] += 2
    follower._poll_and_report()
    assert (follower.trouble, len(side.heartbeats)) == (None, 1)


def test_a_table_with_an_added_partition_refreshes_the_topic_immediately() -> None:
    """However rare the refresh is otherwise: the table could not be followed before."""
    side = Tables(2)
    follower, now = following(side)
    follower._poll_and_report()
    side.found = TopicDescription("id", 4, 2)
    side.table = table_bytes(PublishedTable("t", "id", RoutingTable(1, 3, 4)))
    now[0] += 0.2
    follower._poll_and_report()
    assert follower.description == TopicDescription("id", 4, 2)
    now[0] += 0.2
    follower._poll_and_report()
    assert side.looks == 2


def test_brokers_that_do_not_answer_are_not_called_at_each_turn(caplog: pytest.LogCaptureFixture) -> None:
    """All processes would call, five times a second each; the failure is reported until it ends."""
    side = Tables(2)
    follower, now = following(side)
    follower._poll_and_report()

    def fails() -> TopicDescription:
        side.looks += 1
        raise OSError("away")

    side.topic = fails  # type: ignore[method-assign]
    for _ in range(20):
        now[0] += 0.2
        follower._poll_and_report()
    assert (side.looks, follower.trouble) == (3, "away")
    assert len(caplog.records) == 1
    assert side.reads == 21


def test_a_member_that_rejoined_is_reported_immediately() -> None:
    """A publisher knows the member by that id alone, and takes another one for an unguarded member."""
    side, member = Tables(2), ["m1"]

    def beat_of_member() -> ClientHeartbeat:
        found = beat()
        found.member = member[0]
        return found

    follower, now = following(side, beat_of_member)
    for member[0] in ("m1", "m1", "m2", "m2"):
        follower._poll_and_report()
        now[0] += 0.2
    assert [one.member for one in side.heartbeats] == ["m1", "m2"]


def test_a_heartbeat_interval_above_the_limit_is_rejected() -> None:
    """A publisher waits for five of them before it considers a process gone."""
    with pytest.raises(
        SettingsError, match=r"RoutingConfig.heartbeat_interval_seconds is 30, expected 20 at most"
    ):
        RoutingConfig({}, heartbeat_interval_seconds=30)
