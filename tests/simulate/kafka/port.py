"""The simulated cluster as an execution sees it (`ClusterPort`): without sockets, in virtual time."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from simulate.kafka.cluster import SimulatedKafka
from simulate.kafka.state import (
    CORDONED,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    WHOLE_CLUSTER,
    Change,
    ConfigOperation,
    ErrorCode,
    KafkaRefusal,
    PartitionName,
    ResourceType,
    SimulatedPartition,
)
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

NAMES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "UnknownTopicOrPartition",
    ErrorCode.REPLICA_NOT_AVAILABLE: "ReplicaNotAvailable",
    ErrorCode.INVALID_REPLICATION_FACTOR: "InvalidReplicationFactor",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "InvalidReplicationAssignment",
    ErrorCode.INVALID_CONFIG: "InvalidConfiguration",
    ErrorCode.NOT_CONTROLLER: "NotController",
    ErrorCode.LOG_DIR_NOT_FOUND: "LogDirNotFound",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "PreferredLeaderNotAvailable",
    ErrorCode.ELECTION_NOT_NEEDED: "ElectionNotNeeded",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "NoReassignmentInProgress",
    ErrorCode.INVALID_REQUEST: "InvalidRequest",
}
TRANSIENT = {ErrorCode.NOT_CONTROLLER, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def failure_of(refusal: KafkaRefusal) -> Failure:
    """The failure that an execution is told instead."""
    return Failure(NAMES[refusal.code], refusal.message, refusal.code in TRANSIENT)


def answer_to(action: Callable[[], object], yes: ErrorCode = ErrorCode.NONE) -> Failure | None:
    """Kafka's word on one partition; without a controller the whole call fails.

    Parameters
    ----------
    yes
        The refusal that means that nothing had to be done.

    Raises
    ------
    PortError
        While there is no controller.
    """
    with whole_call():
        try:
            action()
        except KafkaRefusal as refusal:
            if refusal.code is ErrorCode.NOT_CONTROLLER:
                raise
            return None if refusal.code is yes else failure_of(refusal)
    return None


@contextmanager
def whole_call() -> Iterator[None]:
    """Around a call that fails as a whole: a refusal becomes a `PortError`."""
    try:
        yield
    except KafkaRefusal as refusal:
        raise PortError(failure_of(refusal)) from refusal


def least_in_sync(cluster: SimulatedKafka, topic: str) -> int:
    """`min.insync.replicas` of a topic."""
    return int(cluster.configs.of(ResourceType.TOPIC, topic).get("min.insync.replicas", "1"))


def unhealthy_partitions(cluster: SimulatedKafka) -> frozenset[PartitionName]:
    """Partitions without a leader, or with fewer in-sync replicas than their topic asks for."""
    found = set()
    for name, partition in cluster.partitions.items():
        least = least_in_sync(cluster, name.topic)
        if partition.leader is None or len(partition.in_sync) < min(least, len(partition.settled_replicas)):
            found.add(name)
    return frozenset(found)


CONTROLLER = 100


def look(
    cluster: SimulatedKafka,
    at: float,
    partitions: Collection[TopicPartition],
    brokers: Collection[int],
    *,
    wide: bool,
) -> ClusterObservation:
    """Look at a cluster; the arguments are those of `ClusterPort.observe`.

    Parameters
    ----------
    at
        Seconds since 1970, as the observation is to say.

    Raises
    ------
    KafkaRefusal
        NOT_CONTROLLER while there is none.
    """
    flying = cluster.controller.reassignments()
    known = {name: found for name in partitions if (found := cluster.partitions.get(PartitionName(*name)))}
    asked = [b for broker in brokers if (b := cluster.brokers.get(broker)) is not None and b.running]
    return ClusterObservation(
        at=at,
        cluster_id=cluster.cluster_id,
        controller=CONTROLLER,
        brokers={b.id: ObservedBroker(b.id, b.fenced, b.host, b.rack) for b in cluster.brokers.values()},
        placements={name: _placement(partition) for name, partition in known.items()},
        reassignments={
            TopicPartition(*name): ObservedReassignment(tuple(p.replicas), tuple(p.adding), tuple(p.removing))
            for name, p in flying.items()
        },
        log_dirs={broker.id: _log_dirs(cluster, broker.id) for broker in asked},
        copies={
            (name, broker.id): _copies(partition, broker.id)
            for name, partition in known.items()
            for broker in asked
            if broker.id in partition.held
        },
        unhealthy=frozenset(TopicPartition(*n) for n in unhealthy_partitions(cluster)) if wide else None,
    )


def _placement(partition: SimulatedPartition) -> PartitionPlacement:
    return PartitionPlacement(
        tuple(partition.replicas), partition.leader, tuple(partition.in_sync), str(partition.topic_id)
    )


def _copies(partition: SimulatedPartition, broker: int) -> tuple[ObservedReplica, ...]:
    replica = partition.held[broker]
    present = ObservedReplica(replica.log_dir, int(partition.bytes_on(broker)))
    if replica.future_dir is None:
        return (present,)
    return (present, ObservedReplica(replica.future_dir, int(replica.future_bytes), future=True))


def _log_dirs(cluster: SimulatedKafka, broker: int) -> tuple[ObservedLogDir, ...]:
    return tuple(
        ObservedLogDir(
            path,
            found.online,
            found.cordoned,
            int(found.total_bytes),
            int(max(0.0, found.total_bytes - cluster.disks.used_bytes(broker, path))),
        )
        for path, found in cluster.brokers[broker].log_dirs.items()
    )


CLAIM = "trimtab.lease."
"""Beginning of the key, in the configuration of all brokers, whose rest is a claim's text."""


class SimulatedPort:
    """Serves one execution.

    Parameters
    ----------
    actor
        Under which name everything is written into `SimulatedKafka.history`.
    began_at
        Seconds since 1970 at the cluster's virtual time 0.
    """

    claim_rights = "grant AlterConfigs and DescribeConfigs on the cluster"

    def __init__(
        self, cluster: SimulatedKafka, actor: str = "trimtab", began_at: float = 1_800_000_000.0
    ) -> None:
        self._cluster = cluster
        self._actor = actor
        self._began_at = began_at

    @property
    def now(self) -> float:
        """Virtual time, as seconds since 1970."""
        return self._began_at + self._cluster.now

    def observe(
        self, partitions: Collection[TopicPartition], brokers: Collection[int], *, wide: bool
    ) -> ClusterObservation:
        """See `ClusterPort.observe`."""
        with whole_call():
            return look(self._cluster, self.now, partitions, brokers, wide=wide)

    def min_in_sync(self, topics: Collection[str]) -> Mapping[str, int]:
        """See `ClusterPort.min_in_sync`."""
        with whole_call():
            return {topic: least_in_sync(self._cluster, topic) for topic in topics}

    def reassign(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...]],
        resized: Collection[TopicPartition] = (),
    ) -> Answers:
        """See `ClusterPort.reassign`."""
        return {
            name: answer_to(partial(self._reassign, name, target, name in resized))
            for name, target in targets.items()
        }

    def cancel_reassignments(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.cancel_reassignments`."""
        return {
            name: answer_to(partial(self._cluster.controller.reassign, *name, None, self._actor))
            for name in partitions
        }

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.elect_preferred`."""
        return {
            name: answer_to(
                partial(self._cluster.controller.elect_preferred, *name, self._actor),
                ErrorCode.ELECTION_NOT_NEEDED,
            )
            for name in partitions
        }

    def move_log_dirs(self, targets: Mapping[tuple[TopicPartition, int], str]) -> Answers:
        """See `ClusterPort.move_log_dirs`."""
        answers: dict[TopicPartition, Failure | None] = {}
        for (name, broker), path in targets.items():
            if not self._cluster.brokers[broker].running:
                failure: Failure | None = _no_answer(broker)
            else:
                failure = answer_to(
                    partial(self._cluster.disks.move, *name, broker, path, self._actor),
                    ErrorCode.REPLICA_NOT_AVAILABLE,
                )
            answers[name] = answers.get(name) or failure
        return answers

    def read_throttle(self, topics: Collection[str]) -> ThrottleConfig:
        """See `ClusterPort.read_throttle`."""
        configs = self._cluster.configs
        rates = configs.of(ResourceType.BROKER, WHOLE_CLUSTER)
        return ThrottleConfig(
            rates.get(LEADER_RATE),
            rates.get(FOLLOWER_RATE),
            {topic: configs.of(ResourceType.TOPIC, topic).get(LEADER_REPLICAS) for topic in topics},
            {topic: configs.of(ResourceType.TOPIC, topic).get(FOLLOWER_REPLICAS) for topic in topics},
        )

    def own_rates(self, brokers: Collection[int]) -> OwnRates:
        """See `ClusterPort.own_rates`."""
        own = {broker: self._cluster.configs.of(ResourceType.BROKER, str(broker)) for broker in brokers}
        return {
            broker: rates
            for broker, found in own.items()
            if (rates := {n: float(v) for n, v in found.items() if n in (LEADER_RATE, FOLLOWER_RATE)})
        }

    def write_throttle(self, config: ThrottleConfig) -> Mapping[str, Failure]:
        """See `ClusterPort.write_throttle`."""
        failures: dict[str, Failure] = {}
        rates = [_change(LEADER_RATE, config.leader_rate), _change(FOLLOWER_RATE, config.follower_rate)]
        if failure := answer_to(partial(self._configure, ResourceType.BROKER, WHOLE_CLUSTER, rates)):
            failures[""] = failure
        for topic in {**config.leader_replicas, **config.follower_replicas}:
            lists = [
                _change(LEADER_REPLICAS, config.leader_replicas.get(topic)),
                _change(FOLLOWER_REPLICAS, config.follower_replicas.get(topic)),
            ]
            failure = answer_to(
                partial(self._configure, ResourceType.TOPIC, topic, lists),
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            if failure:
                failures[topic] = failure
        return failures

    def read_cordons(self, brokers: Collection[int]) -> Mapping[int, str | None]:
        """See `ClusterPort.read_cordons`."""
        for broker in sorted(brokers):
            if not self._cluster.brokers[broker].running:
                raise PortError(_no_answer(broker))
        configs = self._cluster.configs
        return {broker: configs.of(ResourceType.BROKER, str(broker)).get(CORDONED) for broker in brokers}

    def write_cordons(self, values: Mapping[int, str | None]) -> Mapping[int, Failure]:
        """See `ClusterPort.write_cordons`."""
        failures: dict[int, Failure] = {}
        for broker, value in sorted(values.items()):
            change = [_change(CORDONED, value)]
            if not self._cluster.brokers[broker].running:
                failures[broker] = _no_answer(broker)
            elif failure := answer_to(partial(self._configure, ResourceType.BROKER, str(broker), change)):
                failures[broker] = failure
        return failures

    def read_claims(self) -> frozenset[str]:
        """See `ClusterPort.read_claims`."""
        there = self._cluster.configs.of(ResourceType.BROKER, WHOLE_CLUSTER)
        return frozenset(name.removeprefix(CLAIM) for name in there if name.startswith(CLAIM))

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """See `ClusterPort.write_claims`."""
        with whole_call():
            changes = [_change(CLAIM + text, None) for text in removed]
            changes += [_change(CLAIM + text, "held") for text in added]
            self._configure(ResourceType.BROKER, WHOLE_CLUSTER, changes)

    def _reassign(self, name: TopicPartition, target: tuple[int, ...], resizes: bool) -> None:
        self._cluster.controller.reassign(*name, target, self._actor, may_change_factor=resizes)

    def _configure(self, kind: ResourceType, name: str, changes: list[Change]) -> None:
        self._cluster.controller.alter_configs(kind, name, changes, self._actor)


def _no_answer(broker: int) -> Failure:
    return Failure("NodeNotReady", f"broker {broker} does not answer", True)


def _change(key: str, value: str | None) -> Change:
    return (key, ConfigOperation.DELETE, None) if value is None else (key, ConfigOperation.SET, value)
