"""One topic and those who send and receive its records: offsets, commits, members, tables, heartbeats."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trimtab.connect.kafka.client import consumer, open_admin, producer
from trimtab.connect.kafka.settings import KafkaConnection
from trimtab.files.keys import heartbeat, table
from trimtab.files.keys.heartbeat import Heartbeat
from trimtab.files.keys.table import PublishedTable
from trimtab.model.errors import ConnectError, InputError

TOPIC: Final = "kafka:"
"""Before the name of a topic, where a place may be a topic or a file."""
EARLIEST, LATEST = -2, -1
READ_SECONDS: Final = 10.0


@dataclass(frozen=True)
class TopicSeen:
    """A topic as brokers tell of it; offsets by partition, from 0."""

    cluster: str
    topic_id: str
    begins: Mapping[int, int]
    ends: Mapping[int, int]


@dataclass(frozen=True)
class ConsumersSeen:
    """A consumer group.

    Attributes
    ----------
    committed
        Offsets by partition, as far as there are.
    assigned
        Partitions of the topic by member id.
    """

    name: str = ""
    committed: Mapping[int, int] = field(default_factory=dict)
    assigned: Mapping[str, frozenset[int]] = field(default_factory=dict)


class KeyedTopic:
    """A topic, by clients of its own; closing them is the caller's.

    Parameters
    ----------
    tables
        Where routing tables are: `kafka:TOPIC`, or a path.
    """

    def __init__(self, connection: KafkaConnection, admin: Any, topic: str, tables: str) -> None:
        self._connection, self._admin, self.topic = connection, admin, topic
        self.tables_topic = tables.removeprefix(TOPIC) if tables.startswith(TOPIC) else None
        self.tables_file = None if self.tables_topic is not None else Path(tables)

    def look(self) -> TopicSeen:
        """The topic as it is.

        Raises
        ------
        InputError
            If there is none of that name.
        ConnectError
            If brokers do not tell.
        """
        from kafka import TopicPartition

        with _told(self.topic):
            found = self._described(self.topic)
            if found is None:
                raise InputError(f"there is no topic {self.topic!r} on this cluster: correct its name")
            parts = [TopicPartition(self.topic, one["partition_index"]) for one in found["partitions"]]
            begins, ends = (
                self._admin.list_partition_offsets(dict.fromkeys(parts, spec)) for spec in (EARLIEST, LATEST)
            )
            return TopicSeen(
                self._admin.describe_cluster()["cluster_id"],
                str(found["topic_id"]),
                {one.partition: begins[one].offset for one in sorted(parts)},
                {one.partition: ends[one].offset for one in sorted(parts)},
            )

    def consumers(self, named: str = "") -> ConsumersSeen:
        """The group that reads the topic: the one that is named, else the only one with commits or members.

        Raises
        ------
        InputError
            If there are several and none is named.
        """
        with _told(self.topic):
            names = [named] if named else [one["group_id"] for one in self._admin.list_groups()]
            offsets = self._admin.list_group_offsets({name: None for name in names}) if names else {}
            described = self._admin.describe_groups(names) if names else {}
        found = []
        for name in sorted(names):
            committed = {
                one.partition: its.offset
                for one, its in offsets.get(name, {}).items()
                if one.topic == self.topic and its.offset >= 0
            }
            assigned = {
                member["member_id"]: parts
                for member in described.get(name, {}).get("members", ())
                if (parts := self._assigned(member)) is not None
            }
            if committed or assigned or named:
                found.append(ConsumersSeen(name, committed, assigned))
        if len(found) > 1:
            names_told = ", ".join(one.name for one in found)
            raise InputError(
                f"topic {self.topic} is read by {len(found)} consumer groups ({names_told}): say whose load "
                "is meant with --set keys.consumers=GROUP"
            )
        return found[0] if found else ConsumersSeen()

    def published(self, topic_id: str | None = None) -> tuple[PublishedTable | None, tuple[Heartbeat, ...]]:
        """The table in force and all heartbeats that still count; a file has none of those.

        Raises
        ------
        InputError
            If the table cannot be read, or is of another topic than that with the id.
        """
        if self.tables_file is not None:
            if not self.tables_file.exists():
                return None, ()
            return table.read_table_file(self.tables_file, self.topic, topic_id), ()
        found, beats = None, []
        with _told(self.tables_topic or ""):
            words = self._words()
        for key, (data, at) in words.items():
            if key == table.record_key(self.topic):
                found = table.read_table(data, f"table on {self.tables_topic}", self.topic, topic_id)
            elif key.startswith(heartbeat.record_key(self.topic, "")):
                beat = heartbeat.read_heartbeat(data)
                if beat is not None and time.time() - at < beat.lasting_seconds:
                    beats.append(beat)
        return found, tuple(sorted(beats, key=lambda one: (one.role, one.process)))

    def has_tables(self) -> bool:
        """Whether the topic of tables is there; a file needs none."""
        with _told(self.tables_topic or ""):
            return self.tables_topic is None or self._described(self.tables_topic) is not None

    def publish(self, new: PublishedTable) -> None:
        """Make a table the one in force; the topic of tables is made where there is none."""
        if self.tables_file is not None:
            table.write_table(new, self.tables_file)
            return
        assert self.tables_topic is not None
        self.make_tables_topic()
        with _told(self.tables_topic):
            client = producer(self._connection, acks="all")
            try:
                key = table.record_key(self.topic)
                client.send(self.tables_topic, key=key, value=table.table_bytes(new)).get(READ_SECONDS)
            finally:
                client.close(5)

    def make_tables_topic(self) -> None:
        """A compacted topic of one partition, so that tables and heartbeats have one order."""
        from kafka.errors import TopicAlreadyExistsError

        if self.tables_topic is None or self.has_tables():
            return
        with _told(self.tables_topic), suppress(TopicAlreadyExistsError):
            brokers = len(self._admin.describe_cluster()["brokers"])
            configs = {"cleanup.policy": "compact", "segment.ms": "600000"}
            spec = {"num_partitions": 1, "replication_factor": min(3, brokers), "configs": configs}
            self._admin.create_topics({self.tables_topic: spec}, wait_for_metadata=True)

    def add_partitions(self, count: int) -> None:
        """Bring the topic to so many partitions; one that has them is left as it is."""
        with _told(self.topic):
            if len(self.look().ends) < count:
                self._admin.create_partitions({self.topic: count})

    def _described(self, topic: str) -> dict[str, Any] | None:
        found = [one for one in self._admin.describe_topics([topic]) if one["name"] == topic]
        return found[0] if found and found[0].get("error_code", 0) == 0 and found[0]["partitions"] else None

    def _assigned(self, member: Mapping[str, Any]) -> frozenset[int] | None:
        """The partitions that a member has; None where it does not read the topic."""
        found = member.get("member_assignment") or {}
        parts = found.get("assigned_partitions", ()) if isinstance(found, Mapping) else ()
        ours = [one["partitions"] for one in parts if one["topic"] == self.topic]
        return frozenset(ours[0]) if ours else None

    def _words(self) -> dict[bytes, tuple[bytes, float]]:
        """The last record of each key of the topic of tables, with its time; none without the topic."""
        from kafka import TopicPartition

        if self.tables_topic is None or self._described(self.tables_topic) is None:
            return {}
        place = TopicPartition(self.tables_topic, 0)
        client = consumer(self._connection, enable_auto_commit=False)
        try:
            client.assign([place])
            client.seek_to_beginning(place)
            end = client.end_offsets([place])[place]
            words: dict[bytes, tuple[bytes, float]] = {}
            limit = time.monotonic() + READ_SECONDS
            while client.position(place) < end:
                for one in client.poll(timeout_ms=500).get(place, ()):
                    if one.value is None:
                        words.pop(one.key, None)
                    else:
                        words[one.key] = one.value, one.timestamp / 1000
                if time.monotonic() > limit:
                    raise ConnectError(
                        f"topic {self.tables_topic} was not read in {READ_SECONDS:g} s: are its brokers well?"
                    )
            return words
        finally:
            client.close(autocommit=False)


@contextmanager
def _told(subject: str) -> Iterator[None]:
    from kafka.errors import KafkaError

    try:
        yield
    except KafkaError as error:
        raise ConnectError(
            f"Kafka refuses or does not answer what is asked of {subject} ({type(error).__name__}: {error}): "
            "check that it is there, and our rights to it"
        ) from error


@contextmanager
def keyed_topic(connection: KafkaConnection, topic: str, tables: str) -> Iterator[KeyedTopic]:
    """A topic on a connection of its own; errors as in `admin_client`."""
    with open_admin(connection, request_timeout_ms=15_000) as admin:
        yield KeyedTopic(connection, admin, topic, tables)
