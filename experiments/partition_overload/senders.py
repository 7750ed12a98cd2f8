"""A producer of a run on brokers, as a process: its share of the keys, at the times of the stream."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import exp
from typing import Any

import confluent_kafka
from control import GROUP, RECORD_BYTES, TABLES, VALUE, WORKER_PER_SECOND, Task, heard, say, told
from kafka.errors import KafkaError
from streams import PARTITIONS

from trimtab.dataplane.keys.confluent import Producer
from trimtab.dataplane.keys.settings import Following
from trimtab.dataplane.keys.side import SideConnection
from trimtab.history.keys.stream import KeyStream
from trimtab.model.keys.routing import group_count
from trimtab.online.keys.catalogue import Given, policy_named
from trimtab.online.keys.load import Content, LoadView
from trimtab.online.keys.murmur2 import Hashes
from trimtab.online.keys.settings import Ipooa

LOOK_SECONDS, RATE_SECONDS = 0.25, 5.0
"""As in virtual time: between two looks at backlogs, and over how long rates are smoothed."""
REST_SECONDS = 0.005
POLICIES: dict[str, tuple[str, Given]] = {
    "hash": ("hash", Given()),
    "D-Choices": ("d_choices", Given()),
    "D-Choices, again": ("d_choices", Given()),
    "PKG": ("pkg", Given()),
    "IPOOA, candidate by content": ("ipooa", Given()),
    "IPOOA, least-loaded candidate": ("ipooa", Given(ipooa=Ipooa(candidate="least"))),
    "IPOOA, ISC as printed": ("ipooa", Given(ipooa=Ipooa(isc="literal"))),
    "paper: kafka": ("hash", Given()),
    "paper: BL": ("hash", Given()),
    "paper: CL": ("hash", Given()),
    "paper: IPOOA": ("ipooa", Given()),
    "paper: IPOOA, ISC as printed": ("ipooa", Given(ipooa=Ipooa(isc="literal"))),
    "paper: IPOOA, λ1 0.35": ("ipooa", Given(ipooa=Ipooa(weight=0.35))),
    "paper: IPOOA, λ1 0.65": ("ipooa", Given(ipooa=Ipooa(weight=0.65))),
    "paper: IPOOA, p 1": ("ipooa", Given(ipooa=Ipooa(power=1))),
    "paper: IPOOA, Θ 0.5": ("ipooa", Given(ipooa=Ipooa(threshold=0.5))),
    "paper: IPOOA, Θ 0.65": ("ipooa", Given(ipooa=Ipooa(threshold=0.65))),
}
"""Those of the paper: consumers whose partitions share what they can do."""
Send = Callable[[bytes, bytes], None]


class Choosing:
    """A policy with what it sees: backlogs and rates, looked at on the brokers, and what was sent since."""

    def __init__(self, task: Task) -> None:
        name, given = POLICIES[task.policy]
        self._policy, self._chance = (
            policy_named(name, given),
            random.Random(f"{task.seed} {task.one}").random,
        )
        self.view = LoadView(PARTITIONS, capacity=WORKER_PER_SECOND)
        self._side = SideConnection({"bootstrap_servers": task.bootstrap}, task.topic)
        self._contents = given.ipooa.candidate == "content" and name == "ipooa"
        self._groups: list[Counter[int]] = [Counter() for _ in range(PARTITIONS)]
        self._keys: list[set[bytes]] = [set() for _ in range(PARTITIONS)]
        self._hashes = Hashes()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        if name != "hash":
            self._thread.start()

    def choose(self, key: bytes) -> int:
        """The partition of a record."""
        place = self._policy.choose(key, self.view, self._chance)
        if self._contents:
            self._groups[place][self._hashes[key] % group_count(PARTITIONS)] += 1
            self._keys[place].add(key)
        return place

    def close(self) -> None:
        """No more looks."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(10)
        self._side.close()

    def _watch(self) -> None:
        rate, before, at = [0.0] * PARTITIONS, [0] * PARTITIONS, time.monotonic()
        while not self._ended.wait(LOOK_SECONDS):
            with suppress(KafkaError):
                done, ends = self._side.committed(GROUP), self._side.ends(range(PARTITIONS))
                now, last = time.monotonic(), at
                at, kept = now, exp((last - now) / RATE_SECONDS)
                for place, end in ends.items():
                    rate[place] = kept * rate[place] + (1 - kept) * (end - before[place]) / (now - last)
                    before[place] = end
                if self._contents:
                    self._tell_contents()
                self.view.looked([ends[one] - done.get(one, 0) for one in range(PARTITIONS)], rate)

    def _tell_contents(self) -> None:
        # Of what this producer sent: it cannot see what others have.
        groups = range(group_count(PARTITIONS))
        for place, counts in enumerate(self._groups):
            total = counts.total()
            shares = [counts[one] / total for one in groups] if total else ()
            self.view.content[place] = Content(shares, (1.0,) if total else ())
            self.view.keys[place] = len(self._keys[place])


def plain(task: Task) -> tuple[Send, Callable[[], None], Any]:
    """A client's own producer, and a policy."""
    choosing = Choosing(task)
    producer = confluent_kafka.Producer({"bootstrap.servers": task.bootstrap, **SETTINGS})

    def send(key: bytes, value: bytes) -> None:
        producer.produce(task.topic, value, key, choosing.choose(key))

    return send, choosing.close, producer


def guarded(task: Task) -> tuple[Send, Callable[[], None], Any]:
    """The producer of the order guard."""
    following = Following({"bootstrap_servers": task.bootstrap}, tables_topic=TABLES)
    producer = Producer(task.topic, following, {"bootstrap.servers": task.bootstrap, **SETTINGS})

    def send(key: bytes, value: bytes) -> None:
        producer.produce(task.topic, value, key)

    return send, producer.close, producer


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
    close()
    say(task.folder, f"sent-{task.one}", float(left))


def main() -> None:
    """Run as a process."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.ERROR)
    produce(told(__doc__ or ""))


if __name__ == "__main__":
    main()
