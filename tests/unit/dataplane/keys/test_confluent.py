"""What confluent-kafka's consumer does with errors in its callbacks, and what its producer warns of."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from trimtab.dataplane.keys import confluent as module
from trimtab.dataplane.keys.confluent import Consumer, Producer
from trimtab.dataplane.keys.sending import Sending
from trimtab.dataplane.keys.settings import Following
from trimtab.model.errors import SettingsError
from trimtab.model.keys.routing import Route, RoutingTable, group_count
from trimtab.online.keys.murmur2 import POSITIVE, murmur2
from trimtab.online.keys.order.sender import Sender


class Deaf:
    """A client whose coordinator does not answer."""

    closed = False

    def __init__(self, deaf_for: int = 10**9) -> None:
        self._deaf_for = deaf_for
        self.begun: list[TopicPartition] = []

    def committed(self, names: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Nobody says, or not at first."""
        self._deaf_for -= 1
        if self._deaf_for >= 0:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return [TopicPartition(one.topic, one.partition, 7) for one in names]

    def get_watermark_offsets(self, name: TopicPartition, timeout: float) -> tuple[int, int]:
        """Of a log."""
        return 3, 9

    def assign(self, partitions: list[TopicPartition]) -> None:
        """It begins."""
        self.begun += partitions

    def poll(self, seconds: float) -> None:
        """Nothing comes."""

    def close(self) -> None:
        """The end."""
        self.closed = True


class Patient:
    """As much of `Receiving` as a step without records asks for."""

    commits: ClassVar[dict[int, int]] = {}

    def patience(self, seconds: float) -> float:
        """At once."""
        return 0.0

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []

    def assigned(self, partition: int, position: int) -> None:
        """A partition begins."""
        self.begun.append((partition, position))

    def close(self) -> None:
        """The end."""


def consumer(client: Deaf) -> Any:
    """One that was never connected."""
    made: Any = Consumer.__new__(Consumer)
    made.client, made.receiving, made._incremental = client, Patient(), False
    made._topic, made._closing, made._trouble = "orders", False, None
    return made


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for is given up at once, and nothing is waited in between."""
    monkeypatch.setattr(module, "BEGIN_SECONDS", 0.0)
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.0)


def test_a_partition_whose_leader_has_just_died_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its next leader is known some seconds later: no reason for the consumer to end."""
    monkeypatch.setattr(module, "BEGIN_SECONDS", 60.0)
    late = consumer(Deaf(deaf_for=5))
    late._assigned(late.client, [TopicPartition("orders", 2)])
    assert late.receiving.begun == [(2, 7)]
    assert [(one.partition, one.offset) for one in late.client.begun] == [(2, 7)]
    assert late._trouble is None


def test_an_error_in_a_callback_is_raised_by_the_step() -> None:
    """Raised in the callback it would come out as a `KafkaError`, which no `except` catches."""
    deaf = consumer(Deaf())
    deaf._assigned(deaf.client, [TopicPartition("orders", 0)])
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        deaf.step()
    assert deaf._trouble is None
    assert not deaf.receiving.begun


def test_a_rebalance_while_it_closes_asks_nobody() -> None:
    """Nothing is consumed any more."""
    deaf = consumer(Deaf())
    deaf.close()
    deaf._assigned(deaf.client, [TopicPartition("orders", 0)])
    assert deaf.client.closed
    assert deaf._trouble is None


class Led:
    """As much of a `Guide` as a producer that sends nothing asks for."""

    follower: Any = None
    sending: Any = None

    def __init__(self, *_: Any) -> None:
        pass

    def check(self) -> None:
        """The topic is the one that it was."""


def made(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Producer:
    """A producer that never meets a broker."""
    monkeypatch.setattr(module, "Guide", Led)
    return Producer("orders", Following({}), {"bootstrap.servers": "localhost:1", "log_level": 0, **config})


@pytest.mark.parametrize(
    ("config", "warned"),
    [({}, 0), ({"partitioner": "murmur2"}, 0), ({"partitioner": "consistent_random"}, 1)],
)
def test_another_partitioner_than_the_java_clients_is_warned_of(
    config: dict[str, Any], warned: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's own default, given by name, sends a key elsewhere than a Java client does."""
    made(config, monkeypatch)
    told = [one.getMessage() for one in caplog.records if one.name == "trimtab.keys"]
    assert len(told) == warned
    assert all("partitioner is consistent_random: keys of other topics go elsewhere" in one for one in told)


@pytest.mark.parametrize(
    "config", [{"acks": 1}, {"enable.idempotence": False}, {"message.timeout.ms": 300_000}]
)
def test_a_producer_that_could_not_keep_order_is_refused(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In librdkafka's words."""
    with pytest.raises(SettingsError):
        made(config, monkeypatch)


class Batches:
    """A producer that never meets a broker, under a table: cold keys, a moved group, a split key."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int = 100) -> None:
        self.told: list[tuple[bytes, bytes, int, str]] = []
        self.sending = Sending(Sender(4), "p", 4, 1.0)
        table = RoutingTable(1, 4, 4, {GROUP_OF_MOVED: Route((MOVED_TO,))}, {b"hot": Route((1, 3))})
        sender = self.sending._sender
        sender.seen(table, 0.0)
        sender.flushed(1)
        sender.ends_read(1, dict.fromkeys(range(4), 7), 0.0)
        monkeypatch.setattr(Led, "sending", self.sending)
        monkeypatch.setattr(Led, "follower", Recreated)
        self.producer = made({"queue.buffering.max.messages": room}, monkeypatch)

    def callback(self, name: str) -> Any:
        """Notes what comes of a record, under a name."""
        return lambda _, message: self.told.append(
            (message.key(), message.value(), message.partition(), name)
        )

    def come_of_it(self) -> list[tuple[bytes, bytes, int, str]]:
        """Key, value, partition and name of each record that was queued."""
        self.producer.purge()
        self.producer.poll(5)
        return sorted(self.told, key=lambda one: one[1])


class Recreated:
    """As much of a `Follower` as is asked for."""

    recreated = None


MOVED, COLD = b"moved", b"cold"
GROUP_OF_MOVED = (murmur2(MOVED) & POSITIVE) % group_count(4)
MOVED_TO = ((murmur2(MOVED) & POSITIVE) + 1) % 4
COLD_AT = (murmur2(COLD) & POSITIVE) % 4


def test_a_batch_goes_where_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record with its own callback or the batch's; what the application gave stays as it was."""
    batches = Batches(monkeypatch)
    own = batches.callback("own")
    messages: list[dict[str, Any]] = [
        {"key": COLD, "value": b"1"},
        {"key": MOVED, "value": b"2", "partition": None},
        {"key": b"hot", "value": b"3", "callback": own},
        {"key": "cold", "value": "4", "callback": own, "partition": -1},
        {"key": COLD, "value": b"5", "partition": 2},
        {"key": b"hot", "value": b"6"},
    ]
    for turn in range(2):  # in the first no key was met before
        given = [dict(one) for one in messages]
        assert batches.producer.produce_batch("orders", given, on_delivery=batches.callback("all")) == 6
        assert given == messages, turn
    found = batches.come_of_it()
    assert [one for one in found if one[0] != b"hot"] == [
        one
        for one in (
            (COLD, b"1", COLD_AT, "all"),
            (MOVED, b"2", MOVED_TO, "all"),
            (COLD, b"4", COLD_AT, "own"),
            (COLD, b"5", 2, "all"),
        )
        for _ in range(2)
    ]
    assert [one[1::2] for one in found if one[0] == b"hot"] == [(b"3", "own")] * 2 + [(b"6", "all")] * 2
    assert {one[2] for one in found if one[0] == b"hot"} <= {1, 3}
    assert batches.sending._sender._trails[b"hot"].sequence == 4, "the batch's records are numbered"
    assert sum(batches.sending.load) == 10, "all count but those with a partition of their own"


def test_what_a_batch_has_no_room_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the records that go together, and of those that go one by one."""
    batches = Batches(monkeypatch, room=3)
    batches.producer.produce("orders", b"0", COLD)
    keys = COLD, b"hot", COLD, b"hot", MOVED
    messages: list[dict[str, Any]] = [{"key": key, "value": b"1"} for key in keys]
    assert batches.producer.produce_batch("orders", messages) == 2
    assert [one.get("_error") and one["_error"].code() for one in messages] == [
        None,
        KafkaError._QUEUE_FULL,
        None,
        KafkaError._QUEUE_FULL,
        KafkaError._QUEUE_FULL,
    ]
    assert batches.sending._failures, "the places of the split key's are filled"
    assert batches.producer.produce_batch("orders", [{"key": COLD, "value": b"1"}]) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        5,
        {"key": bytearray(b"hot"), "value": b""},
        {"key": b"hot", "value": 5},
        {"key": COLD, "value": 5},
        {"key": b"hot", "value": b"", "timestamp": 5},
        {"key": COLD, "value": b"", "timestamp": 5},
        {"key": b"hot", "value": b"", "partition": "2"},
    ],
)
def test_of_a_batch_that_is_refused_nothing_is_sent(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the client has it, before the first."""
    batches = Batches(monkeypatch)
    told = batches.callback("all")
    batches.producer.produce("orders", b"0", COLD, on_delivery=told)
    right = [{"key": key, "value": b"1"} for key in (COLD, b"hot", MOVED)]
    with pytest.raises((TypeError, NotImplementedError), match="message 3 of the batch"):
        batches.producer.produce_batch("orders", [*right, wrong], on_delivery=told)
    with pytest.raises(TypeError, match="messages is tuple, expected a list"):
        batches.producer.produce_batch("orders", tuple(right), on_delivery=told)  # type: ignore[arg-type]
    assert batches.come_of_it() == [(COLD, b"0", COLD_AT, "all")]


def test_a_batch_of_another_topic_is_the_clients_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one with a partition of its own."""
    batches = Batches(monkeypatch)
    told = batches.callback("all")
    assert batches.producer.produce_batch("others", [{"key": b"hot", "value": b"0"}], callback=told) == 1
    assert batches.producer.produce_batch("orders", [{"key": b"hot", "value": b"1"}], 2, told) == 1
    assert batches.sending._sender._trails[b"hot"].sequence == 0
    assert batches.come_of_it()[1:] == [(b"hot", b"1", 2, "all")]
