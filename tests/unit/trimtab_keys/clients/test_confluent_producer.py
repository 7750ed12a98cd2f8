"""Where confluent-kafka's producer hands records, one by one and in batches, and while routes change."""

from __future__ import annotations

import gc
import re
import sys
import threading
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError

from trimtab_common.errors import SettingsError
from trimtab_keys.clients import confluent as module
from trimtab_keys.clients.confluent import Producer
from trimtab_keys.clients.ordered_producer import OrderedProducer
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.core.order import OrderedSender, Stamp
from trimtab_keys.core.routing import POSITIVE, Route, RoutingTable, group_count, murmur2


class Led:
    """As much of a `TableRouter` as a producer that sends nothing asks for."""

    sending = OrderedProducer(OrderedSender(4), "p", 1.0)

    def __init__(self, *_: Any) -> None:
        pass

    def check(self) -> None:
        """The topic is the one that it was."""


def made(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Producer:
    """A producer that never meets a broker."""
    monkeypatch.setattr(module, "TableRouter", Led)
    own = {"bootstrap.servers": "localhost:1", "log_level": 0, "partitioner": "murmur2_random"}
    return Producer(
        "orders", RoutingConfig({}), {name: its for name, its in {**own, **config}.items() if its}
    )


@pytest.mark.parametrize(
    ("partitioner", "told"),
    [
        (
            None,
            "partitioner is not set (librdkafka's default is consistent_random, by CRC-32), expected murm",
        ),
        ("consistent_random", "partitioner is consistent_random, expected murmur2_random"),
        ("fnv1a_random", "partitioner is fnv1a_random, expected murmur2_random"),
    ],
)
def test_a_program_with_another_partitioner_gets_an_error_at_its_start(
    partitioner: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly all of its keys would change their partition without a fence."""
    with pytest.raises(SettingsError, match="^" + re.escape(told)):
        made({"partitioner": partitioner}, monkeypatch)


@pytest.mark.parametrize("partitioner", ["murmur2", "murmur2_random"])
def test_both_partitioners_of_the_java_client_are_accepted(
    partitioner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They differ in records without a key alone."""
    made({"partitioner": partitioner}, monkeypatch)


@pytest.mark.parametrize(
    "config",
    [
        {"acks": 1},
        {"enable.idempotence": "false"},
        {"message.timeout.ms": 300_000},
        {"transactional.id": "payments"},
    ],
)
def test_settings_of_librdkafka_that_break_order_are_rejected(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In librdkafka's terms."""
    with pytest.raises(SettingsError):
        made(config, monkeypatch)


class Batches:
    """A producer that never meets a broker, under a table: cold keys, a moved group, a split key."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int = 100) -> None:
        self.told: list[tuple[bytes, bytes, int, str]] = []
        self.sending = OrderedProducer(OrderedSender(4), "p", 1.0)
        table = RoutingTable(1, 4, 4, {GROUP_OF_MOVED: Route((MOVED_TO,))}, {b"hot": Route((1, 3))})
        sender = self.sending._sender
        sender.adopt_table(table, 0.0)
        sender.flushed(1)
        sender.ends_read(1, dict.fromkeys(range(4), 7), 0.0)
        monkeypatch.setattr(Led, "sending", self.sending)
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


MOVED, COLD = b"moved", b"cold"
GROUP_OF_MOVED = (murmur2(MOVED) & POSITIVE) % group_count(4)
MOVED_TO = ((murmur2(MOVED) & POSITIVE) + 1) % 4
COLD_AT = (murmur2(COLD) & POSITIVE) % 4


def test_a_batch_follows_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_records_that_do_not_fit_a_batch_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_nothing_of_a_rejected_batch_is_sent(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_client_gets_a_batch_of_another_topic_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one with a partition of its own."""
    batches = Batches(monkeypatch)
    told = batches.callback("all")
    assert batches.producer.produce_batch("others", [{"key": b"hot", "value": b"0"}], callback=told) == 1
    assert batches.producer.produce_batch("orders", [{"key": b"hot", "value": b"1"}], 2, told) == 1
    assert batches.sending._sender._trails[b"hot"].sequence == 0
    assert batches.come_of_it()[1:] == [(b"hot", b"1", 2, "all")]


def test_all_arguments_of_a_plain_record_reach_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """By place, where the callback's alias stands between: not as the client's manual counts."""
    batches = Batches(monkeypatch)
    given: list[tuple[Any, ...]] = []
    producer, told = batches.producer, batches.callback("all")
    producer._own = lambda *record: given.append(record)
    for callback in ({"on_delivery": told}, {"callback": told}):
        for _ in range(2):  # in the first round the key was not met before
            producer.produce("orders", b"1", COLD, timestamp=5, headers={"a": b"b"}, **callback)
    assert [(one[:4], one[6:]) for one in given] == [(("orders", b"1", COLD, COLD_AT), (5, {"a": b"b"}))] * 4
    assert all(told in one[4:6] for one in given)
    del producer._own
    producer._own = super(Producer, producer).produce
    producer.produce("orders", b"2", COLD, -1, told, 5, {"a": b"b"})
    assert batches.come_of_it() == [(COLD, b"2", COLD_AT, "all")]


@pytest.mark.parametrize("key", [bytearray(b"hot"), 3, 2.5, [b"hot"]])
def test_the_client_rejects_a_key_of_a_wrong_type(key: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number would come out as so many bytes of nothing."""
    batches = Batches(monkeypatch)
    with pytest.raises(TypeError, match="bytes-like object"):
        batches.producer.produce("orders", b"1", key)
    assert batches.come_of_it() == []


def test_records_in_flight_add_little_for_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """The header of a split key's record is called back as well, and leads nowhere further."""
    batches = Batches(monkeypatch)
    given: list[tuple[Any, ...]] = []
    batches.producer._own = lambda *record: given.append(record)
    batches.producer.produce("orders", b"1", b"hot")
    ((*_, told, _, _, headers),) = given
    assert told is headers[0][1]
    assert {*gc.get_referents(told)} <= {type(told)}


class Stuck:
    """A thread in the midst of a record: the client's own call does not come back until it is let."""

    def __init__(self, producer: Producer, key: bytes) -> None:
        self._inside, self._let = threading.Event(), threading.Event()
        self._key, self._producer = key, producer
        producer._own = self._own
        self._thread = threading.Thread(target=producer.produce, args=("orders", b"1", key))
        self._thread.start()
        assert self._inside.wait(30)

    def _own(self, *_: Any) -> None:
        self._inside.set()
        self._let.wait(30)

    def let(self) -> None:
        """It comes back."""
        self._let.set()
        self._thread.join()


def test_routes_change_when_no_record_is_in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record with an earlier partition lookup goes to the old place: fences would not include it."""
    batches = Batches(monkeypatch)
    batches.producer.produce("orders", b"0", COLD)
    stuck = Stuck(batches.producer, COLD)
    flushed = threading.Event()
    outlet = module._ConfluentAdapter(batches.producer, "orders")
    monkeypatch.setattr(outlet, "partitions", lambda wanted: 4)
    monkeypatch.setattr(outlet, "flush", lambda seconds: not flushed.set())
    table = RoutingTable(2, 4, 4, {}, {b"hot": Route((1, 3)), COLD: Route((0, 2))})
    thread = threading.Thread(
        target=batches.sending.follow, args=(table, outlet, lambda places: dict.fromkeys(places, 9))
    )
    thread.start()
    assert not flushed.wait(0.1)
    assert batches.sending.version == 1
    stuck.let()
    thread.join()
    assert flushed.is_set()
    assert batches.sending.version == 2
    assert COLD not in batches.sending.plain


def test_a_thread_before_its_lookup_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """That thread waits for the change itself."""
    batches = Batches(monkeypatch)
    stuck = Stuck(batches.producer, b"hot")
    assert not module._may_hold_unsent_record()
    stuck.let()


def test_a_thread_that_continued_during_the_inspection_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stood above its record's call may have come back, and have taken the way down with it."""

    def frame() -> Any:
        return sys._getframe()

    looks = [{1: frame(), 2: frame()}, {1: frame()}]
    monkeypatch.setattr(sys, "_current_frames", lambda: looks.pop(0))
    assert module._may_hold_unsent_record()
    same = frame()
    looks[:] = [{1: same, 2: frame()}, {1: same, 3: frame()}]
    assert not module._may_hold_unsent_record(), "one has ended, one has begun since"


def test_frames_above_a_call_do_not_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal's handler, or a finaliser, runs above the record's call: it is in hand all the same."""
    batches = Batches(monkeypatch)
    batches.producer.produce("orders", b"0", COLD)
    seen: list[bool] = []

    def own(*_: Any) -> None:
        def handler() -> None:
            seen.append(module._may_hold_unsent_record())

        handler()

    batches.producer._own = own
    batches.producer.produce("orders", b"1", COLD)
    batches.producer.produce("orders", b"1", b"hot")
    assert seen == [True, False]


class Settled:
    """A message as the client hands it back."""

    def __init__(self, age_seconds: float) -> None:
        self._age_seconds = age_seconds

    def latency(self) -> float:
        """Since the client has it."""
        return self._age_seconds

    def key(self) -> bytes:
        """Of a split key."""
        return b"hot"


@pytest.mark.parametrize("waited", [False, True])
@pytest.mark.parametrize("age_seconds", [1.0, 121.0])
def test_a_late_acknowledgement_is_reported_as_an_error(waited: bool, age_seconds: float) -> None:
    """By the client's clock; for a delayed record by ours, from before."""
    sending = OrderedProducer(OrderedSender(3), "p", 1.0)
    stamp = Stamp(1, ((0, 7),), 7)
    header = module._header_type(sending)(sending.header(stamp)[1])
    since = time.monotonic() - age_seconds if waited else None
    message = Settled(0.5 if waited else age_seconds)
    told: list[Any] = []
    header(None, message, lambda *given: told.append(given), since)
    ((error, its),) = told
    assert its is message
    if age_seconds > 120:
        assert error.code() == KafkaError._MSG_TIMED_OUT
    else:
        assert error is None
    assert list(sending._failures) == [(b"hot", stamp)] * (age_seconds > 120)


def test_the_age_of_a_record_includes_its_wait_for_a_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """The application's callback is called with either clock."""
    batches = Batches(monkeypatch)
    given: list[tuple[Any, ...]] = []
    batches.producer._own = lambda *record: given.append(record)
    monkeypatch.setattr(batches.sending, "placed", lambda key: None)
    monkeypatch.setattr(batches.sending, "begin", lambda key: (0, 1, Stamp(1, (), 1)))
    batches.producer.produce("orders", b"1", b"hot")
    assert time.monotonic() - given[0][4].keywords["since"] < 60
    monkeypatch.undo()
