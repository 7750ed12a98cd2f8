"""A load of keyed records on one topic, and the check of every effect: in order, once, none lost."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from trimtab.history.keys.simulation import Zipf
from trimtab.jars import ProgressCallback
from trimtab.lab.sandbox.kafka.state import KafkaSandboxState
from trimtab.lab.sandbox.keys import worker
from trimtab.lab.sandbox.keys.worker import TABLES, WorkerTask
from trimtab.lab.sandbox.processes import SandboxProcess, end, running, spawn
from trimtab.model.errors import SandboxError
from trimtab.systems.kafka.client import open_admin
from trimtab.systems.kafka.keyed_topic import TOPIC, KeyedTopic
from trimtab.systems.kafka.settings import KafkaConnection
from trimtab_common.errors import ConnectError
from trimtab_keys.core.order import OrderingConfig

Stream = tuple[str, bytes]
"""A run of a producer, and a key."""


class KeysViolation(AssertionError):
    """A guarantee of the order guard was violated."""


@dataclass(frozen=True)
class VerifiedRecords:
    """The figures of a load whose effects passed the check.

    Attributes
    ----------
    acknowledged
        By stream, the numbers of records that brokers had confirmed.
    effects
        By stream, number and place among all effects, in the order of those.
    """

    acknowledged: dict[Stream, set[int]]
    effects: dict[Stream, list[tuple[int, int]]]

    @property
    def counts(self) -> tuple[int, int]:
        """Number of acknowledged records, and number of effects."""
        return sum(map(len, self.acknowledged.values())), sum(map(len, self.effects.values()))


def check_effects(folder: Path) -> VerifiedRecords:
    """Compare the effects in a folder with the acknowledged records.

    Raises
    ------
    Violation
        If a record of a stream took effect out of its order, twice, or, acknowledged, not at all.
    """
    acknowledged: dict[Stream, set[int]] = defaultdict(set)
    for path in folder.glob("acknowledged-*"):
        for line in path.read_bytes().splitlines():
            key, _, number = line.rpartition(b" ")
            acknowledged[path.name.removeprefix("acknowledged-"), key].add(int(number))
    effects: dict[Stream, list[tuple[int, int]]] = defaultdict(list)
    with sqlite3.connect(folder / "effects") as database:
        for place, key, value in database.execute("SELECT place, key, value FROM effects ORDER BY place"):
            run, number, *_ = value.decode().split(" ")
            effects[run, key].append((int(number), place))
    for (run, key), numbers in effects.items():
        order = [number for number, _ in numbers]
        if any(later <= earlier for earlier, later in pairwise(order)):
            raise KeysViolation(f"{run}, {key!r}: effects {order} are out of order or doubled")
    for name, confirmed in acknowledged.items():
        lost = confirmed - {number for number, _ in effects[name]}
        if lost:
            raise KeysViolation(f"{name}: {len(lost)} acknowledged records had no effect, first {min(lost)}")
    return VerifiedRecords(acknowledged, effects)


GROUP: Final = "billing"
TIMEOUT_SECONDS: Final = 180.0
TICK_SECONDS: Final = 1.0
REPORT_SECONDS: Final = 10.0


@dataclass(frozen=True)
class KeyedLoad:
    """The rate of a keyed load, and the capacity of its consumers.

    Attributes
    ----------
    key_distribution, names
        Of the keys; see `trimtab.history.keys.simulation`.
    rate
        Records a second, of all producers together.
    consumer_rate
        Records a second that each consumer can do.
    """

    topic: str = "orders"
    key_distribution: Zipf = field(default_factory=lambda: Zipf(1.2))
    names: int = 0
    partitions: int = 4
    rate: float = 110.0
    producers: int = 2
    consumers: int = 4
    consumer_rate: float = 50.0


@dataclass(frozen=True)
class BacklogSample:
    """The backlog at one time: records that the group has not committed, by partition."""

    waiting: tuple[int, ...]

    @property
    def text(self) -> str:
        """For a line of progress."""
        numbers = ", ".join(f"{one:,}" for one in self.waiting)
        return f"{numbers} records wait in partitions 0 to {len(self.waiting) - 1}"


class LoadedTopic:
    """A topic and the processes that produce to it and consume from it.

    Parameters
    ----------
    connection
        Without TLS or a user: processes come as they are.
    folder
        For logs, acknowledgements and effects. One that was used before goes on: what took effect then is
        checked with the rest.

    Attributes
    ----------
    topic
        Itself, as brokers tell of it.
    """

    def __init__(self, connection: KafkaConnection, admin: Any, folder: Path, load: KeyedLoad) -> None:
        if connection.uses_tls or connection.uses_sasl:
            raise SandboxError("a load with keys needs a sandbox without users: start one without --scram")
        self.folder, self.load = folder, load
        self.topic = KeyedTopic(connection, admin, load.topic, f"{TOPIC}{TABLES}")
        self._bootstrap = connection.bootstrap[0]
        self._processes: dict[str, SandboxProcess] = {}
        self._run = f"{time.time():.0f}"
        folder.mkdir(parents=True, exist_ok=True)
        if load.topic not in admin.list_topics():
            brokers = len(admin.describe_cluster()["brokers"])
            spec = {"num_partitions": load.partitions, "replication_factor": min(3, brokers)}
            admin.create_topics({load.topic: spec}, wait_for_metadata=True)

    def start(self) -> None:
        """Start the consumers, once they have their partitions the producers, and wait for a first record."""
        for number in range(self.load.consumers):
            self._start("consume", number)
        wanted = min(self.load.consumers, len(self.topic.describe().ends))
        self.until(lambda: self.members == wanted, f"{wanted} consumers with partitions")
        before = self._written
        for number in range(self.load.producers):
            self._start("produce", number)
        self.until(lambda: self._written > before, "a first record")

    def _start(self, role: str, number: int) -> None:
        load, name = self.load, f"{role}-{number}-{self._run}"
        work = WorkerTask(
            role, "kafka-python", self._bootstrap, load.topic, name, str(self.folder), GROUP,
            key_distribution=load.key_distribution.text, names=load.names, rate=load.rate / load.producers,
            consumes=load.consumer_rate,
            start_seconds=2.0, ordering=OrderingConfig(),
        )  # fmt: skip
        command = [sys.executable, "-m", worker.__name__, work.text()]
        self._processes[name] = spawn(command, self.folder, self.folder / f"{name}.log", outlive=False)

    @property
    def _written(self) -> int:
        """Records of all partitions, from the topic's beginning on."""
        return sum(self.topic.describe().ends.values())

    @property
    def members(self) -> int:
        """Consumers that have partitions; none while the group has no coordinator yet."""
        try:
            return sum(1 for its in self.topic.consumers(GROUP).assigned.values() if its)
        except ConnectError:
            return 0

    def backlog(self) -> BacklogSample:
        """Measure the current backlog of all partitions."""
        self.require_running()
        ends, committed = self.topic.describe().ends, self.topic.consumers(GROUP).committed
        # Commits are asked for after the ends: they may be further by then.
        return BacklogSample(
            tuple(max(0, its - committed.get(part, 0)) for part, its in sorted(ends.items()))
        )

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until a condition holds.

        Raises
        ------
        SandboxError
            If it does not come, or a process has ended.
        """
        limit = time.monotonic() + TIMEOUT_SECONDS
        while not holds():
            self.require_running()
            if time.monotonic() > limit:
                raise SandboxError(
                    f"waited {TIMEOUT_SECONDS:g} s in vain for {what}: this machine may be too busy"
                )
            time.sleep(TICK_SECONDS / 2)

    def settle(self) -> VerifiedRecords:
        """Stop the producers, wait for all effects, stop the consumers, and check every record.

        Raises
        ------
        Violation
            If one took effect out of its order, twice, or not at all.
        """
        sending = [name for name in self._processes if name.startswith("produce")]
        end([self._processes.pop(name) for name in sending], 60)
        self.until(lambda: not any(self.backlog().waiting), "everything that was sent to take effect")
        self.close(20)
        return check_effects(self.folder)

    def close(self, timeout_seconds: float = 5.0) -> None:
        """Stop all processes of the load."""
        end(self._processes.values(), timeout_seconds)
        self._processes = {}

    def require_running(self) -> None:
        """Raise an error if a process has ended.

        Raises
        ------
        SandboxError
            With the end of its log.
        """
        for name, process in self._processes.items():
            if not running(process):
                log = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
                raise SandboxError(f"{name} ended by itself: {log[-600:]}")


def checked_text(found: VerifiedRecords) -> str:
    """The result of a check in a sentence."""
    acknowledged, effects = found.counts
    keys = len({key for (_, key), its in found.effects.items() if its})
    return (
        f"{acknowledged:,} records of {keys:,} keys were confirmed by brokers, {effects:,} took effect: each "
        "key's in their producer's order, none lost, none twice"
    )


def run_keyed_load(
    state: KafkaSandboxState, load: KeyedLoad, seconds: float | None, print_progress: ProgressCallback
) -> str:
    """Load a topic of a sandbox until time is up or Ctrl-C; then check every record.

    Returns
    -------
    str
        A line on what took effect.

    Raises
    ------
    SandboxError
        If a process ends, or the sandbox has users.
    Violation
        If a record took effect out of its order, twice, or not at all.
    """
    with ExitStack() as closing:
        admin = closing.enter_context(open_admin(state.connection, request_timeout_ms=15_000))
        loaded = LoadedTopic(state.connection, admin, state.folder / "keyed" / load.topic, load)
        closing.callback(loaded.close)
        loaded.start()
        print_progress(
            f"{load.rate:g} records/s with keys by {load.key_distribution.text} to topic {load.topic}, "
            f"{load.consumers} "
            f"consumers at {load.consumer_rate:g} records/s each; Ctrl-C stops"
        )
        until = time.monotonic() + (seconds or float("inf"))
        with suppress(KeyboardInterrupt):
            while time.monotonic() < until:
                time.sleep(min(REPORT_SECONDS, max(0.0, until - time.monotonic())))
                print_progress(loaded.backlog().text)
        print_progress("no more is sent; waits until everything has taken effect")
        return checked_text(loaded.settle())
