"""Producers and consumers killed and paused at random moments while routing tables change.

`scripts/kill-test keys --kills 50` runs it at length.
"""

from __future__ import annotations

import argparse
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import OffsetSpec

from trimtab.lab.sandbox import processes
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.keys.load import KeysViolation, Stream, check_effects
from trimtab.lab.sandbox.keys.worker import CLIENTS, HOT, ORDERING, TABLES, WorkerTask
from trimtab_keys.core.routing import Route, RoutingTable, key_group
from trimtab_keys.format import (
    HEARTBEAT_PARTITION,
    TABLE_PARTITION,
    PublishedTable,
    table_bytes,
    table_record_key,
)

PARTITIONS = 4
PAUSED_SHARE = 0.5
"""Of the kills, before which somebody is paused."""
PAUSED_SECONDS = (1.0, 20.0)
"""So that some sleep for longer than a session, than `delivery_seconds` and than `gap_seconds`."""
SETTLE_SECONDS = 240.0
"""After the last kill, everything takes effect within it: gaps and sessions have their time-outs."""


@dataclass
class KeysKillResult:
    """What a run came to.

    Attributes
    ----------
    killed
        Processes killed, by role.
    paused
        How often a process was paused, by role.
    tables
        Published meanwhile.
    acknowledged, effects
        Records.
    settled_seconds
        From the last kill until everything acknowledged had taken effect.
    """

    killed: dict[str, int] = field(default_factory=lambda: {"produce": 0, "consume": 0})
    paused: dict[str, int] = field(default_factory=lambda: {"produce": 0, "consume": 0})
    tables: int = 0
    runs: int = 0
    acknowledged: int = 0
    effects: int = 0
    settled_seconds: float = 0.0


class KeysKillTest:
    """Processes on one topic.

    Parameters
    ----------
    bootstrap
        Of a cluster of one's own.
    folder
        For what processes leave; empty.
    seed
        Of moments, victims and tables.
    producers, consumers
        The client of each.
    """

    def __init__(
        self, bootstrap: str, folder: Path, seed: int, producers: tuple[str, ...], consumers: tuple[str, ...]
    ) -> None:
        self.result = KeysKillResult()
        self._bootstrap, self._folder, self._chance = bootstrap, folder, random.Random(seed)
        self._topic = f"kills-{seed}"
        self._groups: dict[int, Route] = {}
        self._keys: dict[bytes, Route] = {}
        self._slots = [("produce", client) for client in producers]
        self._slots += [("consume", client) for client in consumers]
        self._running: dict[int, processes.SandboxProcess] = {}
        # Drawn beside the rest: a seed's victims, moments and tables are the same without pauses.
        self._naps, self._sleeping = random.Random(f"naps of {seed}"), dict[int, float]()
        self.runs: dict[int, list[str]] = defaultdict(list)
        self._admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap)
        self._writer: Any = KafkaProducer(bootstrap_servers=bootstrap)
        made: dict[str, Any] = {self._topic: {"num_partitions": PARTITIONS, "replication_factor": 1}}
        count = HEARTBEAT_PARTITION + 1
        tables = {"num_partitions": count, "replication_factor": 1, "configs": {"cleanup.policy": "compact"}}
        if TABLES not in self._admin.list_topics():
            made[TABLES] = tables
        self._admin.create_topics(made, wait_for_metadata=True)
        self._topic_id = str(self._admin.describe_topics([self._topic])[0]["topic_id"])

    def run(self, kills: int) -> KeysKillResult:
        """Start, kill and publish, let settle, and check.

        Raises
        ------
        Violation
            With what was promised and did not hold.
        """
        try:
            self._publish()
            for slot in range(len(self._slots)):
                self._start(slot)
            self._wait(lambda: self._effects() > 200, "the first records take effect")
            for _ in range(kills):
                for _ in range(self._chance.randrange(3)):
                    time.sleep(self._chance.uniform(0.0, 0.6))
                    self._publish()
                time.sleep(self._chance.uniform(0.2, 1.5))
                self._pause()
                slot = self._chance.randrange(len(self._slots))
                self._sleeping.pop(slot, None)
                processes.kill([self._running[slot]])
                self.result.killed[self._slots[slot][0]] += 1
                self._start(slot)
            while self._sleeping:
                time.sleep(0.1)
                self._wake()
            time.sleep(3)
            begun = time.monotonic()
            sending = [slot for slot, (role, _) in enumerate(self._slots) if role == "produce"]
            processes.end([self._running.pop(slot) for slot in sending], 60)
            self._wait(self._all_committed, "everything is committed")
            self.result.settled_seconds = time.monotonic() - begun
        finally:
            self._wake(time.monotonic() + PAUSED_SECONDS[1])
            processes.end(self._running.values(), 20)
            self.close()
        self.check()
        return self.result

    def close(self) -> None:
        """Close the clients of this process."""
        self._writer.close()
        self._admin.close()

    def check(self) -> None:
        """Hold effects against what was acknowledged: order, loss, doubles, and runs of one producer."""
        found = check_effects(self._folder)
        self.result.acknowledged, self.result.effects = found.counts
        for runs in self.runs.values():
            self._check_runs(runs, found.acknowledged, found.effects)

    def _check_runs(
        self,
        runs: list[str],
        acknowledged: dict[Stream, set[int]],
        found: dict[Stream, list[tuple[int, int]]],
    ) -> None:
        """What a run had acknowledged goes before everything of the runs after it."""
        last: dict[bytes, int] = {}
        for run in runs:
            for (name, key), numbers in list(found.items()):
                if name == run and numbers and numbers[0][1] < last.get(key, -1):
                    raise KeysViolation(
                        f"{run}, {key!r}: took effect before what the run before had acknowledged"
                    )
            for (name, key), numbers_acknowledged in acknowledged.items():
                if name == run:
                    places = [place for number, place in found[name, key] if number in numbers_acknowledged]
                    last[key] = max(last.get(key, -1), *places)

    def _start(self, slot: int) -> None:
        role, client = self._slots[slot]
        name = f"{role}-{slot}-{len(self.runs[slot])}"
        self.runs[slot].append(name)
        self.result.runs += 1
        work = WorkerTask(role, client, self._bootstrap, self._topic, name, str(self._folder))
        command = [sys.executable, "-m", "trimtab.lab.sandbox.keys.worker", work.text()]
        self._running[slot] = processes.spawn(
            command, self._folder, self._folder / f"log-{role}-{slot}", outlive=False
        )

    def _pause(self) -> None:
        """Wake who has slept for long enough; now and then, pause one that is awake."""
        self._wake()
        if self._naps.random() < PAUSED_SHARE:
            slot, seconds = self._naps.randrange(len(self._slots)), self._naps.uniform(*PAUSED_SECONDS)
            if slot not in self._sleeping:
                self._running[slot].signal(signal.SIGSTOP)
                self._sleeping[slot] = time.monotonic() + seconds
                self.result.paused[self._slots[slot][0]] += 1

    def _wake(self, now: float | None = None) -> None:
        until = time.monotonic() if now is None else now
        for slot in [one for one, when in self._sleeping.items() if when <= until]:
            del self._sleeping[slot]
            self._running[slot].signal(signal.SIGCONT)

    def _publish(self) -> None:
        """A table in which two groups are elsewhere, and the hot key is split, split otherwise, or whole."""
        draw = self._chance
        for _ in range(2):
            group = key_group(b"key-%d" % draw.randrange(20), PARTITIONS)
            self._groups[group] = self._table().group_route(group).moved((draw.randrange(PARTITIONS),))
        places = tuple(draw.sample(range(PARTITIONS), draw.choice((1, 2, 3))))
        self._keys[HOT] = self._table().route(key_group(HOT, PARTITIONS), HOT).moved(places)
        self.result.tables += 1
        data = table_bytes(PublishedTable(self._topic, self._topic_id, self._table()))
        self._writer.send(
            TABLES, key=table_record_key(self._topic), value=data, partition=TABLE_PARTITION
        ).get(30)

    def _table(self) -> RoutingTable:
        return RoutingTable(self.result.tables, PARTITIONS, PARTITIONS, dict(self._groups), dict(self._keys))

    def _effects(self) -> int:
        path = self._folder / "effects"
        if not path.exists():
            return 0
        try:
            with sqlite3.connect(path, timeout=30) as database:
                return int(database.execute("SELECT count(*) FROM effects").fetchone()[0])
        except sqlite3.OperationalError:
            # No consumer has made the table yet.
            return 0

    def _all_committed(self) -> bool:
        names = {TopicPartition(self._topic, one): OffsetSpec.LATEST for one in range(PARTITIONS)}
        ends = self._admin.list_partition_offsets(names)
        committed = self._admin.list_group_offsets(["kills"])["kills"]
        return all(name in committed and committed[name].offset >= end.offset for name, end in ends.items())

    def _wait(self, condition: Any, what: str) -> None:
        until = time.monotonic() + SETTLE_SECONDS + ORDERING.gap_seconds
        while not condition():
            died = [slot for slot, process in self._running.items() if not processes.running(process)]
            if died:
                role = self._slots[died[0]][0]
                log = (self._folder / f"log-{role}-{died[0]}").read_text(encoding="utf-8", errors="replace")
                raise KeysViolation(f"{role} {died[0]} ended by itself: {log[-1000:]}")
            if time.monotonic() > until:
                raise KeysViolation(
                    f"not within {SETTLE_SECONDS:g} s: {what}; see the logs in {self._folder}"
                )
            time.sleep(0.3)


def main() -> int:
    """Start a broker, run, and say what came of it."""
    parser = argparse.ArgumentParser(prog="scripts/kill-test keys", description="Kill clients by number.")
    parser.add_argument("--kills", type=int, default=50, help="how many processes are killed")
    parser.add_argument("--seed", type=int, default=1, help="of moments, victims and tables")
    parser.add_argument("--client", choices=CLIENTS, help="of all processes; without it, each has another")
    given = parser.parse_args()
    clients = (given.client,) * 3 if given.client else CLIENTS
    with KafkaSandbox.start(1, prometheus=False) as sandbox, tempfile.TemporaryDirectory() as folder:
        kills = KeysKillTest(sandbox.connection.bootstrap[0], Path(folder), given.seed, clients[:2], clients)
        try:
            told = kills.run(given.kills)
        except KeysViolation as error:
            print(f"seed {given.seed}: {error}")
            return 1
    print(
        f"seed {given.seed}: {told.killed['produce']} producers, {told.killed['consume']} consumers killed, "
        f"{told.paused['produce']} and {told.paused['consume']} paused, "
        f"{told.tables} tables, {told.acknowledged:,} records acknowledged, {told.effects:,} effects, "
        f"settled {told.settled_seconds:.1f} s after the last kill: 0 violations"
    )
    return 0
