"""A real cluster on which trimtab is run as a process of its own, and put to the test."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from kafka.admin import ConfigResource, ConfigResourceType

from support.admin_calls import PATIENCE_SECONDS, ask
from support.journals import CODECS
from trimtab.act.execution.port import PortError
from trimtab.act.execution.state import FINAL
from trimtab.act.journal import JOURNAL_FILE, Journal
from trimtab.act.replicas.port import ClusterObservation, PartitionPlacement, ThrottleConfig, TopicPartition
from trimtab.files.replicas.plan import write_plan
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.model.replicas.plan import Plan
from trimtab.systems.kafka.client import admin_client, consumer, producer
from trimtab.systems.kafka.port import KafkaAdminPort

BROKERS = (1, 2, 3, 4)
TRIMTAB = Path(sys.executable).with_name("trimtab")
IMPATIENT = {
    "poll_interval_seconds": "0.2",
    "check_interval_seconds": "1",
    "broker_timeout_seconds": "10",
    "metadata_lag_seconds": "3",
    "lease_seconds": "5",
}
"""Settings of all runs: real time is dear, but a busy machine's brokers may lag and miss a heartbeat."""

T = TypeVar("T")


def trimtab(crash_at: str) -> list[str]:
    """The words that run trimtab, killed at that write of its journal where one is named."""
    mortal = Path(__file__).with_name("mortal.py")
    return [sys.executable, str(mortal), crash_at] if crash_at else [str(TRIMTAB)]


class TrimtabProcesses(ABC):
    """Processes of trimtab on one cluster, with one state folder.

    Attributes
    ----------
    impatient
        Settings of `[execution]` for all of them.
    """

    impatient: ClassVar[Mapping[str, str]]
    folder: Path
    processes: "list[subprocess.Popen[str]]"

    @abstractmethod
    def cluster_words(self) -> list[str]:
        """The arguments that name the cluster."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """Variables for its commands."""

    def start(
        self, *arguments: str, crash_at: str = "", state: str = "state", **settings: str
    ) -> "subprocess.Popen[str]":
        """Start trimtab; settings are those of `[execution]`, with `__` for a dot."""
        chosen = {**self.impatient, **{key.replace("__", "."): value for key, value in settings.items()}}
        sets = [part for key, value in chosen.items() for part in ("--set", f"execution.{key}={value}")]
        process = subprocess.Popen(
            [*trimtab(crash_at), *arguments, *self.cluster_words(), *sets],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TRIMTAB_STATE": str(self.folder / state), **self.environment()},
        )
        self.processes.append(process)
        return process

    def run(self, *arguments: str, expect: int = 0, **options: str) -> str:
        """Run trimtab to its end; its output."""
        code, said = finish(self.start(*arguments, **options))
        assert code == expect, f"exit code {code} of trimtab {' '.join(arguments)}:\n{said}"
        return said

    def status(self) -> str:
        """The status of the newest execution, as another process reads it from the journal."""
        with Journal(self.folder / "state" / JOURNAL_FILE, CODECS) as journal:
            return journal.entries()[0].status

    def kill_processes(self) -> None:
        """Kill the processes that still run."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
        self.processes.clear()

    def wait(self, what: str, condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a condition holds; `what` names it in the error."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not so after {seconds} s: {what}"
            time.sleep(0.1)


@dataclass
class Trial(TrimtabProcesses):
    """One cluster, one state folder."""

    impatient = IMPATIENT

    sandbox: KafkaSandbox
    folder: Path
    admin: Any
    port: KafkaAdminPort = field(init=False)
    processes: "list[subprocess.Popen[str]]" = field(default_factory=list)

    def __post_init__(self) -> None:
        """Look at the cluster through the same port that trimtab uses."""
        self.port = KafkaAdminPort(self.admin, time.time)

    # ------------------------------------------------------------ the cluster

    def create(self, topic: str, assignments: Mapping[int, Sequence[int]], size_bytes: int) -> None:
        """A topic with so many bytes in each partition; one that a first try of the test left goes first."""
        self._delete(topic)
        lists = {number: list(replicas) for number, replicas in assignments.items()}
        self.ask(lambda admin: admin.create_topics({topic: {"assignments": lists}}))
        names = {TopicPartition(topic, number) for number in assignments}
        self.wait(f"{topic} there", lambda: self._led(names) == names)
        writer = producer(self.sandbox.connection)
        for number in assignments:
            for _ in range(size_bytes // 50_000):
                writer.send(topic, value=b"x" * 49_900, partition=number)
        writer.flush()
        writer.close()

    def _delete(self, topic: str) -> None:
        if topic in self.ask(lambda admin: admin.list_topics()):
            self.ask(lambda admin: admin.delete_topics([topic]))
            self.wait(f"{topic} gone", lambda: topic not in self.ask(lambda admin: admin.list_topics()))

    def ask(self, call: Callable[[Any], T]) -> T:
        """What an admin client is told that knows nothing of the past."""
        return ask(self.sandbox.connection, call)

    def look(self, *partitions: TopicPartition) -> ClusterObservation:
        """One look at the whole cluster."""
        return self.insist(lambda: self.port.observe(partitions, (), wide=True))

    def insist(self, call: Callable[[], T]) -> T:
        """A call through the port, tried again while a broker that has just died takes calls with it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return call()
            except PortError as error:
                if not error.failure.transient or time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def placement(self, topic: str, number: int) -> PartitionPlacement:
        """Where a partition is."""
        name = TopicPartition(topic, number)
        return self.look(name).placements[name]

    def _led(self, names: Collection[TopicPartition]) -> set[TopicPartition]:
        placements = self.look(*names).placements
        return {name for name, placement in placements.items() if placement.leader is not None}

    def in_flight(self, topic: str, number: int) -> bool:
        """Whether a partition is being reassigned."""
        return TopicPartition(topic, number) in self.look().reassignments

    def assert_clean(self, topics: Sequence[str]) -> None:
        """No reassignment, no throttle anywhere, no claim is left.

        Brokers hear of a change of settings a moment after the controller has confirmed it; what somebody
        forgot to take away stays for good.
        """
        seen = self.look()
        assert dict(seen.reassignments) == {}
        nothing = ThrottleConfig(None, None, dict.fromkeys(topics), dict.fromkeys(topics))
        self.wait("no throttle", lambda: self.insist(lambda: self.port.read_throttle(topics)) == nothing)
        self.wait("no broker throttled", lambda: self._throttled_brokers(seen.alive) == {})
        self.wait("no claim", lambda: self.insist(self.port.read_claims) == frozenset())

    def _throttled_brokers(self, brokers: Collection[int]) -> dict[str, list[str]]:
        """The throttle settings that each broker sees in force."""
        asked = [ConfigResource(ConfigResourceType.BROKER, str(broker)) for broker in sorted(brokers)]
        told = self.ask(lambda admin: admin.describe_configs(asked))["broker"]
        assert len(told) == len(brokers)
        found = {
            broker: [name for name in configs if "throttled" in name] for broker, configs in told.items()
        }
        return {broker: names for broker, names in found.items() if names}

    def assert_at(self, plan: Plan) -> None:
        """Every partition is where the plan wants it, and led by whom it wants."""
        for wanted in plan.assignments:
            self.assert_replicas(wanted.topic, wanted.partition, wanted.after)
            self.wait(
                f"{wanted.topic}-{wanted.partition} led by {wanted.leader_after}",
                lambda wanted=wanted: (  # type: ignore[misc]
                    self.placement(wanted.topic, wanted.partition).leader == wanted.leader_after
                ),
            )

    def assert_replicas(self, topic: str, number: int, replicas: tuple[int, ...]) -> None:
        """Nothing is under way with a partition, and its list is this as soon as every broker knows it."""
        assert not self.in_flight(topic, number)
        self.wait(
            f"{topic}-{number} on {replicas}", lambda: self.placement(topic, number).replicas == replicas
        )

    def assert_whole(self, plan: Plan) -> None:
        """Wherever the plan's partitions are now: as many replicas as before, all in sync, with a leader."""
        for wanted in plan.assignments:
            self.wait(
                f"{wanted.topic}-{wanted.partition} in sync",
                lambda wanted=wanted: self.whole(wanted.topic, wanted.partition, len(wanted.before)),  # type: ignore[misc]
            )

    def whole(self, topic: str, number: int, factor: int) -> bool:
        """Whether a partition has so many replicas, all in sync, and a leader."""
        there = self.placement(topic, number)
        assert len(set(there.replicas)) == factor
        return sorted(there.in_sync) == sorted(there.replicas) and there.leader is not None

    def snapshot(self, name: str, topics: Mapping[str, int], size_bytes: int) -> Path:
        """A snapshot file of some topics as they are, by name with so many partitions of so many bytes."""
        names = [TopicPartition(topic, n) for topic, number in topics.items() for n in range(number)]
        seen = self.look(*names)
        follower = {"cpu": 0.01, "disk": size_bytes, "network_in": 1e5, "network_out": 0}
        capacity = {"cpu": 4, "disk": 1e9, "network_in": 1e8, "network_out": 1e8}
        document = {
            "format": "trimtab/replicas-snapshot/1",
            "cluster": seen.cluster_id,
            "taken_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "brokers": [
                {"id": b.id, "host": f"host-{b.id}", "state": "alive", "capacity": capacity}
                for b in seen.brokers.values()
            ],
            "partitions": [
                {
                    "topic": where.topic,
                    "partition": where.partition,
                    "replicas": list(found.replicas),
                    "leader": found.leader,
                    "in_sync": list(found.in_sync),
                    "leader_load": {**follower, "cpu": 0.02, "network_out": 1e5},
                    "follower_load": follower,
                }
                for where, found in seen.placements.items()
            ],
            "quality": {"valid_share": 1.0, "oldest_sample_seconds": 1, "cpu": "measured"},
        }
        path = self.folder / f"{name}-snapshot.json"
        path.write_text(json.dumps(document))
        return path

    @contextmanager
    def load(self, topic: str, partitions: int) -> Iterator[dict[int, list[tuple[int, int]]]]:
        """Write to a topic meanwhile, as careful producers do; (number, offset) of each confirmed record."""
        confirmed: dict[int, list[tuple[int, int]]] = {n: [] for n in range(partitions)}
        failed: list[str] = []
        stop = threading.Event()

        def write() -> None:
            client = producer(self.sandbox.connection, acks="all", enable_idempotence=True, linger_ms=5)
            for number in itertools.count():
                if stop.wait(0.005):
                    break
                at = number % partitions
                sent = client.send(topic, value=f"n{number}".encode(), partition=at)
                sent.add_callback(lambda told, at=at, n=number: confirmed[at].append((n, told.offset)))
                sent.add_errback(lambda error: failed.append(type(error).__name__))
            client.flush(timeout=60)
            client.close()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield confirmed
        finally:
            stop.set()
            writer.join(120)
        assert failed == []

    def assert_read_back(self, topic: str, confirmed: Mapping[int, Sequence[tuple[int, int]]]) -> None:
        """Every confirmed record is in the log, at the place that was confirmed, once and in order."""
        from kafka import TopicPartition as KafkaPartition

        reader = consumer(self.sandbox.connection, auto_offset_reset="earliest", enable_auto_commit=False)
        names = [KafkaPartition(topic, n) for n in confirmed]
        reader.assign(names)
        reader.seek_to_beginning()
        ends = reader.end_offsets(names)
        found: dict[int, list[tuple[int, int]]] = {n: [] for n in confirmed}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(reader.position(name) < ends[name] for name in names):
            assert time.monotonic() < deadline, "the log cannot be read back"
            for name, batch in reader.poll(timeout_ms=500).items():
                found[name.partition] += [
                    (int(one.value[1:]), one.offset) for one in batch if one.value[:1] == b"n"
                ]
        reader.close()
        assert {n: sorted(told) for n, told in confirmed.items()} == found

    def bring_back(self, broker: int) -> None:
        """Start a dead broker and wait until everything is in sync again."""
        self.sandbox.restart(broker)
        self.wait(f"broker {broker} back", lambda: broker in self.look().alive)
        self.wait("nothing unhealthy", lambda: not self.look().unhealthy)

    # ------------------------------------------------------------ trimtab

    def write(self, name: str, plan: Plan) -> Path:
        """A plan as a file."""
        path = self.folder / f"{name}.json"
        write_plan(plan, path)
        return path

    def cluster_words(self) -> list[str]:
        """The arguments that name the cluster."""
        return ["--cluster", f"kafka://{self.sandbox.bootstrap}"]

    def environment(self) -> dict[str, str]:
        """Variables for its commands."""
        return {"TRIMTAB_LAKE": str(self.folder / "lake")}

    def end_all(self) -> None:
        """After a story that went wrong: end what still runs, so that the next one begins afresh."""
        self.kill_processes()
        with Journal(self.folder / "state" / JOURNAL_FILE, CODECS) as journal:
            interrupted = [entry.id for entry in journal.entries() if entry.status not in FINAL]
        for execution in interrupted:
            finish(self.start("execution", "cancel", str(execution)))
        for partition in self.look().reassignments:
            self.insist(lambda partition=partition: self.port.cancel_reassignments([partition]))  # type: ignore[misc]

    def apply(self, plan: Path, **options: str) -> "subprocess.Popen[str]":
        """Start `trimtab apply`."""
        return self.start("apply", str(plan), "--yes", **options)


def finish(process: "subprocess.Popen[str]", seconds: float = 2 * PATIENCE_SECONDS) -> tuple[int, str]:
    """Wait for a process; its exit code and what it said."""
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
        raise AssertionError(f"not done after {seconds} s:\n{said}") from None
    assert "Traceback" not in said, said
    return process.returncode, said


def was_killed(code: int) -> bool:
    """Whether a process ended by SIGKILL."""
    return code == -signal.SIGKILL


@contextmanager
def running_trial(folder: Path) -> Iterator[Trial]:
    """Four fresh brokers on which throttles bind at once, and a client to look at them."""
    with KafkaSandbox.start(
        len(BROKERS),
        prometheus=False,
        properties={"replication.quota.window.num": "2"},
        print_progress=lambda line: print(f"sandbox: {line}", file=sys.stderr),
    ) as sandbox:
        admin = admin_client(sandbox.connection, request_timeout_ms=10_000)
        try:
            yield Trial(sandbox, folder, admin)
        finally:
            admin.close()
