"""Records whose headers contain the stamp of another record, as the three clients get them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer
from kafka.producer.future import FutureRecordMetadata

from trimtab_keys.clients import aiokafka, confluent, kafka_python
from trimtab_keys.clients import confluent as confluent_module
from trimtab_keys.clients.ordered_producer import OrderedProducer
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.core.order import OrderedSender
from trimtab_keys.core.routing import Route, RoutingTable
from trimtab_keys.format import HEADER

COPIED = [("trace", b"7"), (HEADER, b"copied")]
Headers = list[tuple[str, Any]]


class Led:
    """As much of a `TableRouter` as a producer of a split key and of a key without a route needs."""

    def __init__(self, *_: Any) -> None:
        sender = OrderedSender(2)
        sender.adopt_table(RoutingTable(1, 2, 2, {}, {b"split": Route((0, 1))}), 0.0)
        sender.flushed(1)
        sender.ends_read(1, {0: 0, 1: 0}, 0.0)
        self.sending = OrderedProducer(sender, "p", 1.0)

    def check(self) -> None:
        """The topic is the one that it was."""

    def close(self) -> None:
        """Nothing runs."""


Send = Callable[[str, bytes, int | None], Headers]


def by_kafka_python(monkeypatch: pytest.MonkeyPatch) -> Send:
    """A producer that never connects."""
    made = kafka_python.Producer.__new__(kafka_python.Producer)
    made._topic, made._router = "orders", Led()  # type: ignore[assignment]
    made.config = {"key_serializer": None}
    given: list[Any] = []

    def send(self: Any, topic: str, value: Any, key: Any, headers: Any, *_: Any) -> Any:
        given.append(headers)
        return FutureRecordMetadata.__new__(FutureRecordMetadata)

    monkeypatch.setattr(KafkaProducer, "send", send)
    monkeypatch.setattr(KafkaProducer, "_serialize", lambda self, how, topic, headers, data: data)
    monkeypatch.setattr(
        kafka_python, "_DeadlineFuture", lambda future, *_: type("", (), {"add_errback": lambda *_: 0})()
    )

    def sent(topic: str, key: bytes, partition: int | None) -> Headers:
        made.send(topic, b"value", key, COPIED, partition)
        found: Headers = given.pop()
        return found

    return sent


def by_aiokafka(monkeypatch: pytest.MonkeyPatch) -> Send:
    """A producer that never connects."""
    given: list[Any] = []

    async def send(self: Any, topic: Any, value: Any, key: Any, partition: Any, at: Any, headers: Any) -> Any:
        given.append(headers)
        return asyncio.get_running_loop().create_future()

    monkeypatch.setattr(AIOKafkaProducer, "send", send)
    monkeypatch.setattr(AIOKafkaProducer, "__del__", lambda self: None, raising=False)
    made = aiokafka.Producer.__new__(aiokafka.Producer)
    made._topic, made._router, made._key_serializer = "orders", Led(), None  # type: ignore[assignment]

    def sent(topic: str, key: bytes, partition: int | None) -> Headers:
        asyncio.run(made.send(topic, b"value", key, partition, None, COPIED))
        found: Headers = given.pop()
        return found

    return sent


def by_confluent(monkeypatch: pytest.MonkeyPatch) -> Send:
    """A producer on confluent-kafka that never connects."""
    monkeypatch.setattr(confluent_module, "TableRouter", Led)
    made = confluent.Producer(
        "orders",
        RoutingConfig({}),
        {"bootstrap.servers": "localhost:1", "log_level": 0, "partitioner": "murmur2_random"},
    )
    given: list[Any] = []
    made._own = lambda *record: given.append(record[-1])

    def sent(topic: str, key: bytes, partition: int | None) -> Headers:
        made.produce(topic, b"value", key, -1 if partition is None else partition, headers=COPIED)
        found: Headers = given.pop()
        return found

    return sent


@pytest.mark.parametrize("client", [by_kafka_python, by_aiokafka, by_confluent])
def test_a_copied_stamp_is_removed(
    client: Callable[[pytest.MonkeyPatch], Send], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stamp is removed for a split key, for other keys, for an explicit partition, and for another
    topic.
    """
    send = client(monkeypatch)
    for _ in range(2):  # confluent-kafka's producer remembers keys
        trace, (name, data) = send("orders", b"split", None)
        assert trace == ("trace", b"7")
        assert name == HEADER
        assert data != b"copied"
        assert send("orders", b"another", None) == [("trace", b"7")]
        assert send("orders", b"split", 1) == [("trace", b"7")]
        assert send("others", b"split", None) == [("trace", b"7")]
    assert COPIED == [("trace", b"7"), (HEADER, b"copied")], "what the application gave stays as it was"


def test_a_copied_stamp_enters_no_batch_of_aiokafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """The application builds a batch without calling `send`."""
    given: list[Any] = []

    class Builder:
        def append(self, *, timestamp: Any, key: Any, value: Any, headers: Any = ()) -> str:
            given.append((timestamp, key, value, headers))
            return "metadata"

    monkeypatch.setattr(AIOKafkaProducer, "create_batch", lambda self: Builder())
    monkeypatch.setattr(AIOKafkaProducer, "__del__", lambda self: None, raising=False)
    batch = aiokafka.Producer.__new__(aiokafka.Producer).create_batch()
    assert batch.append(timestamp=5, key=b"k", value=b"v", headers=COPIED) == "metadata"
    batch.append(timestamp=None, key=b"k", value=None)
    assert given == [(5, b"k", b"v", [("trace", b"7")]), (None, b"k", None, None)]
