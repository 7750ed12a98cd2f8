"""Which partitions of a simulated cluster are unwell."""

from trimtab.simulate.kafka_cluster import SimulatedKafka
from trimtab.simulate.kafka_configs import ResourceType
from trimtab.simulate.kafka_state import PartitionName


def unhealthy_partitions(cluster: SimulatedKafka) -> frozenset[PartitionName]:
    """Partitions without a leader, or with fewer in-sync replicas than their topic asks for."""
    found = set()
    for name, partition in cluster.partitions.items():
        least = int(cluster.configs.of(ResourceType.TOPIC, name.topic).get("min.insync.replicas", "1"))
        if partition.leader is None or len(partition.in_sync) < min(least, len(partition.settled_replicas)):
            found.add(name)
    return frozenset(found)
