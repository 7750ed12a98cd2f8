"""A Kafka cluster behind `trimtab.act.replicas.port.ClusterPort`."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from trimtab.act.execution.failure import Failure
from trimtab.act.kafka.calls import Calls
from trimtab.act.kafka.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Configs,
)
from trimtab.act.kafka.looks import Looks
from trimtab.act.kafka.placing import Placing
from trimtab.act.port import PortError
from trimtab.act.replicas.observation import Answers, Observation, ThrottleConfig, TopicPartition

CLAIM: Final = "trimtab.lease."


class KafkaAdminPort:
    """An adapter for one connected admin client; not for use by two threads at once.

    Parameters
    ----------
    admin
        A `kafka.KafkaAdminClient`, as `trimtab.connect.kafka.admin_client` makes it.
    clock
        Seconds since 1970; stamps the looks.
    """

    claim_rights = "grant AlterConfigs and DescribeConfigs on the cluster"

    def __init__(self, admin: Any, clock: Callable[[], float]) -> None:
        calls = Calls(admin)
        self._configs = Configs(calls)
        self._looks = Looks(calls, self._configs, clock)
        self._placing = Placing(calls)

    def observe(
        self, partitions: Collection[TopicPartition], brokers: Collection[int], *, wide: bool
    ) -> Observation:
        """See `ClusterPort.observe`."""
        return self._looks.observe(partitions, brokers, wide=wide)

    def reassign(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Answers:
        """See `ClusterPort.reassign`."""
        return self._placing.reassign(targets)

    def cancel_reassignments(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.cancel_reassignments`."""
        return self._placing.cancel_reassignments(partitions)

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.elect_preferred`."""
        return self._placing.elect_preferred(partitions)

    def move_log_dirs(self, targets: Mapping[tuple[TopicPartition, int], str]) -> Answers:
        """See `ClusterPort.move_log_dirs`."""
        return self._placing.move_log_dirs(targets)

    def read_throttle(self, topics: Collection[str]) -> ThrottleConfig:
        """See `ClusterPort.read_throttle`."""
        rates = self._configs.of_all_brokers()
        lists = self._configs.of_topics(sorted(topics), [LEADER_REPLICAS, FOLLOWER_REPLICAS])

        def own(topic: str, name: str) -> str | None:
            value, inherited = lists.get(topic, {}).get(name, (None, True))
            return None if inherited else value

        return ThrottleConfig(
            leader_rate=rates.get(LEADER_RATE),
            follower_rate=rates.get(FOLLOWER_RATE),
            leader_replicas={topic: own(topic, LEADER_REPLICAS) for topic in topics},
            follower_replicas={topic: own(topic, FOLLOWER_REPLICAS) for topic in topics},
        )

    def write_throttle(self, config: ThrottleConfig) -> Mapping[str, Failure]:
        """See `ClusterPort.write_throttle`: one call for all, also while a broker is dead."""
        failures = self._configs.change(
            {LEADER_RATE: config.leader_rate, FOLLOWER_RATE: config.follower_rate},
            {
                topic: {
                    LEADER_REPLICAS: config.leader_replicas[topic],
                    FOLLOWER_REPLICAS: config.follower_replicas[topic],
                }
                for topic in config.leader_replicas
            },
        )
        return {name: f for name, f in failures.items() if f.code != "UnknownTopicOrPartition"}

    def read_claims(self) -> frozenset[str]:
        """See `ClusterPort.read_claims`."""
        # Kafka never shows the value of a setting that it does not know (it might be a secret), only the
        # name: so the name carries the text.
        return frozenset(
            name.removeprefix(CLAIM) for name in self._configs.of_all_brokers() if name.startswith(CLAIM)
        )

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """See `ClusterPort.write_claims`."""
        changes: dict[str, str | None] = {CLAIM + text: None for text in removed}
        changes |= {CLAIM + text: "held" for text in added}
        if not changes:
            return
        for failure in self._configs.change(changes).values():
            raise PortError(failure)
