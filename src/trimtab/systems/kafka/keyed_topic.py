"""One topic and the clients that send and receive its records: offsets, groups, tables, heartbeats.

A Kafka cluster behind `trimtab.act.keys.state.KeysPort`: one topic, its tables and its clients.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trimtab.act.execution.port import Failure, PortError, calling
from trimtab.act.keys.state import KeyClient, KeyConsumerGroup, KeysObservation, TableLocation
from trimtab.systems.kafka.calls import AdminCalls, BrokerConfigClaims
from trimtab.systems.kafka.client import consumer, open_admin, producer
from trimtab.systems.kafka.settings import KafkaConnection
from trimtab_common.errors import ConnectError, InputError
from trimtab_common.files import read_bytes
from trimtab_keys.core.routing import RoutingTable
from trimtab_keys.format import (
    HEARTBEAT_PARTITION,
    TABLE_PARTITION,
    ClientHeartbeat,
    PublishedTable,
    heartbeat_record_key,
    read_heartbeat,
    read_table,
    table_bytes,
    table_record_key,
    version_and_base,
    write_table,
)

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, TopicPartition


CLASSIC: Final = frozenset({"", "classic"})
"""Types of groups whose members brokers tell; brokers before KIP-848 name no type."""
SHARE: Final = "share"
REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})
EMPTY: Final = "Empty"
UNKNOWN_GROUP: Final = "[Error 69]"
"""GroupIdNotFound, as kafka-python words it."""


@dataclass(frozen=True)
class ConsumerGroup:
    """A consumer group.

    Attributes
    ----------
    committed
        Offsets by partition, as far as there are.
    assigned
        Partitions of the topic by member id; a member that waits for its share has none.
    rebalancing
        It gives out partitions anew: brokers do not tell meanwhile what its members read.
    unlisted_reason
        Why brokers do not tell its members; empty where they do.
    """

    name: str = ""
    committed: Mapping[int, int] = field(default_factory=dict)
    assigned: Mapping[str, frozenset[int]] = field(default_factory=dict)
    rebalancing: bool = False
    unlisted_reason: str = ""


def all_groups(
    admin: KafkaAdminClient, topic: str, partitions: Iterable[int], named: str
) -> tuple[ConsumerGroup, ...]:
    """Every group with commits on a topic or members that read it, by name.

    The one that is named is among them in any case. Share groups are not: they keep no order.

    Parameters
    ----------
    admin
        kafka-python's admin client.
    partitions
        Those of the topic: a cluster may have thousands of groups with commits on other topics.
    """
    from kafka import TopicPartition

    listed = {one["group_id"]: one for one in admin.list_groups()}
    kinds = {name: (one.get("group_type") or "").lower() for name, one in listed.items()}
    kinds = {name: kind for name, kind in kinds.items() if kind != SHARE}
    if named:
        kinds.setdefault(named, "")
    ours = [TopicPartition(topic, one) for one in partitions]
    found = {one.name: one for one in _listed_groups(admin, topic, kinds, ours)}
    # Members of these are there and not told. Whoever has commits, and none here, reads something else.
    unsure = [
        one.name
        for one in found.values()
        if not one.committed
        and (one.rebalancing or one.unlisted_reason)
        and listed.get(one.name, {}).get("group_state") != EMPTY
    ]
    elsewhere = admin.list_group_offsets(dict.fromkeys(unsure)) if unsure else {}
    return tuple(
        one
        for name, one in sorted(found.items())
        if one.committed or one.assigned or name == named or (name in unsure and not elsewhere.get(name))
    )


def one_group(admin: KafkaAdminClient, topic: str, name: str) -> ConsumerGroup:
    """A group by its name, whether it reads the topic or not."""
    return _listed_groups(admin, topic, {name: ""}, None)[0]


def _listed_groups(
    admin: KafkaAdminClient, topic: str, kinds: Mapping[str, str], partitions: Sequence[TopicPartition] | None
) -> list[ConsumerGroup]:
    """Groups by name and type, whether they read the topic or not."""
    if not kinds:
        return []
    offsets = admin.list_group_offsets(dict.fromkeys(kinds, partitions))
    classic = [name for name, kind in kinds.items() if kind in CLASSIC]
    described = admin.describe_groups(classic) if classic else {}
    found = []
    for name, kind in sorted(kinds.items()):
        committed = {
            one.partition: its.offset
            for one, its in offsets.get(name, {}).items()
            if one.topic == topic and its.offset >= 0
        }
        told = described.get(name, {})
        assigned = {
            member["member_id"]: parts
            for member in told.get("members", ())
            if (parts := _assigned(member, topic)) is not None
        }
        changing = told.get("group_state") in REBALANCING and told.get("protocol_type") == "consumer"
        found.append(
            ConsumerGroup(name, committed, assigned, changing, _unlisted_reason(kind, told, bool(committed)))
        )
    return found


def _unlisted_reason(kind: str, text: Mapping[str, Any], committed: bool) -> str:
    """Why the members of a group are not told; empty where they are, or where it is gone."""
    if kind not in CLASSIC:
        return (
            "speaks the newer group protocol (group.protocol=consumer, KIP-848), by which brokers do not "
            "tell its members to this trimtab"
            if kind == "consumer"
            else f"is of type {kind}, of which brokers do not tell the members to this trimtab"
        )
    error = text.get("error")
    if error:
        return "" if UNKNOWN_GROUP in error and not committed else f"cannot be described ({error})"
    if text.get("group_state") == "Dead" and committed:
        return "has commits, and its broker calls it dead, as it does with one of a newer group protocol"
    return ""


def _assigned(member: Mapping[str, Any], topic: str) -> frozenset[int] | None:
    """The partitions that a member has; none where it waits for some, None where it reads another topic."""
    found = member.get("member_assignment") or {}
    parts = found.get("assigned_partitions", ()) if isinstance(found, Mapping) else ()
    ours = [one["partitions"] for one in parts if one["topic"] == topic]
    if ours:
        return frozenset(ours[0])
    wants = member.get("member_metadata") or {}
    return frozenset() if isinstance(wants, Mapping) and topic in wants.get("topics", ()) else None


TOPIC: Final = "kafka:"
"""Before the name of a topic, where a place may be a topic or a file."""
EARLIEST, LATEST = -2, -1
READ_SECONDS: Final = 10.0


@dataclass(frozen=True)
class TopicState:
    """A topic as brokers tell of it; offsets by partition, from 0."""

    cluster: str
    topic_id: str
    begins: Mapping[int, int]
    ends: Mapping[int, int]


@dataclass(frozen=True)
class PublishedRouting:
    """What lies where a topic's tables are.

    Attributes
    ----------
    table
        The last one of the topic as it is now; None where there is none, or none that can be read. Tables of
        an id of before do not count: nobody can follow them any more.
    foreign_table
        One before it that is no older and has other routes: two published at once, and some follow this one.
    damaged
        Why what lies there last cannot be read; empty where it can. Whoever runs goes on by the one before.
    base
        The partitions that the hash of a damaged one divides by, as its text has it; 0 where it does not.
    newest
        The highest version that can be made out, in any text there and in heartbeats of the topic, or 0.
    heartbeats
        Heartbeats that still count.
    """

    table: RoutingTable | None = None
    foreign_table: RoutingTable | None = None
    damaged: str = ""
    base: int = 0
    newest: int = 0
    heartbeats: tuple[ClientHeartbeat, ...] = ()


class KeyedTopic:
    """A topic, by clients of its own; closing them is the caller's.

    Parameters
    ----------
    tables
        Where routing tables are: `kafka:TOPIC`, or a path.
    """

    def __init__(self, connection: KafkaConnection, admin: KafkaAdminClient, topic: str, tables: str) -> None:
        self._connection, self._admin, self.topic = connection, admin, topic
        self.tables_topic = tables.removeprefix(TOPIC) if tables.startswith(TOPIC) else None
        self.tables_file = None if self.tables_topic is not None else Path(tables)

    def describe(self) -> TopicState:
        """The topic as it is.

        Raises
        ------
        InputError
            If there is none of that name.
        ConnectError
            If brokers do not tell.
        """
        found = self.find()
        if found is None:
            raise InputError(f"there is no topic {self.topic!r} on this cluster: correct its name")
        return found

    def find(self) -> TopicState | None:
        """The topic as it is; None where there is none of that name. Errors else as in `look`."""
        from kafka import TopicPartition

        with _translate_errors(self.topic):
            found = self._described(self.topic)
            if found is None:
                return None
            parts = [TopicPartition(self.topic, one["partition_index"]) for one in found["partitions"]]
            begins, ends = (
                self._admin.list_partition_offsets(dict.fromkeys(parts, spec)) for spec in (EARLIEST, LATEST)
            )
            return TopicState(
                self.cluster(),
                str(found["topic_id"]),
                {one.partition: begins[one].offset for one in sorted(parts)},
                {one.partition: ends[one].offset for one in sorted(parts)},
            )

    def cluster(self) -> str:
        """The id of the cluster."""
        with _translate_errors(self.topic):
            return str(self._admin.describe_cluster()["cluster_id"])

    def groups(self, partitions: Iterable[int], named: str = "") -> tuple[ConsumerGroup, ...]:
        """Every group that reads the topic, see `all_groups`."""
        with _translate_errors(self.topic):
            return all_groups(self._admin, self.topic, partitions, named)

    def consumers(self, named: str = "") -> ConsumerGroup:
        """The group whose load is meant: the one that is named, else the only one that reads the topic.

        Raises
        ------
        InputError
            If there are several and none is named.
        """
        if named:
            with _translate_errors(self.topic):
                return one_group(self._admin, self.topic, named)
        found = self.groups(self.describe().ends)
        if len(found) > 1:
            names_told = ", ".join(one.name for one in found)
            raise InputError(
                f"topic {self.topic} is read by {len(found)} consumer groups ({names_told}): say whose load "
                "is meant with --set keys.consumer_group=GROUP"
            )
        return found[0] if found else ConsumerGroup()

    def published(self, topic_id: str) -> PublishedRouting:
        """The tables there, and all heartbeats that still count; a file has none of those."""
        if self.tables_file is not None:
            texts = [read_bytes(self.tables_file)] if self.tables_file.exists() else []
            return self._understood(texts, {}, topic_id)
        with _translate_errors(self.tables_topic or ""):
            texts, words = self._texts()
        beats: dict[tuple[str, str], tuple[ClientHeartbeat, bool]] = {}
        for data, at in words:
            beat = read_heartbeat(data)
            if beat is not None and beat.topic_id == topic_id:
                beats[beat.role, beat.process] = beat, time.time() - at < beat.lasting_seconds
        return self._understood(texts, beats, topic_id)

    def _understood(
        self,
        texts: list[bytes],
        heartbeats: Mapping[tuple[str, str], tuple[ClientHeartbeat, bool]],
        topic_id: str,
    ) -> PublishedRouting:
        found: list[RoutingTable] = []
        newest, base, damaged = max((beat.version for beat, _ in heartbeats.values()), default=0), 0, ""
        for text in texts:
            version, told_base = version_and_base(text)
            newest, base, damaged = max(newest, version), 0, ""
            try:
                one = read_table(text, f"table on {self.tables_file or self.tables_topic}", self.topic)
            except InputError as error:
                base, damaged = told_base, str(error)
                continue
            if one.topic_id == topic_id:
                found.append(one.table)
            elif found:
                damaged = f"a table of the topic's id {one.topic_id} was published over that of {topic_id}"
        last = found[-1] if found else None
        rivals = [
            one
            for one in found
            if last and one.version >= last.version and (one.groups, one.keys) != (last.groups, last.keys)
        ]
        rival = max(rivals, key=lambda one: one.version, default=None)
        lasting = tuple(beat for _, (beat, lasts) in sorted(heartbeats.items()) if lasts)
        return PublishedRouting(last, rival, damaged, base, newest, lasting)

    def has_tables(self) -> bool:
        """Whether the topic of tables is there, with a partition for heartbeats; a file needs none."""
        with _translate_errors(self.tables_topic or ""):
            return self.tables_topic is None or self._tables_partitions() > HEARTBEAT_PARTITION

    def publish(self, new: PublishedTable) -> None:
        """Make a table the one in force; the topic of tables is made where there is none."""
        if self.tables_file is not None:
            write_table(new, self.tables_file)
            return
        assert self.tables_topic is not None
        self.make_tables_topic()
        with _translate_errors(self.tables_topic):
            client = producer(self._connection, acks="all")
            try:
                key = table_record_key(self.topic)
                value, place = table_bytes(new), TABLE_PARTITION
                client.send(self.tables_topic, key=key, value=value, partition=place).get(READ_SECONDS)
            finally:
                client.close(5)

    def make_tables_topic(self) -> None:
        """A compacted topic with a partition for tables, that all read, and one for heartbeats.

        Heartbeats are compacted soon: whoever publishes reads all that are left.
        """
        from kafka.errors import InvalidPartitionsError, TopicAlreadyExistsError

        if self.tables_topic is None or self.has_tables():
            return
        count = HEARTBEAT_PARTITION + 1
        with _translate_errors(self.tables_topic), suppress(TopicAlreadyExistsError, InvalidPartitionsError):
            if self._tables_partitions():
                self._admin.create_partitions({self.tables_topic: count})
                return
            brokers = len(self._admin.describe_cluster()["brokers"])
            configs = {"cleanup.policy": "compact", "segment.ms": "60000"}
            spec = {"num_partitions": count, "replication_factor": min(3, brokers), "configs": configs}
            self._admin.create_topics({self.tables_topic: spec}, wait_for_metadata=True)

    def _tables_partitions(self) -> int:
        found = self._described(self.tables_topic or "")
        return len(found["partitions"]) if found else 0

    def add_partitions(self, count: int) -> None:
        """Bring the topic to so many partitions; one that has them is left as it is."""
        with _translate_errors(self.topic):
            if len(self.describe().ends) < count:
                self._admin.create_partitions({self.topic: count})

    def _described(self, topic: str) -> dict[str, Any] | None:
        from kafka import errors

        found = [one for one in self._admin.describe_topics([topic]) if one["name"] == topic]
        code = found[0].get("error_code", 0) if found else errors.UnknownTopicOrPartitionError.errno
        if code == errors.UnknownTopicOrPartitionError.errno:
            return None
        if code:
            raise errors.for_code(code)(topic)
        return found[0] if found[0]["partitions"] else None

    def _texts(self) -> tuple[list[bytes], list[tuple[bytes, float]]]:
        """All texts of the topic's table, the last one last, and the last of each heartbeat with its time."""
        own, told = table_record_key(self.topic), heartbeat_record_key(self.topic, "")
        texts: list[bytes] = []
        words: dict[bytes, tuple[bytes, float]] = {}
        for key, value, at in self._records():
            if key == own:
                texts = [] if value is None else [*texts, value]
            elif value is None:
                words.pop(key, None)
            elif key.startswith(told):
                words[key] = value, at
        return texts, list(words.values())

    def records(self) -> list[tuple[bytes, bytes | None, float]]:
        """Records of the topic of tables: key, value, and the record's own time in seconds since 1970."""
        with _translate_errors(self.tables_topic or ""):
            return list(self._records())

    def _records(self) -> Iterator[tuple[bytes, bytes | None, float]]:
        """Records of the topic of tables, of each key in their order; those without a key are left out."""
        from kafka import TopicPartition

        if self.tables_topic is None:
            return
        numbers = range(self._tables_partitions())
        places = [
            TopicPartition(self.tables_topic, one)
            for one in (TABLE_PARTITION, HEARTBEAT_PARTITION)
            if one in numbers
        ]
        if not places:
            return
        client = consumer(self._connection, enable_auto_commit=False)
        try:
            client.assign(places)
            client.seek_to_beginning(*places)
            ends = client.end_offsets(places)
            limit = time.monotonic() + READ_SECONDS
            while any(client.position(one) < ends[one] for one in places):
                for one in itertools.chain(*client.poll(timeout_ms=500).values()):
                    if one.key is not None:
                        yield one.key, one.value, one.timestamp / 1000
                if time.monotonic() > limit:
                    raise ConnectError(
                        f"topic {self.tables_topic} was not read in {READ_SECONDS:g} s: are its brokers well?"
                    )
        finally:
            client.close(autocommit=False)


@contextmanager
def _translate_errors(subject: str) -> Iterator[None]:
    from kafka.errors import KafkaError

    try:
        yield
    except KafkaError as error:
        raise ConnectError(
            f"Request for {subject} failed ({type(error).__name__}: {error}): check that it exists, and "
            "the user's rights to it"
        ) from error


@contextmanager
def keyed_topic(connection: KafkaConnection, topic: str, tables: str) -> Iterator[KeyedTopic]:
    """A topic on a connection of its own; errors as in `admin_client`."""
    with open_admin(connection, request_timeout_ms=15_000) as admin:
        yield KeyedTopic(connection, admin, topic, tables)


_T = TypeVar("_T")


class TablesPort(BrokerConfigClaims):
    """An adapter for one connected admin client."""

    def __init__(self, connection: KafkaConnection, admin: KafkaAdminClient) -> None:
        self._connection, self._admin = connection, admin
        self._calls = AdminCalls(admin)

    def observe(self, place: TableLocation) -> KeysObservation:
        """Read the topic, its routing tables and its clients."""

        def observe() -> KeysObservation:
            topic = self._topic(place)
            before = topic.find()
            if before is None:
                return KeysObservation(topic.cluster(), "")
            published = topic.published(before.topic_id)
            # Until a producer tells that it follows a table it may write by the one before: ends that have to
            # be passed are read after its heartbeat.
            found = topic.find()
            if found is None or found.topic_id != before.topic_id:
                return KeysObservation(before.cluster, "" if found is None else found.topic_id)
            groups = tuple(
                KeyConsumerGroup(one.name, one.committed, one.assigned, one.rebalancing, one.unlisted_reason)
                for one in topic.groups(found.ends, place.consumers)
            )
            only = groups[0].name if len(groups) == 1 else ""
            return KeysObservation(
                found.cluster,
                found.topic_id,
                published.table,
                tuple(found.begins[part] for part in sorted(found.begins)),
                tuple(found.ends[part] for part in sorted(found.ends)),
                place.consumers or only,
                groups,
                tuple(map(_client, published.heartbeats)),
                topic.tables_topic is not None,
                topic.has_tables(),
                published.foreign_table,
                published.damaged,
                published.base if published.base <= len(found.ends) else 0,
                published.newest,
            )

        return _calling(observe)

    def make_tables(self, place: TableLocation) -> None:
        """Create the topic of routing tables, unless it exists."""
        _calling(lambda: self._topic(place).make_tables_topic())

    def add_partitions(self, place: TableLocation, count: int) -> None:
        """Raise the number of partitions of an unchanged topic."""

        def add() -> None:
            topic = self._topic(place)
            found = topic.find()
            if found is not None and found.topic_id == place.topic_id:
                topic.add_partitions(count)

        _calling(add)

    def publish(self, place: TableLocation, topic_id: str, table: RoutingTable) -> int | None:
        """See `KeysPort.publish`.

        Kafka writes no record on a condition, so that another trimtab may write in between: what lies there
        is read once more afterwards.
        """

        def publish() -> int | None:
            topic = self._topic(place)
            found = topic.find()
            if found is None or found.topic_id != topic_id:
                return None
            if topic.published(topic_id).newest != table.version - 1:
                return None
            topic.publish(PublishedTable(place.topic, topic_id, table))
            after = topic.published(topic_id)
            ours = after.table == table and after.foreign_table is None and not after.damaged
            return table.version if ours else None

        return _calling(publish)

    def _topic(self, place: TableLocation) -> KeyedTopic:
        return KeyedTopic(self._connection, self._admin, place.topic, place.tables)


def _client(heartbeat: ClientHeartbeat) -> KeyClient:
    return KeyClient(
        heartbeat.process,
        heartbeat.role,
        heartbeat.version,
        heartbeat.wrapped,
        heartbeat.plain_because or "",
        heartbeat.member or "",
        heartbeat.lasting_seconds,
    )


def _calling(call: Callable[[], _T]) -> _T:
    """As `calling`; what cannot be read or written on this side is no better the next time.

    Raises
    ------
    PortError
        If the cluster does not answer, or something of ours is in the way.
    """
    try:
        return calling(call)
    except InputError as error:
        raise PortError(Failure("Refused", str(error))) from error


@contextmanager
def open_port(connection: KafkaConnection, clock: Callable[[], float]) -> Iterator[TablesPort]:
    """A cluster to act on, by a client of its own.

    Raises
    ------
    ConnectError
        If it cannot be reached.
    """
    with open_admin(connection, request_timeout_ms=15_000) as admin:
        yield TablesPort(connection, admin)
