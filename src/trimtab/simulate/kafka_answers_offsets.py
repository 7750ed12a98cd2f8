"""Answers about offsets and consumer groups; every record of a simulated partition has the same size."""

from kafka.protocol import admin, consumer, metadata

from trimtab.simulate.kafka_answers import RECORD_BYTES, Asked, Handler, Message, grouped, topic_id
from trimtab.simulate.kafka_state import ErrorCode, PartitionName

EARLIEST = (-2, -4)
"""Timestamps that ask for the first offset; every other one gets the end."""


def list_offsets(asked: Asked, request: Message) -> Message:
    """First or next offset of partitions that the broker asked leads."""
    response = consumer.ListOffsetsResponse
    row = response.ListOffsetsTopicResponse
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            found = asked.cluster.partitions.get(PartitionName(topic.name, wanted.partition_index))
            code, offset = 0, -1
            if found is None:
                code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif found.leader != asked.broker:
                code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                offset = 0 if wanted.timestamp in EARLIEST else int(found.size_bytes // RECORD_BYTES)
            partitions.append(
                row.ListOffsetsPartitionResponse(
                    partition_index=wanted.partition_index,
                    error_code=code,
                    timestamp=-1,
                    offset=offset,
                    leader_epoch=0 if found is None else found.leader_epoch,
                )
            )
        topics.append(row(name=topic.name, partitions=partitions))
    return response(topics=topics)


def find_coordinator(asked: Asked, request: Message) -> Message:
    """One broker coordinates every group."""
    response = metadata.FindCoordinatorResponse
    where = {
        "node_id": asked.coordinator,
        "error_code": 0,
        "error_message": None,
        **asked.address(asked.coordinator),
    }
    keys = request.coordinator_keys or []
    return response(**where, coordinators=[response.Coordinator(key=key, **where) for key in keys])


def list_groups(asked: Asked, request: Message) -> Message:
    """The groups that the broker asked coordinates."""
    response = admin.ListGroupsResponse
    names = sorted(asked.cluster.groups) if asked.broker == asked.coordinator else []
    return response(
        error_code=0,
        groups=[
            response.ListedGroup(
                group_id=name, protocol_type="consumer", group_state="Stable", group_type="classic"
            )
            for name in names
        ],
    )


def describe_groups(asked: Asked, request: Message) -> Message:
    """Groups without their members."""
    response = admin.DescribeGroupsResponse
    return response(
        groups=[
            response.DescribedGroup(
                error_code=0,
                group_id=name,
                group_state="Stable" if name in asked.cluster.groups else "Dead",
                protocol_type="consumer",
                protocol_data="",
                members=[],
            )
            for name in request.groups
        ]
    )


def fetch_offsets(asked: Asked, request: Message) -> Message:
    """Committed offsets of the groups asked for."""
    response = consumer.OffsetFetchResponse
    row = response.OffsetFetchResponseGroup
    topic_row, partition_row = (
        row.OffsetFetchResponseTopics,
        row.OffsetFetchResponseTopics.OffsetFetchResponsePartitions,
    )
    groups = []
    for group in request.groups:
        committed = asked.cluster.groups.get(group.group_id, {})
        if group.topics is not None:
            wanted = {topic.name or topic.topic_id for topic in group.topics}
            committed = {
                name: offset
                for name, offset in committed.items()
                if name.topic in wanted or topic_id(asked.cluster, name.topic) in wanted
            }
        groups.append(
            row(
                group_id=group.group_id,
                topics=[
                    topic_row(
                        name=topic,
                        topic_id=topic_id(asked.cluster, topic),
                        partitions=[
                            partition_row(
                                partition_index=name.number,
                                committed_offset=committed[name],
                                metadata="",
                                error_code=0,
                            )
                            for name in names
                        ],
                    )
                    for topic, names in grouped(committed)
                ],
                error_code=0,
            )
        )
    return response(groups=groups)


HANDLERS: dict[Message, Handler] = {
    consumer.ListOffsetsRequest: list_offsets,
    metadata.FindCoordinatorRequest: find_coordinator,
    admin.ListGroupsRequest: list_groups,
    admin.DescribeGroupsRequest: describe_groups,
    consumer.OffsetFetchRequest: fetch_offsets,
}
