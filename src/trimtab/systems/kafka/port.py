"""A Kafka cluster behind `trimtab.act.replicas.port.ClusterPort`."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from trimtab.act.execution.port import Failure, PortError
from trimtab.act.replicas.port import Answers, OwnRates, ThrottleConfig, TopicPartition
from trimtab.systems.kafka.calls import (
    CORDONED,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    answer_of,
    failure_of,
)
from trimtab.systems.kafka.claims import BrokerConfigClaims
from trimtab.systems.kafka.client import open_admin
from trimtab.systems.kafka.observer import KafkaObserver
from trimtab.systems.kafka.settings import KafkaConnection


class KafkaAdminPort(KafkaObserver, BrokerConfigClaims):
    """An adapter for one connected admin client; not for use by two threads at once."""

    def reassign(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...]],
        resized: Collection[TopicPartition] = (),
    ) -> Answers:
        """See `ClusterPort.reassign`; a request for each kind, since the guard is one for a whole request."""
        lists = {p: list(replicas) for p, replicas in targets.items()}
        answers: dict[TopicPartition, Failure | None] = {}
        for resizes in (False, True):
            chosen = {p: replicas for p, replicas in lists.items() if (p in resized) is resizes}
            if chosen:
                answers |= self._alter_reassignments(chosen, may_resize=resizes)
        return answers

    def cancel_reassignments(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.cancel_reassignments`."""
        return self._alter_reassignments(dict.fromkeys(partitions))

    def _alter_reassignments(
        self, targets: Mapping[TopicPartition, list[int] | None], *, may_resize: bool = False
    ) -> Answers:
        from kafka import errors
        from kafka.protocol.admin import AlterPartitionReassignmentsRequest as Request

        topics: dict[str, list[Any]] = {}
        for (topic, number), replicas in targets.items():
            part = Request.ReassignableTopic.ReassignablePartition(partition_index=number, replicas=replicas)
            topics.setdefault(topic, []).append(part)
        request = Request(
            timeout_ms=30_000,
            allow_replication_factor_change=may_resize,
            topics=[Request.ReassignableTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )
        response = self._calls.send_to_controller(request, lambda r: [errors.for_code(r.error_code)])
        found: dict[TopicPartition, Failure | None] = {}
        for topic in response.responses:
            for part in topic.partitions:
                found[TopicPartition(topic.name, part.partition_index)] = answer_of(
                    part.error_code, part.error_message
                )
        return found

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.elect_preferred`."""
        from kafka import errors

        asked: dict[str, list[int]] = {}
        for topic, number in partitions:
            asked.setdefault(topic, []).append(number)
        response = self._calls(lambda: self._admin.elect_leaders(0, asked, raise_errors=False))
        top = errors.for_code(getattr(response, "error_code", 0))
        if top is not errors.NoError:
            raise PortError(failure_of(top, "electing preferred leaders"))
        found: dict[TopicPartition, Failure | None] = dict.fromkeys(partitions)
        for result in response.replica_election_results:
            for part in result.partition_result:
                if errors.for_code(part.error_code) is not errors.ElectionNotNeededError:
                    found[TopicPartition(result.topic, part.partition_id)] = answer_of(
                        part.error_code, part.error_message
                    )
        return found

    def move_log_dirs(self, targets: Mapping[tuple[TopicPartition, int], str]) -> Answers:
        """See `ClusterPort.move_log_dirs`."""
        from kafka import errors

        found: dict[TopicPartition, Failure | None] = {partition: None for partition, _ in targets}
        for broker in sorted({broker for _, broker in targets}):
            asked = {(p.topic, p.partition, b): path for (p, b), path in targets.items() if b == broker}
            try:
                answers = self._calls(partial(self._admin.alter_replica_log_dirs, asked))
            except PortError as failed:
                found.update({TopicPartition(topic, number): failed.failure for topic, number, _ in asked})
                continue
            for replica, error in answers.items():
                if error not in (errors.NoError, errors.ReplicaNotAvailableError):
                    partition = TopicPartition(replica.topic, replica.partition)
                    found[partition] = failure_of(error, f"log dir on broker {broker}")
        return found

    def read_throttle(self, topics: Collection[str]) -> ThrottleConfig:
        """See `ClusterPort.read_throttle`."""
        rates = self._calls.settings_of_all_brokers()
        lists = self._calls.settings_of_topics(sorted(topics), [LEADER_REPLICAS, FOLLOWER_REPLICAS])

        def own(topic: str, name: str) -> str | None:
            value, inherited = lists.get(topic, {}).get(name, (None, True))
            return None if inherited else value

        return ThrottleConfig(
            leader_rate=rates.get(LEADER_RATE),
            follower_rate=rates.get(FOLLOWER_RATE),
            leader_replicas={topic: own(topic, LEADER_REPLICAS) for topic in topics},
            follower_replicas={topic: own(topic, FOLLOWER_REPLICAS) for topic in topics},
        )

    def own_rates(self, brokers: Collection[int]) -> OwnRates:
        """See `ClusterPort.own_rates`."""
        return self._calls.own_rates(brokers)

    def write_throttle(self, config: ThrottleConfig) -> Mapping[str, Failure]:
        """See `ClusterPort.write_throttle`: one call for all, also while a broker is dead."""
        failures = self._calls.change_settings(
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

    def read_cordons(self, brokers: Collection[int]) -> Mapping[int, str | None]:
        """See `ClusterPort.read_cordons`."""
        return self._calls.cordons(brokers)

    def write_cordons(self, values: Mapping[int, str | None]) -> Mapping[int, Failure]:
        """See `ClusterPort.write_cordons`."""
        answers = {
            broker: self._calls.change_setting_of_broker(broker, {CORDONED: value})
            for broker, value in sorted(values.items())
        }
        return {broker: failure for broker, failure in answers.items() if failure is not None}


@contextmanager
def open_port(connection: KafkaConnection, clock: Callable[[], float]) -> Iterator[KafkaAdminPort]:
    """A cluster to act on, by a client of its own.

    Raises
    ------
    ConnectError
        If it cannot be reached.
    """
    with open_admin(connection, request_timeout_ms=15_000) as admin:
        yield KafkaAdminPort(admin, clock)
