"""The places of replicas on the disks of their brokers."""

from collections.abc import Iterable

from simulate.kafka.shared import ClusterState
from simulate.kafka.state import (
    ErrorCode,
    KafkaRefusal,
    PartitionName,
    SimulatedBroker,
    SimulatedPartition,
    SimulatedReplica,
)


class Disks:
    """The log dirs of all brokers of one cluster."""

    def __init__(self, state: ClusterState) -> None:
        self._brokers, self._partitions, self._history = state.brokers, state.partitions, state.history
        self._remembered: dict[tuple[PartitionName, int], str] = {}

    def place_new(self, partition: SimulatedPartition) -> None:
        """Give every broker of the partition's list that holds nothing of it an empty replica."""
        for broker in partition.replicas:
            if broker not in partition.held:
                partition.held[broker] = SimulatedReplica(self._dir_for(partition.name, broker), 0.0)

    def move(self, topic: str, number: int, broker: int, path: str, actor: str = "operator") -> None:
        """Move a replica to another log dir of its broker, or remember the dir for a replica yet to come."""
        directory = self._brokers[broker].log_dirs.get(path)
        if directory is None or not directory.online:
            raise KafkaRefusal(ErrorCode.LOG_DIR_NOT_FOUND, f"Log directory {path} was not found.")
        name = PartitionName(topic, number)
        partition = self._partitions.get(name)
        if partition is None:
            raise KafkaRefusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{number}."
            )
        replica = partition.held.get(broker)
        if replica is None:
            self._remembered[name, broker] = path
            raise KafkaRefusal(
                ErrorCode.REPLICA_NOT_AVAILABLE, f"Replica {topic}-{number} is not on {broker}."
            )
        if path == replica.log_dir:
            replica.future_dir = None
        elif path != replica.future_dir:
            replica.future_dir, replica.future_bytes = path, 0.0
        self._history.note(actor, "move_log_dir", name, (broker, path))

    def used_bytes(self, broker: int, path: str) -> float:
        """The bytes of all replicas, whole, half copied and future ones, in a log dir."""
        used = 0.0
        for partition in self._partitions.values():
            replica = partition.held.get(broker)
            if replica is not None:
                used += partition.bytes_on(broker) if replica.log_dir == path else 0.0
                used += replica.future_bytes if replica.future_dir == path else 0.0
        return used

    def _dir_for(self, name: PartitionName, broker: int) -> str:
        """The dir that it was told before it came, else the one that Kafka chooses."""
        owner = self._brokers[broker]
        remembered = self._remembered.pop((name, broker), None)
        if remembered is not None and owner.log_dirs[remembered].online:
            return remembered
        return emptiest_dir(owner, self._partitions.values())


def emptiest_dir(broker: SimulatedBroker, partitions: Iterable[SimulatedPartition]) -> str:
    """Kafka's choice for a new replica: the usable dir with the fewest replicas, whatever their size."""
    usable = [path for path, found in broker.log_dirs.items() if found.online and not found.cordoned]
    counts = dict.fromkeys(usable or broker.log_dirs, 0)
    for partition in partitions:
        held = partition.held.get(broker.id)
        if held is not None and held.log_dir in counts:
            counts[held.log_dir] += 1
    return min(counts, key=lambda path: (counts[path], path))


def usage(partitions: Iterable[SimulatedPartition]) -> dict[tuple[int, str], float]:
    """`Disks.used_bytes` of every (broker, log dir) that holds anything."""
    used: dict[tuple[int, str], float] = {}
    for partition in partitions:
        for broker, replica in partition.held.items():
            key = (broker, replica.log_dir)
            used[key] = used.get(key, 0.0) + partition.bytes_on(broker)
            if replica.future_dir is not None:
                key = (broker, replica.future_dir)
                used[key] = used.get(key, 0.0) + replica.future_bytes
    return used
