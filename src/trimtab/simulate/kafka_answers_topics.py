"""Answers to requests that create and delete topics."""

from functools import partial

from kafka.protocol import admin

from trimtab.simulate.kafka_answers import Asked, Handler, Message, outcome, topic_id
from trimtab.simulate.kafka_configs import ConfigOperation, ResourceType
from trimtab.simulate.kafka_state import ErrorCode, KafkaRefusal


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
    admin.CreateTopicsRequest: create_topics,
    admin.DeleteTopicsRequest: delete_topics,
}
