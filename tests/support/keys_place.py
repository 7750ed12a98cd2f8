"""A real cluster for tests of the balancer `keys`, and what its clients do there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from support.admin_calls import ask
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.keys.worker import CLIENTS, AnyConsumer, AnyProducer, SqliteEffects
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.core.routing import RoutingTable
from trimtab_keys.format import HEARTBEAT_PARTITION as BEATS
from trimtab_keys.format import (
    TABLE_PARTITION,
    ClientHeartbeat,
    PublishedTable,
    read_heartbeat,
    table_bytes,
    table_record_key,
)

TABLES = "trimtab-tables"
PATIENCE_SECONDS = 90.0
_numbers = count()

FIRST_CLIENT_IN_TEST = [CLIENTS[0], *(pytest.param(one, marks=pytest.mark.long) for one in CLIENTS[1:])]
"""Clients for tests that take all of them in the tier `long` alone."""


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait for something that will be so."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, f"not within {PATIENCE_SECONDS:g} s: {what}"
        time.sleep(0.1)


class Place:
    """A cluster, with what tests of keys need of it; each partition has a replica on every broker."""

    def __init__(self, sandbox: KafkaSandbox) -> None:
        self.connection = sandbox.connection
        self.bootstrap = sandbox.bootstrap
        self.settings = {"bootstrap_servers": self.bootstrap}
        self.following = RoutingConfig(
            self.settings, tables_topic=TABLES, heartbeat_interval_seconds=0.5, read_seconds=0.5
        )
        self._replicas = len(sandbox.brokers)
        self._writer = KafkaProducer(**self.settings)
        self.create(TABLES, 2, {"cleanup.policy": "compact"})

    def create(self, topic: str, partitions: int, configs: dict[str, str] | None = None) -> str:
        """Make a topic; its id."""
        made = {
            topic: {
                "num_partitions": partitions,
                "replication_factor": self._replicas,
                "configs": configs or {},
            }
        }
        ask(self.connection, lambda admin: admin.create_topics(made, wait_for_metadata=True))
        return self.id_of(topic)

    def topic(self, partitions: int) -> str:
        """A new one."""
        name = f"keys-{next(_numbers)}"
        self.create(name, partitions)
        return name

    def id_of(self, topic: str) -> str:
        """The id that the cluster gave it."""
        return str(ask(self.connection, lambda admin: admin.describe_topics([topic]))[0]["topic_id"])

    def publish(self, topic: str, table: RoutingTable, damage: bytes = b"") -> None:
        """Publish a table, or something else in its stead."""
        data = damage or table_bytes(PublishedTable(topic, self.id_of(topic), table))
        self._writer.send(TABLES, key=table_record_key(topic), value=data, partition=TABLE_PARTITION).get(30)

    def heartbeats(self, topic: str) -> list[ClientHeartbeat]:
        """Heartbeats of a topic's processes, the last of each that has not said goodbye."""
        reader = KafkaConsumer(**self.settings, auto_offset_reset="earliest", consumer_timeout_ms=300)
        name = TopicPartition(TABLES, BEATS)
        reader.assign([name])
        found: dict[bytes, bytes] = {}
        end = reader.end_offsets([name])[name]
        while reader.position(name) < end:
            for records in reader.poll(timeout_ms=200).values():
                found.update({one.key: one.value for one in records})
        reader.close()
        beats = (read_heartbeat(value) for value in found.values() if value is not None)
        return [one for one in beats if one is not None and one.topic == topic]

    def members(self, group: str) -> set[str]:
        """Members of a consumer group, as its coordinator has them at this moment."""
        found = ask(self.connection, lambda admin: admin.describe_groups([group])).values()
        return {member["member_id"] for one in found for member in one["members"]}

    def close(self) -> None:
        """Close."""
        self._writer.close()


@contextmanager
def clients_ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End what a test that failed left running: its threads would go on asking a broker that is gone."""
    made: list[AnyProducer | AnyConsumer] = []

    def noted(kind: type[AnyProducer | AnyConsumer]) -> None:
        begin = kind.__init__

        def init(self: Any, *given: Any, **named: Any) -> None:
            begin(self, *given, **named)
            made.append(self)

        monkeypatch.setattr(kind, "__init__", init)

    noted(AnyProducer)
    noted(AnyConsumer)
    yield
    for one in made:
        if not one.closed:
            with suppress(Exception):
                one.close()


def effects_in_order(effects: SqliteEffects, sent: Counter[bytes]) -> None:
    """Each key's numbers took effect one after the other: none lost, none twice, none overtaken."""
    found: dict[bytes, list[int]] = {}
    for key, value, _ in effects.all():
        found.setdefault(key, []).append(int(value))
    assert {key: len(numbers) for key, numbers in found.items()} == dict(sent)
    for key, numbers in found.items():
        assert numbers == list(range(1, sent[key] + 1)), key
