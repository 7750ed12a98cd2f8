"""One producer or consumer as a process, until it is told to stop, or killed."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Self

from trimtab.history.keys.stream import parse_zipf
from trimtab.lab.sandbox.keys.clients import AnyConsumer, AnyProducer, SqliteEffects
from trimtab_keys.clients.settings import RoutingConfig
from trimtab_keys.core.order.settings import OrderingConfig

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
    """What a process is to do.

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
        Of keys instead, as `trimtab.history.keys.stream` reads it; empty for none.
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
        """As an argument."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Self:
        """What `text` wrote."""
        found = json.loads(text)
        return cls(**found | {"ordering": OrderingConfig(**found["ordering"])})


def key_of(chance: random.Random, keys: int) -> bytes:
    """A drawn key: every second the hot one."""
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
