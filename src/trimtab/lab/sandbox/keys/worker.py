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

from trimtab.dataplane.keys.settings import Following
from trimtab.lab.sandbox.keys.clients import Effects, Sender, Taker
from trimtab.online.keys.order.settings import Guarding

TABLES = "trimtab-tables"
GUARDING = Guarding(
    switch_seconds=5.0, delivery_seconds=10.0, gap_seconds=12.0, fence_seconds=20.0, run_records=5
)
"""Shorter than by default, so that what the dead left behind is looked after while a run lasts."""
STOPPING: list[bool] = []


@dataclass(frozen=True)
class Work:
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
    """

    role: str
    client: str
    bootstrap: str
    topic: str
    name: str
    folder: str
    keys: int = 20
    rate: float = 200.0

    def text(self) -> str:
        """As an argument."""
        return json.dumps(asdict(self))


def key_of(chance: random.Random, keys: int) -> bytes:
    """A drawn key: every second the hot one."""
    return b"hot" if chance.random() < 0.5 else b"key-%d" % chance.randrange(keys)


def produce(work: Work, following: Following) -> None:
    """Send numbers by key until told to stop; what is acknowledged is written down at once."""
    acknowledged = os.open(
        Path(work.folder) / f"acknowledged-{work.name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND
    )
    requests = {} if work.client == "confluent-kafka" else {"request_timeout_ms": 8000}
    sender = Sender(work.client, work.bootstrap, work.topic, following, **requests)
    chance, numbers = random.Random(work.name), dict[bytes, int]()
    while not STOPPING:
        key = key_of(chance, work.keys)
        number = numbers[key] = numbers.get(key, 0) + 1
        told = partial(os.write, acknowledged, b"%s %d\n" % (key, number))
        sender.send(key, f"{work.name} {number}".encode(), told)
        time.sleep(1 / work.rate)
    sender.close()
    os.close(acknowledged)


def consume(work: Work, following: Following) -> None:
    """Take records until told to stop."""
    effects = Effects(Path(work.folder) / "effects")
    taker = Taker(work.client, work.bootstrap, work.topic, "kills", effects, following)
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
    work = Work(**json.loads(sys.argv[1]))
    following = Following(
        {"bootstrap_servers": work.bootstrap},
        tables_topic=TABLES,
        start_seconds=60.0,
        retry_seconds=2.0,
        guarding=GUARDING,
    )
    (produce if work.role == "produce" else consume)(work, following)


if __name__ == "__main__":
    main()
