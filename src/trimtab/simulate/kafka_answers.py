"""What answers of the simulated brokers have in common: who is asked, who asks, and where brokers listen."""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from trimtab.simulate.kafka_cluster import SimulatedKafka
from trimtab.simulate.kafka_state import (
    NO_TOPIC_ID,
    ErrorCode,
    KafkaRefusal,
    PartitionName,
    SimulatedPartition,
)

Message = Any
"""A request or response object of `kafka.protocol`."""

LEADER_NOT_AVAILABLE = 5
RECORD_BYTES = 1000
"""Size of every record in a simulated partition, so that sizes and offsets agree."""


@dataclass(frozen=True)
class Asked:
    """One request's circumstances.

    Attributes
    ----------
    broker
        The broker that received it.
    actor
        The client id in its header.
    ports
        Where every broker listens on the loopback.
    """

    cluster: SimulatedKafka
    broker: int
    actor: str
    ports: dict[int, int]

    def address(self, broker: int) -> dict[str, object]:
        """Host and port as most answers carry them."""
        return {"host": "127.0.0.1", "port": self.ports[broker]}

    @property
    def coordinator(self) -> int:
        """The broker that coordinates all groups, and that is named as controller."""
        return min(broker.id for broker in self.cluster.brokers.values() if not broker.fenced)


Handler = Callable[[Asked, Message], Message]


def topic_id(cluster: SimulatedKafka, name: str) -> uuid.UUID:
    """A topic's id; all zeros where there is none."""
    found = [partition.topic_id for known, partition in cluster.partitions.items() if known.topic == name]
    return found[0] if found else NO_TOPIC_ID


def by_topic(cluster: SimulatedKafka) -> list[tuple[str, list[SimulatedPartition]]]:
    """All topics with their partitions, in the order of names and numbers."""
    ordered = sorted(cluster.partitions.values(), key=lambda partition: partition.name)
    return [
        (name, list(group)) for name, group in groupby(ordered, key=lambda partition: partition.name.topic)
    ]


def offline_replicas(cluster: SimulatedKafka, partition: SimulatedPartition) -> list[int]:
    """Replicas on fenced brokers or broken disks."""
    return [
        broker
        for broker in partition.replicas
        if cluster.brokers[broker].fenced
        or not cluster.brokers[broker].log_dirs[partition.held[broker].log_dir].online
    ]


def outcome(action: Callable[[], object]) -> dict[str, object]:
    """Carry something out; its error code and message as most answers carry them.

    Raises
    ------
    KafkaRefusal
        Only NOT_CONTROLLER: such requests wait in a broker until there is a controller again.
    """
    try:
        action()
    except KafkaRefusal as refusal:
        if refusal.code is ErrorCode.NOT_CONTROLLER:
            raise
        return {"error_code": int(refusal.code), "error_message": refusal.message}
    return {"error_code": 0, "error_message": None}


def grouped(names: Iterable[PartitionName]) -> list[tuple[str, list[PartitionName]]]:
    """Partitions by topic."""
    return [(topic, list(group)) for topic, group in groupby(sorted(names), key=lambda name: name.topic)]
