"""One broker's answers about itself: log dirs, replicas, offsets of what it leads, groups it coordinates."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field

from trimtab.observe.collect.sampler import RequestError
from trimtab.observe.collect.sinks import RowBatch, RowBatchBuilder
from trimtab.systems.kafka.requests import NotAuthorized, RequestSender, check

EARLIEST, LATEST = -2, -1
"""Kafka's names for the first offset still there, and the high watermark."""

Offsets = dict[tuple[str, int], int]
Clock = Callable[[], datetime.datetime]


@dataclass(frozen=True)
class SampledLogDir:
    """One log dir as its broker reports it; sizes are None where it does not."""

    path: str
    state: str
    total_bytes: int | None
    usable_bytes: int | None
    used_bytes: int


@dataclass(frozen=True)
class KafkaBrokerSample:
    """One broker's samples at one tick.

    Attributes
    ----------
    reachable
        Whether it answered anything at all.
    log_dirs
        Empty if it did not answer, or refused to tell; a broker always has one.
    start_offsets, end_offsets
        Of the partitions it leads, by (topic, partition); what failed is left out.
    problems
        What it did not tell, and why, one sentence each.
    """

    broker: int
    sampled_at: datetime.datetime
    reachable: bool
    log_dirs: tuple[SampledLogDir, ...] = ()
    replicas: RowBatch | None = None
    start_offsets: Offsets = field(default_factory=dict)
    end_offsets: Offsets = field(default_factory=dict)
    groups: RowBatch | None = None
    problems: tuple[str, ...] = ()


def sample_broker(
    sender: RequestSender,
    broker: int,
    led: dict[str, list[int]],
    groups: bool,
    timeout_seconds: float,
    now: Clock,
) -> KafkaBrokerSample:
    """Ask one broker everything that only it knows; never raises for what it will not or cannot say.

    Parameters
    ----------
    led
        Partition numbers by topic: what it leads, as far as the metadata knows.
    groups
        Whether to read committed offsets too.
    timeout_seconds
        For each of the five requests; a broker that is silent once is not asked again.
    """
    dirs: tuple[SampledLogDir, ...] = ()
    replicas = None
    problems: list[str] = []
    try:
        dirs, replicas = _log_dirs(sender, broker, timeout_seconds, now)
    except NotAuthorized as error:
        problems.append(
            f"broker {broker} refuses to tell its log dirs ({error}): grant DESCRIBE on the cluster"
        )
    except RequestError as error:
        return KafkaBrokerSample(broker, now(), False, problems=(f"broker {broker} is unreachable: {error}",))
    sampled_at = now()
    found: dict[int, Offsets] = {LATEST: {}, EARLIEST: {}}
    committed = None
    try:
        for spec in found if led else ():
            found[spec], failed = _offsets(sender, broker, led, spec, timeout_seconds)
            if failed:
                named = "1 partition" if failed == 1 else f"{failed} partitions"
                problems.append(f"broker {broker} gives no offset for {named} it should lead")
        if groups:
            committed, refused = _committed(sender, broker, timeout_seconds, now)
            problems += [f"group {name} of broker {broker} gives no offsets: {why}" for name, why in refused]
    except RequestError as error:
        problems.append(f"broker {broker} stopped answering: {error}")
    return KafkaBrokerSample(
        broker, sampled_at, True, dirs, replicas, found[EARLIEST], found[LATEST], committed, tuple(problems)
    )


def _log_dirs(
    sender: RequestSender, broker: int, timeout_seconds: float, now: Clock
) -> tuple[tuple[SampledLogDir, ...], RowBatch]:
    from kafka.protocol.admin import DescribeLogDirsRequest

    response = sender.request(DescribeLogDirsRequest(topics=None), broker, timeout_seconds)
    check(response.error_code)
    if not response.results:
        # Before version 3 of this request a refusal has no code; a broker that runs has a log dir.
        raise NotAuthorized("it names none")
    writer = RowBatchBuilder(
        "replica",
        *("topic", "partition", "log_dir", "size_bytes", "offset_lag", "is_future"),
        broker=broker,
        sampled_at=now(),
    )
    dirs = []
    for found in response.results:
        used = 0
        for topic in found.topics:
            for part in topic.partitions:
                used += part.partition_size
                writer.add(
                    topic.name,
                    part.partition_index,
                    found.log_dir,
                    part.partition_size,
                    part.offset_lag,
                    part.is_future_key,
                )
        state = "offline" if found.error_code else "cordoned" if found.is_cordoned else "online"
        dirs.append(
            SampledLogDir(found.log_dir, state, _known(found.total_bytes), _known(found.usable_bytes), used)
        )
    return tuple(dirs), writer.batch()


def _known(value: int) -> int | None:
    return value if value >= 0 else None


def _offsets(
    sender: RequestSender, broker: int, led: dict[str, list[int]], spec: int, timeout_seconds: float
) -> tuple[Offsets, int]:
    from kafka.protocol.consumer import ListOffsetsRequest

    topic_type = ListOffsetsRequest.ListOffsetsTopic
    request = ListOffsetsRequest(
        isolation_level=0,
        topics=[
            topic_type(
                name=topic,
                partitions=[
                    topic_type.ListOffsetsPartition(partition_index=number, timestamp=spec)
                    for number in numbers
                ],
            )
            for topic, numbers in led.items()
        ],
        timeout_ms=int(timeout_seconds * 1000),
    )
    offsets, failed = {}, 0
    for topic in sender.request(request, broker, timeout_seconds).topics:
        for part in topic.partitions:
            if part.error_code == 0 and part.offset >= 0:
                offsets[topic.name, part.partition_index] = part.offset
            else:
                # The leader moved since the metadata was read: this partition's next sample will do.
                failed += 1
    return offsets, failed


def _committed(
    sender: RequestSender, broker: int, timeout_seconds: float, now: Clock
) -> tuple[RowBatch | None, list[tuple[str, str]]]:
    from kafka.protocol.admin import ListGroupsRequest
    from kafka.protocol.consumer import OffsetFetchRequest

    listed = sender.request(ListGroupsRequest(), broker, timeout_seconds)
    check(listed.error_code)
    names = sorted(group.group_id for group in listed.groups)
    if not names:
        return None, []
    group_type = OffsetFetchRequest.OffsetFetchRequestGroup
    # A broker lists the groups that it coordinates, so no coordinator has to be looked up. Version 9 names
    # the group's member, version 10 topics by id: neither is ours to give.
    request = OffsetFetchRequest(
        groups=[group_type(group_id=name, topics=None) for name in names], min_version=8, max_version=8
    )
    response = sender.request(request, broker, timeout_seconds)
    writer = RowBatchBuilder("group", "group", "topic", "partition", "committed_offset", sampled_at=now())
    refused = []
    for group in response.groups:
        try:
            check(group.error_code)
        except RequestError as error:
            refused.append((group.group_id, str(error)))
            continue
        for topic in group.topics:
            for part in topic.partitions:
                if part.error_code == 0 and part.committed_offset >= 0:
                    writer.add(group.group_id, topic.name, part.partition_index, part.committed_offset)
    return writer.batch(), refused
