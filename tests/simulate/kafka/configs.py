"""Dynamic configuration of brokers and topics, changed incrementally as Kafka does."""

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum

from simulate.kafka.state import ErrorCode, KafkaRefusal

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
