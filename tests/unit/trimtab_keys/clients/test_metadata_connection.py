"""Searches among records that a group has not committed, on a simulated consumer."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from kafka import TopicPartition
from kafka.errors import UnknownTopicOrPartitionError
from kafka.future import Future

from trimtab_keys.clients import metadata_connection as module
from trimtab_keys.clients.metadata_connection import MetadataConnection, TopicDescription
from trimtab_keys.core.order import SearchStream, Stamp
from trimtab_keys.format import HEADER, stamp_bytes

Written = namedtuple("Written", "topic partition offset key headers")
SEARCH = SearchStream(("p", b"hot", 1), 2, 4)


def written(offset: int, header: bytes, key: bytes = b"hot") -> Written:
    """A record with this header."""
    return Written("t", 0, offset, key, [("another", b"forged"), (HEADER, header)])


def stamped(offset: int, sequence: int, **other: Any) -> Written:
    """A record of the stream, with one part changed or none."""
    given: dict[str, Any] = {"topic_id": "id", "producer": "p", "epoch": 1, "key": b"hot"} | other
    stamp = Stamp(given["epoch"], (), sequence)
    return written(offset, stamp_bytes(given["topic_id"], given["producer"], stamp), given["key"])


class Reader:
    """A log."""

    def __init__(self, records: list[Written]) -> None:
        self._records, self._position = records, 0

    def beginning_offsets(self, names: list[TopicPartition]) -> dict[TopicPartition, int]:
        """From the first on."""
        return dict.fromkeys(names, 0)

    def assign(self, names: list[TopicPartition]) -> None:
        """It has but one."""

    def seek(self, name: TopicPartition, offset: int) -> None:
        """Go there."""
        self._position = offset

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Written]]:
        """All that is left."""
        found, self._position = self._records[self._position :], len(self._records)
        return {TopicPartition("t", 0): found}

    def position(self, name: TopicPartition) -> int:
        """The next one."""
        return self._position

    def close(self, autocommit: bool) -> None:
        """The end."""


def searched(records: list[Written], monkeypatch: pytest.MonkeyPatch, committed: int = 0) -> int | None:
    """The result of a search in a partition with these records."""

    def reader(**config: Any) -> Reader:
        assert config["isolation_level"] == "read_committed", "what a transaction took back is nowhere"
        return Reader(records)

    monkeypatch.setattr(module, "KafkaConsumer", reader)
    monkeypatch.setattr(MetadataConnection, "topic", lambda _: TopicDescription("id", 1))
    monkeypatch.setattr(MetadataConnection, "ends", lambda *_: {0: len(records)})
    monkeypatch.setattr(MetadataConnection, "committed", lambda *_: {0: committed})
    return MetadataConnection({}, "t").search("g", SEARCH)


def test_a_search_finds_the_lowest_missing_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only uncommitted records of the stream count."""
    records = [stamped(0, 2), stamped(1, 5), stamped(2, 4), stamped(3, 3), stamped(4, 1)]
    assert searched(records, monkeypatch) == 2
    assert searched(records, monkeypatch, committed=1) == 3
    assert searched(records, monkeypatch, committed=4) is None


def test_stamps_of_another_stream_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run, another key, another epoch, no stamp at all, or one of another topic."""
    plain = Written("t", 0, 3, b"hot", [])
    others = [stamped(0, 2, producer="q"), stamped(1, 2, key=b"h"), stamped(2, 2, epoch=2), plain]
    others.append(stamped(4, 2, topic_id="another"))
    assert searched(others, monkeypatch) is None


def test_a_stamp_that_cannot_be_read_keeps_no_gap_open(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With a forged header, or one of a newer version, no search would end."""
    newer = msgspec.msgpack.encode((2, "id"))
    for header in (b"forged", newer):
        assert searched([written(0, header), stamped(1, 3)], monkeypatch) == 3
        assert searched([written(0, header)], monkeypatch) is None
    told = [one.getMessage() for one in caplog.records]
    assert len(told) == 2
    assert all("t, partition 0, offset 0: its header trimtab-order is of version 2" in one for one in told)


class Admin:
    """Tells of one group."""

    def __init__(self, members: list[dict[str, Any]]) -> None:
        self._members = members

    def describe_groups(self, groups: list[str]) -> dict[str, dict[str, Any]]:
        """As kafka-python does."""
        return {one: {"members": self._members} for one in groups}


def member(**partitions: list[int]) -> dict[str, Any]:
    """A member with these partitions of topics."""
    parts = [{"topic": topic, "partitions": some} for topic, some in partitions.items()]
    return {"member_id": "m", "member_assignment": {"assigned_partitions": parts}}


def test_partitions_of_members_are_those_of_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two members have three partitions; one waits for its share; a group without members has no figure."""
    side = MetadataConnection({}, "t")
    two = [member(t=[0, 2], u=[7]), member(t=[1]), {"member_id": "w", "member_assignment": None}]
    monkeypatch.setattr(side, "_request", lambda: Admin(two))
    assert side.assigned("g") == {0, 1, 2}
    monkeypatch.setattr(side, "_request", lambda: Admin([]))
    assert side.assigned("g") is None
    monkeypatch.setattr(side, "_request", lambda: Admin([member(u=[7])]))
    assert side.assigned("g") == set()


def test_tables_are_read_by_long_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends are read once; then a request waits at the broker. Heartbeats are in another partition."""
    made: list[Any] = []

    class Tables:
        def __init__(self, **config: Any) -> None:
            self.config, self.asked, self.offset, self.closed = config, 0, 0, False
            self.log = [(b"t", b"1"), (b"u", b"2"), (b"t", b"3")]
            made.append(self)

        def assign(self, names: list[TopicPartition]) -> None:
            assert names == [TopicPartition("tables", 0)]

        def seek_to_beginning(self, *names: TopicPartition) -> None:
            self.offset = 0

        def end_offsets(self, names: list[TopicPartition]) -> dict[TopicPartition, int]:
            self.asked += 1
            return dict.fromkeys(names, len(self.log))

        def position(self, name: TopicPartition) -> int:
            return self.offset

        def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
            found, self.offset = self.log[self.offset :][:1], min(self.offset + 1, len(self.log))
            return {TopicPartition("tables", 0): [SimpleNamespace(key=k, value=v) for k, v in found]}

        def close(self, autocommit: bool) -> None:
            self.closed = True

    Tables.DEFAULT_CONFIG = {"request_timeout_ms": 30_000}  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "KafkaConsumer", Tables)
    side = MetadataConnection({"request_timeout_ms": 3000}, "t", "tables")
    assert side.read(b"t") == b"3"
    made[0].log.append((b"t", None))
    assert side.read(b"t") is None
    assert side.read(b"t") is None
    assert (len(made), made[0].asked) == (1, 1)
    assert made[0].config["fetch_max_wait_ms"] == 1500
    MetadataConnection({}, "t", "tables").read(b"t")
    assert made[1].config["fetch_max_wait_ms"] == 10_000


def test_a_heartbeat_is_written_to_a_partition_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its offset is returned."""
    sent: list[Any] = []

    class Writer:
        def __init__(self, **config: Any) -> None:
            made.append(self)

        def send(self, topic: str, value: bytes, key: bytes, partition: int) -> Future:
            if len(made) == 1:
                raise ValueError("Unrecognized partition 1 for topic tables")
            sent.append((topic, value, key, partition))
            return Future().success(SimpleNamespace(offset=7))

        def close(self, timeout: float) -> None:
            """Nothing is under way."""

    made: list[Writer] = []
    monkeypatch.setattr(module, "KafkaProducer", Writer)
    side, offsets = MetadataConnection({}, "t", "tables"), list[int]()
    # The partition was just added: of one broker's answer the client has not heard.
    with pytest.raises(UnknownTopicOrPartitionError):
        side.write_record(b"k", b"v", offsets.append)
    side.write_record(b"k", b"v", offsets.append)
    side.write_record(b"k", b"w", offsets.append)
    assert sent == [("tables", b"v", b"k", 1), ("tables", b"w", b"k", 1)]
    assert (offsets, len(made)) == ([7, 7], 2)
