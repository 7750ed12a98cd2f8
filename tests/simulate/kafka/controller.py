"""The requests that a controller takes from clients."""

import uuid
from collections.abc import Mapping, Sequence

from simulate.kafka.assignment import Leaders, begin_reassignment, revert_reassignment
from simulate.kafka.configs import CORDONED, Change, ResourceType
from simulate.kafka.disks import Disks
from simulate.kafka.duties import Duties, Membership
from simulate.kafka.shared import ClusterState
from simulate.kafka.state import (
    ErrorCode,
    KafkaRefusal,
    PartitionName,
    SimulatedPartition,
    known_partition,
)


class Controller:
    """The controller of one cluster; refuses everything (NOT_CONTROLLER) while it is away."""

    def __init__(
        self,
        state: ClusterState,
        membership: Membership,
        disks: Disks,
        leaders: Leaders,
        duties: Duties,
    ) -> None:
        self._state = state
        self._brokers, self._partitions, self._history = state.brokers, state.partitions, state.history
        self._membership = membership
        self._disks = disks
        self._leaders = leaders
        self._duties = duties

    @property
    def available(self) -> bool:
        """True while requests to the controller are answered."""
        return self._membership.controller_available

    def require(self) -> None:
        """Refuse (NOT_CONTROLLER) while there is none."""
        if not self.available:
            raise KafkaRefusal(ErrorCode.NOT_CONTROLLER, "No controller is active at the moment.")

    def create_topic(
        self,
        name: str,
        assignments: Mapping[int, Sequence[int]],
        size_bytes: float = 0.0,
        growth_bytes_per_second: float = 0.0,
        actor: str = "operator",
    ) -> None:
        """Create a topic with given replica lists; every partition has the same size and growth."""
        self.require()
        if any(known.topic == name for known in self._partitions):
            raise KafkaRefusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        # Ids differ between topics and between lives of a topic, but not between runs.
        life = f"{self._state.cluster_id} {len(self._history.happenings)} {name}"
        topic_id = uuid.uuid5(uuid.NAMESPACE_OID, life)
        if len({len(replicas) for replicas in assignments.values()}) > 1:
            raise KafkaRefusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The partitions of '{name}' differ in their replica counts.",
            )
        for number, replicas in assignments.items():
            self._check_target(replicas)
            partition = SimulatedPartition(
                PartitionName(name, number),
                list(replicas),
                None,
                [broker for broker in replicas if not self._brokers[broker].fenced],
                size_bytes,
                growth_bytes_per_second,
                topic_id,
            )
            self._disks.place_new(partition)
            self._leaders.elect(partition)
            self._partitions[partition.name] = partition
        self._history.note(actor, "create_topic", name)

    def delete_topic(self, name: str, actor: str = "operator") -> None:
        """Delete a topic, whatever is in flight."""
        self.require()
        gone = [known for known in self._partitions if known.topic == name]
        if not gone:
            raise KafkaRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")
        for known in gone:
            del self._partitions[known]
        self._state.configs.forget(ResourceType.TOPIC, name)
        self._history.note(actor, "delete_topic", name)

    def reassign(
        self,
        topic: str,
        number: int,
        target: Sequence[int] | None,
        actor: str = "operator",
        may_change_factor: bool = True,
    ) -> None:
        """Start moving a partition to a new replica list; None cancels what is in flight."""
        self.require()
        partition = known_partition(self._partitions, topic, number)
        if target is None:
            partition.drop_replicas(revert_reassignment(partition))
            self._leaders.elect(partition)
            self._history.note(actor, "cancel", partition.name, tuple(partition.replicas))
            return
        self._check_target(target)
        before = tuple(partition.replicas)
        begin_reassignment(partition, target, may_change_factor)
        self._disks.place_new(partition)
        dead = tuple(broker for broker in partition.adding if self._brokers[broker].fenced)
        self._history.note(
            actor, "reassign", partition.name, (before, tuple(target), dead, partition.reassigning)
        )
        self._duties.perform()

    def reassignments(self) -> dict[PartitionName, SimulatedPartition]:
        """Everything in flight."""
        self.require()
        return {name: partition for name, partition in self._partitions.items() if partition.reassigning}

    def elect_preferred(self, topic: str, number: int, actor: str = "operator") -> None:
        """Give the leader role to the first of the list."""
        self.require()
        partition = known_partition(self._partitions, topic, number)
        self._leaders.elect_preferred(partition)
        self._history.note(actor, "elect", partition.name, (partition.leader,))

    def alter_configs(
        self, kind: ResourceType, name: str, changes: Sequence[Change], actor: str = "operator"
    ) -> None:
        """Change dynamic configuration of a topic, a broker, or (empty name) all brokers."""
        self.require()
        if kind is ResourceType.TOPIC and not any(known.topic == name for known in self._partitions):
            raise KafkaRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        self._check_cordons(kind, name, changes)
        self._state.configs.alter(kind, name, changes)
        if kind is ResourceType.BROKER and name:
            value = self._state.configs.of(kind, name).get(CORDONED, "")
            for path, log_dir in self._brokers[int(name)].log_dirs.items():
                log_dir.cordoned = value == "*" or path in value.split(",")
        self._history.note(actor, "configure", (kind.name.lower(), name), tuple(changes))

    def _check_cordons(self, kind: ResourceType, name: str, changes: Sequence[Change]) -> None:
        for key, _, value in changes:
            if kind is not ResourceType.BROKER or key != CORDONED:
                continue
            if not name:
                raise KafkaRefusal(
                    ErrorCode.INVALID_REQUEST, "broker id must be specified: [cordoned.log.dirs]"
                )
            paths = {path for path in (value or "").split(",") if path}
            missing = sorted(paths - {"*", *self._brokers[int(name)].log_dirs})
            if missing:
                raise KafkaRefusal(
                    ErrorCode.INVALID_REQUEST,
                    f"All entries in cordoned.log.dirs must be present in log.dirs. Missing: {missing}",
                )

    def _check_target(self, target: Sequence[int]) -> None:
        if not target or len(set(target)) != len(target):
            raise KafkaRefusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment {list(target)} is invalid.",
            )
        for broker in target:
            if broker not in self._brokers:
                raise KafkaRefusal(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"The manual partition assignment includes broker {broker}, but no such broker "
                    "is registered.",
                )
