"""Worlds of one seed: a cluster, a plan, faults, and processes of trimtab that are killed and start again."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, NoReturn

import numpy as np

from simulate.checkers.kafka import (
    Before,
    Watch,
    cordons_as_they_should_be,
    every_step_accounted,
    foreign_work_respected,
    no_copy_sent_to_the_dead,
    no_lease_left,
    no_partition_offline,
    no_reassignment_left,
    no_throttle_left,
    replication_factor_kept,
)
from simulate.faults import Fault, FaultScript, random_faults
from simulate.flaky_port import FlakyPort
from simulate.kafka.cluster import SimulatedKafka, cluster_of
from simulate.kafka.port import SimulatedPort
from simulate.kafka.state import ConfigOperation, ResourceType
from support.invariants import Checked
from support.journals import CODECS
from support.mortal import MortalJournal
from support.plans import REASON, plan_of
from trimtab.act.control import begin, prepare, runner_of, state_of
from trimtab.act.execution.port import PortError
from trimtab.act.execution.state import FINAL, StateT
from trimtab.act.executor import Executor, PlanT, PortT, PreparedPlan, SettingsT
from trimtab.act.journal import JOURNAL_FILE, ExecutionStore
from trimtab.act.lease import Lease
from trimtab.act.replicas.executor import EXECUTOR
from trimtab.act.replicas.load_check import ReplicaLoadCheck
from trimtab.act.replicas.port import ClusterPort
from trimtab.act.replicas.state import ReplicasExecutionSettings, ReplicasExecutionState
from trimtab.model.errors import ActError
from trimtab.model.replicas.plan import Plan, ReplicaAssignment, ReplicaMove, ReplicaMoveKind

ACTOR = "trimtab"
LOOK_EVERY_SECONDS = 0.5


class Killed(BaseException):
    """What `kill -9` looks like from inside: nothing runs after it, no `except Exception`, no clean-up."""


def killed() -> NoReturn:
    """Die."""
    raise Killed


def mortal_journal(folder: Path, dies_at: int | None, before: bool) -> MortalJournal:
    """The journal of a process that is killed right before or right after a given write of a state."""
    journal = MortalJournal(folder / JOURNAL_FILE, CODECS, dies_at, before, killed)
    # Nothing here survives the machine, only the process: waiting for the disk would test nothing.
    journal._db.execute("PRAGMA synchronous=OFF")
    return journal


@dataclass(kw_only=True)
class Lives(ABC, Generic[PortT, PlanT, SettingsT, StateT]):
    """Processes of trimtab that carry one plan out in virtual time, are killed, and start again.

    Attributes
    ----------
    executor
        Of the balancer.
    port, clean_port
        To the cluster: with its faults, and without.
    cluster_id
        In the name of the lock.
    sense
        Measures the load between batches.
    lives
        The number of processes so far.
    writes
        The number of states that the last of them wrote.
    """

    executor: Executor[PortT, PlanT, SettingsT, StateT]
    seed: int
    folder: Path
    port: PortT
    clean_port: PortT
    cluster_id: str
    plan: PlanT
    settings: SettingsT
    generator: np.random.Generator
    sense: object = None
    lives: int = 0
    writes: int = 0
    execution: int | None = None
    state: StateT | None = None
    log: list[str] = field(default_factory=list)

    @abstractmethod
    def clock(self) -> float:
        """Virtual time as seconds since 1970."""

    @abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Let virtual time pass, with the faults that are due."""

    def settle(self) -> None:
        """Let the cluster do what has become due; a cluster without such work does nothing."""

    def live(self, dies_at: int | None = None, before: bool = False, cancel: bool = False) -> bool:
        """Run one process of trimtab to its end or death; whether it reached a final status."""
        self.lives += 1
        with self._store(dies_at, before) as store:
            try:
                prepared = None
                if self.execution is None:
                    prepared = prepare(self.executor, self.port, self.plan, rebase=True)
                with self.lease(self.port) as lease:
                    self._run(store, lease, prepared, cancel)
            except Killed:
                when = f"{dies_at} (before)" if before else f"{dies_at}"
                self.log.append(f"{self.clock():.1f}: killed at write {when}")
            except (ActError, PortError) as error:
                self.log.append(f"{self.clock():.1f}: {error}")
            finally:
                assert isinstance(store.journal, MortalJournal)
                self.writes = store.journal.writes
            entries = store.journal.entries()
            self.execution = entries[0].id if entries else None
            if self.execution is not None:
                # A process that is killed right after a write has not called the watcher with that state.
                self.state = state_of(self.executor, store, self.execution)
            return bool(entries) and entries[0].status in FINAL

    def live_to_the_end(self, cancel: bool = False, attempts: int = 30) -> None:
        """Start again until a final status is reached, with some time between two processes."""
        for _ in range(attempts):
            if self.live(cancel=cancel):
                return
            self.pass_time(float(self.generator.choice([0.1, 5.0, 60.0, 400.0])))
            self.settle()
        raise AssertionError(f"no final status after {attempts} lives\n{self}")

    def clear_claims(self) -> None:
        """Start one more process: it removes the claim of one that was killed after its last write."""
        self.lives += 1
        with self.lease(self.clean_port):
            pass

    @contextmanager
    def _store(self, dies_at: int | None, before: bool) -> Iterator[ExecutionStore]:
        store = ExecutionStore(self.folder, CODECS, self.clock, self.pass_time, lambda: f"life {self.lives}")
        store.journal.close()
        store.journal = mortal_journal(self.folder, dies_at, before)
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def lease(self, port: PortT) -> Iterator[Lease]:
        """The lease of one process."""
        # Each life has a folder of its own for the lock: a killed process has lost it, ours here has not.
        folder = self.folder / f"lives-{self.lives}"
        seconds = self.settings.lease_seconds
        owner = f"life {self.lives}"
        lease = Lease(port, folder, self.cluster_id, seconds, self.clock, self.pass_time, owner)
        lease.acquire()
        try:
            yield lease
        except Killed:
            file = lease._lock_file._file
            assert file is not None
            file.close()  # all that is left to do is the kernel's work
            raise
        except BaseException:
            lease.release()
            raise
        lease.release()

    def _run(self, store: ExecutionStore, lease: Lease, prepared: PreparedPlan | None, cancel: bool) -> None:
        if self.execution is None:
            assert prepared is not None
            self.execution = begin(self.executor, store, prepared, self.settings, "{}")
        checked = Checked(self._remember)
        runner = runner_of(
            self.executor, store, self.port, lease, self.execution, sense=self.sense, watch=checked
        )
        if cancel:
            runner.cancel()
        runner.run()

    def _remember(self, state: StateT) -> None:
        self.state = state

    def steps_and_log(self) -> list[str]:
        """The lives, and the steps of the last state, for the message of a failure."""
        lines = ["lives:", *self.log, "steps:"]
        if self.state is not None:
            lines += [f"  {one.step} {one.state}: {one.reason}" for one in self.state.records]
            lines.append(f"  {self.state.status}: {self.state.reason}; {getattr(self.state, 'notes', ())}")
        return lines


class World(Lives[ClusterPort, Plan, ReplicasExecutionSettings, ReplicasExecutionState]):
    """One simulated Kafka cluster, one plan, one script of faults."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        cluster: SimulatedKafka,
        plan: Plan,
        settings: ReplicasExecutionSettings,
        script: FaultScript,
        generator: np.random.Generator,
        lost_fraction: float = 0.0,
        sense: ReplicaLoadCheck | None = None,
    ) -> None:
        self.cluster, self.script = cluster, script
        self.before = Before.of(cluster)
        self.watch = Watch({ACTOR}, settings.max_copies_per_broker, throttled=settings.throttle != "none")
        self.inner = SimulatedPort(cluster, ACTOR)
        super().__init__(
            executor=EXECUTOR,
            seed=seed,
            folder=folder,
            port=FlakyPort(self.inner, generator, lost_fraction, self.pass_time),
            clean_port=self.inner,
            cluster_id=cluster.cluster_id,
            plan=plan,
            settings=settings,
            generator=generator,
            sense=sense,
        )

    def pass_time(self, seconds: float) -> None:
        """Let virtual time pass, with the faults of the script, and look at every half second."""
        end = self.cluster.now + seconds
        while self.cluster.now < end:
            self.script.advance(self.cluster, min(LOOK_EVERY_SECONDS, end - self.cluster.now))
            self.watch.look(self.cluster)

    def clock(self) -> float:
        """Virtual time as seconds since 1970."""
        return self.inner.now

    def evaluate(self) -> list[str]:
        """The violations on the way and at the end."""
        assert self.state is not None
        # Reassignments of others end, and dead brokers come back.
        self.pass_time(300.0)
        self.clear_claims()
        factors = {(a.topic, a.partition): len(a.after) for a in self.plan.assignments}
        return [
            *self.watch.violations[:10],
            *no_throttle_left(self.cluster, self.before),
            *cordons_as_they_should_be(self.cluster, self.before, self.state),
            *no_lease_left(self.cluster),
            *no_reassignment_left(self.cluster, {ACTOR}),
            *replication_factor_kept(self.cluster, self.before, factors),
            *no_partition_offline(self.cluster),
            *foreign_work_respected(self.cluster, {ACTOR}),
            *no_copy_sent_to_the_dead(self.cluster, {ACTOR}),
            *every_step_accounted(self.cluster, self.state),
        ]

    def __str__(self) -> str:
        head = f"seed {self.seed}, virtual time {self.cluster.now:.1f}, {self.settings}"
        history = (f"  {h.at:.2f} {h.actor} {h.verb} {h.subject} {h.detail}" for h in self.cluster.history)
        return "\n".join([head, "faults:", str(self.script), *self.steps_and_log(), "history:", *history])


def random_world(
    seed: int,
    folder: Path,
    faults: int = 0,
    lost_fraction: float = 0.0,
    median_bytes: float = 200e6,
    *,
    resizes: bool = False,
    drains: bool = False,
) -> World:
    """Four to six brokers, a plan that moves about half of the partitions, and so many faults.

    Parameters
    ----------
    resizes
        The plan adds and drops replicas instead; no partition comes to have fewer than two.
    drains
        The plan says that it drains a broker, of which one log dir may be cordoned before.
    """
    another = _resized if resizes else _another
    generator = np.random.default_rng(seed)
    brokers = int(generator.integers(4, 7))
    cluster = cluster_of(brokers, copy_bytes_per_second=30e6, dir_bytes=50e9)
    changes = []
    for topic in range(int(generator.integers(3, 7))):
        factor = int(generator.integers(2, 4))
        lists = {
            number: [int(b) + 1 for b in generator.permutation(brokers)[:factor]]
            for number in range(int(generator.integers(1, 4)))
        }
        size = float(generator.lognormal(np.log(median_bytes), 1.0))
        cluster.controller.create_topic(f"t{topic}", lists, size, growth_bytes_per_second=size / 3600)
        if generator.random() < 0.4:
            change = [("min.insync.replicas", ConfigOperation.SET, "2")]
            cluster.controller.alter_configs(ResourceType.TOPIC, f"t{topic}", change)
        for number, held in lists.items():
            if generator.random() < 0.6:
                changes.append((f"t{topic}", number, tuple(held), another(generator, held, brokers)))
    plan = _with_log_dirs(generator, cluster, plan_of(*changes))
    if drains:
        plan = _draining(generator, cluster, plan)
    settings = ReplicasExecutionSettings(
        throttle=str(generator.choice(["auto", "none", "5000000", "20000000"])),
        initial_copies_per_broker=int(generator.integers(1, 4)),
        max_copies_per_broker=int(generator.integers(4, 7)),
        broker_timeout_seconds=30.0,
        external_change_timeout_seconds=120.0,
        unhealthy_timeout_seconds=120.0,
        unreachable_timeout_seconds=60.0,
        poll_interval_seconds=1.0,
    )
    script: list[Fault] = random_faults(generator, cluster, 120.0, faults) if faults else []
    return World(seed, folder, cluster, plan, settings, FaultScript(script), generator, lost_fraction)


def _draining(generator: np.random.Generator, cluster: SimulatedKafka, plan: Plan) -> Plan:
    """The plan as one that drains the broker that it gives the fewest replicas; others get what it would."""
    gains = {broker: 0 for broker in cluster.brokers}
    for a in plan.assignments:
        for broker in set(a.after) - set(a.before):
            gains[broker] += 1
    broker = min(gains, key=lambda one: (gains[one], one))
    filled = {(a.topic, a.partition) for a in plan.assignments if broker in set(a.after) - set(a.before)}
    if generator.random() < 0.5:
        change = [("cordoned.log.dirs", ConfigOperation.SET, "/d0")]
        cluster.controller.alter_configs(ResourceType.BROKER, str(broker), change)
    return replace(
        plan,
        settings={"drain": [broker]},
        moves=tuple(move for move in plan.moves if (move.topic, move.partition) not in filled),
        assignments=tuple(a for a in plan.assignments if (a.topic, a.partition) not in filled),
    )


def _with_log_dirs(generator: np.random.Generator, cluster: SimulatedKafka, plan: Plan) -> Plan:
    """Some copies are told their log dir, and some replicas change theirs."""
    moves = [
        replace(move, target_dir=f"/d{generator.integers(2)}")
        if move.kind is ReplicaMoveKind.REPLICA
        and move.target not in cluster.partition(move.topic, move.partition).replicas
        and generator.random() < 0.3
        else move
        for move in plan.moves
    ]
    assignments = list(plan.assignments)
    planned = {(assignment.topic, assignment.partition) for assignment in assignments}
    for name, partition in cluster.partitions.items():
        if tuple(name) in planned or generator.random() > 0.3:
            continue
        broker = partition.replicas[0]
        old = partition.held[broker].log_dir
        new = next(path for path in cluster.brokers[broker].log_dirs if path != old)
        size, order = int(partition.size_bytes), len(moves) + 1
        moves.append(
            ReplicaMove(
                order,
                ReplicaMoveKind.LOG_DIR,
                *name,
                broker,
                broker,
                size,
                REASON,
                source_dir=old,
                target_dir=new,
            )
        )
        held = tuple(partition.replicas)
        assignments.append(ReplicaAssignment(*name, held, held, partition.leader))
    return replace(plan, moves=tuple(moves), assignments=tuple(assignments))


def _resized(generator: np.random.Generator, held: list[int], brokers: int) -> tuple[int, ...]:
    """A list with one or two brokers more, or with one less, which may be the leader."""
    free = [b for b in range(1, brokers + 1) if b not in held]
    if len(held) > 2 and generator.random() < 0.5:
        gone = held[int(generator.integers(len(held)))]
        return tuple(b for b in held if b != gone)
    return (*held, *(int(b) for b in generator.permutation(free)[: int(generator.integers(1, 3))]))


def _another(generator: np.random.Generator, held: list[int], brokers: int) -> tuple[int, ...]:
    """A list with a new leader from within, or with one or two brokers replaced."""
    after = list(held)
    if generator.random() < 0.4:
        place = int(generator.integers(1, len(after)))
        leader = after.pop(place)
        after.insert(0, leader)
    free = [b for b in range(1, brokers + 1) if b not in held]
    for _ in range(int(generator.integers(0, 3))):
        if free:
            after[int(generator.integers(len(after)))] = free.pop(int(generator.integers(len(free))))
    return tuple(after)
