"""Consumers that keep each key's order against a plain poll loop on the same client, by where marks are kept.

One broker on this machine, 24 partitions, records of 100 bytes, keys drawn by a Zipf law (s = 1) of 10,000,
which no table has moved; a handler that does nothing. Each run reads the same records from the beginning, in
a group of its own, one run after the other, and the order of them changes with each round. The plain loop
calls the handler, too, takes 500 records at a time, and commits as often as ours. Marks lie in memory, in a
SQLite file, or in a PostgreSQL on this machine, both without waiting for the disk: a disk that is waited for
adds its own time to each transaction of up to 500 records, whoever keeps effects there. The clock runs from
the first record to the last; processor time is that of the whole process, a server's is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import aiokafka
import confluent_kafka
import psycopg
from kafka import KafkaAdminClient, KafkaConsumer
from keys_clients import PARTITIONS, VALUE, draws
from results import write_result

from support.postgres import postgres_server
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab_keys.clients import aiokafka as ours_aiokafka
from trimtab_keys.clients import confluent as ours_confluent
from trimtab_keys.clients import kafka_python as ours_kafka_python
from trimtab_keys.clients.checkpoints import (
    CheckpointStore,
    InMemoryCheckpointStore,
    PostgresCheckpointStore,
    SqliteCheckpointStore,
)
from trimtab_keys.clients.ordered_consumer import POLL_SECONDS
from trimtab_keys.clients.settings import RoutingConfig

RECORDS = {"kafka-python": 400_000, "aiokafka": 800_000, "confluent-kafka": 1_000_000}
"""More than clients fetch ahead (1 MB a partition): else all lies there when the clock begins."""
QUICK_FETCH = {"fetch.queue.backoff.ms": 10}
"""By default librdkafka waits a second when its queue is full, which would hide what a consumer takes."""
OWN = "plain loop"
AT_ONCE = 500

_groups = count()


class Clock:
    """Counts records, from the first to the last that is awaited.

    Attributes
    ----------
    left
        How many are awaited.
    done
        Whether all have come.
    seconds, cpu_seconds
        What they took, the first left out.
    """

    def __init__(self, records: int) -> None:
        self.left, self.done = records, False
        self._started = 0.0, 0.0
        self.seconds = self.cpu_seconds = 0.0

    def handle(self, record: Any) -> None:
        """The handler."""
        self.left -= 1
        if self._started == (0.0, 0.0):
            self._started = time.perf_counter(), time.process_time()
        if not self.left:
            self.seconds = time.perf_counter() - self._started[0]
            self.cpu_seconds = time.process_time() - self._started[1]
            self.done = True


class Commits:
    """When a plain loop commits: as often as ours, and only after records."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._at, self._left = clock, 0.0, clock.left

    def due(self) -> bool:
        """Whether it does now."""
        now = time.monotonic()
        if now - self._at < POLL_SECONDS or self._clock.left == self._left:
            return False
        self._at, self._left = now, self._clock.left
        return True


def kafka_python(bootstrap: str, topic: str, group: str, clock: Clock, marks: CheckpointStore | None) -> None:
    """On kafka-python; plain without marks."""
    if marks is None:
        config = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        client, commits = KafkaConsumer(topic, bootstrap_servers=bootstrap, **config), Commits(clock)
        while not clock.done:
            for records in client.poll(timeout_ms=200).values():
                for record in records:
                    clock.handle(record)
            if commits.due():
                client.commit()
        client.close(autocommit=False)
        return
    following = RoutingConfig({"bootstrap_servers": bootstrap})
    ours = ours_kafka_python.Consumer(
        topic, group, clock.handle, marks, following, bootstrap_servers=bootstrap
    )
    while not clock.done:
        ours.step()
    ours.close()


def on_aiokafka(bootstrap: str, topic: str, group: str, clock: Clock, marks: CheckpointStore | None) -> None:
    """On aiokafka; plain without marks."""

    async def plain() -> None:
        config = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        client, commits = (
            aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **config),
            Commits(clock),
        )
        await client.start()
        while not clock.done:
            for records in (await client.getmany(timeout_ms=200, max_records=AT_ONCE)).values():
                for record in records:
                    clock.handle(record)
            if commits.due():
                await client.commit()
        await client.stop()

    async def guarded(marks: CheckpointStore) -> None:
        following = RoutingConfig({"bootstrap_servers": bootstrap})
        ours = ours_aiokafka.Consumer(
            topic, group, clock.handle, marks, following, bootstrap_servers=bootstrap
        )
        await ours.start()
        while not clock.done:
            await ours.step()
        await ours.close()

    asyncio.run(plain() if marks is None else guarded(marks))


def on_confluent(bootstrap: str, topic: str, group: str, clock: Clock, marks: CheckpointStore | None) -> None:
    """On confluent-kafka; plain without marks."""
    config = {"bootstrap.servers": bootstrap, **QUICK_FETCH}
    if marks is None:
        client, commits = confluent_kafka.Consumer(
            {**config, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        ), Commits(clock)  # fmt: skip
        client.subscribe([topic])
        while not clock.done:
            message = client.poll(0.2)
            for _ in range(AT_ONCE):
                if message is None:
                    break
                if message.error() is None:
                    clock.handle(message)
                message = client.poll(0)
            if message is not None and message.error() is None:
                clock.handle(message)
            if commits.due():
                client.commit(asynchronous=False)
        client.close()
        return
    following = RoutingConfig({"bootstrap_servers": bootstrap})
    ours = ours_confluent.Consumer(topic, group, clock.handle, marks, following, config)
    while not clock.done:
        ours.step()
    ours.close()


CLIENTS: dict[str, Callable[[str, str, str, Clock, CheckpointStore | None], None]] = {
    "kafka-python": kafka_python,
    "aiokafka": on_aiokafka,
    "confluent-kafka": on_confluent,
}


@contextmanager
def marks_named(name: str, folder: Path, address: str) -> Iterator[CheckpointStore | None]:
    """New marks at one of the places; None for the plain loop."""
    if name == "marks in SQLite":
        database = sqlite3.connect(
            folder / f"marks-{next(_groups)}", isolation_level=None, check_same_thread=False
        )
        with closing(database):
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = OFF")
            yield SqliteCheckpointStore(database)
    elif name == "marks in PostgreSQL":
        with psycopg.connect(address) as connection:
            yield PostgresCheckpointStore(connection)
    else:
        yield None if name == OWN else InMemoryCheckpointStore()


def compared(client: str, bootstrap: str, folder: Path, address: str, rounds: int) -> dict[str, Any]:
    """Medians over rounds, by name of the run: records a second, ratios to the plain loop, processor time."""
    names = [OWN, "marks in memory", "marks in SQLite", "marks in PostgreSQL"]
    records, rows = RECORDS[client], []
    for number in range(rounds + 1):
        found = {}
        for name in names[number % 4 :] + names[: number % 4]:
            clock = Clock(records)
            with marks_named(name, folder, address) as marks:
                gc.collect()
                CLIENTS[client](bootstrap, client, f"{client}-{next(_groups)}", clock, marks)
            found[name] = clock.seconds, clock.cpu_seconds
        if number:  # the first warms the broker
            rows.append(found)
    return {
        name: {
            "per_second": statistics.median(records / row[name][0] for row in rows),
            "ratio": statistics.median(row[OWN][0] / row[name][0] for row in rows),
            "least_ratio": min(row[OWN][0] / row[name][0] for row in rows),
            "most_ratio": max(row[OWN][0] / row[name][0] for row in rows),
            "cpu_us": statistics.median(row[name][1] for row in rows) / records * 1e6,
        }
        for name in names
    }


def fill(bootstrap: str, topic: str, records: int) -> None:
    """Write the records."""
    config = {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 20}
    producer = confluent_kafka.Producer({**config, "queue.buffering.max.messages": records})
    for key in draws(records):
        producer.produce(topic, VALUE, key)
    producer.flush()


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=6)
    given = options.parse_args()
    clients = {}
    with (
        KafkaSandbox.start(1, prometheus=False) as sandbox,
        tempfile.TemporaryDirectory() as folder,
        postgres_server("-F") as address,
    ):
        bootstrap = sandbox.connection.bootstrap[0]
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            for client, records in RECORDS.items():
                made = {client: {"num_partitions": PARTITIONS, "replication_factor": 1}}
                admin.create_topics(made, wait_for_metadata=True)
                fill(bootstrap, client, records)
                row = clients[client] = compared(client, bootstrap, Path(folder), address, given.rounds)
                print(client, {name: round(one["ratio"], 2) for name, one in row.items()}, flush=True)
    write_result("keys_consumers", {"clients": clients, "records": RECORDS, "rounds": given.rounds})


if __name__ == "__main__":
    main()
