"""Policies that go by load, as partitioners of three clients, on a real broker with a slow consumer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata

from support.admin_calls import ask
from support.keys_place import Place, wait_until
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab_common.errors import ConnectError, InputError
from trimtab_keys.clients.kafka_python import Partitioner
from trimtab_keys.clients.live_load import LiveLoad
from trimtab_keys.clients.metadata_connection import MetadataConnection
from trimtab_keys.clients.partitioners import PolicyPartitioner
from trimtab_keys.clients.settings import LoadConfig

pytestmark = pytest.mark.kafka

HOT = b"21"
"""Partition 0 of 4."""


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """One broker for all."""
    with KafkaSandbox.start(1, prometheus=False) as sandbox:
        place = Place(sandbox)
        yield place
        place.close()


class SlowConsumer:
    """The one member of a group, which does so many records a second of each partition and commits them."""

    def __init__(self, place: Place, topic: str, per_second: float) -> None:
        self._client = KafkaConsumer(
            topic, **place.settings, group_id=f"g-{topic}", enable_auto_commit=False,
            auto_offset_reset="earliest", metadata_max_age_ms=500,
        )  # fmt: skip
        self._per_second, self._stopping = per_second, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        done: dict[Any, float] = {}
        at = time.monotonic()
        while not self._stopping.wait(0.1):
            self._client.poll(timeout_ms=100)
            now, last = time.monotonic(), at
            at = now
            for name in self._client.assignment():
                room = done.get(name, 0.0) + self._per_second * (now - last)
                done[name] = min(room, float(self._client.position(name)))
            if done:
                self._client.commit({name: OffsetAndMetadata(int(one), "", -1) for name, one in done.items()})
        self._client.close(autocommit=False)

    def close(self) -> None:
        """Leave the group."""
        self._stopping.set()
        self._thread.join(30)


Send = Callable[[bytes], None]


def by_kafka_python(place: Place, topic: str, load: LiveLoad, stack: ExitStack) -> Send:
    """Its partitioner asks the client for new metadata by itself."""
    producer = KafkaProducer(
        **place.settings, partitioner=Partitioner("ipooa", seed=1, load=load), linger_ms=0
    )
    stack.callback(producer.close)
    return lambda key: producer.send(topic, key=key, value=b"v").get(30)


def by_aiokafka(place: Place, topic: str, load: LiveLoad, stack: ExitStack) -> Send:
    """It hears of new partitions within `metadata_max_age_ms`."""
    loop = stack.enter_context(closing(asyncio.new_event_loop()))

    async def begun() -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            **place.settings,
            partitioner=PolicyPartitioner("ipooa", seed=1, load=load),
            metadata_max_age_ms=500,
        )
        await producer.start()
        return producer

    producer = loop.run_until_complete(begun())
    stack.callback(lambda: loop.run_until_complete(producer.stop()))
    return lambda key: loop.run_until_complete(producer.send_and_wait(topic, b"v", key=key))


def by_confluent(place: Place, topic: str, load: LiveLoad, stack: ExitStack) -> Send:
    """It refuses a partition that it does not know, so that it is asked to look when one was added."""
    producer = ConfluentProducer({"bootstrap.servers": place.bootstrap, "linger.ms": 0})
    partitioner, known = PolicyPartitioner("ipooa", seed=1, load=load), [0]

    def send(key: bytes) -> None:
        if known[0] < load.partitions:
            known[0] = len(producer.list_topics(topic, timeout=30).topics[topic].partitions)
        producer.produce(topic, b"v", key, partition=partitioner(key, range(known[0])))
        assert not producer.flush(30)

    return send


@pytest.mark.parametrize("client", [by_kafka_python, by_aiokafka, by_confluent])
def test_ipooa_diverts_a_hot_key_and_adds_a_partition(
    place: Place, client: Callable[[Place, str, LiveLoad, ExitStack], Send]
) -> None:
    """Its partition is over Θ, so others take its records; once all are, a fifth is added, and no sixth."""
    topic = place.topic(4)
    settings = LoadConfig(
        place.settings, topic, f"g-{topic}", capacity_per_second=20, interval_seconds=0.1, max_partitions=5,
        add_seconds=0.5,
    )  # fmt: skip
    ends = partial(ends_of, place, topic)
    with ExitStack() as stack:
        stack.enter_context(closing(SlowConsumer(place, topic, 20)))
        load = stack.enter_context(LiveLoad(settings))
        send = client(place, topic, load, stack)
        sent = 0

        def more(records: int) -> None:
            nonlocal sent
            for _ in range(records):
                send(HOT)
            sent += records

        more(10)
        assert ends() == {0: 10, 1: 0, 2: 0, 3: 0}, "home, as long as its consumer can do it"
        # A backlog alone makes an ISC of one half: a rate has to be seen as well.
        wait_until(
            lambda: more(30) or sum(map(bool, ends().values())) > 1, "a hot key goes to more than its own one"
        )
        wait_until(lambda: more(30) or ends().get(4, 0) > 0, "a partition was added, and a record went there")
        before = ends()[4]
        wait_until(lambda: more(30) or ends()[4] > before, "it takes records as the others do")
        more(100)
        assert sum(ends().values()) == sent
    assert len(ends()) == 5, "max_partitions"


def test_capacity_is_measured_if_none_is_declared(place: Place) -> None:
    """While the consumer keeps up nothing is diverted; what it can do shows once records wait for it."""
    topic = place.topic(4)
    settings = LoadConfig(place.settings, topic, f"g-{topic}", interval_seconds=0.2, commit_seconds=1.0)
    with closing(SlowConsumer(place, topic, 20)), LiveLoad(settings) as load:
        partition = PolicyPartitioner("ipooa", seed=1, load=load)
        writer = KafkaProducer(**place.settings)
        for _ in range(300):
            one = partition(HOT, range(4))
            assert one == 0, "nobody knows yet that its consumer cannot do so much"
            writer.send(topic, key=HOT, value=b"v", partition=one)
        writer.close()
        wait_until(lambda: load.load.capacity[0] < 1000, "what the consumer can do was measured")
        # A busy machine makes it slower, and no machine makes it faster than it may be, but for a late clock.
        assert 1 < load.load.capacity[0] < 60
        assert partition(HOT, range(4)) != 0


def ends_of(place: Place, topic: str) -> dict[int, int]:
    """Records in each partition."""
    found = ask(place.connection, lambda admin: admin.describe_topics([topic]))[0]["partitions"]
    with closing(MetadataConnection(place.settings, topic)) as side:
        return side.ends(range(len(found)))


def test_a_load_that_cannot_be_read_is_refused_when_it_is_made(place: Place) -> None:
    """A topic that is not there; brokers that are not."""
    with pytest.raises(InputError, match="topic no-such-topic: is not there"):
        LiveLoad(LoadConfig(place.settings, "no-such-topic", "g"))
    nowhere = {"bootstrap_servers": "localhost:1"}
    with pytest.raises(ConnectError, match="did not answer within 0.5 s|cannot be read"):
        LiveLoad(LoadConfig(nowhere, "t", "g", start_seconds=0.5))
