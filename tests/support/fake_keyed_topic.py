"""A topic with consumer groups and a topic of tables in memory, behind kafka-python's admin client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from trimtab.act.keys.state import TableLocation
from trimtab.systems.kafka.keyed_topic import EARLIEST, KeyedTopic, TablesPort
from trimtab.systems.kafka.settings import KafkaConnection
from trimtab_keys.format import ClientHeartbeat, PublishedTable, heartbeat_bytes, table_bytes

CONNECTION = KafkaConnection(("nowhere:9092",))
TABLES = "trimtab-tables"


@dataclass
class FakeGroup:
    """A group as its coordinator has it.

    Attributes
    ----------
    offsets
        Commits by topic and partition.
    members
        Partitions of the topic `orders` by member id; None for a member of another topic.
    """

    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    members: dict[str, list[int] | None] = field(default_factory=dict)
    state: str = "Stable"
    kind: str = "classic"
    error: str | None = None


@dataclass
class FakeKafka:
    """One cluster; it is the admin client, too."""

    groups: dict[str, FakeGroup] = field(default_factory=dict)
    topic_id: str = "id of orders"
    ends: list[int] = field(default_factory=lambda: [100, 100])
    log: list[bytes] = field(default_factory=list)
    heartbeats: list[tuple[ClientHeartbeat, float]] = field(default_factory=list)
    code: int = 0
    added: list[dict[str, int]] = field(default_factory=list)
    tables_partitions: int = 2
    while_read: Callable[[], None] = lambda: None

    def list_groups(self) -> list[dict[str, Any]]:
        """All groups."""
        return [
            {"group_id": name, "group_type": one.kind, "group_state": one.state}
            for name, one in self.groups.items()
        ]

    def list_group_offsets(
        self, specs: Mapping[str, Sequence[TopicPartition] | None]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Commits; -1 where one is asked for that is not there, as brokers have it."""
        found = {}
        for name, asked in specs.items():
            own = self.groups.get(name, FakeGroup()).offsets
            places = [TopicPartition(*one) for one in own] if asked is None else asked
            found[name] = {one: OffsetAndMetadata(own.get(tuple(one), -1), "", -1) for one in places}
        return found

    def describe_groups(self, names: Sequence[str]) -> dict[str, Any]:
        """Members with what they were given; in a rebalance without."""
        found = {}
        for name in names:
            group = self.groups.get(name, FakeGroup(state="Dead"))
            stable = group.state == "Stable"
            members = [
                {
                    "member_id": member,
                    "member_metadata": {"topics": ["orders" if parts is not None else "other"]},
                    "member_assignment": {
                        "assigned_partitions": [{"topic": "orders", "partitions": parts}] if parts else []
                    },
                }
                for member, parts in group.members.items()
            ]
            bare = [{**one, "member_metadata": b"", "member_assignment": b""} for one in members]
            found[name] = {
                "group_state": group.state,
                "protocol_type": "consumer",
                "members": members if stable else bare,
                "error": group.error,
            }
        return found

    def describe_topics(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """The topic `orders`, unless it was deleted, and the topic of tables."""
        (name,) = names
        parts = [
            {"partition_index": one}
            for one in range(len(self.ends) if name == "orders" else self.tables_partitions)
        ]
        there = name == TABLES or bool(self.topic_id)
        code = self.code or (0 if there else 3)
        return [{"name": name, "error_code": code, "topic_id": self.topic_id, "partitions": parts}]

    def list_partition_offsets(self, specs: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
        """0, and the ends."""
        return {
            one: OffsetAndMetadata(0 if spec == EARLIEST else self.ends[one.partition], "", -1)
            for one, spec in specs.items()
        }

    def create_partitions(self, counts: dict[str, int]) -> None:
        """Noted."""
        self.added.append(counts)

    def describe_cluster(self) -> dict[str, Any]:
        """Its id."""
        return {"cluster_id": "here", "brokers": [1]}

    def topic(self) -> FakeKeyedTopic:
        """The topic by a client of its own."""
        return FakeKeyedTopic(self)

    def port(self, before_write: Callable[[], None] = lambda: None) -> FakePort:
        """A port of its own; something may happen between its look and its writing."""
        return FakePort(self, before_write)


class FakeKeyedTopic(KeyedTopic):
    """The topic `orders`; records of the topic of tables are in memory."""

    def __init__(self, kafka: FakeKafka, before_write: Callable[[], None] = lambda: None) -> None:
        super().__init__(CONNECTION, kafka, "orders", f"kafka:{TABLES}")
        self._kafka, self._before_write = kafka, before_write

    def publish(self, new: PublishedTable) -> None:
        """One record more."""
        self._before_write()
        self._kafka.log.append(table_bytes(new))

    def _texts(self) -> tuple[list[bytes], list[tuple[bytes, float]]]:
        self._kafka.while_read()
        return list(self._kafka.log), [(heartbeat_bytes(one), at) for one, at in self._kafka.heartbeats]


class FakePort(TablesPort):
    """A port to it."""

    def __init__(self, kafka: FakeKafka, before_write: Callable[[], None]) -> None:
        super().__init__(CONNECTION, kafka)
        self._kafka, self.before_write = kafka, before_write

    def _topic(self, place: TableLocation) -> KeyedTopic:
        return FakeKeyedTopic(self._kafka, self.before_write)
