"""A Kafka cluster behind `trimtab.act.replicas.port.ClusterPort`: observations and commands.

An observation says who is there, what is in flight, who holds what, and on which disks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

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
from trimtab.systems.kafka.calls import (
    CORDONED,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    MIN_IN_SYNC,
    AdminCalls,
    BrokerConfigClaims,
    answer_of,
    failure_of,
)
from trimtab.systems.kafka.client import open_admin
from trimtab.systems.kafka.settings import KafkaConnection

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

METADATA_LAG_SECONDS: Final = 10.0
"""How long brokers' metadata may show a reassignment that the controller has already ended."""


class KafkaObserver:
    """Looks through one admin client, and remembers what was in flight at the last one.

    Parameters
    ----------
    admin
        A `kafka.KafkaAdminClient`, as `trimtab.systems.kafka.client.admin_client` makes it.
    clock
        Seconds since 1970; stamps the looks.
    """

    def __init__(self, admin: KafkaAdminClient, clock: Callable[[], float]) -> None:
        self._calls = AdminCalls(admin)
        self._admin = admin
        self._clock = clock
        self._min_in_sync: dict[str, int] = {}
        self._in_flight: dict[TopicPartition, ObservedReassignment] = {}
        self._missing_since: dict[TopicPartition, float] = {}

    def observe(
        self, partitions: Collection[TopicPartition], brokers: Collection[int], *, wide: bool
    ) -> ClusterObservation:
        """Read partitions, all reassignments, and the log dirs of brokers."""
        at = self._clock()
        cluster = self._calls(self._admin.describe_cluster)
        registered = {
            broker["broker_id"]: ObservedBroker(
                broker["broker_id"], bool(broker.get("is_fenced")), broker["host"], broker["rack"]
            )
            for broker in cluster["brokers"]
        }
        # Reassignments first, placements second: one that ends in between is then seen as through, never as
        # undone.
        reassignments = self._reassignments()
        topics = None if wide else sorted({partition.topic for partition in partitions})
        placements = self._placements(topics) if wide or topics else {}
        placements_asked = {p: placements[p] for p in partitions if p in placements}
        reassignments |= self._ending(reassignments, placements_asked, at)
        log_dirs, copies = self._log_dirs(
            [b for b in brokers if b in registered and not registered[b].fenced], partitions
        )
        controller = cluster.get("controller_id")
        return ClusterObservation(
            at=at,
            cluster_id=cluster["cluster_id"],
            controller=None if controller in (None, -1) else controller,
            brokers=registered,
            placements=placements_asked,
            reassignments=reassignments,
            log_dirs=log_dirs,
            copies=copies,
            unhealthy=self._unhealthy(placements) if wide else None,
        )

    def _reassignments(self) -> dict[TopicPartition, ObservedReassignment]:
        return {
            TopicPartition(*partition): ObservedReassignment(
                tuple(flying["replicas"]),
                tuple(flying["adding_replicas"]),
                tuple(flying["removing_replicas"]),
            )
            for partition, flying in self._calls(self._admin.list_partition_reassignments).items()
        }

    def _ending(
        self,
        reassignments: Mapping[TopicPartition, ObservedReassignment],
        placements: Mapping[TopicPartition, PartitionPlacement],
        at: float,
    ) -> dict[TopicPartition, ObservedReassignment]:
        """Reassignments that the controller has ended and the broker that was asked still shows.

        The controller tells what is in flight, any broker tells who holds what, and a busy broker is seconds
        behind: taken as they come, a partition with brokers both added and not yet removed would seem to be
        at rest, as if somebody had given it more replicas. Until the broker has caught up both are shown as
        the broker has them.
        """
        for partition, flying in reassignments.items():
            self._in_flight[partition] = flying
            self._missing_since.pop(partition, None)
        found = {}
        for partition in self._in_flight.keys() - reassignments.keys():
            flying = self._in_flight[partition]
            since = self._missing_since.setdefault(partition, at)
            placement = placements.get(partition)
            # A list that only grows is the same before the end and after it: then the new ones are in sync.
            through = not flying.removing and placement and set(flying.adding) <= set(placement.in_sync)
            caught_up = placement and (placement.replicas != flying.replicas or through)
            if caught_up or at - since >= METADATA_LAG_SECONDS:
                del self._in_flight[partition], self._missing_since[partition]
            elif placement:
                found[partition] = flying
        return found

    def _placements(self, topics: list[str] | None) -> dict[TopicPartition, PartitionPlacement]:
        from kafka import errors

        found = {}
        for topic in self._calls(lambda: self._admin.describe_topics(topics)):
            error = errors.for_code(topic.get("error_code", 0))
            if error is errors.UnknownTopicOrPartitionError:
                continue
            if error is not errors.NoError:
                raise PortError(failure_of(error, f"describing topic {topic['name']}"))
            for part in topic["partitions"]:
                leader = part["leader_id"]
                found[TopicPartition(topic["name"], part["partition_index"])] = PartitionPlacement(
                    replicas=tuple(part["replica_nodes"]),
                    leader=None if leader < 0 else leader,
                    in_sync=tuple(part["isr_nodes"]),
                    topic_id=None if topic.get("topic_id") is None else str(topic["topic_id"]),
                )
        return found

    def _unhealthy(
        self, placements: Mapping[TopicPartition, PartitionPlacement]
    ) -> frozenset[TopicPartition]:
        unknown = sorted({p.topic for p in placements} - self._min_in_sync.keys())
        self._min_in_sync |= self.min_in_sync(unknown)
        return frozenset(
            partition
            for partition, placement in placements.items()
            if placement.leader is None
            or len(placement.in_sync) < min(self._min_in_sync[partition.topic], len(placement.replicas))
        )

    def min_in_sync(self, topics: Collection[str]) -> dict[str, int]:
        """`min.insync.replicas` of topics; 1 for topics that do not exist."""
        found = self._calls.settings_of_topics(sorted(topics), [MIN_IN_SYNC])
        return {topic: int(configs.get(MIN_IN_SYNC, ("1", True))[0] or 1) for topic, configs in found.items()}

    def _log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition]
    ) -> tuple[
        dict[int, tuple[ObservedLogDir, ...]], dict[tuple[TopicPartition, int], tuple[ObservedReplica, ...]]
    ]:
        asked: dict[str, list[int]] = {}
        for topic, number in partitions:
            asked.setdefault(topic, []).append(number)
        dirs: dict[int, tuple[ObservedLogDir, ...]] = {}
        copies: dict[tuple[TopicPartition, int], list[ObservedReplica]] = {}
        for broker in brokers:
            try:
                answer = self._calls(partial(self._admin.describe_log_dirs, asked, [broker]))
            except PortError:
                continue  # a broker that does not answer must not hide the others
            found = []
            for log_dir in answer[0]["log_dirs"]:
                path = log_dir["log_dir"]
                total, usable = log_dir.get("total_bytes", -1), log_dir.get("usable_bytes", -1)
                found.append(
                    ObservedLogDir(
                        path,
                        online=log_dir["error_code"] == 0,
                        cordoned=bool(log_dir.get("is_cordoned")),
                        total_bytes=None if total < 0 else total,
                        usable_bytes=None if usable < 0 else usable,
                    )
                )
                for topic in log_dir["topics"]:
                    for part in topic["partitions"]:
                        key = (TopicPartition(topic["name"], part["partition_index"]), broker)
                        copy = ObservedReplica(path, part["partition_size"], bool(part["is_future_key"]))
                        copies.setdefault(key, []).append(copy)
            dirs[broker] = tuple(found)
        return dirs, {key: tuple(seen) for key, seen in copies.items()}


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
        """Roll back reassignments in flight."""
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
        """Elect the first replica of each partition as its leader."""
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
        """Move replicas between log dirs of their brokers."""
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
        """Read cluster-wide throttle rates and the throttled replicas of topics."""
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
        """Throttle rates set on individual brokers."""
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
        """`cordoned.log.dirs` set on individual brokers; None where unset."""
        return self._calls.cordons(brokers)

    def write_cordons(self, values: Mapping[int, str | None]) -> Mapping[int, Failure]:
        """Set `cordoned.log.dirs` of brokers; None removes the setting."""
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


def present_state(connection: KafkaConnection, clock: Callable[[], float]) -> tuple[frozenset[str], str]:
    """Ids of the brokers that are online, and the reassignments in progress as a sentence or an empty text.

    Raises
    ------
    ConnectError
        If the cluster cannot be reached.
    """
    with open_port(connection, clock) as port:
        found = port.observe([], [], wide=False)
    online = frozenset(str(one.id) for one in found.brokers.values() if not one.fenced)
    if not found.reassignments:
        return online, ""
    first, count = min(found.reassignments), len(found.reassignments)
    return online, f"{count} partitions are being reassigned, {first.topic}-{first.partition} among them"
