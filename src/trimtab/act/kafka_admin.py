"""A Kafka cluster behind `trimtab.act.port.ClusterPort`, by kafka-python's admin client.

Three calls go past the client's public methods, because those cannot say what is needed: reassignments that
must not change the replication factor (KIP-860), dynamic settings of the cluster-wide default (the broker
resource with the empty name), and errors per partition instead of one exception.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from trimtab.act.execution.observation import (
    Answers,
    BrokerSeen,
    Failure,
    LogDirSeen,
    Observation,
    Placement,
    ReassignmentSeen,
    ReplicaSeen,
    ThrottleConfig,
    TopicPartition,
)
from trimtab.act.port import PortError

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
MIN_IN_SYNC: Final = "min.insync.replicas"
CLAIM: Final = "trimtab.lease."
METADATA_LAG_SECONDS: Final = 10.0
"""How long brokers' metadata may show a reassignment that the controller has already ended."""

_T = TypeVar("_T")


class KafkaAdminPort:
    """An adapter for one connected admin client; not for use by two threads at once.

    Parameters
    ----------
    admin
        A `kafka.KafkaAdminClient`, as `trimtab.connect.kafka.admin_client` makes it.
    clock
        Seconds since 1970; stamps the looks.
    """

    def __init__(self, admin: Any, clock: Callable[[], float]) -> None:
        self._admin = admin
        self._clock = clock
        self._min_in_sync: dict[str, int] = {}
        self._in_flight: dict[TopicPartition, ReassignmentSeen] = {}
        self._gone_since: dict[TopicPartition, float] = {}

    # ------------------------------------------------------------ looking

    def observe(
        self, partitions: Collection[TopicPartition], brokers: Collection[int], *, wide: bool
    ) -> Observation:
        """See `ClusterPort.observe`."""
        at = self._clock()
        cluster = self._call(self._admin.describe_cluster)
        registered = {
            broker["broker_id"]: BrokerSeen(
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
        return Observation(
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

    def _reassignments(self) -> dict[TopicPartition, ReassignmentSeen]:
        return {
            TopicPartition(*partition): ReassignmentSeen(
                tuple(flying["replicas"]),
                tuple(flying["adding_replicas"]),
                tuple(flying["removing_replicas"]),
            )
            for partition, flying in self._call(self._admin.list_partition_reassignments).items()
        }

    def _ending(
        self,
        reassignments: Mapping[TopicPartition, ReassignmentSeen],
        placements: Mapping[TopicPartition, Placement],
        at: float,
    ) -> dict[TopicPartition, ReassignmentSeen]:
        """Reassignments that the controller has ended and the broker that was asked still shows.

        The controller tells what is in flight, any broker tells who holds what, and a busy broker is seconds
        behind: taken as they come, a partition with brokers both added and not yet removed would seem to be
        at rest, as if somebody had given it more replicas. Until the broker has caught up both are shown as
        the broker has them.
        """
        for partition, flying in reassignments.items():
            self._in_flight[partition] = flying
            self._gone_since.pop(partition, None)
        found = {}
        for partition in self._in_flight.keys() - reassignments.keys():
            flying = self._in_flight[partition]
            since = self._gone_since.setdefault(partition, at)
            placement = placements.get(partition)
            caught_up = placement and (placement.replicas != flying.replicas or not flying.removing)
            if caught_up or at - since >= METADATA_LAG_SECONDS:
                del self._in_flight[partition], self._gone_since[partition]
            elif placement:
                found[partition] = flying
        return found

    def _placements(self, topics: list[str] | None) -> dict[TopicPartition, Placement]:
        from kafka import errors

        found = {}
        for topic in self._call(lambda: self._admin.describe_topics(topics)):
            error = errors.for_code(topic.get("error_code", 0))
            if error is errors.UnknownTopicOrPartitionError:
                continue
            if error is not errors.NoError:
                raise PortError(_failure(error, f"describing topic {topic['name']}"))
            for part in topic["partitions"]:
                leader = part["leader_id"]
                found[TopicPartition(topic["name"], part["partition_index"])] = Placement(
                    replicas=tuple(part["replica_nodes"]),
                    leader=None if leader < 0 else leader,
                    in_sync=tuple(part["isr_nodes"]),
                    topic_id=None if topic.get("topic_id") is None else str(topic["topic_id"]),
                )
        return found

    def _unhealthy(self, placements: Mapping[TopicPartition, Placement]) -> frozenset[TopicPartition]:
        unknown = sorted({p.topic for p in placements} - self._min_in_sync.keys())
        if unknown:
            for topic, configs in self._topic_configs(unknown, [MIN_IN_SYNC]).items():
                self._min_in_sync[topic] = int(configs.get(MIN_IN_SYNC, ("1", True))[0] or 1)
        return frozenset(
            partition
            for partition, placement in placements.items()
            if placement.leader is None
            or len(placement.in_sync) < min(self._min_in_sync[partition.topic], len(placement.replicas))
        )

    def _log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition]
    ) -> tuple[dict[int, tuple[LogDirSeen, ...]], dict[tuple[TopicPartition, int], tuple[ReplicaSeen, ...]]]:
        asked: dict[str, list[int]] = {}
        for topic, number in partitions:
            asked.setdefault(topic, []).append(number)
        dirs: dict[int, tuple[LogDirSeen, ...]] = {}
        copies: dict[tuple[TopicPartition, int], list[ReplicaSeen]] = {}
        for broker in brokers:
            try:
                answer = self._call(partial(self._admin.describe_log_dirs, asked, [broker]))
            except PortError:
                continue  # a broker that does not answer must not hide the others
            found = []
            for log_dir in answer[0]["log_dirs"]:
                path = log_dir["log_dir"]
                total, usable = log_dir.get("total_bytes", -1), log_dir.get("usable_bytes", -1)
                found.append(
                    LogDirSeen(
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
                        copy = ReplicaSeen(path, part["partition_size"], bool(part["is_future_key"]))
                        copies.setdefault(key, []).append(copy)
            dirs[broker] = tuple(found)
        return dirs, {key: tuple(seen) for key, seen in copies.items()}

    # ------------------------------------------------------------ changing placement

    def reassign(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Answers:
        """See `ClusterPort.reassign`."""
        return self._alter_reassignments({p: list(replicas) for p, replicas in targets.items()})

    def cancel_reassignments(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.cancel_reassignments`."""
        return self._alter_reassignments(dict.fromkeys(partitions))

    def _alter_reassignments(self, targets: Mapping[TopicPartition, list[int] | None]) -> Answers:
        from kafka import errors
        from kafka.protocol.admin import AlterPartitionReassignmentsRequest as Request

        topics: dict[str, list[Any]] = {}
        for (topic, number), replicas in targets.items():
            part = Request.ReassignableTopic.ReassignablePartition(partition_index=number, replicas=replicas)
            topics.setdefault(topic, []).append(part)
        request = Request(
            timeout_ms=30_000,
            allow_replication_factor_change=False,
            topics=[Request.ReassignableTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )
        response = self._call(lambda: self._to_controller(request, lambda r: [errors.for_code(r.error_code)]))
        found: dict[TopicPartition, Failure | None] = {}
        for topic in response.responses:
            for part in topic.partitions:
                found[TopicPartition(topic.name, part.partition_index)] = _answer(
                    part.error_code, part.error_message
                )
        return found

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.elect_preferred`."""
        from kafka import errors

        asked: dict[str, list[int]] = {}
        for topic, number in partitions:
            asked.setdefault(topic, []).append(number)
        response = self._call(lambda: self._admin.elect_leaders(0, asked, raise_errors=False))
        top = errors.for_code(getattr(response, "error_code", 0))
        if top is not errors.NoError:
            raise PortError(_failure(top, "electing preferred leaders"))
        found: dict[TopicPartition, Failure | None] = dict.fromkeys(partitions)
        for result in response.replica_election_results:
            for part in result.partition_result:
                if errors.for_code(part.error_code) is not errors.ElectionNotNeededError:
                    found[TopicPartition(result.topic, part.partition_id)] = _answer(
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
                answers = self._call(partial(self._admin.alter_replica_log_dirs, asked))
            except PortError as failed:
                found.update({TopicPartition(topic, number): failed.failure for topic, number, _ in asked})
                continue
            for replica, error in answers.items():
                if error not in (errors.NoError, errors.ReplicaNotAvailableError):
                    partition = TopicPartition(replica.topic, replica.partition)
                    found[partition] = _failure(error, f"log dir on broker {broker}")
        return found

    # ------------------------------------------------------------ dynamic settings

    def read_throttle(self, topics: Collection[str]) -> ThrottleConfig:
        """See `ClusterPort.read_throttle`."""
        rates = self._default_configs()
        lists = self._topic_configs(sorted(topics), [LEADER_REPLICAS, FOLLOWER_REPLICAS])

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
        from kafka.admin import ConfigResource, ConfigResourceType

        default = ConfigResource(
            ConfigResourceType.BROKER,
            "",
            _changes({LEADER_RATE: config.leader_rate, FOLLOWER_RATE: config.follower_rate}),
        )
        topics = [
            ConfigResource(
                ConfigResourceType.TOPIC,
                topic,
                _changes(
                    {
                        LEADER_REPLICAS: config.leader_replicas[topic],
                        FOLLOWER_REPLICAS: config.follower_replicas[topic],
                    }
                ),
            )
            for topic in sorted(config.leader_replicas)
        ]
        failures = self._alter_configs([default, *topics])
        return {name: f for name, f in failures.items() if f.code != "UnknownTopicOrPartition"}

    def read_claims(self) -> frozenset[str]:
        """See `ClusterPort.read_claims`."""
        # Kafka never shows the value of a setting that it does not know (it might be a secret), only the
        # name: so the name carries the text.
        return frozenset(
            name.removeprefix(CLAIM) for name in self._default_configs() if name.startswith(CLAIM)
        )

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """See `ClusterPort.write_claims`."""
        from kafka.admin import ConfigResource, ConfigResourceType

        changes: dict[str, str | None] = {CLAIM + text: None for text in removed}
        changes |= {CLAIM + text: "held" for text in added}
        if not changes:
            return
        failures = self._alter_configs([ConfigResource(ConfigResourceType.BROKER, "", _changes(changes))])
        for failure in failures.values():
            raise PortError(failure)

    def _alter_configs(self, resources: list[Any]) -> dict[str, Failure]:
        """One request for all; failures by resource name."""
        # The client's own method insists on numbers as broker names and asks what settings exist.
        request = self._admin._alter_configs_request(resources, False, True)
        response = self._call(lambda: self._to_any(request))
        found = {}
        for result in response.responses:
            failure = _answer(result.error_code, result.error_message)
            if failure is not None:
                found[result.resource_name] = failure
        return found

    def _default_configs(self) -> dict[str, str | None]:
        """Dynamic settings of the cluster-wide default, those that are set."""
        from kafka.admin import ConfigResource, ConfigResourceType

        found = self._describe_configs([ConfigResource(ConfigResourceType.BROKER, "")], {"": None})
        return {name: value for name, (value, _) in found[""].items()}

    def _topic_configs(
        self, topics: list[str], names: list[str]
    ) -> dict[str, dict[str, tuple[str | None, bool]]]:
        """Topic -> name -> (value, whether it is inherited rather than the topic's own)."""
        from kafka.admin import ConfigResource, ConfigResourceType

        if not topics:
            return {}
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic, names) for topic in topics]
        return self._describe_configs(resources, dict.fromkeys(topics))

    def _describe_configs(
        self, resources: list[Any], names: Mapping[str, None]
    ) -> dict[str, dict[str, tuple[str | None, bool]]]:
        from kafka import errors
        from kafka.admin import ConfigSourceType

        request = self._admin._describe_configs_request(resources)
        response = self._call(lambda: self._to_any(request))
        found: dict[str, dict[str, tuple[str | None, bool]]] = {name: {} for name in names}
        for result in response.results:
            error = errors.for_code(result.error_code)
            if error is errors.UnknownTopicOrPartitionError:
                continue
            if error is not errors.NoError:
                raise PortError(
                    _failure(error, result.error_message or f"settings of {result.resource_name}")
                )
            for config in result.configs:
                own = ConfigSourceType(config.config_source) in (
                    ConfigSourceType.DYNAMIC_TOPIC_CONFIG,
                    ConfigSourceType.DYNAMIC_DEFAULT_BROKER_CONFIG,
                )
                found[result.resource_name][config.name] = (config.value, not own)
        return found

    # ------------------------------------------------------------ calling

    def _to_any(self, request: Any) -> Any:
        async def send() -> Any:
            return await self._admin._manager.send(request)

        return self._admin._manager.run(send)

    def _to_controller(self, request: Any, top_level_errors: Callable[[Any], Iterable[Any]]) -> Any:
        async def send() -> Any:
            return await self._admin._send_request_to_controller(request, top_level_errors)

        return self._admin._manager.run(send)

    def _call(self, call: Callable[[], _T]) -> _T:
        """Every failure of the client as a `PortError`."""
        from kafka.errors import KafkaError, UnknownBrokerIdError

        try:
            try:
                return call()
            except UnknownBrokerIdError:
                # The broker came back after the client last looked who there is, which may be minutes ago.
                # Nothing has been changed: the request that changes something is the one that was not sent.
                self._admin._manager.run(self._admin._manager.cluster.refresh_metadata)
                return call()
        except (KafkaError, OSError) as error:
            # The client keeps asking the node it once took for the controller, dead or not.
            self._admin._controller_id = None
            raise PortError(_failure(type(error), str(error))) from error
        except RuntimeError as error:
            self._admin._controller_id = None
            if "controller" in str(error):
                raise PortError(Failure("NotController", str(error), transient=True)) from error
            # The client's network thread has ended; a new process, with a new client, may do better.
            raise PortError(Failure("Client", str(error))) from error


def _changes(values: Mapping[str, str | None]) -> dict[str, Any]:
    from kafka.admin import AlterConfigOp

    return {
        name: (AlterConfigOp.DELETE, None) if value is None else (AlterConfigOp.SET, value)
        for name, value in values.items()
    }


def _answer(code: int, message: str | None) -> Failure | None:
    from kafka import errors

    error = errors.for_code(code)
    if error is errors.NoError:
        return None
    return _failure(error, message or "")


def _failure(error: type, message: str) -> Failure:
    from kafka.errors import UnknownBrokerIdError

    code = error.__name__.removesuffix("Error")
    text = message or (error.__doc__ or "").strip().split("\n")[0]
    # A broker that the client does not know is one that comes or goes.
    transient = issubclass(error, OSError | UnknownBrokerIdError) or bool(getattr(error, "retriable", False))
    return Failure(code, text, transient)
