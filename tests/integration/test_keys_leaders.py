"""A leader that dies and transactions beside, while tables change: each key's order is kept, nothing lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from support.admin_calls import ask
from support.keys_place import FIRST_CLIENT_IN_TEST, Place, effects_in_order, wait_until
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.keys.worker import AnyConsumer, AnyProducer, SqliteEffects
from trimtab_keys.core.routing import POSITIVE, Route, RoutingTable, group_count, murmur2

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("keys_clients_ended")]

PARTITIONS = 4
HOME = (murmur2(b"hot") & POSITIVE) % PARTITIONS


@pytest.fixture(scope="module")
def sandbox() -> Iterator[KafkaSandbox]:
    """Three brokers, of which one can be missed."""
    with KafkaSandbox.start(3, prometheus=False) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def place(sandbox: KafkaSandbox) -> Iterator[Place]:
    """Each partition on all three."""
    place = Place(sandbox)
    yield place
    place.close()


class Transactions:
    """A transactional producer that knows nothing of tables; every third transaction is taken back.

    Attributes
    ----------
    sent
        Records committed, by key.
    taken_back
        Transactions that were not.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent, self.taken_back = Counter[bytes](), 0
        self._topic, self._ended = topic, threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"beside-{topic}",
                "partitioner": "murmur2_random",
            }
        )
        self._until_done(self._producer.init_transactions)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No more transactions, once this one is over."""
        self._ended.set()
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        for number in count():
            if self._ended.is_set():
                return
            batch = Counter[bytes]()
            self._producer.begin_transaction()
            try:
                for one in range(10):
                    key = b"beside %d" % ((number + one) % 7)
                    batch[key] += 1
                    self._producer.produce(self._topic, b"%d" % (self.sent[key] + batch[key]), key)
                self._producer.flush(60)
                if number % 3 < 2:
                    self._until_done(self._producer.commit_transaction)
                    self.sent += batch
                    continue
            except confluent_kafka.KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
            self._until_done(self._producer.abort_transaction)
            self.taken_back += 1

    def _until_done(self, call: Callable[[float], None]) -> None:
        while True:
            try:
                return call(30)
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable():
                    raise


@pytest.mark.parametrize("client", FIRST_CLIENT_IN_TEST)
def test_order_survives_a_leader_failure_and_transactions(
    sandbox: KafkaSandbox, place: Place, client: str, tmp_path: Path
) -> None:
    """The leader of the hot key's partition is killed with -9 while the key is split, and restarts."""
    topic, sent = place.topic(PARTITIONS), Counter[bytes]()
    effects = SqliteEffects(tmp_path / "effects")
    takers = [
        AnyConsumer(
            client, place.bootstrap, topic, f"g-{topic}", SqliteEffects(tmp_path / "effects"),
            place.following,
            isolation_level="read_committed",
        )
        for _ in range(2)
    ]  # fmt: skip
    sender = AnyProducer(client, place.bootstrap, topic, place.following)
    beside = Transactions(place.bootstrap, topic)

    def load(records: int) -> None:
        for number in range(records):
            key = b"hot" if number % 2 else b"key %d" % (number // 2 % 20)
            sent[key] += 1
            sender.send(key, b"%d" % sent[key])
            if not number % 20:
                time.sleep(0.01)

    def followed(version: int) -> None:
        wait_until(lambda: load(50) or sender.version == version, f"table {version} is followed")
        load(200)

    # Transactions are at work when the leader dies: kafka-python's run was once over before the third.
    wait_until(lambda: load(50) or beside.taken_back > 0, "a transaction is taken back")
    load(200)
    moved = {group: Route(((group + 1) % 4,), (group % 4,)) for group in range(0, group_count(4), 3)}
    place.publish(topic, RoutingTable(1, 4, 4, moved, {b"hot": Route((0, 1, 2, 3))}))
    victim = leaders(place, topic)[HOME]
    sandbox.kill(victim)
    followed(1)
    wait_until(lambda: victim not in leaders(place, topic).values(), "others lead")
    place.publish(topic, RoutingTable(2, 4, 4, moved, {b"hot": Route((HOME,), (0, 1, 2, 3))}))
    sandbox.restart(victim)
    followed(2)
    sandbox.wait_until_serving()
    load(200)
    sender.close()
    beside.close()
    assert beside.taken_back
    wait_until(lambda: effects.count() >= (sent + beside.sent).total(), "everything has taken effect")
    for taker in takers:
        taker.close()
        assert taker.trouble is None
    effects_in_order(effects, sent + beside.sent)
    assert {partition for key, _, partition in effects.all() if key == b"hot"} == {0, 1, 2, 3}


def leaders(place: Place, topic: str) -> dict[int, int]:
    """The broker that leads each partition; -1 while none does."""
    found: Any = ask(place.connection, lambda admin: admin.describe_topics([topic]))[0]["partitions"]
    return {one["partition_index"]: one["leader_id"] for one in found}
