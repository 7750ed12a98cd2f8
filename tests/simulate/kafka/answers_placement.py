"""Answers about where partitions are: reassignments, elections, moves between log dirs."""

from functools import partial

from kafka.protocol import admin

from simulate.kafka.answers import Asked, Handler, Message, grouped, outcome


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


HANDLERS: dict[Message, Handler] = {
    admin.AlterPartitionReassignmentsRequest: alter_reassignments,
    admin.ListPartitionReassignmentsRequest: list_reassignments,
    admin.ElectLeadersRequest: elect_leaders,
    admin.AlterReplicaLogDirsRequest: alter_replica_log_dirs,
}
