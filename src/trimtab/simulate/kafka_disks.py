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


def used_bytes(broker: int, path: str, partitions: Iterable[SimulatedPartition]) -> float:
    """What all replicas, whole, half copied and future ones, take in a log dir."""
    used = 0.0
    for partition in partitions:
        replica = partition.held.get(broker)
        if replica is not None:
            used += partition.bytes_on(broker) if replica.log_dir == path else 0.0
            used += replica.future_bytes if replica.future_dir == path else 0.0
    return used
