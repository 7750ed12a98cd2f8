"""The whole service on a simulated Kafka, in virtual time, with everything going wrong that a seed draws.

Two instances with folders of their own share a lake. `Service`, its targets, its journals, the log in the
lake, leases, outbox and executions are the real ones. Replaced are time and threads, the client of Kafka, the
pipeline that makes snapshots and samples, and the receivers of notifications.
"""

from __future__ import annotations

import datetime
import hashlib
import logging
import math
import random
import sqlite3
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest

from simulate.checkers.kafka import no_partition_offline
from simulate.checkers.service import FINAL, Published, ServiceRecord
from simulate.decisions import DAY, TICK_SECONDS, Violation, random_policy
from simulate.flaky_port import FlakyPort
from simulate.kafka.cluster import cluster_of
from simulate.kafka.port import CLAIM, SimulatedPort, look
from simulate.kafka.state import (
    CORDONED,
    ConfigOperation,
    KafkaRefusal,
    PartitionName,
    ResourceType,
    SimulatedBroker,
    SimulatedLogDir,
)
from simulate.served_cluster import CAPACITY, snapshot_of
from simulate.virtual_threads import Killed, VirtualProcess, VirtualThreads
from trimtab.act import control as control_module
from trimtab.act import lease as act_lease
from trimtab.act.replicas.port import Answers, TopicPartition
from trimtab.balancers import BALANCERS
from trimtab.executions import measuring
from trimtab.files import lease as lake_lease
from trimtab.files import replicated, versioned_documents
from trimtab.files.serve_settings import NotificationTarget
from trimtab.model.documents import Quality
from trimtab.model.policy import Policy, Trigger
from trimtab.model.replicas.settings import RESOURCES
from trimtab.report.measured import MeasuredLoad
from trimtab.serve import service as service_module
from trimtab.serve.notifications import DeliveryError, OutboxRow, receiver_name
from trimtab.serve.service import Service
from trimtab_common.errors import ConnectError, TrimtabError

T = TypeVar("T")

BEGAN_AT = 1_800_000_000.0
POLL_SECONDS = 60.0
LEASE_SECONDS = 300.0
TOPICS, PARTITIONS, BROKERS = 20, 3, 6
BYTES, ARCHIVE_BYTES = 100e6, 2e9
LOAD = 5e5
RECEIVERS = tuple(NotificationTarget("webhook", f"http://receiver-{one}.test/") for one in "ab")
EXPECTED = (TrimtabError, OSError, sqlite3.Error)
"""Errors that faults of the world cause; any other one in a log of the service is a fault of its code."""


class RecordedPort(SimulatedPort):
    """The cluster for one process: each call takes time, and each change may be its last one."""

    def __init__(self, hours: ServedHours, process: VirtualProcess) -> None:
        super().__init__(hours.cluster, str(process), BEGAN_AT)
        self._hours, self._process = hours, process

    def reassign(
        self, targets: Mapping[TopicPartition, tuple[int, ...]], resized: Collection[TopicPartition] = ()
    ) -> Answers:
        """As `ClusterPort.reassign`."""
        return self._write(partial(super().reassign, targets, resized))

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Answers:
        """As `ClusterPort.elect_preferred`."""
        return self._write(partial(super().elect_preferred, partitions))

    def cancel_reassignments(self, partitions: Collection[TopicPartition]) -> Answers:
        """As `ClusterPort.cancel_reassignments`."""
        return self._write(partial(super().cancel_reassignments, partitions))

    def write_throttle(self, config: Any) -> Any:
        """As `ClusterPort.write_throttle`."""
        return self._write(partial(super().write_throttle, config))

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """As `ClusterPort.write_claims`."""
        self._write(partial(super().write_claims, added, removed))

    def _write(self, change: Callable[[], T]) -> T:
        def change_and_look() -> T:
            try:
                return change()
            finally:
                self._hours.look()

        answer: T = self._process.write(change_and_look)
        return answer


class Instance:
    """An instance of the service, through all its lives."""

    def __init__(self, hours: ServedHours, name: str) -> None:
        self.hours, self.name = hours, name
        self.folder = hours.folder / name
        self.process: VirtualProcess | None = None
        self.service: Service | None = None
        self.lives = 0
        self.lake_away_until = -math.inf

    def start(self) -> None:
        """Start a new process from the files of the one before."""
        self.lives += 1
        self.process = process = VirtualProcess(self.name, self.lives)
        runtime = self.hours.threads.runtime_of(process)

        def run() -> None:
            words = (f'serve.instance="{self.name}"', f'serve.public_url="http://{self.name}.test"')
            service = Service(self.hours.settings, words, self.hours.lake, self.folder, runtime=runtime)
            service._deliverer._send = self.hours.receive
            service._deliverer._poll_seconds = POLL_SECONDS
            self.service = service
            service.start()

        self.hours.threads.start(process, "start", run)

    def do(self, name: str, call: Callable[[Service], object]) -> None:
        """A call of a person, in a thread of the process; a refusal is an answer."""
        process, service = self.process, self.service
        if process is None or service is None or not process.is_alive:
            return

        def run() -> None:
            try:
                call(service)
            except EXPECTED as error:
                self.hours.record.note(f"{name} refused: {error}")
            else:
                self.hours.count(f"person: {name}")

        self.hours.threads.start(process, name, run)

    def end(self) -> None:
        """End the process gracefully, as by SIGTERM: what still runs after the stop is killed."""
        process, service = self.process, self.service
        if process is None or not process.is_alive or service is None:
            return
        self.hours.threads.start(process, "stop", service.stop)
        self.hours.threads.at(self.hours.threads.now + 10, partial(self.kill, process))

    def kill(self, process: VirtualProcess) -> None:
        """Kill a process, if it is alive still."""
        if process.is_alive:
            self.hours.record.note(f"{process} is killed")
            self.hours.threads.kill(process)


class ServedHours:
    """One seed: cluster, lake, instances, faults, people and the record of all that the service did."""

    def __init__(
        self, seed: int, folder: Path, patch: pytest.MonkeyPatch, policy: Policy | None = None
    ) -> None:
        self.seed, self.folder = seed, folder
        self.rng = random.Random(seed)
        self.threads = VirtualThreads(BEGAN_AT, self.look)
        self.policy = self._drawn_policy() if policy is None else policy
        self.settings = folder / "trimtab.toml"
        self.settings.write_text(settings_text(self.policy, self.rng), encoding="utf-8")
        self.lake = folder / "lake"
        self.cluster = cluster_of(BROKERS, copy_bytes_per_second=5e6, dir_bytes=5e9)
        self.loads: dict[str, float] = {}
        self.phases = {f"t{number:02}": self.rng.uniform(0, math.tau) for number in range(TOPICS)}
        for number in range(TOPICS):
            lists = {part: self._list(number * PARTITIONS + part) for part in range(PARTITIONS)}
            self.cluster.controller.create_topic(f"t{number:02}", lists, BYTES)
            self.loads[f"t{number:02}"] = LOAD
        for name, first in (("archive-1", 0), ("archive-2", 3)):
            self.cluster.controller.create_topic(name, {0: self._list(first)}, ARCHIVE_BYTES)
            self.loads[name] = LOAD
        self.active: set[int] = set(self.cluster.brokers)
        self.changed_at: dict[int, float] = {}
        self.record = ServiceRecord(lambda: self.threads.now, self._checked_policy(), POLL_SECONDS)
        self.record.receivers = tuple(map(receiver_name, RECEIVERS))
        self.counts: Counter[str] = Counter()
        self.instances = [Instance(self, name) for name in "ab"]
        self.snapshots: dict[str, Any] = {}
        self.samples: list[tuple[datetime.datetime, Any, np.ndarray]] = []
        self.silent_until = self.incomplete_until = self.poisoned_until = -math.inf
        self.returns: dict[int, float] = {}
        self.full: dict[str, float] = {}
        self.receiver_fails: dict[str, bool] = {}
        self.received: set[tuple[str, str]] = set()
        self.is_calm = False
        self.leader_gone_at = BEGAN_AT
        self.led_since = math.inf
        self._history_read = 0
        self._tokens = 0
        self._patch(patch)

    def _drawn_policy(self) -> Policy:
        policy = random_policy(self.rng)
        return replace(
            policy,
            drift=replace(policy.drift, load="recent", hold_seconds=self.rng.choice([3600.0, 4 * 3600.0])),
            budget=replace(policy.budget, max_bytes=self.rng.choice([None, 4_000_000_000])),
        )

    def _checked_policy(self) -> Any:
        return SimpleNamespace(
            **{name: getattr(self.policy, name) for name in Policy.__dataclass_fields__},
            mode_of=self.policy.mode_of,
            lease_seconds=LEASE_SECONDS,
        )

    @staticmethod
    def _list(first: int) -> list[int]:
        return [(first + place) % BROKERS + 1 for place in range(3)]

    def count(self, name: str) -> None:
        """Count something that has happened."""
        self.counts[name] += 1

    # ------------------------------------------------------------ what is replaced

    def _patch(self, patch: pytest.MonkeyPatch) -> None:
        real = BALANCERS["replicas"]
        replaced = replace(
            real,
            open=lambda: self._open,  # type: ignore[arg-type]
            present_state=lambda: self._present_state,  # type: ignore[arg-type]
            snapshot=lambda: SimpleNamespace(read=lambda folder: self.snapshots[folder.name]),  # type: ignore[arg-type]
        )
        patch.setitem(BALANCERS, "replicas", replaced)
        patch.setattr(measuring, "measured_between", self._measured_between)
        for module in (versioned_documents, replicated):
            patch.setattr(module, "create", self._create)
        for module in (lake_lease, act_lease):
            patch.setattr(module, "host_id", lambda: self._process().name)
            patch.setattr(module, "start_time", lambda pid: str(self._process()))
        patch.setattr("secrets.token_hex", self._token)
        patch.setattr(service_module, "TURN_SECONDS", 30.0)
        patch.setattr(service_module, "MAX_ATTEMPT_SECONDS", 60.0)
        patch.setattr(control_module, "NAP_SECONDS", 10.0)

    def _process(self) -> VirtualProcess:
        process = self.threads.process
        assert process is not None
        return process

    def _token(self, size: int = 8) -> str:
        self._tokens += 1
        return f"{self._tokens:016x}"

    def _create(self, path: Path, content: bytes) -> None:
        """`files.store.create`: as a whole and only once, without waiting for the disk."""
        process = self._process()
        instance = next(one for one in self.instances if one.name == process.name)
        if instance.lake_away_until > self.threads.now:
            process.require_alive()
            raise OSError("the lake is away")
        process.write(partial(self._created, process, path, content))

    def _created(self, process: VirtualProcess, path: Path, content: bytes) -> None:
        with open(path, "xb") as file:
            file.write(content)
        if path.parent.name == "lease":
            self.record.heartbeat_at[process] = self.threads.now
        elif path.name.endswith(".json"):
            self.sync()
            self._note_foreign_work()
            self.record.document(process, int(path.stem), content)

    @contextmanager
    def _open(self, connection: object, clock: Callable[[], float]) -> Iterator[FlakyPort]:
        process, generator = self._process(), np.random.default_rng(self.rng.getrandbits(32))
        lost = 0.0 if self.is_calm else 0.01
        yield FlakyPort(RecordedPort(self, process), generator, lost, self._pass_call)

    def _pass_call(self, seconds: float) -> None:
        self._process().require_alive()
        self.sync()

    def _present_state(self, connection: object, clock: Callable[[], float]) -> tuple[frozenset[str], str]:
        self._process().require_alive()
        self.sync()
        if not self.cluster.controller.available:
            raise ConnectError("the controller does not answer")
        found = look(self.cluster, self.threads.now, [], [], wide=False)
        online = frozenset(str(one.id) for one in found.brokers.values() if not one.fenced)
        count = len(found.reassignments)
        return online, f"{count} partitions are being reassigned" if count else ""

    def _measured_between(
        self,
        lake: object,
        cluster: str,
        ticks: int,
        after: datetime.datetime | None,
        until: datetime.datetime | None,
        settling: int = 1,
    ) -> MeasuredLoad | None:
        found = [
            one
            for one in self.samples
            if (after is None or one[0] > after) and (until is None or one[0] <= until)
        ][settling if after is not None else 0 :]
        found = [one for one in found if (one[2] == found[-1][2]).all()][-ticks:]
        if not found:
            return None
        rows = found[-1][2]
        each = [one[1] for one in found]
        usage = np.array([one.usage[rows] for one in each])
        capacity = np.broadcast_to(np.array(CAPACITY), usage.shape)
        return MeasuredLoad(
            brokers=tuple(sorted(self.cluster.brokers)[row] for row in np.flatnonzero(rows)),
            hosts=("",) * int(rows.sum()),
            usage=usage,
            mean=np.array([one.mean for one in each]),
            deviation=np.array([one.deviation[rows] for one in each]),
            sigma=np.array([one.sigma for one in each]),
            resources=RESOURCES,
            ticks=tuple(one[0] for one in found),
            load=usage * capacity,
            capacity=capacity,
        )

    def receive(self, target: NotificationTarget, row: OutboxRow) -> None:
        """A receiver gets a notification, perhaps once more."""
        self._process().require_alive()
        name = receiver_name(target)
        if self.receiver_fails.get(name):
            raise DeliveryError("the receiver answered 503")
        self.received.add((name, str(row.number)))
        self.count("notifications")

    # ------------------------------------------------------------ time

    def sync(self) -> None:
        """Let the cluster's time pass up to now."""
        before = BEGAN_AT + self.cluster.now
        self.cluster.advance(max(0.0, self.threads.now - before))
        active = {name for name, one in self.cluster.brokers.items() if one.active}
        self.changed_at |= dict.fromkeys(active ^ self.active, before)
        self.active = active

    def look(self) -> None:
        """After each turn of a thread: what it has done to the cluster."""
        new = self.cluster.history[self._history_read :]
        self._history_read += len(new)
        for one in new:
            if "." in one.actor:
                process = next(p for p in self._processes() if str(p) == one.actor)
                self._note_foreign_work()
                self.record.order(process, one)

    def _processes(self) -> list[VirtualProcess]:
        return [one.process for one in self.instances if one.process is not None]

    def play(self, hours: float) -> None:
        """Let so many hours pass, with faults."""
        for instance in self.instances:
            if instance.process is None:
                instance.start()
        end = self.threads.now + hours * 3600
        while self.threads.now < end:
            self.tick()

    def tick(self) -> None:
        """One interval: faults, people, a snapshot, and what the service makes of it."""
        self.sync()
        if not self.is_calm:
            self._faults()
        for one in self.instances if self.is_calm else ():
            if one.process is not None and not one.process.is_alive:
                one.start()  # its end was ordered by the last of the faults
        self._brokers_return()
        self._people()
        self._publish()
        self._watch_leader()
        at = self.threads.now
        # The oldest reassignment of others may end at any time: looked at more often than a snapshot comes.
        for part in range(1, 11):
            self.threads.run_until(at + part * TICK_SECONDS / 10)
            self.sync()
            self._note_foreign_work()
            self.look()
            if self.record.violation is not None:
                raise self.record.violation
        self.record.look(self.led_since)

    def _watch_leader(self) -> None:
        leads = self.leader() is not None
        if not leads:
            self.led_since = math.inf
        elif self.led_since == math.inf:
            self.led_since = self.threads.now
        if self.record.leading_since < math.inf and leads:
            self.led_since = max(self.led_since, self.record.leading_since)

    def leader(self) -> Instance | None:
        """The instance that decides now, if one does."""
        for one in self.instances:
            alive = one.process is not None and one.process.is_alive
            frozen = one.process is not None and one.process.frozen_until > self.threads.now
            if alive and not frozen and one.service is not None and one.service.is_leader:
                return one
        return None

    def _note_foreign_work(self) -> None:
        flying = [name for name, one in self.cluster.partitions.items() if one.adding or one.removing]
        begun: dict[PartitionName, bool] = {}
        for one in self.cluster.history[-200:] if flying else ():
            if one.verb == "reassign" and isinstance(one.subject, PartitionName):
                begun[one.subject] = one.actor == "operator"
        if not any(map(begun.get, flying)):
            self.record.foreign_since = None
        elif self.record.foreign_since is None:
            self.record.foreign_since = self.threads.now

    # ------------------------------------------------------------ the pipeline

    def _publish(self) -> None:
        now = self.threads.now
        shown = dict(self.loads)
        for name, phase in self.phases.items():
            day = 1.0 if self.is_calm else 1.0 + 0.1 * math.sin(math.tau * now / DAY + phase)
            shown[name] = self.loads[name] * day
        true = snapshot_of(self.cluster, shown, now)
        online = np.array([one.active for _, one in sorted(self.cluster.brokers.items())])
        self.samples = [*self.samples[-300:], (_instant(now), true.imbalance(), online)]
        if now < self.silent_until:
            return
        if now < self.poisoned_until:
            names = sorted(shown, key=lambda one: shown[one])
            shown |= {names[0]: shown[names[-1]] * 2, names[-1]: shown[names[0]]}
            true = snapshot_of(self.cluster, shown, now)
        coverage = 0.7 if now < self.incomplete_until else 1.0
        object.__setattr__(true, "quality", Quality(valid_share=coverage))
        name = f"{_instant(now):%Y-%m-%dT%H:%M:%S.%fZ}"
        folder = self.lake / "snapshots" / self.cluster.cluster_id
        (folder / name).mkdir(parents=True)
        self.snapshots[name] = true
        for old in sorted(self.snapshots)[:-4]:
            del self.snapshots[old]
            (folder / old).rmdir()
        held = Counter(b for one in self.cluster.partitions.values() for b in one.settled_replicas)
        lost = frozenset(b for b, one in self.cluster.brokers.items() if not one.active and held[b])
        racks = {b: one.rack for b, one in self.cluster.brokers.items() if one.active or held[b]}
        self.record.publish(Published(now, now, coverage, lost, racks, dict(self.changed_at)))

    # ------------------------------------------------------------ faults

    def _fault(self, text: str) -> None:
        self.count(f"fault: {text.partition(' ')[0]}")
        self.record.note(f"fault: {text}")

    def _faults(self) -> None:
        rng, draw, now = self.rng, self.rng.random, self.threads.now
        alive = [name for name, one in self.cluster.brokers.items() if one.running]
        if draw() < 0.004 and alive:
            self._lose(rng.sample(alive, min(len(alive), rng.choice([1, 1, 1, 1, 2, 3]))))
        if draw() < 0.001:
            gone = rng.choice(["r1", "r2", "r3"])
            self._lose([name for name in alive if self.cluster.brokers[name].rack == gone])
        if draw() < 0.0015:
            self._fault("rolling-restart")
            for place, name in enumerate(alive):
                self.threads.at(now + place * 480, partial(self._lose, [name], 120.0))
        if draw() < 0.0005 and len(self.cluster.brokers) < BROKERS + 2:
            self._fault(f"broker-added {self.add_broker()}")
        if draw() < 0.002:
            self._fault("controller-away")
            self.cluster.restart_controller(rng.uniform(5, 120))
        for topic in self.phases:
            self.loads[topic] = max(LOAD / 10, self.loads[topic] * math.exp(rng.gauss(0.0, 0.02)))
        if draw() < 0.006:
            self._fault("load-jump")
            for topic in rng.sample(sorted(self.phases), 3):
                self.loads[topic] = LOAD * rng.choice([0.2, 1.0, 4.0])
        if draw() < 0.0015:
            self._fill(rng.choice(sorted(self.phases)))
        for topic in [one for one, until in self.full.items() if until <= now]:
            self._resize(topic, BYTES)
            del self.full[topic]
        for rate, cause, longest in (
            (0.004, "silent_until", 7200),
            (0.006, "incomplete_until", 1800),
            (0.004, "poisoned_until", 4 * 3600),
        ):
            if draw() < rate:
                self._fault(cause)
                setattr(self, cause, now + rng.uniform(0, longest))
        if draw() < 0.006:
            self._reassign()
        self._faults_of_instances()
        for target in RECEIVERS:
            fails = self.receiver_fails.get(receiver_name(target), False)
            if draw() < (0.02 if fails else 0.004):
                self.receiver_fails[receiver_name(target)] = not fails

    def add_broker(self) -> int:
        """Add an empty broker; returns its number."""
        number = len(self.cluster.brokers) + 1
        dirs = {path: SimulatedLogDir(path, 5e9) for path in ("/d0", "/d1")}
        self.cluster.add_broker(SimulatedBroker(number, f"h{number}", f"r{(number - 1) % 3 + 1}", dirs, 5e6))
        return number

    def _faults_of_instances(self) -> None:
        rng, now = self.rng, self.threads.now
        for one in self.instances:
            process = one.process
            assert process is not None
            if not process.is_alive:
                if rng.random() < 0.2:
                    one.start()
                continue
            draw = rng.random()
            if draw < 0.006:
                self._fault(f"kill {process}")
                process.dies_at, process.dies_before = rng.randrange(1, 25), rng.random() < 0.5
                self.threads.at(now + 3600, partial(one.kill, process))
            elif draw < 0.008:
                self._fault(f"freeze {process}")
                process.frozen_until = now + rng.uniform(30, 1500)
            elif draw < 0.011:
                self._fault(f"lake-away {process}")
                one.lake_away_until = now + rng.uniform(30, 1200)
            elif draw < 0.0125:
                self._fault(f"end {process}")
                one.end()

    def _lose(self, names: list[int], back_in: float | None = None) -> None:
        for name in names:
            seconds = self.rng.expovariate(1 / 3600) if back_in is None else back_in
            self._fault(f"broker-killed {name}")
            self.sync()
            self.cluster.kill_broker(name)
            self.returns[name] = self.threads.now + seconds

    def _brokers_return(self) -> None:
        for name, at in list(self.returns.items()):
            if self.threads.now >= at:
                del self.returns[name]
                self.cluster.start_broker(name)

    def _fill(self, topic: str) -> None:
        self._fault(f"disk-fills by {topic}")
        self._resize(topic, BYTES * self.rng.choice([6.0, 12.0]))
        self.full[topic] = self.threads.now + self.rng.uniform(1, 12) * 3600

    def _resize(self, topic: str, size: float) -> None:
        for name, one in self.cluster.partitions.items():
            if name.topic == topic:
                one.size_bytes = size

    def _reassign(self) -> None:
        alive = [name for name, one in self.cluster.brokers.items() if one.active]
        names = [*self.rng.sample(sorted(self.cluster.partitions), 2), PartitionName("archive-1", 0)]
        for name in names[self.rng.randrange(3) :]:
            if self.cluster.partitions[name].reassigning or len(alive) < 3:
                continue
            self._fault(f"foreign-reassignment of {name}")
            try:
                self.cluster.controller.reassign(*name, self.rng.sample(alive, 3))
            except KafkaRefusal:
                continue
        self._note_foreign_work()

    # ------------------------------------------------------------ people

    def _people(self) -> None:
        rng, draw, now = self.rng, self.rng.random, self.threads.now
        leader = self.leader()
        if leader is None:
            return
        place, by = ("sim", "replicas"), "operator"
        if draw() < 0.003 and not self.is_calm:
            until = None if draw() < 0.3 else now + rng.uniform(600, 6 * 3600)
            leader.do("pause", lambda service: service.pause(*place, by, "works on the cluster", until))
        if (draw() < 0.01 or self.is_calm) and (self.record.is_paused(now) or self.record.must_ask):
            leader.do("resume", lambda service: service.resume(*place, by))
        offered = [one for one in self.record.plans.values() if one.state in ("asking", "proposed")]
        for plan in offered:
            chance = draw()
            if chance < 0.15 or (self.is_calm and plan.state == "asking"):
                self.record.approvals.add(plan.digest)
                call = Service.approve if draw() < 0.5 else Service.apply_plan
                leader.do("approve", partial(_call, call, plan.digest, by))
            elif chance < 0.18:
                leader.do("reject", partial(_call, Service.reject, plan.digest, by, "not now"))
        if draw() < 0.01 and not self.is_calm:
            leader.do("what-if", self._ask_what_if)
        known = [one for one in self.record.plans.values() if one.state == "what-if"]
        if known and draw() < 0.01 and not self.is_calm:
            digest = rng.choice(known).digest
            self.record.approvals.add(digest)
            leader.do("apply", partial(_call, Service.apply_plan, digest, by))
        if self.record.executions:
            self._people_end_executions(leader)

    def _ask_what_if(self, service: Service) -> None:
        rng = self.rng
        chosen: dict[str, object] = {"load": "recent"}
        if rng.random() < 0.05:
            chosen["drain"] = (str(rng.choice(sorted(self.cluster.brokers))),)
        elif rng.random() < 0.5:
            chosen["epsilon"] = rng.choice([0.05, 0.1, 0.2])
        record = service.make_plan("sim", "replicas", chosen, "operator")
        if rng.random() < 0.5:
            self.record.approvals.add(record.digest)
            service.apply_plan(record.digest, "operator")

    def _people_end_executions(self, leader: Instance) -> None:
        newest = self.record.executions[max(self.record.executions)]
        number, draw = newest.number, self.rng.random()
        if newest.status not in FINAL and draw < 0.05 and not self.is_calm:
            how = "cancel" if draw < 0.02 else "stop"
            leader.do(how, lambda service: service.end_execution("sim", number, how, "operator"))  # type: ignore[arg-type]
        elif newest.status == "stopped" and draw < (1.0 if self.is_calm else 0.1):
            leader.do("resume-execution", lambda service: service.resume_execution("sim", number, "operator"))
        elif newest.status == "stopped" and draw < 0.12:
            leader.do("cancel", lambda service: service.end_execution("sim", number, "cancel", "operator"))

    # ------------------------------------------------------------ the end of all faults

    def calm_down(self, days: float, quiet_days: float) -> None:
        """End all faults, and check that a balanced cluster is left alone for days, and clean."""
        self.is_calm = True
        self.record.note("all faults end")
        now = self.threads.now
        self.silent_until = self.incomplete_until = self.poisoned_until = -math.inf
        self.receiver_fails.clear()
        self.returns = dict.fromkeys(self.returns, now)
        self.loads = dict.fromkeys(self.loads, LOAD)
        for topic in self.full:
            self._resize(topic, BYTES)
        for one in self.instances:
            one.lake_away_until = -math.inf
            assert one.process is not None
            if one.process.is_alive:
                one.process.dies_at = math.inf
            else:
                one.start()
        end = now + days * DAY
        while self.threads.now < end:
            self.tick()
        self._level()
        for _ in range(int(DAY / TICK_SECONDS)):
            self.tick()
        orders = self.record.orders
        begun = len(self.record.executions)
        end = self.threads.now + quiet_days * DAY
        while self.threads.now < end:
            self.tick()
            if self.record.orders > orders or len(self.record.executions) > begun:
                self.record.fail("quiescence: a balanced cluster without faults is changed")
        self._check_end()

    def _level(self) -> None:
        """An operator trims the archives and makes the placement even, once no execution is under way.

        Two archives cannot be even over eight brokers, and a service that improves what is uneven is right.
        """
        for _ in range(int(3 * DAY / TICK_SECONDS)):
            if all(one.status in FINAL[1:] for one in self.record.executions.values()):
                break
            self.tick()
        else:
            self.record.fail("an execution does not end")
        for number in range(len(self.cluster.brokers)):
            change = [(CORDONED, ConfigOperation.DELETE, None)]
            self.cluster.controller.alter_configs(ResourceType.BROKER, str(number + 1), change)
        archives = {"archive-1": 0, "archive-2": 3}
        for archive in archives:
            self._resize(archive, BYTES)
        brokers = sorted(self.cluster.brokers)
        for name, partition in sorted(self.cluster.partitions.items()):
            first = archives.get(name.topic)
            if first is None:
                first = int(name.topic[1:]) * PARTITIONS + name.number
            lists = [brokers[(first + place) % len(brokers)] for place in range(3)]
            if partition.replicas != lists:
                self.cluster.controller.reassign(*name, lists)
        self.tick()
        while any(one.reassigning for one in self.cluster.partitions.values()):
            self.tick()
        for name in self.cluster.partitions:
            try:
                self.cluster.controller.elect_preferred(*name)
            except KafkaRefusal:
                continue
        self.tick()
        measured = self.samples[-1][1]
        if (worst := float(measured.worst_deviation.max())) > self.policy.drift.begin:
            raise AssertionError(f"the cluster that is to be left alone has a deviation of {worst:.2f}")

    def _check_end(self) -> None:
        record, cluster = self.record, self.cluster
        wrong = [*no_partition_offline(cluster)]
        wrong += [f"throttle left: {name}" for name, values in cluster.configs.throttles().items() if values]
        rest = cluster.configs.of(ResourceType.BROKER, "")
        wrong += [f"claim left: {name}" for name in rest if name.startswith(CLAIM)]
        wrong += [
            f"{name} has {one.replicas}"
            for name, one in cluster.partitions.items()
            if len(set(one.replicas)) != 3 or one.reassigning
        ]
        wrong += [
            f"execution {one.number} is {one.status}"
            for one in record.executions.values()
            if one.status not in FINAL[1:]
        ]
        wrong += [
            f"notification {number} to {receiver} is {state}"
            for (number, receiver), state in record.outbox.items()
            if state == "waiting" or (state == "delivered" and (receiver, str(number)) not in self.received)
        ]
        if wrong:
            record.fail("; ".join(wrong[:5]))
        for one in self.instances:
            assert one.service is not None
            one.service._log.follow()
        first, second = (self._dump(one) for one in self.instances)
        if differing := [name for name in first if first[name] != second[name]]:
            record.fail(f"the journals of the two instances differ in {', '.join(differing)}")

    def _dump(self, instance: Instance) -> dict[str, list[tuple[object, ...]]]:
        found = {}
        for database, tables in (
            ("serve", ("states", "decisions", "plans", "effects", "outbox")),
            ("executions", ("executions", "steps", "log")),
        ):
            with closing(sqlite3.connect(instance.folder / "serve" / f"{database}.sqlite")) as db:
                for table in tables:
                    found[table] = sorted(db.execute(f"SELECT * FROM {table}").fetchall(), key=repr)
        return found

    @property
    def trace_digest(self) -> str:
        """SHA-256 of all that happened."""
        return hashlib.sha256("\n".join(self.record.trace).encode()).hexdigest()

    def close(self) -> None:
        """End the threads of all processes."""
        for process in self._processes():
            if process.is_alive:
                self.threads.kill(process)


class _Faults(logging.Handler):
    """Fails where the service logs an error that no fault of the world explains."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what is not expected."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, (*EXPECTED, Killed)):
            self.found.append(f"{record.getMessage()}: {error!r}")
            if error is not None:
                self.found.append(logging.Formatter().formatException(record.exc_info))  # type: ignore[arg-type]


class DirectedHours(ServedHours):
    """Hours without faults and persons but those that a test orders; two of the brokers are empty."""

    def __init__(self, seed: int, folder: Path, patch: pytest.MonkeyPatch, policy: Policy | None) -> None:
        super().__init__(seed, folder, patch, policy)
        self.add_broker()
        self.add_broker()

    def _faults(self) -> None:
        pass

    def _people(self) -> None:
        pass

    def make_plan(self) -> None:
        """A person asks for a plan that evens out the load."""
        self.order("make", _plan_made)

    def apply_plan(self, *digests: str, **chosen: object) -> None:
        """A person applies plans that were made before, or a new one."""

        def run(service: Service) -> None:
            for digest in digests or (_plan_made(service, **chosen),):
                self.record.approvals.add(digest)
                service.apply_plan(digest, "operator")

        self.order("apply", run)

    def order(self, name: str, call: Callable[[Service], object]) -> None:
        """A call of a person to the deciding instance."""
        leader = self.leader()
        assert leader is not None, "no instance decides"
        leader.do(name, call)

    def pass_until(self, is_reached: Callable[[], bool], hours: float = 4.0) -> None:
        """Let time pass until something is so, and fail where it does not come."""
        end = self.threads.now + hours * 3600
        while not is_reached():
            if self.threads.now > end:
                self.record.fail(f"it has not come within {hours:g} h")
            self.tick()

    def has_begun(self) -> bool:
        """Whether an execution copies data."""
        return any(one.reassigning for one in self.cluster.partitions.values())

    def statuses(self) -> list[str]:
        """The status of each execution, in order."""
        return [one.status for one in self.record.executions.values()]


def _plan_made(service: Service, **chosen: object) -> str:
    return service.make_plan("sim", "replicas", {"load": "recent", **chosen}, "operator").digest


H = TypeVar("H", bound=ServedHours)


@contextmanager
def _level(log: logging.Logger, level: int) -> Iterator[None]:
    """A level for some time; loggers below it remember theirs until `setLevel` is called."""
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)


@contextmanager
def served(kind: type[H], seed: int, folder: Path, policy: Policy | None = None) -> Iterator[H]:
    """A service in virtual time.

    Raises
    ------
    Violation
        If an invariant is broken; the text has the seed and what happened before.
    """
    log, faults = logging.getLogger("trimtab.serve"), _Faults()
    with pytest.MonkeyPatch.context() as patch, _level(log, logging.ERROR), warnings.catch_warnings():
        # A process that is killed closes no file: the kernel does.
        warnings.filterwarnings("ignore", "unclosed file", ResourceWarning)
        patch.setattr(log, "propagate", False)
        patch.setattr(log, "handlers", [faults])
        hours = kind(seed, folder, patch, policy)
        try:
            hours.play(0.0)
            yield hours
        except Exception as error:
            raise Violation(f"seed {seed}: {error}") from error
        finally:
            hours.close()
    if faults.found:
        raise Violation(f"seed {seed}: the service logs errors\n" + "\n".join(faults.found[:6]))


def play(seed: int, hours: float, days: float, quiet_days: float, folder: Path) -> ServedHours:
    """Play a seed: hours with faults, days without, and days on a balanced cluster.

    Raises
    ------
    Violation
        If an invariant is broken; the text has the seed and what happened before.
    """
    with served(ServedHours, seed, folder) as found:
        found.play(hours)
        found.calm_down(days, quiet_days)
    return found


def settings_text(policy: Policy, rng: random.Random) -> str:
    """The settings of a service with a policy."""
    triggers: dict[str, Any] = {
        "broker_lost": policy.broker_lost,
        "hard_limit": policy.hard_limit,
        "broker_added": policy.broker_added,
        "drift": policy.drift,
        "request": policy.request,
        "budget": policy.budget,
    }
    lines = [
        "[clusters.sim]",
        'address = "kafka://127.0.0.1:1"',
        'id = "simulated-cluster-0000"',
        "[replicas]",
        'load = "recent"',
        "[execution]",
        f'throttle = "{rng.choice(["auto", "none", "2500000"])}"',
        "poll_interval_seconds = 5.0",
        "check_interval_seconds = 15.0",
        "unreachable_timeout_seconds = 120.0",
        "[serve]",
        f"interval_seconds = {policy.interval_seconds}",
        f"undo = {str(policy.undo).lower()}",
        f"lease_seconds = {LEASE_SECONDS}",
        f"poll_seconds = {POLL_SECONDS}",
    ]
    for name, one in triggers.items():
        lines.append(f"[serve.{name}]")
        for key in (field.name for field in fields(one)):
            value = getattr(one, key)
            if value is not None:
                lines.append(
                    f"{key} = {value!r}".replace("'", '"')
                    if not isinstance(value, str)
                    else f'{key} = "{value}"'
                )
    for window in policy.windows:
        lines += [
            "[[serve.windows]]",
            f'begin = "{window.begin}"',
            f'end = "{window.end}"',
            f'days = "{window.days}"',
        ]
    for target in RECEIVERS:
        lines += ["[[serve.notifications]]", f'kind = "{target.kind}"', f'url = "{target.url}"']
    return "\n".join(lines) + "\n"


def _call(call: Callable[..., object], *arguments: object) -> Any:
    *rest, service = arguments
    return call(service, *rest)


def _instant(at: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at, datetime.UTC)


__all__ = ["ServedHours", "Trigger", "play"]
