"""Brokers of a cluster and the replicas they should hold, as any of them tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from trimtab.observe.collect.sampler import RequestError
from trimtab.systems.kafka.requests import RequestSender, RequestTimeout, check

OFFLINE = -1
"""The leader that Kafka gives for a partition that has none."""


@dataclass(frozen=True)
class KafkaBroker:
    """A registered broker."""

    id: int
    host: str
    rack: str | None
    fenced: bool


class KafkaPartition(NamedTuple):
    """One partition as the controller's metadata has it; ids of brokers in Kafka's order."""

    topic: str
    number: int
    leader: int
    replicas: list[int]
    in_sync: list[int]


@dataclass(frozen=True)
class KafkaPlacement:
    """Cluster metadata at one moment.

    Attributes
    ----------
    brokers
        In order of id.
    moving
        (adding, removing) of every partition whose reassignment is in flight, by (topic, partition).
    problems
        What could not be learned, one sentence each.
    """

    cluster_id: str
    brokers: tuple[KafkaBroker, ...]
    partitions: list[KafkaPartition]
    moving: dict[tuple[str, int], tuple[list[int], list[int]]]
    problems: tuple[str, ...] = ()

    def led_by(self) -> dict[int, dict[str, list[int]]]:
        """Partition numbers by topic, by the broker that leads them."""
        led: dict[int, dict[str, list[int]]] = {}
        for partition in self.partitions:
            led.setdefault(partition.leader, {}).setdefault(partition.topic, []).append(partition.number)
        led.pop(OFFLINE, None)
        return led

    def unregistered(self) -> list[int]:
        """Ids that hold replicas although no such broker is registered any more."""
        named = {broker for partition in self.partitions for broker in partition.replicas}
        return sorted(named - {broker.id for broker in self.brokers})


def read_placement(sender: RequestSender, timeout_seconds: float) -> KafkaPlacement:
    """Ask for brokers, topics and reassignments.

    Raises
    ------
    Unanswered
        If no broker tells the brokers and topics; without the reassignments we go on, and say so.
    """
    from kafka.protocol.metadata import MetadataRequest

    response = sender.request(
        MetadataRequest(topics=None, allow_auto_topic_creation=False), None, timeout_seconds
    )
    problems = []
    try:
        brokers = _brokers(sender, timeout_seconds)
    except RequestTimeout:
        raise
    except RequestError as error:
        # Kafka before 2.8: its metadata names the living brokers only.
        problems.append(f"brokers that are fenced are not known: {error}")
        brokers = [KafkaBroker(one.node_id, one.host, one.rack, fenced=False) for one in response.brokers]
    partitions = [
        KafkaPartition(
            topic.name, part.partition_index, part.leader_id, list(part.replica_nodes), list(part.isr_nodes)
        )
        for topic in response.topics
        # A topic that is being deleted, or that we may not see.
        if topic.error_code == 0
        for part in topic.partitions
    ]
    partitions.sort(key=lambda partition: partition[:2])
    moving = {}
    try:
        moving = _moving(sender, timeout_seconds)
    except RequestError as error:
        problems.append(f"reassignments in flight are not known: {error}")
    ordered = tuple(sorted(brokers, key=lambda broker: broker.id))
    return KafkaPlacement(response.cluster_id or "unnamed", ordered, partitions, moving, tuple(problems))


def _brokers(sender: RequestSender, timeout_seconds: float) -> list[KafkaBroker]:
    from kafka.protocol.admin import DescribeClusterRequest

    described = sender.request(DescribeClusterRequest(include_fenced_brokers=True), None, timeout_seconds)
    check(described.error_code)
    return [KafkaBroker(one.broker_id, one.host, one.rack, bool(one.is_fenced)) for one in described.brokers]


def _moving(sender: RequestSender, timeout_seconds: float) -> dict[Any, Any]:
    from kafka.protocol.admin import ListPartitionReassignmentsRequest

    request = ListPartitionReassignmentsRequest(timeout_ms=int(timeout_seconds * 1000), topics=None)
    # Any broker of a KRaft cluster hands this on to the controller.
    response = sender.request(request, None, timeout_seconds)
    check(response.error_code)
    return {
        (topic.name, part.partition_index): (list(part.adding_replicas), list(part.removing_replicas))
        for topic in response.topics
        for part in topic.partitions
    }
