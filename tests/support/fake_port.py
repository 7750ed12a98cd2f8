"""A cluster in memory behind `ClusterPort`, in virtual time, with faults to switch on: no sockets, no Kafka.

It answers as Kafka was measured to answer (a reassignment to a dead broker is accepted and never ends,
cancelling deletes the half copy, a reordered list takes effect at once), so that the state machine can be
tried in thousands of runs. `simulate.kafka` speaks the real protocol; this one only stands for the port.
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from trimtab.act.execution.port import Failure, PortError
from trimtab.act.replicas.port import (
    Answers,
    ClusterObservation,
    ObservedBroker,
    ObservedLogDir,
    ObservedReassignment,
    ObservedReplica,
    OwnRates,
    PartitionPlacement,
    ThrottleConfig,
    TopicPartition,
)


@dataclass
class Part:
    """One partition: its list, leader, copies in sync, and a reassignment in flight."""

    replicas: list[int]
    leader: int | None
    in_sync: set[int]
    size: int
    topic_id: str
    target: list[int] | None = None
    copied: dict[int, float] = field(default_factory=dict)
    dirs: dict[int, str] = field(default_factory=dict)
    future: dict[int, tuple[str, float]] = field(default_factory=dict)

    @property
    def all_replicas(self) -> list[int]:
        """As Kafka lists them during a reassignment: the new ones, then those that leave."""
        if self.target is None:
            return self.replicas
        return [*self.target, *(b for b in self.replicas if b not in self.target)]


class FakeCluster:
    """The cluster and its clock; `sleep` lets time pass and copies proceed."""

    claim_rights = "grant AlterConfigs and DescribeConfigs on the cluster"

    def __init__(self, brokers: int = 6, copy_bytes_per_second: float = 1e8) -> None:
        self.now = 1_000_000.0
        self.cluster_id = "fake-cluster"
        self.alive = set(range(1, brokers + 1))
        self.registered = set(self.alive)
        self.parts: dict[TopicPartition, Part] = {}
        self.copy_bytes_per_second = copy_bytes_per_second
        self.rates: dict[str, str] = {}
        self.lists: dict[str, dict[str, str]] = {"leader": {}, "follower": {}}
        self.claims: set[str] = set()
        self.cordons: dict[int, str] = {}
        self.cordon_failures: dict[int, Failure] = {}
        self.denied_cordons: Failure | None = None
        self.without_cordons: set[int] = set()
        self.free_bytes = 10**12
        self.min_in_sync_replicas = 1
        self.remembered_dirs: dict[tuple[TopicPartition, int], str] = {}
        self.fail_next: list[Failure] = []
        self.refuse: dict[TopicPartition, Failure] = {}
        self.calls: list[str] = []
        self.stale = False
        self.most_copies: dict[int, int] = {}
        self._ids = 0

    # ------------------------------------------------------------ time

    def clock(self) -> float:
        """Seconds since 1970, virtual."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self._copy(seconds)

    def _copy(self, seconds: float) -> None:
        load: dict[int, int] = {}
        for partition, part in self.parts.items():
            if part.target is not None:
                for broker in {*part.target, *part.replicas} - ({*part.target} & {*part.replicas}):
                    load[broker] = load.get(broker, 0) + 1
            self._copy_part(partition, part, seconds)
        for broker, copies in load.items():
            self.most_copies[broker] = max(copies, self.most_copies.get(broker, 0))

    def _copy_part(self, partition: TopicPartition, part: Part, seconds: float) -> None:
        for broker, (path, done) in list(part.future.items()):
            done += seconds * self.copy_bytes_per_second
            if done >= part.size:
                part.dirs[broker] = path
                del part.future[broker]
            else:
                part.future[broker] = (path, done)
        if part.target is None or part.leader is None:
            return
        adding = [b for b in part.target if b not in part.replicas]
        for broker in adding:
            if broker in self.alive:
                copied = part.copied.get(broker, 0.0) + seconds * self._speed(partition, broker)
                part.copied[broker] = min(copied, part.size)
        if all(b in self.alive and part.copied.get(b, 0.0) >= part.size for b in adding):
            self._complete(partition, part)

    def _complete(self, partition: TopicPartition, part: Part) -> None:
        assert part.target is not None
        for broker in part.target:
            if broker not in part.replicas:
                part.in_sync.add(broker)
                part.dirs[broker] = self.remembered_dirs.pop((partition, broker), "/d0")
        part.replicas, part.target, part.copied = part.target, None, {}
        part.in_sync &= set(part.replicas)
        part.dirs = {b: d for b, d in part.dirs.items() if b in part.replicas}
        if part.leader not in part.replicas:
            part.leader = next((b for b in part.replicas if b in part.in_sync & self.alive), None)

    def _speed(self, partition: TopicPartition, broker: int) -> float:
        listed = f"{partition.partition}:{broker}" in self.lists["follower"].get(partition.topic, "").split(
            ","
        )
        rate = self.rates.get("follower.replication.throttled.rate")
        return min(self.copy_bytes_per_second, float(rate)) if listed and rate else self.copy_bytes_per_second

    # ------------------------------------------------------------ faults

    def add(self, topic: str, partition: int, replicas: list[int], size: int = 10_000_000) -> None:
        """Create a partition that is in sync and led by the first."""
        ids = {p.topic: part.topic_id for p, part in self.parts.items()}
        if topic not in ids:
            self._ids += 1
        part = Part(list(replicas), replicas[0], set(replicas), size, ids.get(topic, f"id-{self._ids}"))
        part.dirs = dict.fromkeys(replicas, "/d0")
        self.parts[TopicPartition(topic, partition)] = part

    def kill(self, broker: int) -> None:
        """Fence a broker: its leaderships go to whoever is in sync."""
        self.alive.discard(broker)
        for part in self.parts.values():
            if len(part.in_sync & self.alive) > 0:
                part.in_sync.discard(broker)
            if part.leader == broker:
                candidates = [b for b in part.all_replicas if b in part.in_sync & self.alive]
                part.leader = candidates[0] if candidates else None

    def revive(self, broker: int) -> None:
        """Bring a broker back, in sync at once."""
        self.alive.add(broker)
        for part in self.parts.values():
            if broker in part.replicas:
                part.in_sync.add(broker)
                if part.leader is None:
                    part.leader = broker

    def delete(self, topic: str) -> None:
        """Delete a topic with all that is in flight of it."""
        self.parts = {p: part for p, part in self.parts.items() if p.topic != topic}
        self.lists["leader"].pop(topic, None)
        self.lists["follower"].pop(topic, None)

    # ------------------------------------------------------------ ClusterPort

    def _call(self, name: str) -> None:
        self.calls.append(name)
        self.sleep(0.01)
        if self.fail_next:
            raise PortError(self.fail_next.pop(0))

    def observe(
        self, partitions: Collection[TopicPartition], brokers: Collection[int], *, wide: bool
    ) -> ClusterObservation:
        """See `ClusterPort.observe`."""
        self._call("observe")
        placements = {p: self._placement(p) for p in partitions if p in self.parts}
        unhealthy = frozenset(
            p
            for p, part in self.parts.items()
            if part.leader is None or len(part.in_sync) < min(self.min_in_sync_replicas, len(part.replicas))
        )
        return ClusterObservation(
            at=self.now,
            cluster_id=self.cluster_id,
            controller=min(self.alive, default=None),
            brokers={b: ObservedBroker(b, fenced=b not in self.alive) for b in self.registered},
            placements=placements,
            reassignments={
                p: ObservedReassignment(
                    tuple(part.all_replicas),
                    tuple(b for b in part.target if b not in part.replicas),
                    tuple(b for b in part.replicas if b not in part.target),
                )
                for p, part in self.parts.items()
                if part.target is not None
            },
            log_dirs={
                b: tuple(ObservedLogDir(d, True, False, 10**13, self.free_bytes) for d in ("/d0", "/d1"))
                for b in brokers
                if b in self.alive
            },
            copies=self._copies(partitions, brokers),
            unhealthy=unhealthy if wide else None,
        )

    def _placement(self, partition: TopicPartition) -> PartitionPlacement:
        part = self.parts[partition]
        return PartitionPlacement(
            tuple(part.all_replicas), part.leader, tuple(sorted(part.in_sync)), part.topic_id
        )

    def _copies(
        self, partitions: Collection[TopicPartition], brokers: Collection[int]
    ) -> dict[tuple[TopicPartition, int], tuple[ObservedReplica, ...]]:
        found = {}
        for partition in partitions:
            part = self.parts.get(partition)
            for broker in brokers:
                if part is None or broker not in self.alive or broker not in part.all_replicas:
                    continue
                size = part.size if broker in part.replicas else int(part.copied.get(broker, 0))
                seen = [ObservedReplica(part.dirs.get(broker, "/d0"), size)]
                if broker in part.future:
                    path, done = part.future[broker]
                    seen.append(ObservedReplica(path, int(done), future=True))
                found[partition, broker] = tuple(seen)
        return found

    def min_in_sync(self, topics: Collection[str]) -> Mapping[str, int]:
        """See `ClusterPort.min_in_sync`."""
        self._call("min_in_sync")
        return {topic: self.min_in_sync_replicas for topic in topics}

    def reassign(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...]],
        resized: Collection[TopicPartition] = (),
    ) -> Answers:
        """See `ClusterPort.reassign`."""
        self._call("reassign")
        answers: dict[TopicPartition, Failure | None] = {}
        for partition, replicas in targets.items():
            part = self.parts.get(partition)
            if partition in self.refuse:
                answers[partition] = self.refuse[partition]
            elif part is None:
                answers[partition] = Failure("UnknownTopicOrPartition", "no such partition", transient=True)
            elif len(replicas) != len(part.replicas) and partition not in resized:
                answers[partition] = Failure(
                    "InvalidReplicationFactor",
                    f"The replication factor is changed from {len(part.replicas)} to {len(replicas)}",
                )
            elif set(replicas) - self.registered:
                answers[partition] = Failure("InvalidReplicaAssignment", "unknown broker")
            else:
                answers[partition] = None
                if set(replicas) == set(part.replicas):
                    part.replicas, part.target, part.copied = list(replicas), None, {}
                else:
                    part.target, part.copied = list(replicas), {}
        return answers

    def cancel_reassignments(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.cancel_reassignments`."""
        self._call("cancel_reassignments")
        answers: dict[TopicPartition, Failure | None] = {}
        for partition in partitions:
            part = self.parts.get(partition)
            if part is None:
                answers[partition] = Failure("UnknownTopicOrPartition", "no such partition", transient=True)
            elif part.target is None:
                answers[partition] = Failure("NoReassignmentInProgress", "nothing in flight")
            else:
                part.target, part.copied = None, {}
                answers[partition] = None
        return answers

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.elect_preferred`."""
        self._call("elect_preferred")
        answers: dict[TopicPartition, Failure | None] = {}
        for partition in partitions:
            part = self.parts.get(partition)
            if part is None:
                answers[partition] = Failure("UnknownTopicOrPartition", "no such partition", transient=True)
            elif part.replicas[0] in part.in_sync & self.alive:
                part.leader = part.replicas[0]
                answers[partition] = None
            else:
                answers[partition] = Failure("PreferredLeaderNotAvailable", "not in sync", transient=True)
        return answers

    def move_log_dirs(self, targets: Mapping[tuple[TopicPartition, int], str]) -> Answers:
        """See `ClusterPort.move_log_dirs`."""
        self._call("move_log_dirs")
        answers: dict[TopicPartition, Failure | None] = {}
        for (partition, broker), path in targets.items():
            part = self.parts.get(partition)
            answers[partition] = None
            if part is None or broker not in part.replicas:
                self.remembered_dirs[partition, broker] = path
            elif part.dirs[broker] == path:
                part.future.pop(broker, None)
            else:
                part.future[broker] = (path, 0.0)
        return answers

    def read_throttle(self, topics: Collection[str]) -> ThrottleConfig:
        """See `ClusterPort.read_throttle`."""
        self._call("read_throttle")
        return ThrottleConfig(
            self.rates.get("leader.replication.throttled.rate"),
            self.rates.get("follower.replication.throttled.rate"),
            {t: self.lists["leader"].get(t) for t in topics},
            {t: self.lists["follower"].get(t) for t in topics},
        )

    def own_rates(self, brokers: Collection[int]) -> OwnRates:
        """See `ClusterPort.own_rates`: none has any."""
        self._call("own_rates")
        return {}

    def write_throttle(self, config: ThrottleConfig) -> Mapping[str, Failure]:
        """See `ClusterPort.write_throttle`."""
        self._call("write_throttle")
        _set(self.rates, "leader.replication.throttled.rate", config.leader_rate)
        _set(self.rates, "follower.replication.throttled.rate", config.follower_rate)
        topics = {p.topic for p in self.parts}
        for kind, lists in (("leader", config.leader_replicas), ("follower", config.follower_replicas)):
            for topic, value in lists.items():
                if topic in topics:
                    _set(self.lists[kind], topic, value)
        return {}

    def read_cordons(self, brokers: Collection[int]) -> Mapping[int, str | None]:
        """See `ClusterPort.read_cordons`."""
        self._call("read_cordons")
        if self.denied_cordons is not None:
            raise PortError(self.denied_cordons)
        self._all_answer(brokers)
        return {b: self.cordons.get(b) for b in brokers if b not in self.without_cordons}

    def write_cordons(self, values: Mapping[int, str | None]) -> Mapping[int, Failure]:
        """See `ClusterPort.write_cordons`."""
        self._call("write_cordons")
        failures = {}
        for broker, value in values.items():
            if broker in self.cordon_failures:
                failures[broker] = self.cordon_failures[broker]
            elif broker not in self.alive:
                failures[broker] = Failure("NodeNotReady", f"broker {broker} does not answer", True)
            elif value is None:
                self.cordons.pop(broker, None)
            else:
                self.cordons[broker] = value
        return failures

    def _all_answer(self, brokers: Collection[int]) -> None:
        dead = sorted(set(brokers) - self.alive)
        if dead:
            raise PortError(Failure("NodeNotReady", f"broker {dead[0]} does not answer", True))

    def read_claims(self) -> frozenset[str]:
        """See `ClusterPort.read_claims`."""
        return frozenset(self.claims)

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """See `ClusterPort.write_claims`."""
        self.claims = (self.claims - set(removed)) | set(added)


def _set(values: dict[str, str], name: str, value: str | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


def random_cluster(seed: int, brokers: int = 6, partitions: int = 12, factor: int = 2) -> FakeCluster:
    """A cluster with partitions placed by chance."""
    chance = random.Random(seed)
    cluster = FakeCluster(brokers)
    for number in range(partitions):
        replicas = chance.sample(range(1, brokers + 1), factor)
        cluster.add(f"t{number % 3}", number // 3, replicas, size=chance.randint(1, 40) * 10**7)
    return cluster
