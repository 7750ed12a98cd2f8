"""Where replicas lie on the disks of their brokers."""

from collections.abc import Iterable

from trimtab.simulate.kafka_state import SimulatedBroker, SimulatedPartition


def emptiest_dir(broker: SimulatedBroker, partitions: Iterable[SimulatedPartition]) -> str:
    """Where Kafka puts a new replica: the usable dir that holds the fewest replicas, whatever their size."""
    usable = [path for path, found in broker.log_dirs.items() if found.online and not found.cordoned]
    counts = dict.fromkeys(usable or broker.log_dirs, 0)
    for partition in partitions:
        held = partition.held.get(broker.id)
        if held is not None and held.log_dir in counts:
            counts[held.log_dir] += 1
    return min(counts, key=lambda path: (counts[path], path))


def usage(partitions: Iterable[SimulatedPartition]) -> dict[tuple[int, str], float]:
    """`used_bytes` of every (broker, log dir) that holds anything."""
    used: dict[tuple[int, str], float] = {}
    for partition in partitions:
        for broker, replica in partition.held.items():
            key = (broker, replica.log_dir)
            used[key] = used.get(key, 0.0) + partition.bytes_on(broker)
            if replica.future_dir is not None:
                key = (broker, replica.future_dir)
                used[key] = used.get(key, 0.0) + replica.future_bytes
    return used


def used_bytes(broker: int, path: str, partitions: Iterable[SimulatedPartition]) -> float:
    """What all replicas, whole, half copied and future ones, take in a log dir."""
    used = 0.0
    for partition in partitions:
        replica = partition.held.get(broker)
        if replica is not None:
            used += partition.bytes_on(broker) if replica.log_dir == path else 0.0
            used += replica.future_bytes if replica.future_dir == path else 0.0
    return used
