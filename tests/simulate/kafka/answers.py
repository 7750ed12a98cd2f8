"""Answers to Kafka's requests: what all of them share, and those about topics and configuration."""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from kafka.protocol import admin

from simulate.kafka.cluster import SimulatedKafka
from simulate.kafka.state import (
    BROKER_THROTTLES,
    CORDONED,
    NO_TOPIC_ID,
    NUMBERS,
    TOPIC_THROTTLES,
    WHOLE_CLUSTER,
    ConfigOperation,
    ErrorCode,
    KafkaRefusal,
    PartitionName,
    ResourceType,
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


def create_topics(asked: Asked, request: Message) -> Message:
    """New topics, by explicit assignment or spread over the unfenced brokers in turn."""
    asked.cluster.controller.require()
    response = admin.CreateTopicsResponse
    return response(
        topics=[
            response.CreatableTopicResult(
                **outcome(partial(_create, asked, topic)),  # first: it gives the topic its id
                name=topic.name,
                topic_id=topic_id(asked.cluster, topic.name),
                configs=[],
            )
            for topic in request.topics
        ]
    )


def delete_topics(asked: Asked, request: Message) -> Message:
    """Topics deleted by name."""
    asked.cluster.controller.require()
    response = admin.DeleteTopicsResponse
    return response(
        responses=[
            response.DeletableTopicResult(
                name=name,
                topic_id=topic_id(asked.cluster, name),
                **outcome(partial(asked.cluster.controller.delete_topic, name, asked.actor)),
            )
            for name in [*(topic.name for topic in request.topics or ()), *(request.topic_names or ())]
        ]
    )


def _create(asked: Asked, topic: Message) -> None:
    if topic.assignments:
        assignments = {chosen.partition_index: list(chosen.broker_ids) for chosen in topic.assignments}
    else:
        brokers = sorted(b.id for b in asked.cluster.brokers.values() if not b.fenced and not b.cordoned)
        factor = min(3, len(brokers)) if topic.replication_factor < 1 else topic.replication_factor
        if factor > len(brokers):
            raise KafkaRefusal(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {factor} time(s): {len(brokers)} broker(s) are there.",
            )
        assignments = {
            number: [brokers[(number + place) % len(brokers)] for place in range(factor)]
            for number in range(max(1, topic.num_partitions))
        }
    asked.cluster.controller.create_topic(topic.name, assignments, actor=asked.actor)
    if topic.configs:
        changes = [(entry.name, ConfigOperation.SET, entry.value) for entry in topic.configs]
        asked.cluster.controller.alter_configs(ResourceType.TOPIC, topic.name, changes, asked.actor)


DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, DEFAULT = 1, 2, 3, 5
"""The source of a configuration value, in Kafka's numbers."""

TOPIC_DEFAULTS = {
    **dict.fromkeys(TOPIC_THROTTLES, ""),
    "min.insync.replicas": "1",
    "retention.ms": "604800000",
}
BROKER_DEFAULTS = {**dict.fromkeys(BROKER_THROTTLES, str(2**63 - 1)), CORDONED: ""}
KNOWN = (*NUMBERS, CORDONED)
"""Settings of brokers whose values are shown."""


def alter_configs(asked: Asked, request: Message) -> Message:
    """Incremental changes; a broker's own configuration is changed by that broker only."""
    asked.cluster.controller.require()
    response = admin.IncrementalAlterConfigsResponse
    return response(
        responses=[
            response.AlterConfigsResourceResponse(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                **outcome(partial(_alter, asked, resource, request.validate_only)),
            )
            for resource in request.resources
        ]
    )


def describe_configs(asked: Asked, request: Message) -> Message:
    """The values that are set, and the defaults of the keys that matter here."""
    response = admin.DescribeConfigsResponse
    results = []
    for resource in request.resources:
        kind, name = ResourceType(resource.resource_type), resource.resource_name
        state = outcome(partial(_check_resource, asked, kind, name))
        entries = _entries(asked, kind, name) if state["error_code"] == 0 else {}
        results.append(
            response.DescribeConfigsResult(
                resource_type=int(kind),
                resource_name=name,
                **state,
                configs=[
                    response.DescribeConfigsResult.DescribeConfigsResourceResult(
                        name=key,
                        # What a broker does not know might be a secret, so it shows the name only.
                        value=None if kind is ResourceType.BROKER and key not in KNOWN else value,
                        read_only=False,
                        config_source=source,
                        is_sensitive=kind is ResourceType.BROKER and key not in KNOWN,
                        synonyms=[],
                    )
                    for key, (value, source) in sorted(entries.items())
                    if resource.configuration_keys is None or key in resource.configuration_keys
                ],
            )
        )
    return response(results=results)


def _alter(asked: Asked, resource: Message, validate_only: bool) -> None:
    kind, name = ResourceType(resource.resource_type), resource.resource_name
    _check_resource(asked, kind, name)
    changes = [
        (entry.name, ConfigOperation(entry.config_operation), entry.value) for entry in resource.configs
    ]
    if not validate_only:
        asked.cluster.controller.alter_configs(kind, name, changes, asked.actor)


def _check_resource(asked: Asked, kind: ResourceType, name: str) -> None:
    if kind is ResourceType.BROKER and name not in (WHOLE_CLUSTER, str(asked.broker)):
        raise KafkaRefusal(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {asked.broker}, but received {name}"
        )
    if kind is ResourceType.TOPIC and not any(known.topic == name for known in asked.cluster.partitions):
        raise KafkaRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _entries(asked: Asked, kind: ResourceType, name: str) -> dict[str, tuple[str, int]]:
    configs = asked.cluster.configs
    if kind is ResourceType.TOPIC:
        entries = {key: (value, DEFAULT) for key, value in TOPIC_DEFAULTS.items()}
        return entries | {key: (value, DYNAMIC_TOPIC) for key, value in configs.of(kind, name).items()}
    everywhere = {
        key: (value, DYNAMIC_DEFAULT_BROKER) for key, value in configs.of(kind, WHOLE_CLUSTER).items()
    }
    if name == WHOLE_CLUSTER:
        return everywhere
    entries = {key: (value, DEFAULT) for key, value in BROKER_DEFAULTS.items()}
    own = {key: (value, DYNAMIC_BROKER) for key, value in configs.of(kind, name).items()}
    return entries | everywhere | own


HANDLERS: dict[Message, Handler] = {
    admin.CreateTopicsRequest: create_topics,
    admin.DeleteTopicsRequest: delete_topics,
    admin.IncrementalAlterConfigsRequest: alter_configs,
    admin.DescribeConfigsRequest: describe_configs,
}
