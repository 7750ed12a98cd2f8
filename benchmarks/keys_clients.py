"""Producers that keep each key's order against their clients' own, and what the guard costs a consumer.

One broker on this machine, 24 partitions, records of 100 bytes, keys drawn by a Zipf law (s = 1) of 10,000.
The table splits the hottest key and has a tenth of the groups elsewhere. It is the first that a producer
reads, so that all of these carry fences; on confluent-kafka also as it stands later, when fences are passed
and only the split key has stamps, for seconds on end, and with larger records.
Each round of runs sends the same records, one run after the other, under the same settings (acks=all,
idempotent); the order of them changes with each round, since whatever else runs on the machine changes
too. The third is a subclass whose send does nothing but call the client's: what any Python around it costs.
A fourth is the client's own with our partitioner alone, by the same table: split keys lose their order then.
With confluent-kafka a fifth is the client's own again, which is given what the guard has to give: partition,
header and callback of each record, thought up before. No guard that costs nothing at all would be faster.
Processor time is that of the whole process: the client's threads, and those that follow tables.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import random
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
from kafka import KafkaAdminClient, KafkaProducer
from results import write_result

from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.keys.worker import SqliteEffects
from trimtab_keys.clients import aiokafka as ours_aiokafka
from trimtab_keys.clients import confluent as ours_confluent
from trimtab_keys.clients import kafka_python as ours_kafka_python
from trimtab_keys.clients.checkpoints import CheckpointStore, InMemoryCheckpointStore
from trimtab_keys.clients.ordered_consumer import OrderedConsumer
from trimtab_keys.clients.partitioners import PolicyPartitioner
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.core.order import Stamp
from trimtab_keys.core.policies import KeyPolicyInputs
from trimtab_keys.core.routing import Route, RoutingTable, key_group
from trimtab_keys.format import HEADER, PublishedTable, stamp_bytes, write_table

TOPIC = "benchmark"
PARTITIONS = 24
VALUE = b"v" * 100
HOTTEST = b"key-00000000"
SPLIT = {HOTTEST: Route((0, 1, 2, 3))}
MOVED = {group: Route((group % 23,)) for group in range(0, 1032, 10)}
LIMIT = 0.9
BATCH = 1_000
QUEUED = 2_000_000
"""Records that confluent-kafka takes before it refuses more."""

Run = Callable[[list[bytes]], None]


def draws(count: int) -> list[bytes]:
    """Keys of 12 bytes."""
    weights = list(itertools.accumulate(1 / rank for rank in range(1, 10_001)))
    chosen = random.Random(2).choices(range(10_000), cum_weights=weights, k=count)
    return [b"key-%08d" % one for one in chosen]


def kafka_python(make: Callable[[], Any]) -> Run:
    """Send all, then wait."""

    def run(keys: list[bytes]) -> None:
        producer = make()
        begin()
        for key in keys:
            producer.send(TOPIC, VALUE, key)
        producer.flush()
        end()
        producer.close()

    return run


def on_confluent(
    make: Callable[[], Any],
    send: Callable[[Any, list[bytes]], None],
    settle: Callable[[Any], None] | None = None,
) -> Run:
    """Send all, then wait."""

    def run(keys: list[bytes]) -> None:
        producer = make()
        producer.list_topics(TOPIC)
        if settle is not None and hasattr(producer, "_guide"):
            settle(producer)
        begin()
        send(producer, keys)
        producer.flush()
        end()
        if hasattr(producer, "_guide"):
            producer.close()

    return run


def one_by_one(value: bytes) -> Callable[[Any, list[bytes]], None]:
    """Poll every hundred records, as the client's manual has it, and longer where its queue is full."""

    def send(producer: Any, keys: list[bytes]) -> None:
        for number, key in enumerate(keys):
            try:
                producer.produce(TOPIC, value, key)
            except BufferError:
                while len(producer) > QUEUED // 2:
                    producer.poll(0.01)
                producer.produce(TOPIC, value, key)
            if not number % 100:
                producer.poll(0)

    return send


def told(value: bytes) -> Callable[[Any, list[bytes]], None]:
    """The same, with partitions, and with headers and callbacks for the hottest key's."""
    callback: Callable[[Any, Any], None] = lambda error, message: None  # noqa: E731
    cold = RoutingTable(1, PARTITIONS, PARTITIONS, MOVED)

    def send(producer: Any, keys: list[bytes]) -> None:
        places = {key: cold.route(key_group(key, PARTITIONS), key).partitions[0] for key in {*keys}}
        header = [(HEADER, stamp_bytes("f" * 36, "f" * 32, Stamp(1, (), 1_000_000)))]
        records = [
            (number // 160 % 4, callback, header) if key == HOTTEST else (places[key], None, None)
            for number, key in enumerate(keys)
        ]
        begin()
        for number, (key, (place, back, headers)) in enumerate(zip(keys, records, strict=True)):
            try:
                producer.produce(TOPIC, value, key, place, back, None, 0, headers)
            except BufferError:
                while len(producer) > QUEUED // 2:
                    producer.poll(0.01)
                producer.produce(TOPIC, value, key, place, back, None, 0, headers)
            if not number % 100:
                producer.poll(0)

    return send


def by_partitioner(value: bytes) -> Callable[[Any, list[bytes]], None]:
    """The same, with the partition that our partitioner says; it keeps no order."""
    partitioner, partitions = without_order(), range(PARTITIONS)

    def send(producer: Any, keys: list[bytes]) -> None:
        for number, key in enumerate(keys):
            producer.produce(TOPIC, value, key, partitioner(key, partitions))
            if not number % 100:
                producer.poll(0)

    return send


def without_order(kind: type[PolicyPartitioner] = PolicyPartitioner) -> PolicyPartitioner:
    """A partitioner by the same table."""
    return kind(
        "key_groups", KeyPolicyInputs(table=RoutingTable(1, PARTITIONS, PARTITIONS, MOVED, SPLIT)), seed=1
    )


def in_batches(producer: Any, keys: list[bytes]) -> None:
    """By `produce_batch`, a thousand at a time."""
    for first in range(0, len(keys), BATCH):
        while len(producer) > QUEUED // 2:
            producer.poll(0.01)
        batch = [{"value": VALUE, "key": key} for key in keys[first : first + BATCH]]
        assert producer.produce_batch(TOPIC, batch) == len(batch)
        producer.poll(0)


class Tables:
    """The table that producers follow, in a file, and those that come after it."""

    def __init__(self, topic_id: str, file: Path) -> None:
        self._topic_id, self._file, self._version = topic_id, file, 0
        self.publish(())

    def publish(self, passed: tuple[int, ...]) -> None:
        """The same routes again, with what has taken effect."""
        self._version += 1
        table = RoutingTable(self._version, PARTITIONS, PARTITIONS, MOVED, SPLIT, passed)
        write_table(PublishedTable(TOPIC, self._topic_id, table), self._file)

    def settle(self, producer: Any) -> None:
        """Let a producer see that all that it waits for has taken effect."""
        self.publish((2**40,) * PARTITIONS)
        while producer._router.sending.version < self._version:
            time.sleep(0.05)


def on_aiokafka(make: Callable[[], Any]) -> Run:
    """Send all, then wait."""

    async def work(keys: list[bytes]) -> None:
        producer = make()
        await producer.start()
        begin()
        for key in keys:
            await producer.send(TOPIC, VALUE, key)
        await producer.flush()
        end()
        await producer.stop()

    return lambda keys: asyncio.run(work(keys))


class BareKafkaPython(KafkaProducer):  # type: ignore[misc]
    """Calls the client's own."""

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        """As its own."""
        return super().send(topic, value, key, headers, partition, timestamp_ms)


class BareAiokafka(aiokafka.AIOKafkaProducer):  # type: ignore[misc]
    """Calls the client's own."""

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> Any:
        """As its own."""
        return await super().send(topic, value, key, partition, timestamp_ms, headers)


class BareConfluent(confluent_kafka.Producer):
    """Calls the client's own."""

    def produce(  # type: ignore[override]
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
        callback: Any = None,
    ) -> None:
        """As its own."""
        super().produce(topic, value, key, partition)

    def produce_batch(  # type: ignore[override]
        self, topic: str, messages: list[dict[str, Any]], partition: int = -1
    ) -> int:
        """As its own."""
        return super().produce_batch(topic, messages, partition)


CLOCK: list[float] = []


def begin() -> None:
    """Start both clocks."""
    gc.collect()
    CLOCK[:] = time.perf_counter(), time.process_time()


def end() -> None:
    """Stop both clocks."""
    CLOCK[:] = time.perf_counter() - CLOCK[0], time.process_time() - CLOCK[1]


def producers(
    bootstrap: str, following: RoutingConfig, tables: Tables
) -> dict[str, tuple[int, dict[str, Run]]]:
    """Each client's records a run, and its producers."""
    same = {"bootstrap_servers": bootstrap, "acks": "all", "enable_idempotence": True}
    large = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "queue.buffering.max.messages": QUEUED,
    }
    own = {**large, "partitioner": "murmur2_random"}

    def confluent(
        send: Callable[[Any, list[bytes]], None], settle: Callable[[Any], None] | None = None
    ) -> dict[str, Run]:
        return {
            "own": on_confluent(lambda: confluent_kafka.Producer(own), send),
            "bare": on_confluent(lambda: BareConfluent(own), send),
            "ours": on_confluent(lambda: ours_confluent.Producer(TOPIC, following, own), send, settle),
        }

    def sized(value: bytes) -> dict[str, Run]:
        run = confluent(one_by_one(value), tables.settle)
        return {
            **run,
            "partitioner": on_confluent(lambda: confluent_kafka.Producer(own), by_partitioner(value)),
            "told": on_confluent(lambda: confluent_kafka.Producer(own), told(value)),
        }

    small = one_by_one(VALUE)
    return {
        "kafka-python": (
            30_000,
            {
                "own": kafka_python(lambda: KafkaProducer(**same)),
                "bare": kafka_python(lambda: BareKafkaPython(**same)),
                "ours": kafka_python(lambda: ours_kafka_python.Producer(TOPIC, following, **same)),
                "partitioner": kafka_python(
                    lambda: KafkaProducer(partitioner=without_order(ours_kafka_python.Partitioner), **same)
                ),
            },
        ),
        "aiokafka": (
            40_000,
            {
                "own": on_aiokafka(lambda: aiokafka.AIOKafkaProducer(**same)),
                "bare": on_aiokafka(lambda: BareAiokafka(**same)),
                "ours": on_aiokafka(lambda: ours_aiokafka.Producer(TOPIC, following, **same)),
                "partitioner": on_aiokafka(
                    lambda: aiokafka.AIOKafkaProducer(partitioner=without_order(), **same)
                ),
            },
        ),
        "confluent-kafka": (200_000, confluent(small)),
        "confluent-kafka, fences passed": (200_000, confluent(small, tables.settle)),
        "confluent-kafka, fences passed, 2,000,000 records": (2_000_000, sized(VALUE)),
        "confluent-kafka, fences passed, 2,000,000 records in batches": (
            2_000_000,
            confluent(in_batches, tables.settle),
        ),
        "confluent-kafka, fences passed, 1,000,000 records of 300 bytes": (1_000_000, sized(b"v" * 300)),
        "confluent-kafka, fences passed, 500,000 records of 1,000 bytes": (500_000, sized(b"v" * 1000)),
    }


def compared(records: int, runs: dict[str, Run], rounds: int) -> dict[str, float]:
    """Medians over rounds: records a second, ratios of throughput to the client's own, processor time."""
    keys = draws(records)
    rows = []
    names = [*runs]
    for number in range(rounds + 1):
        found = {}
        for name in names[number % len(names) :] + names[: number % len(names)]:
            runs[name](keys)
            found[name] = tuple(CLOCK)
        if number:  # the first warms broker and hashes
            rows.append(found)
    medians = {}
    for name in names:
        medians[f"{name}_per_second"] = statistics.median(records / row[name][0] for row in rows)
        medians[f"{name}_ratio"] = statistics.median(row["own"][0] / row[name][0] for row in rows)
        medians[f"{name}_cpu_us"] = statistics.median(row[name][1] for row in rows) / records * 1e6
    return medians


def guard_cost(following: RoutingConfig, marks: CheckpointStore, stamped: bool, count: int) -> float:
    """Nanoseconds from received to done of a record whose handler does nothing, in steps of 500."""
    receiving = OrderedConsumer(following, TOPIC, "benchmark", "benchmark", lambda _: None, marks)
    try:
        receiving.assigned(0, 0)
        keys = draws(count)
        headers = [
            [(HEADER, stamp_bytes(receiving._topic_id, "p", Stamp(1, (), number + 1)))] if stamped else []
            for number in range(count)
        ]
        begun = time.process_time()
        for first in range(0, count, 500):
            for offset in range(first, min(first + 500, count)):
                key = b"hot" if stamped else keys[offset]
                receiving.received(0, offset, key, headers[offset], None)
            receiving.turn()
            receiving.committed(dict(receiving.commits))
        return (time.process_time() - begun) / count * 1e9
    finally:
        receiving.close()


def held_bytes(following: RoutingConfig, count: int) -> float:
    """Bytes that a record takes which waits at a fence, each of a key of its own, its content apart."""
    receiving = OrderedConsumer(
        following, TOPIC, "benchmark", "benchmark", lambda _: None, InMemoryCheckpointStore()
    )
    try:
        receiving.assigned(0, 0)
        keys = [b"held-%08d" % number for number in range(count)]
        header = [(HEADER, stamp_bytes(receiving._topic_id, "p", Stamp(1, ((1, 10**9),), 0)))]
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for offset, key in enumerate(keys):
            receiving.received(0, offset, key, header, None)
        after = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert receiving.held == count
        return (after - before) / count
    finally:
        receiving.close()


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=6)
    given = options.parse_args()
    with KafkaSandbox.start(1, prometheus=False) as sandbox, tempfile.TemporaryDirectory() as folder:
        bootstrap = sandbox.connection.bootstrap[0]
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.create_topics(
            {TOPIC: {"num_partitions": PARTITIONS, "replication_factor": 1}}, wait_for_metadata=True
        )
        topic_id = str(admin.describe_topics([TOPIC])[0]["topic_id"])
        file = Path(folder) / "table.json"
        tables = Tables(topic_id, file)
        following = RoutingConfig({"bootstrap_servers": bootstrap}, table_file=file, read_seconds=0.2)
        clients = {}
        for name, (records, runs) in producers(bootstrap, following, tables).items():
            row = clients[name] = compared(records, runs, given.rounds)
            print(name, {part: round(value, 2) for part, value in row.items()}, flush=True)
        effects = SqliteEffects(Path(folder) / "effects")
        guard = {
            "plain, marks in memory": guard_cost(following, InMemoryCheckpointStore(), False, 100_000),
            "split, marks in memory": guard_cost(following, InMemoryCheckpointStore(), True, 100_000),
            "plain, marks in SQLite": guard_cost(following, effects.checkpoints, False, 30_000),
            "split, marks in SQLite": guard_cost(following, effects.checkpoints, True, 30_000),
        }
        held = held_bytes(following, 20_000)
        print(guard, held)
        admin.close()
    write_result(
        "keys_clients",
        {"clients": clients, "guard_ns": guard, "held_bytes": held, "limit": LIMIT, "rounds": given.rounds},
    )


if __name__ == "__main__":
    main()
