"""Answers about the cluster, its partitions and quorum, and about offsets and consumer groups."""

from kafka.protocol import admin, consumer, metadata

from simulate.kafka.answers import (
    LEADER_NOT_AVAILABLE,
    RECORD_BYTES,
    Asked,
    Handler,
    Message,
    by_topic,
    grouped,
    offline_replicas,
    topic_id,
)
from simulate.kafka.state import ErrorCode, PartitionName, SimulatedPartition

CONTROLLER_NODE = 100
"""Node id of the dedicated controller, which is no broker."""


def describe_metadata(asked: Asked, request: Message) -> Message:
    """Unfenced brokers, and the topics asked for (None: all)."""
    response = metadata.MetadataResponse
    topics = dict(by_topic(asked.cluster))
    known_ids = {topic_id(asked.cluster, name): name for name in topics}
    wanted = (
        topics
        if request.topics is None
        else [t.name or known_ids.get(t.topic_id, "") for t in request.topics]
    )
    return response(
        brokers=[
            response.MetadataResponseBroker(node_id=broker.id, rack=broker.rack, **asked.address(broker.id))
            for broker in asked.cluster.brokers.values()
            if not broker.fenced
        ],
        cluster_id=asked.cluster.cluster_id,
        controller_id=asked.coordinator,
        topics=[
            response.MetadataResponseTopic(
                error_code=0 if name in topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                name=name,
                topic_id=topic_id(asked.cluster, name),
                is_internal=name.startswith("__"),
                authorized_operations=asked.cluster.rights,
                partitions=[
                    response.MetadataResponseTopic.MetadataResponsePartition(**_placement(asked, partition))
                    for partition in topics.get(name, ())
                ],
            )
            for name in wanted
        ],
    )


def describe_topic_partitions(asked: Asked, request: Message) -> Message:
    """Topics asked for (none: all), all partitions on one page."""
    response = admin.DescribeTopicPartitionsResponse
    row = response.DescribeTopicPartitionsResponseTopic
    topics = dict(by_topic(asked.cluster))
    return response(
        topics=[
            row(
                error_code=0 if name in topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                name=name,
                topic_id=topic_id(asked.cluster, name),
                partitions=[
                    row.DescribeTopicPartitionsResponsePartition(**_placement(asked, partition))
                    for partition in topics.get(name, ())
                ],
            )
            for name in ([topic.name for topic in request.topics] or topics)
        ]
    )


def describe_cluster(asked: Asked, request: Message) -> Message:
    """All brokers, the fenced ones too where they are asked for."""
    response = admin.DescribeClusterResponse
    return response(
        cluster_id=asked.cluster.cluster_id,
        controller_id=asked.coordinator,
        authorized_operations=asked.cluster.rights,
        brokers=[
            response.DescribeClusterBroker(
                broker_id=broker.id, rack=broker.rack, is_fenced=broker.fenced, **asked.address(broker.id)
            )
            for broker in asked.cluster.brokers.values()
            if request.include_fenced_brokers or not broker.fenced
        ],
    )


def describe_quorum(asked: Asked, request: Message) -> Message:
    """The dedicated controller leads; nobody does while it restarts."""
    response = admin.DescribeQuorumResponse
    partition = response.TopicData.PartitionData(
        partition_index=0,
        leader_id=CONTROLLER_NODE if asked.cluster.controller.available else -1,
        leader_epoch=1,
        high_watermark=1,
        current_voters=[response.TopicData.PartitionData.ReplicaState(replica_id=CONTROLLER_NODE)],
        observers=[
            response.TopicData.PartitionData.ReplicaState(replica_id=broker)
            for broker in asked.cluster.brokers
        ],
    )
    return response(
        topics=[response.TopicData(topic_name="__cluster_metadata", partitions=[partition])], nodes=[]
    )


def describe_log_dirs(asked: Asked, request: Message) -> Message:
    """The log dirs of the broker asked, with the replicas asked for (None: all)."""
    response = admin.DescribeLogDirsResponse
    row = response.DescribeLogDirsResult
    cluster = asked.cluster
    wanted = None if request.topics is None else {t.topic: set(t.partitions or ()) for t in request.topics}
    results = []
    for path, directory in cluster.brokers[asked.broker].log_dirs.items():
        topics = []
        for name, partitions in by_topic(cluster) if directory.online else ():
            if wanted is not None and name not in wanted:
                continue
            chosen = [
                p for p in partitions if not wanted or not wanted[name] or p.name.number in wanted[name]
            ]
            replicas = [found for p in chosen for found in _replicas_in(asked.broker, path, p)]
            if replicas:
                topics.append(row.DescribeLogDirsTopic(name=name, partitions=replicas))
        results.append(
            row(
                error_code=0 if directory.online else ErrorCode.KAFKA_STORAGE_ERROR,
                log_dir=path,
                topics=topics,
                total_bytes=int(directory.total_bytes),
                usable_bytes=int(
                    max(0.0, directory.total_bytes - cluster.disks.used_bytes(asked.broker, path))
                ),
                is_cordoned=directory.cordoned,
            )
        )
    return response(results=results)


def _placement(asked: Asked, partition: SimulatedPartition) -> dict[str, object]:
    return {
        "error_code": 0 if partition.leader is not None else LEADER_NOT_AVAILABLE,
        "partition_index": partition.name.number,
        "leader_id": -1 if partition.leader is None else partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": list(partition.replicas),
        "isr_nodes": list(partition.in_sync),
        "offline_replicas": offline_replicas(asked.cluster, partition),
    }


def _replicas_in(broker: int, path: str, partition: SimulatedPartition) -> list[Message]:
    row = admin.DescribeLogDirsResponse.DescribeLogDirsResult.DescribeLogDirsTopic.DescribeLogDirsPartition
    replica = partition.held.get(broker)
    if replica is None:
        return []
    whole = partition.bytes_on(broker)
    held = {replica.log_dir: (whole, partition.size_bytes - whole, False)}
    if replica.future_dir is not None:
        held[replica.future_dir] = (replica.future_bytes, whole - replica.future_bytes, True)
    if path not in held:
        return []
    size, behind, is_future = held[path]
    return [
        row(
            partition_index=partition.name.number,
            partition_size=int(size),
            offset_lag=int(max(0.0, behind) // RECORD_BYTES),
            is_future_key=is_future,
        )
    ]


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
    metadata.MetadataRequest: describe_metadata,
    admin.DescribeTopicPartitionsRequest: describe_topic_partitions,
    admin.DescribeClusterRequest: describe_cluster,
    admin.DescribeQuorumRequest: describe_quorum,
    admin.DescribeLogDirsRequest: describe_log_dirs,
    consumer.ListOffsetsRequest: list_offsets,
    metadata.FindCoordinatorRequest: find_coordinator,
    admin.ListGroupsRequest: list_groups,
    admin.DescribeGroupsRequest: describe_groups,
    consumer.OffsetFetchRequest: fetch_offsets,
}
