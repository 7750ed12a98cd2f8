"""A Kafka cluster behind `trimtab.act.keys.state.KeysPort`: one topic, its tables and its clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from trimtab.act.execution.port import Failure, PortError, calling
from trimtab.act.keys.state import KeyClient, KeyConsumerGroup, KeysObservation, TableLocation
from trimtab.systems.kafka.calls import AdminCalls, BrokerConfigClaims
from trimtab.systems.kafka.client import open_admin
from trimtab.systems.kafka.keyed_topic import KeyedTopic
from trimtab.systems.kafka.settings import KafkaConnection
from trimtab_common.errors import InputError
from trimtab_keys.core.routing import RoutingTable
from trimtab_keys.format.heartbeat import ClientHeartbeat
from trimtab_keys.format.table import PublishedTable

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

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
