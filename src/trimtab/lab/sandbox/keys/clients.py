"""The three Kafka clients behind one face: a sender and a taker each, for kills and for the contract."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trimtab_keys.clients import aiokafka, confluent, kafka_python
from trimtab_keys.clients.checkpoints import SqliteCheckpointStore
from trimtab_keys.clients.settings import RoutingConfig

CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka")
SESSION_MS = 6000
"""A member that was killed is missed after so long; members on different clients share a group."""


def field(record: Any, name: str) -> Any:
    """A field of a client's record: confluent-kafka has methods."""
    found = getattr(record, name)
    return found() if callable(found) else found


class SqliteEffects:
    """Where effects are kept: a SQLite file, one connection each; an effect is a key, its number, a time."""

    def __init__(self, path: Path) -> None:
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
        """The handler."""
        self.connection.execute(
            "INSERT INTO effects (key, value, partition, at) VALUES (?, ?, ?, ?)",
            (field(record, "key"), field(record, "value"), field(record, "partition"), time.time()),
        )

    def all(self) -> list[tuple[bytes, bytes, int]]:
        """In their order."""
        return self.connection.execute("SELECT key, value, partition FROM effects ORDER BY place").fetchall()

    def count(self) -> int:
        """How many."""
        return int(self.connection.execute("SELECT count(*) FROM effects").fetchone()[0])


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
        """End the thread."""
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

    def send_all(self, records: list[tuple[bytes, bytes]]) -> None:
        """Send keys and values: in one call, where the client has one."""
        if self._client == "confluent-kafka":
            batch = [{"key": key, "value": value} for key, value in records]
            assert self.producer.produce_batch(self._topic, batch) == len(batch), batch
            self.producer.poll(0)
        else:
            for key, value in records:
                self.send(key, value)

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        if self._loop is not None:
            self._loop.run(self.producer.flush())
        else:
            self.producer.flush()

    def close(self) -> None:
        """Deliver and end."""
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
