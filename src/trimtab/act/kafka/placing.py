"""Changes of where partitions are: reassignments, elections of leaders, moves between log dirs."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from trimtab.act.execution.failure import Failure
from trimtab.act.kafka.calls import Calls, answer_of, failure_of
from trimtab.act.port import PortError
from trimtab.act.replicas.observation import Answers, TopicPartition


class Placing:
    """Asks for them; Kafka carries them out in its own time.

    Parameters
    ----------
    calls
        The way to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._admin = calls.admin

    def reassign(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Answers:
        """See `ClusterPort.reassign`."""
        return self._alter_reassignments({p: list(replicas) for p, replicas in targets.items()})

    def cancel_reassignments(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.cancel_reassignments`."""
        return self._alter_reassignments(dict.fromkeys(partitions))

    def _alter_reassignments(self, targets: Mapping[TopicPartition, list[int] | None]) -> Answers:
        from kafka import errors
        from kafka.protocol.admin import AlterPartitionReassignmentsRequest as Request

        topics: dict[str, list[Any]] = {}
        for (topic, number), replicas in targets.items():
            part = Request.ReassignableTopic.ReassignablePartition(partition_index=number, replicas=replicas)
            topics.setdefault(topic, []).append(part)
        request = Request(
            timeout_ms=30_000,
            allow_replication_factor_change=False,
            topics=[Request.ReassignableTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )
        response = self._calls.send_to_controller(request, lambda r: [errors.for_code(r.error_code)])
        found: dict[TopicPartition, Failure | None] = {}
        for topic in response.responses:
            for part in topic.partitions:
                found[TopicPartition(topic.name, part.partition_index)] = answer_of(
                    part.error_code, part.error_message
                )
        return found

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.elect_preferred`."""
        from kafka import errors

        asked: dict[str, list[int]] = {}
        for topic, number in partitions:
            asked.setdefault(topic, []).append(number)
        response = self._calls(lambda: self._admin.elect_leaders(0, asked, raise_errors=False))
        top = errors.for_code(getattr(response, "error_code", 0))
        if top is not errors.NoError:
            raise PortError(failure_of(top, "electing preferred leaders"))
        found: dict[TopicPartition, Failure | None] = dict.fromkeys(partitions)
        for result in response.replica_election_results:
            for part in result.partition_result:
                if errors.for_code(part.error_code) is not errors.ElectionNotNeededError:
                    found[TopicPartition(result.topic, part.partition_id)] = answer_of(
                        part.error_code, part.error_message
                    )
        return found

    def move_log_dirs(self, targets: Mapping[tuple[TopicPartition, int], str]) -> Answers:
        """See `ClusterPort.move_log_dirs`."""
        from kafka import errors

        found: dict[TopicPartition, Failure | None] = {partition: None for partition, _ in targets}
        for broker in sorted({broker for _, broker in targets}):
            asked = {(p.topic, p.partition, b): path for (p, b), path in targets.items() if b == broker}
            try:
                answers = self._calls(partial(self._admin.alter_replica_log_dirs, asked))
            except PortError as failed:
                found.update({TopicPartition(topic, number): failed.failure for topic, number, _ in asked})
                continue
            for replica, error in answers.items():
                if error not in (errors.NoError, errors.ReplicaNotAvailableError):
                    partition = TopicPartition(replica.topic, replica.partition)
                    found[partition] = failure_of(error, f"log dir on broker {broker}")
        return found
