"""Answers about dynamic configuration of brokers and topics."""

from functools import partial

from kafka.protocol import admin

from trimtab.simulate.kafka_answers import Asked, Handler, Message, outcome
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
    admin.IncrementalAlterConfigsRequest: alter_configs,
    admin.DescribeConfigsRequest: describe_configs,
}
