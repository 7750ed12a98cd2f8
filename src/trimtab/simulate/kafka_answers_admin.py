"""Answers to requests that change the cluster, and about what is in flight and configured."""

from functools import partial

from kafka.protocol import admin

from trimtab.simulate.kafka_answers import Asked, Handler, Message, grouped, outcome, topic_id
from trimtab.simulate.kafka_configs import NUMBERS, WHOLE_CLUSTER, ConfigOperation, ResourceType
from trimtab.simulate.kafka_state import ErrorCode, KafkaRefusal
from trimtab.simulate.kafka_throttles import BROKER_THROTTLES, TOPIC_THROTTLES

DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, DEFAULT = 1, 2, 3, 5
"""Where a configuration value comes from, in Kafka's numbers."""

TOPIC_DEFAULTS = {
    **dict.fromkeys(TOPIC_THROTTLES, ""),
    "min.insync.replicas": "1",
    "retention.ms": "604800000",
}
BROKER_DEFAULTS = dict.fromkeys(BROKER_THROTTLES, str(2**63 - 1))


def alter_reassignments(asked: Asked, request: Message) -> Message:
    """Start, replace or (no replicas) cancel; every partition has its own outcome."""
    asked.cluster.controller.require()
    response = admin.AlterPartitionReassignmentsResponse
    row = response.ReassignableTopicResponse
    return response(
        error_code=0,
        error_message=None,
        responses=[
            row(
                name=topic.name,
                partitions=[
                    row.ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        **outcome(
                            partial(
                                asked.cluster.controller.reassign,
                                topic.name,
                                partition.partition_index,
                                partition.replicas,
                                asked.actor,
                                request.allow_replication_factor_change,
                            )
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def list_reassignments(asked: Asked, request: Message) -> Message:
    """Those in flight, of all partitions or of those asked for."""
    found = asked.cluster.controller.reassignments()
    if request.topics is not None:
        wanted = {(topic.name, number) for topic in request.topics for number in topic.partition_indexes}
        found = {name: partition for name, partition in found.items() if tuple(name) in wanted}
    response = admin.ListPartitionReassignmentsResponse
    row = response.OngoingTopicReassignment
    return response(
        error_code=0,
        error_message=None,
        topics=[
            row(
                name=topic,
                partitions=[
                    row.OngoingPartitionReassignment(
                        partition_index=name.number,
                        replicas=list(found[name].replicas),
                        adding_replicas=list(found[name].adding),
                        removing_replicas=list(found[name].removing),
                    )
                    for name in names
                ],
            )
            for topic, names in grouped(found)
        ],
    )


def elect_leaders(asked: Asked, request: Message) -> Message:
    """Preferred elections; every partition has its own outcome."""
    asked.cluster.controller.require()
    if request.topic_partitions is None:
        chosen = [
            (topic, [name.number for name in names]) for topic, names in grouped(asked.cluster.partitions)
        ]
    else:
        chosen = [(topic.topic, list(topic.partitions)) for topic in request.topic_partitions]
    response = admin.ElectLeadersResponse
    row = response.ReplicaElectionResult
    return response(
        error_code=0,
        replica_election_results=[
            row(
                topic=topic,
                partition_result=[
                    row.PartitionResult(
                        partition_id=number,
                        **outcome(
                            partial(asked.cluster.controller.elect_preferred, topic, number, asked.actor)
                        ),
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in chosen
        ],
    )


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
    """What is set, and the defaults of the keys that matter here."""
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
                        value=None if kind is ResourceType.BROKER and key not in NUMBERS else value,
                        read_only=False,
                        config_source=source,
                        is_sensitive=kind is ResourceType.BROKER and key not in NUMBERS,
                        synonyms=[],
                    )
                    for key, (value, source) in sorted(entries.items())
                    if resource.configuration_keys is None or key in resource.configuration_keys
                ],
            )
        )
    return response(results=results)


def alter_replica_log_dirs(asked: Asked, request: Message) -> Message:
    """Moves between the log dirs of the broker asked."""
    outcomes: dict[str, dict[int, object]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for number in topic.partitions:
                move = partial(
                    asked.cluster.disks.move, topic.name, number, asked.broker, directory.path, asked.actor
                )
                outcomes.setdefault(topic.name, {})[number] = outcome(move)["error_code"]
    response = admin.AlterReplicaLogDirsResponse
    row = response.AlterReplicaLogDirTopicResult
    return response(
        results=[
            row(
                topic_name=topic,
                partitions=[
                    row.AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                    for number, code in codes.items()
                ],
            )
            for topic, codes in outcomes.items()
        ]
    )


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


def _create(asked: Asked, topic: Message) -> None:
    if topic.assignments:
        assignments = {chosen.partition_index: list(chosen.broker_ids) for chosen in topic.assignments}
    else:
        brokers = sorted(broker.id for broker in asked.cluster.brokers.values() if not broker.fenced)
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


HANDLERS: dict[Message, Handler] = {
    admin.AlterPartitionReassignmentsRequest: alter_reassignments,
    admin.ListPartitionReassignmentsRequest: list_reassignments,
    admin.ElectLeadersRequest: elect_leaders,
    admin.IncrementalAlterConfigsRequest: alter_configs,
    admin.DescribeConfigsRequest: describe_configs,
    admin.AlterReplicaLogDirsRequest: alter_replica_log_dirs,
    admin.CreateTopicsRequest: create_topics,
    admin.DeleteTopicsRequest: delete_topics,
}
