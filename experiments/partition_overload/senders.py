"""A producer of a run on brokers, as a process: its share of the keys, at the times of the stream."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
from control import (
    GROUP,
    MAX_PARTITIONS,
    RECORD_BYTES,
    TABLES,
    VALUE,
    WORKER_PER_SECOND,
    Task,
    heard,
    say,
    told,
)
from streams import PARTITIONS

from trimtab.history.keys.simulation import KeyStream
from trimtab_keys.clients.confluent import Producer
from trimtab_keys.clients.live_load import LiveLoad
from trimtab_keys.clients.partitioners import PolicyPartitioner
from trimtab_keys.clients.settings import LoadConfig, RoutingConfig
from trimtab_keys.core.policies import IpooaSettings, KeyPolicyInputs

LOOK_SECONDS, RATE_SECONDS = 0.25, 5.0
"""As in virtual time: between two looks at backlogs, and over how long rates are smoothed."""
REST_SECONDS = 0.005
POLICIES: dict[str, tuple[str, KeyPolicyInputs]] = {
    "hash": ("hash", KeyPolicyInputs()),
    "D-Choices": ("d_choices", KeyPolicyInputs()),
    "D-Choices, again": ("d_choices", KeyPolicyInputs()),
    "PKG": ("pkg", KeyPolicyInputs()),
    "BL": ("hash", KeyPolicyInputs()),
    "CL": ("hash", KeyPolicyInputs()),
    "IPOOA, candidate by content": ("ipooa", KeyPolicyInputs()),
    "IPOOA, candidate by content, added every 10 s": ("ipooa", KeyPolicyInputs()),
    "IPOOA, candidate by load": ("ipooa", KeyPolicyInputs(ipooa=IpooaSettings(candidate="load"))),
    "IPOOA, least-loaded candidate": ("ipooa", KeyPolicyInputs(ipooa=IpooaSettings(candidate="least"))),
    "IPOOA, ISC as printed": ("ipooa", KeyPolicyInputs(ipooa=IpooaSettings(isc="literal"))),
    "paper: kafka": ("hash", KeyPolicyInputs()),
    "paper: BL": ("hash", KeyPolicyInputs()),
    "paper: CL": ("hash", KeyPolicyInputs()),
    "paper: IPOOA": ("ipooa", KeyPolicyInputs()),
    "paper: IPOOA, ISC as printed": ("ipooa", KeyPolicyInputs(ipooa=IpooaSettings(isc="literal"))),
    "paper: IPOOA, λ1 0.35": ("ipooa", KeyPolicyInputs(ipooa=IpooaSettings(weight=0.35))),
    "paper: IPOOA, λ1 0.65": ("ipooa", KeyPolicyInputs(ipooa=IpooaSettings(weight=0.65))),
    "paper: IPOOA, p 1": ("ipooa", KeyPolicyInputs(ipooa=IpooaSettings(power=1))),
    "paper: IPOOA, Θ 0.5": ("ipooa", KeyPolicyInputs(ipooa=IpooaSettings(threshold=0.5))),
    "paper: IPOOA, Θ 0.65": ("ipooa", KeyPolicyInputs(ipooa=IpooaSettings(threshold=0.65))),
}
"""Those of the paper: consumers whose partitions share what they can do."""
Send = Callable[[bytes, bytes], None]


class CountedLoad(LiveLoad):
    """Counts the records for which a policy asked for one more partition."""

    asked_for = 0

    def request_partition(self, known: int) -> None:
        """See `LiveLoad.request_partition`."""
        self.asked_for += 1
        super().request_partition(known)


class Choosing:
    """A policy as the package's partitioner, which looks at backlogs and rates on the brokers."""

    def __init__(self, task: Task) -> None:
        name, given = POLICIES[task.policy]
        self.load = None
        if name != "hash":
            settings = LoadConfig(
                {"bootstrap_servers": task.bootstrap}, task.topic, GROUP,
                capacity_per_second=WORKER_PER_SECOND, interval_seconds=LOOK_SECONDS,
                rate_seconds=RATE_SECONDS, commit_seconds=LOOK_SECONDS, start_seconds=60.0, base=PARTITIONS,
                max_partitions=MAX_PARTITIONS if task.adds else 0, add_seconds=task.add_seconds,
            )  # fmt: skip
            self.load = CountedLoad(settings)
        self._choose = PolicyPartitioner(name, given, 1000 * task.seed + task.one, self.load)
        self._known = range(PARTITIONS)

    def choose(self, key: bytes, producer: Any) -> int:
        """The partition of a record, of those that its client knows; it is asked to look for added ones."""
        if self.load is not None and self.load.partitions > len(self._known):
            topic = self.load.settings.topic
            self._known = range(len(producer.list_topics(topic, timeout=10).topics[topic].partitions))
        return self._choose(key, self._known)

    def close(self) -> int:
        """No more looks; returns how many records asked for one more partition."""
        if self.load is None:
            return 0
        self.load.close()
        return self.load.asked_for


def plain(task: Task) -> tuple[Send, Callable[[], int], Any]:
    """A client's own producer, and a policy."""
    choosing = Choosing(task)
    producer = confluent_kafka.Producer({"bootstrap.servers": task.bootstrap, **SETTINGS})

    def send(key: bytes, value: bytes) -> None:
        producer.produce(task.topic, value, key, choosing.choose(key, producer))

    return send, choosing.close, producer


def guarded(task: Task) -> tuple[Send, Callable[[], int], Any]:
    """The producer of the order guard."""
    following = RoutingConfig({"bootstrap_servers": task.bootstrap}, tables_topic=TABLES)
    producer = Producer(task.topic, following, {"bootstrap.servers": task.bootstrap, **SETTINGS})

    def send(key: bytes, value: bytes) -> None:
        producer.produce(task.topic, value, key)

    def close() -> int:
        producer.close()
        return 0

    return send, close, producer


SETTINGS = {"acks": "all", "enable.idempotence": True, "linger.ms": 20, "partitioner": "murmur2_random"}


def numbered(
    task: Task, before: KeyStream, stream: KeyStream, own: float, begin: Callable[[], float | None]
) -> Iterator[tuple[float, int, int]]:
    """When each record is due, its number and its key: of a quarter of the load, then of all of it."""
    mine = [one == task.one for one in stream.producer_of_key()]
    began = None
    while began is None:
        for at, which in zip(before.at, before.which, strict=True):
            began = begin()
            if began is not None and own + at >= began:
                break
            if mine[which]:
                yield own + at, -1, which
        else:
            own, began = own + before.at[-1], None
    for number, (at, which) in enumerate(zip(stream.at, stream.which, strict=True)):
        if mine[which]:
            yield began + at, number, which


def produce(task: Task) -> None:
    """Send everything."""
    before, stream = task.before(), task.stream()
    send, close, producer = (guarded if task.guarded else plain)(task)
    keys, seen = stream.keys, Counter[int]()
    pad = bytes(RECORD_BYTES - VALUE.size)
    told: list[float] = []

    def begin() -> float | None:
        return told[0] if told else None

    def listen() -> None:
        while not told:
            found = heard(task.folder, "begin")
            if found is not None:
                told.append(found)
            time.sleep(0.05)

    say(task.folder, f"ready-{task.one}")
    threading.Thread(target=listen, daemon=True).start()
    for due, number, which in numbered(task, before, stream, time.monotonic(), begin):
        while (now := time.monotonic()) < due:
            producer.poll(0)
            time.sleep(min(REST_SECONDS, due - now))
        seen[which] += 1
        send(keys[which], VALUE.pack(number, which, seen[which], now) + pad)
    left = producer.flush(60)
    say(task.folder, f"asked-{task.one}", float(close()))
    say(task.folder, f"sent-{task.one}", float(left))


def main() -> None:
    """Run as a process."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.ERROR)
    produce(told(__doc__ or ""))


if __name__ == "__main__":
    main()
