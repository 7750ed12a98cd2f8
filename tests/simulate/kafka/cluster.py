"""A simulated Kafka cluster in virtual time: the controller that decides, and brokers that carry it out.

Nothing here reads a clock or draws a random number: time passes by `SimulatedKafka.advance`, and chance comes
with the faults (`simulate.faults`). Behaviour follows measurements on Kafka 4.3.1 in KRaft mode.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence

from simulate.kafka.replication import (
    Copying,
    Disks,
    Duties,
    Leaders,
    Membership,
    begin_reassignment,
    revert_reassignment,
)
from simulate.kafka.state import (
    CORDONED,
    Change,
    ClusterState,
    ErrorCode,
    Happening,
    KafkaRefusal,
    PartitionName,
    ResourceType,
    SimulatedBroker,
    SimulatedLogDir,
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
    controller
        Takes what clients ask of the controller.
    disks
        Take what clients ask of one broker about its log dirs.
    groups
        Committed offsets of every consumer group.
    rights
        Codes of the operations that brokers say everybody may do; None: they do not say.
    """

    def __init__(
        self,
        brokers: Iterable[SimulatedBroker],
        cluster_id: str = "simulated-cluster-0000",
        quota_samples: int = 11,
        dir_bytes_per_second: float = 200e6,
    ) -> None:
        state = ClusterState(cluster_id, {broker.id: broker for broker in brokers})
        self.cluster_id, self.configs = cluster_id, state.configs
        self.brokers, self.partitions = state.brokers, state.partitions
        self.groups: dict[str, dict[PartitionName, int]] = {}
        self.rights: set[int] | None = set(range(3, 13))
        self._history = state.history
        self._membership = Membership(state)
        self._leaders = Leaders(state)
        self._copying = Copying(state, quota_samples, dir_bytes_per_second)
        self._duties = Duties(state, self._membership, self._copying, self._leaders)
        self.disks = Disks(state)
        self.controller = Controller(state, self._membership, self.disks, self._leaders, self._duties)

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self._history.now

    @property
    def history(self) -> list[Happening]:
        """Everything that was done to the cluster and that it did by itself, in order."""
        return self._history.happenings

    def partition(self, topic: str, number: int) -> SimulatedPartition:
        """A partition by name.

        Raises
        ------
        KafkaRefusal
            UNKNOWN_TOPIC_OR_PARTITION where there is none.
        """
        return known_partition(self.partitions, topic, number)

    def advance(self, seconds: float) -> None:
        """Let virtual time pass: copies proceed, sessions expire, reassignments finish."""
        end = self.now + seconds
        if self._seconds_until_event() > max(seconds, 1e-6) and self._is_settled():
            self._history.now = end
            return
        self._duties.perform()
        while self.now < end:
            copies = self._copying.copies()
            change = self._copying.seconds_until_change(self.now, copies)
            step = min(end - self.now, change, self._seconds_until_event())
            self._copying.pass_time(self.now, step, copies)
            for partition in self.partitions.values():
                if partition.leader is not None and self.brokers[partition.leader].running:
                    partition.size_bytes += partition.growth_bytes_per_second * step
            over = math.isclose(self.now + step, end, abs_tol=1e-9)
            self._history.now = end if over else self.now + step
            self._duties.perform()

    def add_broker(self, broker: SimulatedBroker) -> None:
        """A new empty broker joins."""
        self.brokers[broker.id] = broker
        self._history.note("world", "add_broker", broker.id)

    def kill_broker(self, broker: int) -> None:
        """The process is gone at once; the controller notices when its session expires."""
        if self._membership.kill(broker, self.now):
            self._history.note("world", "kill_broker", broker)

    def start_broker(self, broker: int) -> None:
        """Start a dead broker again."""
        if self._membership.start(broker, self.now):
            self._history.note("world", "start_broker", broker)

    def restart_controller(self, seconds: float) -> None:
        """No controller answers for a while."""
        self._membership.restart_controller(self.now + seconds)
        self._history.note("world", "restart_controller", None, (seconds,))

    def fail_log_dir(self, broker: int, path: str) -> None:
        """A disk breaks: its replicas are offline and leave the in-sync sets."""
        self.brokers[broker].log_dirs[path].online = False
        for partition in self.partitions.values():
            replica = partition.held.get(broker)
            if replica is not None and replica.log_dir == path:
                self._leaders.leave_in_sync(partition, broker)
        self._history.note("world", "fail_log_dir", (broker, path))

    def _is_settled(self) -> bool:
        """Whether no partition changes by the passing of time alone."""
        for one in self.partitions.values():
            if one.adding or one.removing or one.growth_bytes_per_second:
                return False
            if len(one.in_sync) != len(one.replicas):
                return False
            for replica in one.held.values():
                if replica.future_dir is not None:
                    return False
        return True

    def _seconds_until_event(self) -> float:
        return max(1e-6, min(self._membership.next_changes(), default=math.inf) - self.now)


def cluster_of(
    brokers: int,
    racks: int = 3,
    brokers_per_host: int = 1,
    dirs: int = 2,
    dir_bytes: float = 10e9,
    copy_bytes_per_second: float = 50e6,
    quota_samples: int = 11,
) -> SimulatedKafka:
    """A cluster of like brokers 1..n, racks r1.. in turn, hosts h1.. with so many brokers each."""
    return SimulatedKafka(
        (
            SimulatedBroker(
                number,
                f"h{(number - 1) // brokers_per_host + 1}",
                f"r{(number - 1) % racks + 1}",
                {f"/d{d}": SimulatedLogDir(f"/d{d}", dir_bytes) for d in range(dirs)},
                copy_bytes_per_second,
            )
            for number in range(1, brokers + 1)
        ),
        quota_samples=quota_samples,
    )
