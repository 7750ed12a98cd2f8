"""A producer or consumer of keyed records as a process, on any of the three client libraries."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Self

from trimtab.history.keys.simulation import parse_zipf
from trimtab_keys.clients import aiokafka, confluent, kafka_python
from trimtab_keys.clients.checkpoints import SqliteCheckpointStore
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.core.order import OrderingConfig

CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka")
SESSION_MS = 6000
"""A member that was killed is missed after so long; members on different clients share a group."""


def field(record: Any, name: str) -> Any:
    """A field of a client's record: confluent-kafka has methods."""
    found = getattr(record, name)
    return found() if callable(found) else found


class SqliteEffects:
    """Effects in a SQLite file with one connection each; an effect is a key, its number, and a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=60, cached_statements=16
        )
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = OFF")
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS effects "
            "(place INTEGER PRIMARY KEY, key BLOB, value BLOB, partition INTEGER, at REAL)"
        )
        self.checkpoints = SqliteCheckpointStore(self.connection)

    def handle(self, record: Any) -> None:
        """Store the record as one effect."""
        self.connection.execute(
            "INSERT INTO effects (key, value, partition, at) VALUES (?, ?, ?, ?)",
            (field(record, "key"), field(record, "value"), field(record, "partition"), time.time()),
        )

    def all(self) -> list[tuple[bytes, bytes, int]]:
        """Key, value and partition of all effects, in order."""
        return self._read("SELECT key, value, partition FROM effects ORDER BY place")

    def count(self) -> int:
        """Number of effects in the database."""
        return int(self._read("SELECT count(*) FROM effects")[0][0])

    def _read(self, query: str) -> list[Any]:
        # Read beside it through the same connection, a consumer's transaction fails: "database is locked".
        with contextlib.closing(sqlite3.connect(self._path, timeout=60)) as reader:
            return reader.execute(query).fetchall()


class _EventLoopThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Any) -> Any:
        """Run a coroutine to its end."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    def close(self) -> None:
        """Stop the loop and its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


class AnyProducer:
    """A producer of any client.

    Attributes
    ----------
    closed
        Whether it was ended.
    """

    closed = False

    def __init__(
        self, client: str, bootstrap: str, topic: str, following: RoutingConfig, **config: Any
    ) -> None:
        self._topic, self._client, self._loop = topic, client, None
        if client == "aiokafka":
            self._loop = _EventLoopThread()

            async def make() -> Any:
                made = aiokafka.Producer(topic, following, bootstrap_servers=bootstrap, **config)
                await made.start()
                return made

            self.producer: Any = self._loop.run(make())
        elif client == "confluent-kafka":
            named = {name.replace("_", "."): value for name, value in config.items()}
            named = {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", **named}
            self.producer = confluent.Producer(topic, following, named)
        else:
            self.producer = kafka_python.Producer(topic, following, bootstrap_servers=bootstrap, **config)

    @property
    def version(self) -> int:
        """Of the table that it follows."""
        return int(self.producer._router.sending.version)

    def send(
        self,
        key: bytes | None,
        value: bytes,
        acknowledged: Callable[[], object] | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Send; `acknowledged` is called once the record is."""
        given = list(headers)
        if self._loop is not None:
            future = self._loop.run(self.producer.send(self._topic, value, key, headers=given))
            if acknowledged:
                future.add_done_callback(lambda done: done.exception() or acknowledged())
        elif self._client == "confluent-kafka":

            def delivered(error: Any, _: Any) -> None:
                if error is None and acknowledged:
                    acknowledged()

            self.producer.produce(self._topic, value, key, on_delivery=delivered, headers=given)
            self.producer.poll(0)
        else:
            future = self.producer.send(self._topic, value, key, given)
            if acknowledged:
                future.add_callback(lambda _: acknowledged())

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        if self._loop is not None:
            self._loop.run(self.producer.flush())
        else:
            self.producer.flush()

    def close(self) -> None:
        """Send what is buffered, then close the producer."""
        self.closed = True
        if self._loop is None:
            self.producer.close()
        else:
            self._loop.run(self.producer.stop())
            self._loop.close()


class AnyConsumer:
    """A consumer of any client, on a thread of its own; `config` goes to the client, in kafka-python's words.

    Attributes
    ----------
    trouble
        What ended it.
    closed
        Whether it was ended.
    """

    closed = False

    def __init__(
        self,
        client: str,
        bootstrap: str,
        topic: str,
        group: str,
        effects: SqliteEffects,
        following: RoutingConfig,
        **config: Any,
    ) -> None:
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor as RangeOfAiokafka
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        self.trouble: BaseException | None = None
        self._loop = _EventLoopThread() if client == "aiokafka" else None
        given = topic, group, effects.handle, effects.checkpoints, following
        if self._loop is not None:

            async def make() -> Any:
                made = aiokafka.Consumer(
                    *given,
                    bootstrap_servers=bootstrap,
                    session_timeout_ms=SESSION_MS,
                    heartbeat_interval_ms=1000,
                    partition_assignment_strategy=[RangeOfAiokafka],
                    **config,
                )
                await made.start()
                return made

            self.consumer: Any = self._loop.run(make())
        elif client == "confluent-kafka":
            self.consumer = confluent.Consumer(
                *given,
                {
                    "bootstrap.servers": bootstrap,
                    "topic.metadata.refresh.interval.ms": 1000,
                    "session.timeout.ms": SESSION_MS,
                    "heartbeat.interval.ms": 1000,
                    "partition.assignment.strategy": "range",
                    **{name.replace("_", "."): value for name, value in config.items()},
                },
            )
        else:
            self.consumer = kafka_python.Consumer(
                *given,
                bootstrap_servers=bootstrap,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=1000,
                partition_assignment_strategy=[RangePartitionAssignor],
                **config,
            )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            if self._loop is not None:
                asyncio.run_coroutine_threadsafe(self.consumer.run(), self._loop.loop).result()
            else:
                self.consumer.run()
        except BaseException as error:
            self.trouble = error

    def close(self) -> None:
        """Leave the group and end."""
        self.closed = True
        self.consumer.stop()
        self._thread.join(60)
        if self._loop is None:
            self.consumer.close()
        else:
            self._loop.run(self.consumer.close())
            self._loop.close()


HOT = b"hot"
TABLES = "trimtab-tables"
ORDERING = OrderingConfig(
    switch_seconds=5.0, delivery_seconds=10.0, gap_seconds=12.0, fence_seconds=20.0, run_records=5
)
"""Shorter than by default, so that what the dead left behind is looked after while a run lasts."""
LATE_SECONDS = 2.0
"""What a busy machine made late is made up for so far back, and not beyond."""
LINGER_MS = 10
"""Records that come so soon after one another go in one request."""
POLLED_RECORDS = 10
"""At a time of a bounded consumer: it looks after tables and commits between two polls."""
STOPPING: list[bool] = []


@dataclass(frozen=True)
class WorkerTask:
    """The task of a worker process.

    Attributes
    ----------
    role, client
        `produce` or `consume`, and on which client.
    name
        Of this run.
    folder
        Where acknowledgements and effects are kept.
    keys
        As many, and one that is hot: half of the records are its.
    key_distribution
        Of keys instead, as `trimtab.history.keys.simulation` reads it; empty for none.
    names
        Other than 0, keys of the law have other names.
    rate
        Records a second that are sent.
    consumes
        Records a second that a consumer can do; 0: as many as it can.
    start_seconds
        A producer waits so long for its first table.
    ordering
        Time-outs of the order guard.
    """

    role: str
    client: str
    bootstrap: str
    topic: str
    name: str
    folder: str
    group: str = "kills"
    keys: int = 20
    key_distribution: str = ""
    names: int = 0
    rate: float = 200.0
    consumes: float = 0.0
    start_seconds: float = 60.0
    ordering: OrderingConfig = ORDERING

    def text(self) -> str:
        """The options as one command-line argument."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Self:
        """Read the options that `text` wrote."""
        found = json.loads(text)
        return cls(**found | {"ordering": OrderingConfig(**found["ordering"])})


def key_of(chance: random.Random, keys: int) -> bytes:
    """A random key; half of the keys are the hot one."""
    return HOT if chance.random() < 0.5 else b"key-%d" % chance.randrange(keys)


def produce(work: WorkerTask, following: RoutingConfig) -> None:
    """Send numbers by key, each when it is due, until told to stop; what is acknowledged is written at once.

    A value is the run's name, the number, and the time at which it was sent.
    """
    acknowledged = os.open(
        Path(work.folder) / f"acknowledged-{work.name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND
    )
    requests = (
        {} if work.client == "confluent-kafka" else {"request_timeout_ms": 8000, "linger_ms": LINGER_MS}
    )
    sender = AnyProducer(work.client, work.bootstrap, work.topic, following, **requests)
    chance, numbers = random.Random(work.name), dict[bytes, int]()
    draw = (
        parse_zipf(work.key_distribution).drawn(chance, work.names)
        if work.key_distribution
        else partial(key_of, chance, work.keys)
    )
    due = time.monotonic()
    while not STOPPING:
        key = draw()
        number = numbers[key] = numbers.get(key, 0) + 1
        told = partial(os.write, acknowledged, b"%s %d\n" % (key, number))
        sender.send(key, f"{work.name} {number} {time.time():.6f}".encode(), told)
        due = max(due + 1 / work.rate, time.monotonic() - LATE_SECONDS)
        time.sleep(max(0.0, due - time.monotonic()))
    sender.close()
    os.close(acknowledged)


class RateLimitedWork:
    """A consumer's own work on each value: so many a second, by the clock, without a processor's time."""

    def __init__(self, per_second: float) -> None:
        self._each, self._free = 1 / per_second, 0.0

    def __call__(self, value: bytes | None) -> bytes | None:
        """The value, once it is done with."""
        now = time.monotonic()
        self._free = max(self._free, now - LATE_SECONDS) + self._each
        time.sleep(max(0.0, self._free - now))
        return value


def consume(work: WorkerTask, following: RoutingConfig) -> None:
    """Take records until told to stop."""
    effects = SqliteEffects(Path(work.folder) / "effects")
    bounded: dict[str, Any] = {}
    if work.consumes:
        # As a client's deserializer: records are prepared side by side, and only effects wait for their turn.
        bounded = {"value_deserializer": RateLimitedWork(work.consumes), "max_poll_records": POLLED_RECORDS}
    taker = AnyConsumer(work.client, work.bootstrap, work.topic, work.group, effects, following, **bounded)
    while not STOPPING and taker.trouble is None:
        time.sleep(0.1)
    if taker.trouble is not None:
        raise taker.trouble
    taker.close()


def main() -> None:
    """Work, until SIGTERM or worse."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.ERROR)

    def stop(_: int, __: FrameType | None) -> None:
        STOPPING.append(True)

    signal.signal(signal.SIGTERM, stop)
    work = WorkerTask.read(sys.argv[1])
    following = RoutingConfig(
        {"bootstrap_servers": work.bootstrap},
        tables_topic=TABLES,
        start_seconds=work.start_seconds,
        retry_seconds=2.0,
        ordering=work.ordering,
    )
    (produce if work.role == "produce" else consume)(work, following)


if __name__ == "__main__":
    main()
