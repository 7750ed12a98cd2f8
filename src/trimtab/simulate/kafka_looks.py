"""What an execution sees when it looks at a simulated cluster."""

from collections.abc import Collection

from trimtab.act.replicas.observation import (
    BrokerSeen,
    LogDirSeen,
    Observation,
    Placement,
    ReassignmentSeen,
    ReplicaSeen,
    TopicPartition,
)
from trimtab.simulate.kafka_cluster import SimulatedKafka
from trimtab.simulate.kafka_health import unhealthy_partitions
from trimtab.simulate.kafka_state import PartitionName, SimulatedPartition

CONTROLLER = 100


def look(
    cluster: SimulatedKafka,
    at: float,
    partitions: Collection[TopicPartition],
    brokers: Collection[int],
    *,
    wide: bool,
) -> Observation:
    """Look at a cluster; the arguments are those of `ClusterPort.observe`.

    Parameters
    ----------
    at
        Seconds since 1970, as the observation is to say.

    Raises
    ------
    KafkaRefusal
        NOT_CONTROLLER while there is none.
    """
    flying = cluster.controller.reassignments()
    known = {name: found for name in partitions if (found := cluster.partitions.get(PartitionName(*name)))}
    asked = [b for broker in brokers if (b := cluster.brokers.get(broker)) is not None and b.running]
    return Observation(
        at=at,
        cluster_id=cluster.cluster_id,
        controller=CONTROLLER,
        brokers={b.id: BrokerSeen(b.id, b.fenced, b.host, b.rack) for b in cluster.brokers.values()},
        placements={name: _placement(partition) for name, partition in known.items()},
        reassignments={
            TopicPartition(*name): ReassignmentSeen(tuple(p.replicas), tuple(p.adding), tuple(p.removing))
            for name, p in flying.items()
        },
        log_dirs={broker.id: _log_dirs(cluster, broker.id) for broker in asked},
        copies={
            (name, broker.id): _copies(partition, broker.id)
            for name, partition in known.items()
            for broker in asked
            if broker.id in partition.held
        },
        unhealthy=frozenset(TopicPartition(*n) for n in unhealthy_partitions(cluster)) if wide else None,
    )


def _placement(partition: SimulatedPartition) -> Placement:
    return Placement(
        tuple(partition.replicas), partition.leader, tuple(partition.in_sync), str(partition.topic_id)
    )


def _copies(partition: SimulatedPartition, broker: int) -> tuple[ReplicaSeen, ...]:
    replica = partition.held[broker]
    present = ReplicaSeen(replica.log_dir, int(partition.bytes_on(broker)))
    if replica.future_dir is None:
        return (present,)
    return (present, ReplicaSeen(replica.future_dir, int(replica.future_bytes), future=True))


def _log_dirs(cluster: SimulatedKafka, broker: int) -> tuple[LogDirSeen, ...]:
    return tuple(
        LogDirSeen(
            path,
            found.online,
            found.cordoned,
            int(found.total_bytes),
            int(max(0.0, found.total_bytes - cluster.disks.used_bytes(broker, path))),
        )
        for path, found in cluster.brokers[broker].log_dirs.items()
    )
