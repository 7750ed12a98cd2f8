"""A Kafka cluster behind `trimtab.act.keys.state.KeysPort`: one topic, its tables and its clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trimtab.act.kafka.calls import Calls
from trimtab.act.kafka.claims import ClaimSettings
from trimtab.act.keys.state import Client, Place, Seen
from trimtab.act.port import asked
from trimtab.connect.kafka.client import open_admin
from trimtab.connect.kafka.keyed_topic import KeyedTopic
from trimtab.connect.kafka.settings import KafkaConnection
from trimtab.files.keys.table import PublishedTable
from trimtab.model.keys.routing import RoutingTable


class TablesPort(ClaimSettings):
    """An adapter for one connected admin client."""

    def __init__(self, connection: KafkaConnection, admin: Any) -> None:
        self._connection, self._admin = connection, admin
        self._calls = Calls(admin)

    def observe(self, place: Place) -> Seen:
        """See `KeysPort.observe`."""

        def observe() -> Seen:
            topic = self._topic(place)
            found = topic.look()
            published, beats = topic.published(found.topic_id)
            consumers = topic.consumers(place.consumers)
            clients = tuple(
                Client(
                    one.process, one.role, one.version, one.wrapped, one.plain_because or "", one.member or ""
                )
                for one in beats
                if one.topic_id == found.topic_id and one.group in (None, consumers.name)
            )
            return Seen(
                found.cluster,
                found.topic_id,
                None if published is None else published.table,
                tuple(found.begins[part] for part in sorted(found.begins)),
                tuple(found.ends[part] for part in sorted(found.ends)),
                consumers.name,
                consumers.committed,
                consumers.assigned,
                clients,
                topic.tables_topic is not None,
                topic.has_tables(),
            )

        return asked(observe)

    def make_tables(self, place: Place) -> None:
        """See `KeysPort.make_tables`."""
        asked(lambda: self._topic(place).make_tables_topic())

    def add_partitions(self, place: Place, count: int) -> None:
        """See `KeysPort.add_partitions`."""
        asked(lambda: self._topic(place).add_partitions(count))

    def publish(self, place: Place, topic_id: str, table: RoutingTable) -> int | None:
        """See `KeysPort.publish`."""

        def publish() -> int | None:
            topic = self._topic(place)
            published, _ = topic.published(topic_id)
            if (0 if published is None else published.table.version) != table.version - 1:
                return None
            topic.publish(PublishedTable(place.topic, topic_id, table))
            return table.version

        return asked(publish)

    def _topic(self, place: Place) -> KeyedTopic:
        return KeyedTopic(self._connection, self._admin, place.topic, place.tables)


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
