"""Dynamic configuration of brokers and topics, changed incrementally as Kafka does."""

from collections.abc import Sequence
from enum import IntEnum

from trimtab.simulate.kafka_state import ErrorCode, KafkaRefusal
from trimtab.simulate.kafka_throttles import BROKER_THROTTLES, TOPIC_THROTTLES, is_replica_list


class ResourceType(IntEnum):
    """Kafka's numbers of the resources that have dynamic configuration here."""

    TOPIC = 2
    BROKER = 4


class ConfigOperation(IntEnum):
    """What an incremental change does to a key."""

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
    """What was set, per resource; a key that was never set has Kafka's default and is not listed."""

    def __init__(self) -> None:
        self._values: dict[tuple[ResourceType, str], dict[str, str]] = {}

    def of(self, kind: ResourceType, name: str) -> dict[str, str]:
        """What was set for a resource."""
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
