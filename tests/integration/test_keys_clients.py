"""The contract of producers and consumers that keep each key's order, for all clients, on real brokers."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.connection import KafkaConnection

from kill_tests.keys import KeysKillTest
from support.admin_calls import ask
from support.kafka_classes import sent_by_java
from support.keys_place import FIRST_CLIENT_IN_TEST, TABLES, Place, effects_in_order, wait_until
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.keys.load import KeysViolation
from trimtab.lab.sandbox.keys.worker import CLIENTS, AnyConsumer, AnyProducer, SqliteEffects
from trimtab_common.errors import InputError
from trimtab_keys.clients.metadata_connection import MetadataConnection
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.core.order import OrderingConfig, SearchStream, Stamp
from trimtab_keys.core.routing import POSITIVE, Route, RoutingTable, group_count, murmur2
from trimtab_keys.format import HEADER, PublishedTable, stamp_bytes, table_bytes

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("keys_clients_ended")]

_numbers = count()


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """One broker for all clients."""
    with KafkaSandbox.start(1, prometheus=False) as sandbox:
        place = Place(sandbox)
        yield place
        place.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_each_keys_order_is_preserved_while_tables_change_under_load(
    place: Place, client: str, tmp_path: Path
) -> None:
    """A third of the groups move, a hot key is split, over an added partition as well, and put together."""
    topic, sent = place.topic(4), Counter[bytes]()
    following = place.following

    def consumers() -> list[AnyConsumer]:
        """Two members of one group."""
        return [
            AnyConsumer(
                client, place.bootstrap, topic, f"g-{topic}", SqliteEffects(tmp_path / "effects"), following
            )
            for _ in range(2)
        ]

    takers = consumers()
    effects = SqliteEffects(tmp_path / "effects")
    sender = AnyProducer(client, place.bootstrap, topic, following)
    keys = [f"key {number}".encode() for number in range(40)]

    def load(records: int) -> None:
        """Twenty one by one, twenty as a batch."""
        for first in range(0, records, 20):
            some = []
            for number in range(first, first + 20):
                key = b"hot" if number % 2 else keys[number // 2 % len(keys)]
                sent[key] += 1
                some.append((key, str(sent[key]).encode()))
            if first % 40 and client == "confluent-kafka":
                batch = [{"key": key, "value": value} for key, value in some]
                assert sender.producer.produce_batch(topic, batch) == len(batch), batch
                sender.producer.poll(0)
            else:
                for key, value in some:
                    sender.send(key, value)
            time.sleep(0.01)

    def load_until_followed(version: int) -> None:
        wait_until(lambda: load(100) or sender.version == version, f"table {version} is followed")
        load(200)

    load(200)
    place.publish(topic, RoutingTable(1, 4, 4, {}, {b"hot": Route((0, 1, 2))}))
    load_until_followed(1)
    # Somebody adds a partition: everything stays where it is until consumers are seen to have it.
    ask(place.connection, lambda admin: admin.create_partitions({topic: 5}))
    if client == "confluent-kafka":
        # librdkafka at times never notices a partition that is added; a consumer made anew has it.
        for taker in takers:
            taker.close()
        takers = consumers()
    wait_until(
        lambda: (
            load(20)
            or {4}
            <= {one for beat in place.heartbeats(topic) for one in beat.assigned if beat.role == "consumer"}
        ),
        "a consumer has the added partition",
    )
    groups = range(0, group_count(4), 3)
    moved = {group: Route(((group + 1) % 4,), (group % 4,)) for group in groups}
    place.publish(topic, RoutingTable(2, 4, 5, moved, {b"hot": Route((2, 3, 4), (0, 1, 2))}))
    load_until_followed(2)
    wait_until(
        lambda: {beat.version for beat in place.heartbeats(topic)} == {2}, "all have told that they follow"
    )
    home = (murmur2(b"hot") & POSITIVE) % 4
    place.publish(topic, RoutingTable(3, 4, 5, moved, {b"hot": Route((home,), (0, 1, 2, 3, 4))}))
    load_until_followed(3)
    sender.close()
    wait_until(lambda: effects.count() >= sum(sent.values()), "everything has taken effect")
    wait_until(
        lambda: (
            {beat.member for beat in place.heartbeats(topic) if beat.role == "consumer" and beat.wrapped}
            == place.members(f"g-{topic}")
        ),
        "who is wrapped is seen by its heartbeat",
    )
    for taker in takers:
        taker.close()
        assert taker.trouble is None
    effects_in_order(effects, sent)
    places = {partition for key, _, partition in effects.all() if key == b"hot"}
    assert places == {0, 1, 2, 3, 4}, "the hot key was spread"
    wait_until(lambda: not place.heartbeats(topic), "who ends in order is gone at once")


def test_cold_keys_have_the_partition_of_the_java_client(place: Place, tmp_path: Path) -> None:
    """All clients without a table send each of 2,000 keys to the partition that the Java client picks."""
    topic = place.topic(24)
    keys = [f"{number}".encode() * (1 + number % 7) for number in range(2000)] + [b"\x00\xff", b"\x80" * 31]
    sent_by_java(keys, place.bootstrap, topic, tmp_path)
    for client in CLIENTS:
        sender = AnyProducer(client, place.bootstrap, topic, place.following)
        for key in keys:
            sender.send(key, client.encode())
        sender.close()
    found: dict[bytes, dict[bytes, int]] = {}
    reader = KafkaConsumer(topic, **place.settings, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    for read, record in enumerate(reader, 1):
        found.setdefault(record.value, {})[record.key] = record.partition
        if read == 4 * len(keys):
            break
    reader.close()
    assert len(found) == 4
    assert len(found[b"j"]) == len(keys)
    assert all(one == found[b"j"] for one in found.values())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_key_that_is_a_number_is_refused(place: Place, client: str) -> None:
    """As each client does; as bytes it would be so many zeros."""
    topic = place.topic(3)
    with closing(AnyProducer(client, place.bootstrap, topic, place.following)) as sender:
        with pytest.raises((TypeError, AssertionError)):
            sender.send(3, b"1")  # type: ignore[arg-type]
        sender.send(b"3", b"1")
    with closing(
        KafkaConsumer(topic, bootstrap_servers=place.bootstrap, auto_offset_reset="earliest")
    ) as found:
        assert [one.key for one in next(iter(found.poll(30_000).values()))] == [b"3"]


@pytest.mark.parametrize("client", CLIENTS)
def test_without_a_readable_table_the_plain_hash_continues_with_a_log_line(
    place: Place, client: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A torn table, then one of another topic, then a sound one: sends never stop, and all is in order."""
    topic, sent = place.topic(3), Counter[bytes]()
    place.publish(topic, RoutingTable(1, 3, 3), damage=b'{"format": "trimtab/keys-table/1", "topic"')
    with caplog.at_level(logging.WARNING, "trimtab.keys"):
        sender = AnyProducer(client, place.bootstrap, topic, place.following)
    assert "going by the plain hash" in caplog.text
    assert "is torn or no JSON" in caplog.text

    def send(key: bytes | None) -> None:
        sent[key or b""] += 1
        sender.send(key, str(sent[key or b""]).encode())

    for number in range(100):
        send(b"key %d" % (number % 5))
        send(None)
    wait_until(
        lambda: any("torn" in (beat.plain_because or "") for beat in place.heartbeats(topic)), "it is told"
    )
    other = table_bytes(PublishedTable("other", "id", RoutingTable(9, 3, 3)))
    place.publish(topic, RoutingTable(1, 3, 3), damage=other)
    wait_until(
        lambda: any("another topic" in (beat.plain_because or "") for beat in place.heartbeats(topic)),
        "it is told",
    )
    send(b"key 0")
    assert sender.version == 0
    place.publish(topic, RoutingTable(1, 3, 3, {}, {b"key 0": Route((0, 1, 2))}))
    wait_until(lambda: sender.version == 1, "the sound table is followed")
    # What a broker refuses is refused to the application, and the stream goes on without it.
    with pytest.raises(Exception, match=r"(?i)size|large"):
        sender.send(b"key 0", b"x" * 3_000_000)
    for _ in range(50):
        send(b"key 0")
    long = b"k" * 700_000
    send(long)
    sender.close()
    effects = SqliteEffects(tmp_path / "effects")
    taker = AnyConsumer(client, place.bootstrap, topic, f"g-{topic}", effects, place.following)
    wait_until(lambda: effects.count() >= sum(sent.values()), "everything has taken effect")
    taker.close()
    assert taker.trouble is None
    keyless = [int(value) for key, value, _ in effects.all() if key is None]
    assert sorted(keyless) == list(range(1, sent.pop(b"") + 1))
    effects.connection.execute("DELETE FROM effects WHERE key IS NULL")
    effects_in_order(effects, sent)


@pytest.mark.parametrize("client", FIRST_CLIENT_IN_TEST)
def test_a_recreated_topic_is_another_topic(place: Place, client: str, tmp_path: Path) -> None:
    """Producer and consumer of the old topic report it; new ones start at the beginning, with or without old
    checkpoints.
    """
    topic = place.topic(1)
    effects = SqliteEffects(tmp_path / "effects")
    sender = AnyProducer(client, place.bootstrap, topic, place.following)
    taker = AnyConsumer(client, place.bootstrap, topic, f"g-{topic}", effects, place.following)
    for number in range(1, 6):
        sender.send(b"key", b"%d" % number)
    wait_until(lambda: effects.count() == 5, "the old topic's records take effect")
    ask(place.connection, lambda admin: admin.delete_topics([topic]))
    wait_until(lambda: _made(place, topic), "it can be made anew")
    wait_until(lambda: taker.trouble is not None, "the consumer notices")
    assert isinstance(taker.trouble, InputError)
    assert "deleted and made anew" in str(taker.trouble)

    def refused() -> bool:
        try:
            sender.producer._router.check()
        except InputError:
            return True
        return False

    wait_until(refused, "the producer notices")
    with pytest.raises(InputError, match="deleted and made anew"):
        sender.send(b"key", b"6")
    for one in (taker, sender):
        one.close()
    sender = AnyProducer(client, place.bootstrap, topic, place.following)
    sender.send(b"key", b"1")
    sender.close()
    taker = AnyConsumer(client, place.bootstrap, topic, f"g-{topic}", effects, place.following)
    wait_until(lambda: effects.count() == 6, "the new topic's record takes effect")
    taker.close()


def _made(place: Place, topic: str) -> bool:
    def make(admin: Any) -> bool:
        made = admin.create_topics(
            {topic: {"num_partitions": 1, "replication_factor": 1}}, raise_errors=False
        )
        return "error_code': 0" in str(made) or not any(
            one.get("error_code") for one in (made.get("topics", []) if isinstance(made, dict) else [])
        )

    return bool(ask(place.connection, make))


@pytest.mark.parametrize("client", FIRST_CLIENT_IN_TEST)
def test_no_more_records_are_held_than_configured(place: Place, client: str, tmp_path: Path) -> None:
    """3,000 records wait for ten of another partition: no more than 300 and a batch are fetched till then."""
    topic = place.topic(2)
    writer = KafkaProducer(**place.settings)
    header = HEADER, stamp_bytes(place.id_of(topic), "p", Stamp(1, ((1, 10),)))
    for number in range(1, 3001):
        writer.send(topic, b"%d" % number, b"k", [header], 0)
    writer.flush()
    effects = SqliteEffects(tmp_path / "effects")
    following = replace(place.following, ordering=OrderingConfig(held_records=300))
    taker = AnyConsumer(client, place.bootstrap, topic, f"g-{topic}", effects, following)
    most = 0

    def held() -> int:
        nonlocal most
        most = max(most, taker.consumer.receiving.held)
        return most

    wait_until(lambda: held() >= 300, "records are held")
    until = time.monotonic() + 3
    while time.monotonic() < until:
        held()
        time.sleep(0.01)
    assert effects.count() == 0
    for number in range(1, 11):
        writer.send(topic, b"%d" % number, b"other", None, 1)
    writer.close()
    wait_until(lambda: held() and effects.count() == 3010, "all of them take effect")
    taker.close()
    effects_in_order(effects, Counter({b"k": 3000, b"other": 10}))
    assert most <= 300 + 500


def test_sequences_without_a_commit_are_searched(place: Place) -> None:
    """The lowest sequence that is there is found, over all partitions, of this stream alone.

    What was taken back is not there: consumers would wait for it for ever.
    """
    topic = place.topic(2)
    writer = KafkaProducer(**place.settings)
    for number, partition in ((1, 0), (4, 1), (3, 0), (9, 1)):
        header = HEADER, stamp_bytes(place.id_of(topic), "p", Stamp(2, (), number))
        writer.send(topic, b"v", b"k", [header], partition)
    writer.close()
    # A transaction took this one back: no consumer that reads what is committed ever receives it.
    beside = confluent_kafka.Producer({"bootstrap.servers": place.bootstrap, "transactional.id": topic})
    beside.init_transactions(30)
    beside.begin_transaction()
    aborted = stamp_bytes(place.id_of(topic), "p", Stamp(2, (), 2))
    beside.produce(topic, b"v", b"k", 0, headers=[(HEADER, aborted)])
    beside.flush(30)
    beside.abort_transaction(30)
    side = MetadataConnection(place.settings, topic)
    try:
        assert side.search("nobody", SearchStream(("p", b"k", 2), 2, 8)) == 3
        assert side.search("nobody", SearchStream(("p", b"k", 2), 5, 8)) is None
        assert side.search("nobody", SearchStream(("p", b"k", 3), 1, 9)) is None
    finally:
        side.close()


def test_ten_idle_processes_send_no_more_requests_than_documented(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five producers and five consumers for six seconds, as documented in docs/balancers/keys.md; no process
    reads heartbeats. Their own requests use librdkafka, so all requests of kafka-python are from side
    connections.
    """
    topic, seconds = place.topic(5), 6.0
    following = RoutingConfig(place.settings, tables_topic=TABLES)
    stores = [SqliteEffects(tmp_path / f"{number}") for number in range(5)]
    takers = [
        AnyConsumer("confluent-kafka", place.bootstrap, topic, f"g-{topic}", one, following) for one in stores
    ]
    senders = [AnyProducer("confluent-kafka", place.bootstrap, topic, following) for _ in range(5)]

    def settled() -> bool:
        beats = place.heartbeats(topic)
        return len(beats) == 10 and sum(len(one.assigned) for one in beats) == 5

    wait_until(settled, "each has told what it has")
    asked, read = Counter[str](), Counter[str]()
    send, take = KafkaConnection._send_request, MetadataConnection._take

    def counted(self: Any, request: Any, *given: Any, **named: Any) -> Any:
        asked[type(request).__name__.partition("Request")[0]] += 1
        return send(self, request, *given, **named)

    def taken(self: Any, found: Any) -> None:
        read["records"] += sum(map(len, found.values()))
        take(self, found)

    monkeypatch.setattr(KafkaConnection, "_send_request", counted)
    monkeypatch.setattr(MetadataConnection, "_take", taken)
    time.sleep(seconds)
    monkeypatch.undo()
    print({name: count / seconds for name, count in asked.items()})
    for sender in senders:
        sender.close()
    for taker in takers:
        taker.close()
    assert read["records"] == 0
    # Each may have asked once more than its share of the time.
    bounds = {"Metadata": 5.0, "Fetch": 1.0, "Produce": 10 / 3}
    assert {"Metadata", "Produce"} <= asked.keys() <= bounds.keys()
    for name, per_second in bounds.items():
        assert asked[name] <= per_second * seconds + 10, name


@pytest.mark.parametrize("client", FIRST_CLIENT_IN_TEST)
def test_a_record_that_is_sent_again_with_its_headers_takes_effect_again(
    place: Place, client: str, tmp_path: Path
) -> None:
    """By a retry that copies them; its key goes on at once. A plain tool's copy is dropped and counted."""
    topic, other = place.topic(2), place.topic(2)
    for one in (topic, other):
        place.publish(one, RoutingTable(1, 2, 2, {}, {b"hot": Route((0, 1))}))
    sender = AnyProducer(client, place.bootstrap, topic, place.following)
    wait_until(lambda: sender.version == 1, "the table is followed")
    for number in range(1, 4):
        sender.send(b"hot", b"%d" % number)
    sender.flush()
    with closing(KafkaConsumer(topic, **place.settings, auto_offset_reset="earliest")) as reader:
        first = next(one for one in reader if one.value == b"1")
    assert [name for name, _ in first.headers] == [HEADER]
    sender.send(b"hot", b"4", headers=first.headers)
    sender.send(b"hot", b"5")
    sender.close()
    plain = KafkaProducer(**place.settings)
    for name in (topic, other):
        plain.send(name, b"1", b"hot", first.headers)
    plain.close()
    for name, sent in ((topic, 5), (other, 1)):
        effects = SqliteEffects(tmp_path / name)
        taker = AnyConsumer(client, place.bootstrap, name, f"g-{name}", effects, place.following)
        wait_until(lambda: effects.count() >= sent, "everything has taken effect")  # noqa: B023
        counts = taker.consumer.receiving.counts
        wait_until(lambda: counts.duplicates + counts.foreign_stamps == 1, "the copy is read")  # noqa: B023
        taker.close()
        assert taker.trouble is None
        effects_in_order(effects, Counter({b"hot": sent}))
        assert (counts.handled, counts.duplicates, counts.foreign_stamps) == (
            sent,
            name == topic,
            name == other,
        )


def test_no_order_breaks_and_nothing_is_lost_when_processes_are_killed(place: Place, tmp_path: Path) -> None:
    """Four kills at random steps, of producers and consumers on all three clients, while tables change.

    `scripts/kill-test keys --kills 50` is the same at length.
    """
    told = KeysKillTest(place.bootstrap, tmp_path, 7, CLIENTS[::2], CLIENTS).run(4)
    assert sum(told.killed.values()) == 4
    assert told.effects >= told.acknowledged > 200


def test_the_kill_tests_detect_order_violations(place: Place, tmp_path: Path) -> None:
    """Effects that are overtaken, doubled, lost, or before those of the run before."""

    def found(effects: list[tuple[str, str]], acknowledged: dict[str, str]) -> str:
        folder = tmp_path / f"{next(_numbers)}"
        folder.mkdir()
        with closing(SqliteEffects(folder / "effects").connection) as database:
            database.executemany(
                "INSERT INTO effects (key, value, partition) VALUES (?, ?, 0)",
                [(b"k", f"{run} {number}".encode()) for run, number in effects],
            )
        for run, numbers in acknowledged.items():
            text = "".join(f"k {number}\n" for number in numbers.split())
            (folder / f"acknowledged-{run}").write_text(text)
        kills = KeysKillTest(place.bootstrap, folder, 1000 + next(_numbers), (), ())
        kills.runs[0] = ["a", "b"]
        kills.close()
        try:
            kills.check()
        except KeysViolation as error:
            return str(error)
        return ""

    assert found([("a", "1"), ("a", "2"), ("b", "1")], {"a": "1 2", "b": "1"}) == ""
    assert found([("a", "2")], {"a": "2"}) == "", "what was not acknowledged may be missing"
    assert "out of order" in found([("a", "2"), ("a", "1")], {"a": "1 2"})
    assert "doubled" in found([("a", "1"), ("a", "1")], {"a": "1"})
    assert "had no effect" in found([("a", "1")], {"a": "1 2"})
    assert "the run before" in found([("a", "1"), ("b", "1"), ("a", "2")], {"a": "1 2", "b": "1"})
