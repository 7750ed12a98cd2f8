"""The simulated cluster as `trimtab.act.replicas.port.ClusterPort`: without sockets, in virtual time."""

from collections.abc import Collection, Mapping
from functools import partial

from trimtab.act.execution.failure import Failure
from trimtab.act.replicas.observation import Answers, Observation, ThrottleConfig, TopicPartition
from trimtab.simulate.kafka_cluster import SimulatedKafka
from trimtab.simulate.kafka_configs import WHOLE_CLUSTER, Change, ConfigOperation, ResourceType
from trimtab.simulate.kafka_looks import look
from trimtab.simulate.kafka_refusals import answer_to, whole_call
from trimtab.simulate.kafka_state import ErrorCode
from trimtab.simulate.kafka_throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS

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
    ) -> Observation:
        """See `ClusterPort.observe`."""
        with whole_call():
            return look(self._cluster, self.now, partitions, brokers, wide=wide)

    def reassign(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Answers:
        """See `ClusterPort.reassign`."""
        return {name: answer_to(partial(self._reassign, name, target)) for name, target in targets.items()}

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
                failure: Failure | None = Failure("NodeNotReady", f"broker {broker} does not answer", True)
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

    def _reassign(self, name: TopicPartition, target: tuple[int, ...]) -> None:
        self._cluster.controller.reassign(*name, target, self._actor, may_change_factor=False)

    def _configure(self, kind: ResourceType, name: str, changes: list[Change]) -> None:
        self._cluster.controller.alter_configs(kind, name, changes, self._actor)


def _change(key: str, value: str | None) -> Change:
    return (key, ConfigOperation.DELETE, None) if value is None else (key, ConfigOperation.SET, value)
