"""Samples of a cluster and its brokers, each request with its own time-out.

The admin client's own calls ask several brokers at once and give nothing when one of them fails, leave out
the error code that tells a refusal from an empty broker, and fetch the metadata of all topics again before
every question about offsets. So the collector sends the protocol's requests itself (`RequestSender`).
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from trimtab.observe.collect.sampler import RequestError
from trimtab.observe.collect.sinks import RowBatch, RowBatchBuilder

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

RETRY_SECONDS = 0.05


class RequestTimeout(RequestError):
    """A broker could not be reached, or gave no answer in time: another one may."""


class NotAuthorized(RequestError):
    """A broker answered that we lack the right to ask this."""


class RequestSender(Protocol):
    """Sends one request of the Kafka protocol and waits for its response."""

    def request(self, request: object, broker: int | None, timeout_seconds: float) -> Any:
        """The response of `broker`, or of the first that answers where it is None.

        Raises
        ------
        Unanswered
            If there is none within the time.
        """
        ...


class AdminRequestSender:
    """Asks through the connections of a `kafka.KafkaAdminClient`; may be called from many threads."""

    def __init__(self, admin: KafkaAdminClient) -> None:
        self._manager = admin._manager

    def request(self, request: object, broker: int | None, timeout_seconds: float) -> Any:
        """Send a request to `broker`, or to any broker if it is None."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                return self._attempt(request, broker, deadline - time.monotonic())
            except RequestTimeout:
                # The client may pick a broker that died a moment ago; its next pick is another one.
                if broker is not None or time.monotonic() + RETRY_SECONDS > deadline:
                    raise
                time.sleep(RETRY_SECONDS)

    def _attempt(self, request: object, broker: int | None, timeout_seconds: float) -> Any:
        from kafka import errors

        milliseconds = int(timeout_seconds * 1000)

        async def send() -> Any:
            manager = self._manager
            try:
                future = manager.send(request, node_id=broker, request_timeout_ms=milliseconds)
            except errors.UnknownBrokerIdError:
                # It joined after the client last looked.
                await manager.cluster.refresh_metadata()
                future = manager.send(request, node_id=broker, request_timeout_ms=milliseconds)
            # The request's own time-out does not run while its connection is being set up.
            return await manager.wait_for(future, milliseconds)

        try:
            return self._manager.run(send)
        except (errors.KafkaConnectionError, errors.NodeNotReadyError, errors.KafkaTimeoutError) as error:
            raise RequestTimeout(reason(error)) from error
        except OSError as error:
            raise RequestTimeout(error.strerror or str(error)) from error
        except errors.KafkaError as error:
            raise RequestError(reason(error)) from error
        except Exception as error:
            # Whatever the client makes of one broker's garbage, it must not cost the others' samples.
            raise RequestError(f"an answer that cannot be read ({type(error).__name__}: {error})") from error


def reason(error: BaseException) -> str:
    """A client's error in a few words, without its request and response dumps."""
    name = type(error).__name__.removesuffix("Error")
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
    return {
        "kafka connection": "no connection",
        "node not ready": "no connection",
        "kafka timeout": "no answer in time",
        "request timed out": "no answer in time",
    }.get(words, words)


def check_response(code: int) -> None:
    """Raise what an error code of a response says; 0 is none.

    Raises
    ------
    Refused
        For the codes of missing rights.
    Unanswered
        For all others.
    """
    if code == 0:
        return
    from kafka.errors import for_code

    words = reason(for_code(code)())
    raise (NotAuthorized if "authorization" in words else RequestError)(words)


OFFLINE = -1
"""The leader that Kafka gives for a partition that has none."""


@dataclass(frozen=True)
class KafkaBroker:
    """A broker that is registered with the controller."""

    id: int
    host: str
    rack: str | None
    fenced: bool


class KafkaPartition(NamedTuple):
    """One partition as the controller's metadata has it; ids of brokers in Kafka's order."""

    topic: str
    number: int
    leader: int
    replicas: list[int]
    in_sync: list[int]


@dataclass(frozen=True)
class KafkaPlacement:
    """Cluster metadata at one moment.

    Attributes
    ----------
    brokers
        In order of id.
    moving
        (adding, removing) of every partition whose reassignment is in flight, by (topic, partition).
    problems
        What could not be learned, one sentence each.
    """

    cluster_id: str
    brokers: tuple[KafkaBroker, ...]
    partitions: list[KafkaPartition]
    moving: dict[tuple[str, int], tuple[list[int], list[int]]]
    problems: tuple[str, ...] = ()

    def led_by(self) -> dict[int, dict[str, list[int]]]:
        """Partition numbers by topic, by the broker that leads them."""
        led: dict[int, dict[str, list[int]]] = {}
        for partition in self.partitions:
            led.setdefault(partition.leader, {}).setdefault(partition.topic, []).append(partition.number)
        led.pop(OFFLINE, None)
        return led

    def unregistered(self) -> list[int]:
        """Ids that hold replicas although no such broker is registered any more."""
        named = {broker for partition in self.partitions for broker in partition.replicas}
        return sorted(named - {broker.id for broker in self.brokers})


def read_placement(sender: RequestSender, timeout_seconds: float) -> KafkaPlacement:
    """Ask for brokers, topics and reassignments.

    Raises
    ------
    Unanswered
        If no broker tells the brokers and topics; without the reassignments we go on, and say so.
    """
    from kafka.protocol.metadata import MetadataRequest

    response = sender.request(
        MetadataRequest(topics=None, allow_auto_topic_creation=False), None, timeout_seconds
    )
    problems = []
    try:
        brokers = _brokers(sender, timeout_seconds)
    except RequestTimeout:
        raise
    except RequestError as error:
        # Kafka before 2.8: its metadata names the living brokers only.
        problems.append(f"brokers that are fenced are not known: {error}")
        brokers = [KafkaBroker(one.node_id, one.host, one.rack, fenced=False) for one in response.brokers]
    partitions = [
        KafkaPartition(
            topic.name, part.partition_index, part.leader_id, list(part.replica_nodes), list(part.isr_nodes)
        )
        for topic in response.topics
        # A topic that is being deleted, or that we may not see.
        if topic.error_code == 0
        for part in topic.partitions
    ]
    partitions.sort(key=lambda partition: partition[:2])
    moving = {}
    try:
        moving = _moving(sender, timeout_seconds)
    except RequestError as error:
        problems.append(f"reassignments in flight are not known: {error}")
    ordered = tuple(sorted(brokers, key=lambda broker: broker.id))
    return KafkaPlacement(response.cluster_id or "unnamed", ordered, partitions, moving, tuple(problems))


def _brokers(sender: RequestSender, timeout_seconds: float) -> list[KafkaBroker]:
    from kafka.protocol.admin import DescribeClusterRequest

    described = sender.request(DescribeClusterRequest(include_fenced_brokers=True), None, timeout_seconds)
    check_response(described.error_code)
    return [KafkaBroker(one.broker_id, one.host, one.rack, bool(one.is_fenced)) for one in described.brokers]


def _moving(sender: RequestSender, timeout_seconds: float) -> dict[Any, Any]:
    from kafka.protocol.admin import ListPartitionReassignmentsRequest

    request = ListPartitionReassignmentsRequest(timeout_ms=int(timeout_seconds * 1000), topics=None)
    # Each broker of a KRaft cluster hands this on to the controller.
    response = sender.request(request, None, timeout_seconds)
    check_response(response.error_code)
    return {
        (topic.name, part.partition_index): (list(part.adding_replicas), list(part.removing_replicas))
        for topic in response.topics
        for part in topic.partitions
    }


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
    check_response(response.error_code)
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
    check_response(listed.error_code)
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
            check_response(group.error_code)
        except RequestError as error:
            refused.append((group.group_id, str(error)))
            continue
        for topic in group.topics:
            for part in topic.partitions:
                if part.error_code == 0 and part.committed_offset >= 0:
                    writer.add(group.group_id, topic.name, part.partition_index, part.committed_offset)
    return writer.batch(), refused
