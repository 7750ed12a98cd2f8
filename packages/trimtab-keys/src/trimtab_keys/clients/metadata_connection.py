"""A second connection for tables, heartbeats, offsets, groups, and searches for records.

All clients use this one, on kafka-python: the requests are rare, three implementations would be three times
the code, and two of the three libraries cannot read a topic's id. One thread uses it; it connects at first
use.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError, UnknownTopicOrPartitionError

from trimtab_common.errors import InputError
from trimtab_keys.core.order import SearchStream
from trimtab_keys.format import HEARTBEAT_PARTITION, TABLE_PARTITION, read_stamp, stamp_in

LOG = logging.getLogger("trimtab.keys")
SEARCH_SECONDS: Final = 30.0
"""A search in what is not committed takes no longer; nothing is concluded from one that was cut off."""
FETCH_SECONDS: Final = 10.0
"""A request for tables waits so long at the broker for one to be written, and is answered at once then."""


class TopicDescription(NamedTuple):
    """A topic as the cluster describes it.

    Attributes
    ----------
    topic_id, partitions
        Its id and number of partitions.
    tables
        Number of partitions of the topic of tables; 0 if there is none.
    """

    topic_id: str
    partitions: int
    tables: int = 0


class MetadataConnection:
    """Requests about one topic.

    Parameters
    ----------
    connection
        Keyword arguments of kafka-python's clients.
    topic
        The topic.
    tables_topic
        The topic of tables; None if tables are in a file, or are not used.
    """

    def __init__(self, connection: Mapping[str, Any], topic: str, tables_topic: str | None = None) -> None:
        self._connection, self._topic, self._tables_topic = dict(connection), topic, tables_topic
        self._admin: Any = None
        self._reader: Any = None
        self._writer: Any = None
        self._values: dict[bytes, bytes | None] = {}

    def topic(self) -> TopicDescription:
        """The topic's current id and number of partitions, requested together with the topic of tables.

        Raises
        ------
        InputError
            If there is no such topic.
        """
        names = [self._topic, *([self._tables_topic] if self._tables_topic is not None else [])]
        found = {one["name"]: one for one in self._request().describe_topics(names) if not one["error_code"]}
        own, tables = found.get(self._topic), found.get(self._tables_topic)
        if own is None:
            raise InputError(f"topic {self._topic}: is not there; create it, or name another")
        return TopicDescription(
            str(own["topic_id"]), len(own["partitions"]), len(tables["partitions"]) if tables else 0
        )

    def ends(self, partitions: Collection[int]) -> dict[int, int]:
        """The offsets behind the last records of partitions."""
        names = {TopicPartition(self._topic, one): OffsetSpec.LATEST for one in partitions}
        found = self._request().list_partition_offsets(names)
        return {name.partition: one.offset for name, one in found.items()}

    def committed(self, group: str) -> dict[int, int]:
        """Offsets of the topic that a group has committed, by partition."""
        found = self._request().list_group_offsets([group])[group]
        return {
            name.partition: one.offset
            for name, one in found.items()
            if name.topic == self._topic and one.offset >= 0
        }

    def assigned(self, group: str) -> set[int] | None:
        """Partitions that members of a group have; None if brokers do not report its members."""
        members = self._request().describe_groups([group]).get(group, {}).get("members") or ()
        if not members:
            return None
        return {
            one
            for member in members
            for found in (member.get("member_assignment") or {}).get("assigned_partitions", ())
            if found["topic"] == self._topic
            for one in found["partitions"]
        }

    def add_partition(self, count: int) -> None:
        """Raise the number of partitions by one to this number; rejected if the topic has any other
        number.
        """
        self._request().create_partitions({self._topic: count})

    def search(self, group: str, search: SearchStream) -> int | None:
        """The lowest of the missing sequences among records that a group has not committed; None if there is
        none.

        Raises
        ------
        TimeoutError
            If the search took too long for a result.
        """
        committed = self.committed(group)
        topic = self.topic()
        ends = self.ends(range(topic.partitions))
        found: int | None = None
        until = time.monotonic() + SEARCH_SECONDS
        # What a transaction took back is never received: a gap that waited for it would never close.
        reader = KafkaConsumer(
            **self._connection,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        try:
            names = [TopicPartition(self._topic, one) for one in ends]
            starts = reader.beginning_offsets(names)
            left = {
                name: max(committed.get(name.partition, 0), starts[name])
                for name in names
                if max(committed.get(name.partition, 0), starts[name]) < ends[name.partition]
            }
            reader.assign(list(left))
            for name, offset in left.items():
                reader.seek(name, offset)
            while left:
                if time.monotonic() > until:
                    raise TimeoutError(
                        f"{len(left)} partitions of {self._topic} were not searched to the end"
                    )
                for records in reader.poll(timeout_ms=200).values():
                    for record in records:
                        number = _sequence(record, search, topic.topic_id)
                        if number is not None and (found is None or number < found):
                            found = number
                for name in [one for one in left if reader.position(one) >= ends[one.partition]]:
                    del left[name]
        finally:
            reader.close(autocommit=False)
        return found

    def read(self, key: bytes) -> bytes | None:
        """The last value under a key of the topic of tables.

        The first call reads all records up to its time; later calls read what brokers have sent since. One
        request waits at the broker for the next table, so no polling is needed.
        """
        if self._reader is None:
            self._reader = self._reader_at_end()
        self._take(self._reader.poll(timeout_ms=0))
        return self._values.get(key)

    def _reader_at_end(self) -> Any:
        limit = self._connection.get("request_timeout_ms", KafkaConsumer.DEFAULT_CONFIG["request_timeout_ms"])
        reader = KafkaConsumer(
            **self._connection,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=int(min(FETCH_SECONDS * 1000, limit / 2)),
        )
        try:
            name = TopicPartition(self._tables_topic, TABLE_PARTITION)
            reader.assign([name])
            reader.seek_to_beginning(name)
            end = reader.end_offsets([name])[name]
            while reader.position(name) < end:
                self._take(reader.poll(timeout_ms=200))
        except BaseException:
            reader.close(autocommit=False)
            raise
        return reader

    def _take(self, found: Mapping[Any, list[Any]]) -> None:
        for records in found.values():
            self._values.update((one.key, one.value) for one in records)

    def write_record(self, key: bytes, value: bytes | None, appended: Callable[[int], None]) -> None:
        """Write a heartbeat. Closing the connection waits for it.

        Parameters
        ----------
        appended
            Called with its offset, from a thread of the client.

        Raises
        ------
        KafkaError
            If it cannot be sent. The cached metadata of the topic is discarded if the partition was unknown.
        """
        if self._writer is None:
            self._writer = KafkaProducer(**self._connection, linger_ms=0)
        try:
            sent = self._writer.send(self._tables_topic, value, key, partition=HEARTBEAT_PARTITION)
        except ValueError as error:
            # The partition was just added, and the client would ask again in five minutes.
            self._writer.close(timeout=0)
            self._writer = None
            raise UnknownTopicOrPartitionError(str(error)) from error
        sent.add_callback(lambda found: appended(found.offset))

    def close(self) -> None:
        """Close the writer and the readers."""
        with suppress(KafkaError):
            if self._writer is not None:
                self._writer.close(timeout=5)
        with suppress(KafkaError):
            if self._reader is not None:
                self._reader.close(autocommit=False)
        with suppress(KafkaError):
            if self._admin is not None:
                self._admin.close()
        self._admin = self._reader = self._writer = None

    def _request(self) -> Any:
        if self._admin is None:
            self._admin = KafkaAdminClient(**self._connection)
        return self._admin


def _sequence(record: Any, search: SearchStream, topic_id: str) -> int | None:
    subject = f"{record.topic}, partition {record.partition}, offset {record.offset}"
    try:
        found = read_stamp(stamp_in(record.headers), subject)
    except InputError as error:
        # Nobody can tell what it is; a gap that it kept open would keep its key waiting for ever.
        LOG.warning("keys of %s: passed over in a search: %s", record.topic, error)
        return None
    if found is None or found.topic_id != topic_id:
        return None
    if (found.producer, record.key, found.stamp.epoch) != search.stream:
        return None
    return found.stamp.sequence if search.first <= found.stamp.sequence <= search.last else None
