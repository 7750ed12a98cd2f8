"""Brokers that answer as a test says, in kafka-python's own response classes."""

from collections.abc import Callable, Mapping
from typing import Any

from kafka.protocol.admin import DescribeLogDirsResponse, ListGroupsResponse
from kafka.protocol.consumer import ListOffsetsResponse, OffsetFetchResponse

from trimtab.observe.collect.sampler import RequestError

Answer = Callable[[Any], Any]


class FakeAsker:
    """Answers requests by the name of their class; what is not given is not answered."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []

    def request(self, request: Any, broker: int | None, timeout_seconds: float) -> Any:
        name = type(request).__name__
        self.asked.append(name)
        if name not in self.answers:
            raise RequestError("no answer in time")
        return self.answers[name](request)


def log_dirs(*results: tuple[str, int, dict[str, dict[int, int]]], error_code: int = 0) -> Answer:
    """Log dirs as (path, error code, size by topic and partition)."""
    row = DescribeLogDirsResponse.DescribeLogDirsResult
    topic_row = row.DescribeLogDirsTopic
    return lambda _: DescribeLogDirsResponse(
        throttle_time_ms=0,
        error_code=error_code,
        results=[
            row(
                error_code=code,
                log_dir=path,
                topics=[
                    topic_row(
                        name=topic,
                        partitions=[
                            topic_row.DescribeLogDirsPartition(
                                partition_index=number, partition_size=size, offset_lag=0, is_future_key=False
                            )
                            for number, size in sizes.items()
                        ],
                    )
                    for topic, sizes in topics.items()
                ],
                total_bytes=1000,
                usable_bytes=400,
                is_cordoned=path.endswith("cordoned"),
            )
            for path, code, topics in results
        ],
    )


def offsets(errors: Mapping[int, int] | None = None) -> Answer:
    """The end is 100 times the partition's number plus 50, the start that number; or an error code."""

    def answer(request: Any) -> Any:
        row = ListOffsetsResponse.ListOffsetsTopicResponse
        return ListOffsetsResponse(
            throttle_time_ms=0,
            topics=[
                row(
                    name=topic.name,
                    partitions=[
                        row.ListOffsetsPartitionResponse(
                            partition_index=wanted.partition_index,
                            error_code=(errors or {}).get(wanted.partition_index, 0),
                            offset=wanted.partition_index
                            + (99 * wanted.partition_index + 50 if wanted.timestamp == -1 else 0),
                        )
                        for wanted in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )

    return answer


def groups(names: list[str], error_code: int = 0) -> Answer:
    """Groups that this broker coordinates."""
    return lambda _: ListGroupsResponse(
        throttle_time_ms=0,
        error_code=error_code,
        groups=[
            ListGroupsResponse.ListedGroup(
                group_id=name, protocol_type="consumer", group_state="Stable", group_type="classic"
            )
            for name in names
        ],
    )


def committed(by_group: Mapping[str, Mapping[int, int]], errors: Mapping[str, int] | None = None) -> Answer:
    """Offsets of topic t by group and partition; -1 is none."""
    row = OffsetFetchResponse.OffsetFetchResponseGroup
    topic_row = row.OffsetFetchResponseTopics
    return lambda _: OffsetFetchResponse(
        throttle_time_ms=0,
        groups=[
            row(
                group_id=name,
                error_code=(errors or {}).get(name, 0),
                topics=[
                    topic_row(
                        name="t",
                        partitions=[
                            topic_row.OffsetFetchResponsePartitions(
                                partition_index=number, committed_offset=offset, metadata="", error_code=0
                            )
                            for number, offset in found.items()
                        ],
                    )
                ],
            )
            for name, found in by_group.items()
        ],
    )
