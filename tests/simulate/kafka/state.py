"""The state of a simulated Kafka: brokers, partitions and configurations, shared by all its parts."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple


class ErrorCode(IntEnum):
    """Kafka's own numbers, as far as the simulated cluster answers with them."""

    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    INVALID_TOPIC_EXCEPTION = 17
    TOPIC_ALREADY_EXISTS = 36
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85


class KafkaRefusal(Exception):
    """An error that Kafka answers a request with.

    Attributes
    ----------
    code
        Kafka's error code.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message


NO_TOPIC_ID = uuid.UUID(int=0)


class PartitionName(NamedTuple):
    """A partition, as Kafka names it."""

    topic: str
    number: int


@dataclass
class SimulatedLogDir:
    """One disk of a broker."""

    path: str
    total_bytes: float
    online: bool = True
    cordoned: bool = False


@dataclass
class SimulatedBroker:
    """One broker and how far the controller knows its state.

    Attributes
    ----------
    running
        Whether the process is there at all.
    fenced
        Whether the controller holds it for dead; `fence_at` and `unfence_at` are the virtual times at which
        that changes next, None where no change is due.
    copy_bytes_per_second
        What replication can send, and also what it can receive.
    """

    id: int
    host: str
    rack: str | None
    log_dirs: dict[str, SimulatedLogDir]
    copy_bytes_per_second: float
    running: bool = True
    fenced: bool = False
    fence_at: float | None = None
    unfence_at: float | None = None

    @property
    def cordoned(self) -> bool:
        """True if every log dir is cordoned, so that new topics are not placed on it."""
        return all(log_dir.cordoned for log_dir in self.log_dirs.values())

    @property
    def active(self) -> bool:
        """True if it serves and the controller knows it."""
        return self.running and not self.fenced


@dataclass
class SimulatedReplica:
    """The part of a partition that a broker holds; `bytes` counts only while the replica is not in sync."""

    log_dir: str
    bytes: float
    future_dir: str | None = None
    future_bytes: float = 0.0


@dataclass
class SimulatedPartition:
    """A partition as the controller records it, with the bytes on the brokers.

    Attributes
    ----------
    replicas
        Kafka's list: while a reassignment is in flight, the target first and then what is to be removed.
    adding, removing
        Both empty where no reassignment is in flight.
    topic_id
        The same for all partitions of a topic, another when the topic is created anew.
    """

    name: PartitionName
    replicas: list[int]
    leader: int | None
    in_sync: list[int]
    size_bytes: float
    growth_bytes_per_second: float = 0.0
    topic_id: uuid.UUID = NO_TOPIC_ID
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)
    held: dict[int, SimulatedReplica] = field(default_factory=dict)
    leader_epoch: int = 0

    @property
    def reassigning(self) -> bool:
        """True while a reassignment is in flight."""
        return bool(self.adding or self.removing)

    @property
    def settled_replicas(self) -> list[int]:
        """The list that the reassignment in flight leads to (the list itself where there is none)."""
        return [broker for broker in self.replicas if broker not in self.removing]

    def bytes_on(self, broker: int) -> float:
        """The bytes of the partition that this broker holds."""
        return self.size_bytes if broker in self.in_sync else self.held[broker].bytes

    def drop_replicas(self, brokers: Iterable[int]) -> None:
        """Throw away what these brokers hold."""
        for broker in brokers:
            self.held.pop(broker, None)


def known_partition(
    partitions: Mapping[PartitionName, SimulatedPartition], topic: str, number: int
) -> SimulatedPartition:
    """A partition by name.

    Raises
    ------
    KafkaRefusal
        UNKNOWN_TOPIC_OR_PARTITION where there is none.
    """
    found = partitions.get(PartitionName(topic, number))
    if found is None:
        raise KafkaRefusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a partition named {topic}-{number}."
        )
    return found


LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
CORDONED = "cordoned.log.dirs"

BROKER_THROTTLES = (LEADER_RATE, FOLLOWER_RATE)
TOPIC_THROTTLES = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


class ResourceType(IntEnum):
    """Kafka's numbers of the resources that have dynamic configuration here."""

    TOPIC = 2
    BROKER = 4


class ConfigOperation(IntEnum):
    """The effect of an incremental change on a key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


Change = tuple[str, ConfigOperation, str | None]
"""Key, operation, value."""

WHOLE_CLUSTER = ""
"""Name of the broker resource that holds the defaults of all brokers."""

NUMBERS = (*BROKER_THROTTLES, "replica.alter.log.dirs.io.max.bytes.per.second", "min.insync.replicas")
TOPIC_KEYS = (
    *TOPIC_THROTTLES,
    "min.insync.replicas",
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "compression.type",
    "cleanup.policy",
    "max.message.bytes",
)


class ConfigStore:
    """Values that were set, per resource; a key that was never set has Kafka's default, and is not in it."""

    def __init__(self) -> None:
        self._values: dict[tuple[ResourceType, str], dict[str, str]] = {}

    def of(self, kind: ResourceType, name: str) -> dict[str, str]:
        """The values that were set for a resource."""
        return self._values.get((kind, name), {})

    def forget(self, kind: ResourceType, name: str) -> None:
        """Drop everything of a resource that was deleted."""
        self._values.pop((kind, name), None)

    def alter(self, kind: ResourceType, name: str, changes: Sequence[Change]) -> None:
        """Apply all changes, or none.

        Raises
        ------
        KafkaRefusal
            INVALID_CONFIG for an unknown topic key or a malformed value.
        """
        values = dict(self.of(kind, name))
        for key, operation, value in changes:
            if kind is ResourceType.TOPIC and key not in TOPIC_KEYS:
                raise KafkaRefusal(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {key}")
            if operation is ConfigOperation.DELETE:
                values.pop(key, None)
                continue
            values[key] = _checked(key, _combined(values.get(key, ""), operation, value or ""))
        self._values[kind, name] = values

    def items(self) -> list[tuple[tuple[ResourceType, str], dict[str, str]]]:
        """The values of every resource, by its kind and name."""
        return sorted(self._values.items())

    def throttles(self) -> dict[tuple[str, str], dict[str, str]]:
        """Every throttle that is set anywhere, by (resource type, name); empty in a clean cluster."""
        keys = {*BROKER_THROTTLES, *TOPIC_THROTTLES}
        found = {}
        for (kind, name), values in self._values.items():
            left = {key: value for key, value in values.items() if key in keys and value != ""}
            if left:
                found[kind.name.lower(), name] = left
        return found


def _combined(present: str, operation: ConfigOperation, value: str) -> str:
    if operation is ConfigOperation.SET:
        return value
    held = [item for item in present.split(",") if item]
    given = [item for item in value.split(",") if item]
    if operation is ConfigOperation.APPEND:
        return ",".join([*held, *(item for item in given if item not in held)])
    return ",".join(item for item in held if item not in given)


def _checked(key: str, value: str) -> str:
    if key in NUMBERS and not value.isdigit():
        raise KafkaRefusal(
            ErrorCode.INVALID_CONFIG,
            f"Invalid value {value} for configuration {key}: Not a number of type LONG",
        )
    if key in TOPIC_THROTTLES and not is_replica_list(value):
        raise KafkaRefusal(
            ErrorCode.INVALID_CONFIG,
            f"Invalid value {value} for configuration {key}: [partitionId]:[brokerId],... or *",
        )
    return value


def lists_replica(value: str | None, partition: int, broker: int) -> bool:
    """True if a topic's list of throttled replicas (`p:b,p:b` or `*`) names this one."""
    if not value:
        return False
    return value.strip() == "*" or f"{partition}:{broker}" in value.split(",")


def is_replica_list(value: str) -> bool:
    """True if Kafka would accept this value as a list of throttled replicas."""
    if value.strip() in ("", "*"):
        return True
    pairs = [pair.split(":") for pair in value.split(",")]
    return all(len(pair) == 2 and all(part.strip().isdigit() for part in pair) for pair in pairs)


class QuotaMeter:
    """Bytes that passed one broker in one direction, in samples of one second.

    Kafka's replication throttle is a rate measured over a window of samples, not a steady tap. A sensor lets
    bytes pass while (bytes in the window) / (seconds of the window) is within the limit. A fresh sensor
    counts its window as full, so about (samples - 1) seconds' worth pass at once, and then nothing until that
    burst leaves the window: 60 MB at 5 MB/s with 11 samples take 12 s, at 20 MB/s no time at all.

    Parameters
    ----------
    samples
        `replication.quota.window.num` of the brokers.
    """

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self._bytes: dict[int, float] = {}

    def allowance(self, now: float, bytes_per_second: float) -> float:
        """Bytes that may still pass at this instant under a limit."""
        self._forget(now)
        elapsed = now - min(self._bytes, default=math.floor(now))
        window = elapsed + max(0, self.samples - 1 - math.floor(elapsed))
        return max(0.0, bytes_per_second * window - sum(self._bytes.values()))

    def record(self, now: float, passed: float) -> None:
        """Count bytes that passed during the second that `now` lies in."""
        second = math.floor(now)
        self._bytes[second] = self._bytes.get(second, 0.0) + passed

    def _forget(self, now: float) -> None:
        self._bytes = {
            second: passed for second, passed in self._bytes.items() if now - second < self.samples
        }


def rate_limit(own: Mapping[str, str], default: Mapping[str, str], key: str) -> float:
    """Bytes per second from a broker's own configuration, else the cluster's default, else infinite."""
    value = own.get(key, default.get(key))
    return math.inf if value is None else float(value)


@dataclass(frozen=True)
class Happening:
    """Something that was done to the cluster, for checkers to judge afterwards.

    Attributes
    ----------
    at
        Virtual seconds.
    actor
        Who did it: the client id of a request, or `cluster` for what the cluster does by itself.
    verb
        `reassign`, `cancel`, `finish`, `elect`, `configure`, `move_log_dir`, `kill_broker`, ...
    subject
        A partition, broker, topic or config resource.
    """

    at: float
    actor: str
    verb: str
    subject: object
    detail: tuple[object, ...] = ()


class History:
    """One cluster's clock and record, shared by all parts of the cluster.

    Attributes
    ----------
    now
        Virtual seconds since the beginning.
    happenings
        In order.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.happenings: list[Happening] = []

    def note(self, actor: str, verb: str, subject: object, detail: tuple[object, ...] = ()) -> None:
        """Record what happens now."""
        self.happenings.append(Happening(self.now, actor, verb, subject, detail))


@dataclass
class ClusterState:
    """Everything that the parts of one cluster share.

    Attributes
    ----------
    brokers, partitions
        By id, and by name.
    configs, history
        Dynamic configuration; clock and record.
    """

    cluster_id: str
    brokers: dict[int, SimulatedBroker]
    partitions: dict[PartitionName, SimulatedPartition] = field(default_factory=dict)
    configs: ConfigStore = field(default_factory=ConfigStore)
    history: History = field(default_factory=History)
