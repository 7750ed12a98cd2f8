"""A Kafka cluster in memory and in virtual time: what an administrator can see of it and do to it.

Nothing here reads a clock or draws a random number: time passes by `SimulatedKafka.advance`, chance comes
with the faults (`trimtab.simulate.faults`). Behaviour follows measurements on Kafka 4.3.1 in KRaft mode.
"""

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence

from trimtab.simulate.kafka_assignment import (
    begin_reassignment,
    elect,
    elect_preferred,
    finish_reassignment,
    revert_reassignment,
)
from trimtab.simulate.kafka_configs import Change, ConfigStore, ResourceType
from trimtab.simulate.kafka_copying import Copying
from trimtab.simulate.kafka_disks import emptiest_dir, used_bytes
from trimtab.simulate.kafka_membership import Membership
from trimtab.simulate.kafka_state import (
    ErrorCode,
    Happening,
    KafkaRefusal,
    PartitionName,
    SimulatedBroker,
    SimulatedPartition,
    SimulatedReplica,
)


class SimulatedKafka:
    """The whole cluster.

    Parameters
    ----------
    brokers
        Those that exist from the beginning.
    quota_samples
        `replication.quota.window.num` of the brokers.
    dir_bytes_per_second
        Speed of copies between two log dirs of one broker.

    Attributes
    ----------
    now
        Virtual seconds since the beginning.
    history
        Everything that was done to the cluster and that it did by itself, in order.
    """

    def __init__(
        self,
        brokers: Iterable[SimulatedBroker],
        cluster_id: str = "simulated-cluster-0000",
        quota_samples: int = 11,
        dir_bytes_per_second: float = 200e6,
    ) -> None:
        self.cluster_id = cluster_id
        self.now = 0.0
        self.brokers = {broker.id: broker for broker in brokers}
        self.partitions: dict[PartitionName, SimulatedPartition] = {}
        self.configs = ConfigStore()
        self.membership = Membership(self.brokers)
        self.copying = Copying(
            self.brokers, self.partitions, self.configs, quota_samples, dir_bytes_per_second
        )
        self.history: list[Happening] = []
        self.groups: dict[str, dict[PartitionName, int]] = {}
        self._controller_back_at: float | None = None
        self._remembered_dirs: dict[tuple[PartitionName, int], str] = {}

    # ------------------------------------------------------------ time

    def advance(self, seconds: float) -> None:
        """Let virtual time pass: copies proceed, sessions expire, reassignments finish."""
        end = self.now + seconds
        self._settle()
        while self.now < end:
            copies = self.copying.copies()
            change = self.copying.seconds_until_change(self.now, copies)
            step = min(end - self.now, change, self._seconds_until_event())
            self.copying.pass_time(self.now, step, copies)
            for partition in self.partitions.values():
                if partition.leader is not None and self.brokers[partition.leader].running:
                    partition.size_bytes += partition.growth_bytes_per_second * step
            self.now = end if math.isclose(self.now + step, end, abs_tol=1e-9) else self.now + step
            self._settle()

    def _seconds_until_event(self) -> float:
        due = list(self.membership.next_change())
        if self._controller_back_at is not None:
            # Without a controller nobody is fenced and nobody joins an in-sync set.
            due = [max(at, self._controller_back_at) for at in due] + [self._controller_back_at]
        return max(1e-6, min(due, default=math.inf) - self.now)

    def _settle(self) -> None:
        """Everything that happens by itself at this instant."""
        if self._controller_back_at is not None:
            if self.now < self._controller_back_at:
                return
            self._controller_back_at = None
            self._happened("cluster", "controller_back", None)
        for broker in self.membership.newly_fenced(self.now):
            for partition in self.partitions.values():
                self._leave_in_sync(partition, broker.id)
            self._happened("cluster", "fence", broker.id)
        for broker in self.membership.newly_unfenced(self.now):
            for partition in self.partitions.values():
                if partition.leader is None:
                    elect(partition, self._may_lead(partition))
            self._happened("cluster", "unfence", broker.id)
        for partition, replica in self.copying.caught_up():
            partition.in_sync.append(replica)
            if partition.leader is None:
                elect(partition, self._may_lead(partition))
        for partition in self.partitions.values():
            dropped = finish_reassignment(partition)
            if dropped is not None:
                self._drop_replicas(partition, dropped)
                elect(partition, self._may_lead(partition))
                self._happened("cluster", "finish", partition.name, tuple(partition.replicas))

    # ------------------------------------------------------------ topics

    def create_topic(
        self,
        name: str,
        assignments: Mapping[int, Sequence[int]],
        size_bytes: float = 0.0,
        growth_bytes_per_second: float = 0.0,
        actor: str = "operator",
    ) -> None:
        """Create a topic with given replica lists; every partition has the same size and growth."""
        self.require_controller()
        if any(known.topic == name for known in self.partitions):
            raise KafkaRefusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        # Ids differ between topics and between lives of a topic, but not between runs.
        topic_id = uuid.uuid5(uuid.NAMESPACE_OID, f"{self.cluster_id} {len(self.history)} {name}")
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
                [broker for broker in replicas if not self.brokers[broker].fenced],
                size_bytes,
                growth_bytes_per_second,
                topic_id,
            )
            for broker in replicas:
                partition.held[broker] = SimulatedReplica(self._dir_for(partition.name, broker), 0.0)
            elect(partition, self._may_lead(partition))
            self.partitions[partition.name] = partition
        self._happened(actor, "create_topic", name)

    def delete_topic(self, name: str, actor: str = "operator") -> None:
        """Delete a topic, whatever is in flight."""
        self.require_controller()
        gone = [known for known in self.partitions if known.topic == name]
        if not gone:
            raise KafkaRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")
        for known in gone:
            del self.partitions[known]
        self.configs.forget(ResourceType.TOPIC, name)
        self._happened(actor, "delete_topic", name)

    def partition(self, topic: str, number: int) -> SimulatedPartition:
        """A partition by name.

        Raises
        ------
        KafkaRefusal
            UNKNOWN_TOPIC_OR_PARTITION where there is none.
        """
        found = self.partitions.get(PartitionName(topic, number))
        if found is None:
            raise KafkaRefusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a partition named {topic}-{number}."
            )
        return found

    # ------------------------------------------------------------ what a controller is asked

    def reassign(
        self,
        topic: str,
        number: int,
        target: Sequence[int] | None,
        actor: str = "operator",
        may_change_factor: bool = True,
    ) -> None:
        """Start moving a partition to a new replica list; None cancels what is in flight."""
        self.require_controller()
        partition = self.partition(topic, number)
        if target is None:
            self._drop_replicas(partition, revert_reassignment(partition))
            elect(partition, self._may_lead(partition))
            self._happened(actor, "cancel", partition.name, tuple(partition.replicas))
            return
        self._check_target(target)
        before = tuple(partition.replicas)
        begin_reassignment(partition, target, may_change_factor)
        for broker in partition.replicas:
            if broker not in partition.held:
                partition.held[broker] = SimulatedReplica(self._dir_for(partition.name, broker), 0.0)
        dead = tuple(broker for broker in partition.adding if self.brokers[broker].fenced)
        self._happened(
            actor, "reassign", partition.name, (before, tuple(target), dead, partition.reassigning)
        )
        self._settle()

    def reassignments(self) -> dict[PartitionName, SimulatedPartition]:
        """Everything in flight."""
        self.require_controller()
        return {name: partition for name, partition in self.partitions.items() if partition.reassigning}

    def elect_preferred(self, topic: str, number: int, actor: str = "operator") -> None:
        """Give the leader role to the first of the list."""
        self.require_controller()
        partition = self.partition(topic, number)
        elect_preferred(partition, self._may_lead(partition))
        self._happened(actor, "elect", partition.name, (partition.leader,))

    def alter_configs(
        self, kind: ResourceType, name: str, changes: Sequence[Change], actor: str = "operator"
    ) -> None:
        """Change dynamic configuration of a topic, a broker, or (empty name) all brokers."""
        self.require_controller()
        if kind is ResourceType.TOPIC and not any(known.topic == name for known in self.partitions):
            raise KafkaRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        self.configs.alter(kind, name, changes)
        self._happened(actor, "configure", (kind.name.lower(), name), tuple(changes))

    # ------------------------------------------------------------ what a broker is asked

    def move_log_dir(self, topic: str, number: int, broker: int, path: str, actor: str = "operator") -> None:
        """Move a replica to another log dir of its broker, or remember the dir for a replica yet to come."""
        directory = self.brokers[broker].log_dirs.get(path)
        if directory is None or not directory.online:
            raise KafkaRefusal(ErrorCode.LOG_DIR_NOT_FOUND, f"Log directory {path} was not found.")
        name = PartitionName(topic, number)
        partition = self.partitions.get(name)
        if partition is None:
            raise KafkaRefusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{number}."
            )
        replica = partition.held.get(broker)
        if replica is None:
            self._remembered_dirs[name, broker] = path
            raise KafkaRefusal(
                ErrorCode.REPLICA_NOT_AVAILABLE, f"Replica {topic}-{number} is not on {broker}."
            )
        if path == replica.log_dir:
            replica.future_dir = None
        elif path != replica.future_dir:
            replica.future_dir, replica.future_bytes = path, 0.0
        self._happened(actor, "move_log_dir", name, (broker, path))

    def used_bytes(self, broker: int, path: str) -> float:
        """What all replicas, whole, half copied and future ones, take in a log dir."""
        return used_bytes(broker, path, self.partitions.values())

    # ------------------------------------------------------------ what happens to a cluster

    def add_broker(self, broker: SimulatedBroker) -> None:
        """A new empty broker joins."""
        self.brokers[broker.id] = broker
        self._happened("world", "add_broker", broker.id)

    def kill_broker(self, broker: int) -> None:
        """The process is gone at once; the controller notices when its session expires."""
        if self.membership.kill(broker, self.now):
            self._happened("world", "kill_broker", broker)

    def start_broker(self, broker: int) -> None:
        """Start a dead broker again."""
        if self.membership.start(broker, self.now):
            self._happened("world", "start_broker", broker)

    def restart_controller(self, seconds: float) -> None:
        """No controller answers for a while."""
        self._controller_back_at = self.now + seconds
        self._happened("world", "restart_controller", None, (seconds,))

    def fail_log_dir(self, broker: int, path: str) -> None:
        """A disk breaks: its replicas are offline and leave the in-sync sets."""
        self.brokers[broker].log_dirs[path].online = False
        for partition in self.partitions.values():
            replica = partition.held.get(broker)
            if replica is not None and replica.log_dir == path:
                self._leave_in_sync(partition, broker)
        self._happened("world", "fail_log_dir", (broker, path))

    @property
    def controller_available(self) -> bool:
        """Whether requests to the controller are answered."""
        return self._controller_back_at is None

    # ------------------------------------------------------------ inside

    def require_controller(self) -> None:
        """Refuse (NOT_CONTROLLER) while there is none."""
        if not self.controller_available:
            raise KafkaRefusal(ErrorCode.NOT_CONTROLLER, "No controller is active at the moment.")

    def _check_target(self, target: Sequence[int]) -> None:
        if not target or len(set(target)) != len(target):
            raise KafkaRefusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment {list(target)} is invalid.",
            )
        for broker in target:
            if broker not in self.brokers:
                raise KafkaRefusal(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"The manual partition assignment includes broker {broker}, but no such broker "
                    "is registered.",
                )

    def _may_lead(self, partition: SimulatedPartition) -> "_MayLead":
        return _MayLead(self.brokers, partition)

    def _dir_for(self, name: PartitionName, broker: int) -> str:
        """Where it was told to go before it came, else where Kafka puts it."""
        owner = self.brokers[broker]
        remembered = self._remembered_dirs.pop((name, broker), None)
        if remembered is not None and owner.log_dirs[remembered].online:
            return remembered
        return emptiest_dir(owner, self.partitions.values())

    def _drop_replicas(self, partition: SimulatedPartition, brokers: Iterable[int]) -> None:
        for broker in brokers:
            partition.held.pop(broker, None)

    def _leave_in_sync(self, partition: SimulatedPartition, broker: int) -> None:
        if broker not in partition.in_sync:
            return
        if len(partition.in_sync) > 1:
            partition.held[broker].bytes = partition.size_bytes
            partition.in_sync.remove(broker)
        # The last in-sync replica stays in the set: only it may lead once it is back.
        elect(partition, self._may_lead(partition))

    def _happened(self, actor: str, verb: str, subject: object, detail: tuple[object, ...] = ()) -> None:
        self.history.append(Happening(self.now, actor, verb, subject, detail))


class _MayLead:
    """Whether a broker may lead, as the controller knows it: not fenced, and the log dir works."""

    def __init__(self, brokers: Mapping[int, SimulatedBroker], partition: SimulatedPartition) -> None:
        self._brokers = brokers
        self._partition = partition

    def __call__(self, broker: int) -> bool:
        owner, replica = self._brokers[broker], self._partition.held.get(broker)
        return not owner.fenced and replica is not None and owner.log_dirs[replica.log_dir].online
