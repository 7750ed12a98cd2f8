"""The consumers of a run on brokers, as a process: three members, each with a bounded worker a partition.

A worker takes 1/65 s for each record, kept by the clock, and stands still now and then, as in virtual time;
then the record is handed to the order guard, which lets it take effect in its turn. Effects and marks are in
the memory of this process, behind one lock: a database's own time is not part of the comparison.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import TopicPartition
from control import (
    GROUP,
    MAX_PARTITIONS,
    MEMBERS,
    TABLES,
    VALUE,
    WORKER_PER_SECOND,
    Task,
    heard,
    say,
    told,
    wait_for,
)
from streams import PARTITIONS, consumers

from trimtab.history.keys.simulation import SimulatedConsumers
from trimtab_keys.clients import confluent
from trimtab_keys.clients.checkpoints import InMemoryCheckpointStore
from trimtab_keys.clients.settings import RoutingConfig

EFFECT = np.dtype(
    [("number", "i4"), ("key", "u4"), ("of_key", "u4"), ("sent", "f8"), ("partition", "u1"), ("done", "f8")]
)
"""A record that took effect; times are of this machine's monotonic clock."""
SWITCH_SECONDS = 0.0005
"""A thread that has something to do waits no longer for others of its process."""


class SharedMarks(InMemoryCheckpointStore):
    """Marks of several members of one process: one transaction at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """See `InMemoryCheckpointStore`."""
        with self._lock, super().transaction():
            yield


class Paced:
    """A client's consumer whose records come once the worker of their partition is done with them.

    Parameters
    ----------
    client
        The consumer.
    workers, began
        What they can do, and the instant from which their stalls count.
    shared
        The worker that all partitions share; None: each has the one of its number.
    """

    def __init__(
        self, client: Any, workers: SimulatedConsumers, began: float, shared: int | None = None
    ) -> None:
        self._client, self._workers, self._started_at = client, workers, began
        self._shared = shared
        self._due: list[tuple[float, int, Any]] = []
        self._last = [0.0] * MAX_PARTITIONS
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def forget(self, partitions: set[int]) -> None:
        """Partitions are another's: what their workers have is not handed over, and not done either."""
        self._due = [one for one in self._due if one[2].partition() not in partitions]
        self._due.sort()
        now = time.monotonic()
        busy = {self._worker(one.partition()) for _, _, one in self._due}
        for worker in {self._worker(one) for one in partitions} - busy:
            self._workers.drop(worker, now - self._started_at)
        for one in partitions:
            self._last[one] = 0.0

    def poll(self, seconds: float) -> Any:
        """As the client's own; everything that has come is with the workers at once."""
        until = time.monotonic() + seconds
        while True:
            while (message := self._client.poll(0)) is not None:
                self._begin(message)
            now = time.monotonic()
            if self._due and self._due[0][0] <= now:
                return heappop(self._due)[2]
            wait = min(until, self._due[0][0] if self._due else until) - now
            if now >= until:
                return None
            message = self._client.poll(max(0.0, wait))
            if message is not None:
                self._begin(message)

    def _worker(self, place: int) -> int:
        return place if self._shared is None else self._shared

    def _begin(self, message: Any) -> None:
        place, now = message.partition(), time.monotonic()
        if message.error() is None:
            self._last[place] = self._started_at + self._workers.receive(
                self._worker(place), now - self._started_at
            )
        self._count += 1
        # The end of a partition is told behind its last record.
        heappush(self._due, (max(now, self._last[place]), self._count, message))


class Bounded(confluent.Consumer):
    """A member of the group whose workers take their time."""

    def __init__(
        self, task: Task, one: int, workers: SimulatedConsumers, began: float, marks: Any, handler: Any
    ) -> None:
        self._task, self._one, self._reassigned = task, one, not task.by_load
        following = RoutingConfig(
            {"bootstrap_servers": task.bootstrap}, tables_topic=TABLES if task.guarded else None
        )
        config = {
            "bootstrap.servers": task.bootstrap, "partition.assignment.strategy": "range",
            "topic.metadata.refresh.interval.ms": 1000, "heartbeat.interval.ms": 500,
            "fetch.wait.max.ms": 100, "session.timeout.ms": 45_000, "fetch.queue.backoff.ms": 20,
        }  # fmt: skip
        self._paced: Paced | None = None
        super().__init__(task.topic, GROUP, handler, marks, following, config)
        self.client = self._paced = Paced(self.client, workers, began, one if task.shared else None)

    def step(self, seconds: float = 0.2) -> None:
        """As ever, but for the assignment by load, once it is told."""
        if not self._reassigned and heard(self._task.folder, "assignment") is not None:
            self._reassign()
        super().step(seconds)

    def _reassign(self) -> None:
        """Leave the group's own assignment, and take what is ours by load once all others have left."""
        self._reassigned = True
        self._commit(dict(self.receiving.commits))
        self.client.unsubscribe()
        while list(self.receiving.assigned_partitions):
            super().step(0.1)
        say(self._task.folder, f"left-{self._one}")
        for other in range(MEMBERS):
            wait_for(self._task.folder, f"left-{other}", 30)
        own = json.loads((Path(self._task.folder) / "assignment.json").read_text())[self._one]
        self._assigned(self.client, [TopicPartition(self._task.topic, one) for one in own])

    def _revoked(self, client: Any, partitions: Any) -> None:
        super()._revoked(client, partitions)
        if self._paced is not None:
            self._paced.forget({one.partition for one in partitions})


def consume(task: Task) -> None:
    """Take records until told to stop, and write down which took effect when."""
    effects: list[tuple[bytes, int, float]] = []
    measured = [0]

    def handle(message: Any) -> None:
        value = message.value()
        effects.append((value, message.partition(), time.monotonic()))
        if VALUE.unpack_from(value)[0] >= 0:
            measured[0] += 1

    began, marks = time.monotonic(), SharedMarks()
    workers = SimulatedConsumers(MAX_PARTITIONS, consumers(task.seed, WORKER_PER_SECOND))
    if task.shared:
        whole = consumers(task.seed, WORKER_PER_SECOND * PARTITIONS / MEMBERS)
        workers = SimulatedConsumers(MEMBERS, whole)
    members = [Bounded(task, one, workers, began, marks, handle) for one in range(MEMBERS)]
    troubles: list[BaseException] = []

    def run(member: Bounded) -> None:
        try:
            member.run()
        except BaseException as error:
            troubles.append(error)
            raise

    threads = [threading.Thread(target=run, args=(one,), daemon=True) for one in members]
    for one in threads:
        one.start()
    ready = False
    while heard(task.folder, "stop") is None and not troubles:
        time.sleep(0.25)
        held = [len(list(one.receiving.assigned_partitions)) for one in members]
        if not ready and sum(held) == PARTITIONS and all(held):
            ready = True
            say(task.folder, "ready-consumers")
        say(task.folder, "done", float(measured[0]))
    for one in members:
        one.stop()
    for thread in threads:
        thread.join(20)
    found = np.zeros(len(effects), EFFECT)
    for place, (value, partition, done) in enumerate(effects):
        found[place] = (*VALUE.unpack_from(value), partition, done)
    np.save(f"{task.folder}/effects.npy", found)
    say(task.folder, "ended", float(len(troubles)))
    for one in members:
        one.close()


def main() -> None:
    """Run as a process."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.ERROR)
    sys.setswitchinterval(SWITCH_SECONDS)
    consume(told(__doc__ or ""))


if __name__ == "__main__":
    main()
