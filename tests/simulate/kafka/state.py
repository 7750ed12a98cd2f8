"""The parts of the simulated Kafka cluster, and the error codes it answers with."""

import uuid
from collections.abc import Iterable, Mapping
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
