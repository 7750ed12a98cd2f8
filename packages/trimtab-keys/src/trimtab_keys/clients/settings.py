"""Settings of producers and consumers that use routing tables, and of partitioners that use a topic's load.

Settings of a client that would break the order are rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from trimtab_common.errors import SettingsError
from trimtab_keys.core.order import OrderingConfig
from trimtab_keys.format import EVERY_SECONDS, LONGEST_SECONDS


@dataclass(frozen=True, slots=True)
class RoutingConfig:
    """Where routing tables are, and how a client follows them.

    Attributes
    ----------
    connection
        Keyword arguments of kafka-python's clients (`bootstrap_servers`, security), for a second connection
        that reads tables and offsets.
    tables_topic
        The compacted topic of tables and heartbeats; it has one partition for each.
    table_file
        A file instead of a topic; it is read again when it changes.
    base
        Number of partitions by which the hash divides before a table is read. None: the topic's current
        number.
    start_seconds
        Time that a producer waits for its first table before it starts with the plain hash.
    read_seconds
        Interval of reading the file, and of requesting the state of the topic. The requests are rarer if all
        processes together would send more than 500 a second.
    retry_seconds
        Time after which an abandoned change of tables is tried again.
    heartbeat_interval_seconds
        Interval of heartbeats, at most 20. If all processes together would write more than 50 a second, the
        interval is longer, up to 20 s.
    ordering
        Time-outs of the order guard; `switch_seconds` is the longest time that a send waits for a change.

    Raises
    ------
    SettingsError
        If a time is not above 0, heartbeats are too rare, or both a topic and a file are set.
    """

    connection: Mapping[str, object]
    tables_topic: str | None = None
    table_file: Path | None = None
    base: int | None = None
    start_seconds: float = 5.0
    read_seconds: float = 2.0
    retry_seconds: float = 30.0
    heartbeat_interval_seconds: float = EVERY_SECONDS
    ordering: OrderingConfig = field(default_factory=OrderingConfig)

    def __post_init__(self) -> None:
        for name in ("start_seconds", "read_seconds", "retry_seconds", "heartbeat_interval_seconds"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0):
                raise SettingsError(f"RoutingConfig.{name} is {value!r}, expected seconds above 0")
        if self.heartbeat_interval_seconds > LONGEST_SECONDS:
            raise SettingsError(
                f"RoutingConfig.heartbeat_interval_seconds is {self.heartbeat_interval_seconds:g}, expected "
                f"{LONGEST_SECONDS:g} at most: "
                "trimtab apply waits for a process that was killed until five heartbeats are missing"
            )
        if self.base is not None and self.base < 1:
            raise SettingsError(f"RoutingConfig.base is {self.base}, expected 1 partition or more")
        if self.tables_topic is not None and self.table_file is not None:
            raise SettingsError(
                f"RoutingConfig: tables come from {self.tables_topic} and from {self.table_file}; name one "
                "place"
            )


@dataclass(frozen=True, slots=True)
class LoadConfig:
    """Load that a partitioner uses: of which topic, how it is read, and how many partitions may be added.

    Attributes
    ----------
    connection
        Keyword arguments of kafka-python's clients (`bootstrap_servers`, security), for a second connection.
    topic
        The topic.
    group
        The consumer group whose committed offsets determine the backlog.
    capacity_per_second
        Records per second that the group can process of one partition. None: measured while records wait.
    interval_seconds
        Interval of reading offsets. Each reading is a metadata request, a request to every broker that leads
        partitions of the topic, and a request to the group's coordinator.
    rate_seconds
        Time constant of the smoothing of arrival rates.
    commit_seconds
        The longest time between two commits of a healthy consumer. Records count as waiting if a commit shows
        it, or if no commit comes in this time.
    start_seconds
        Time limit of the first reading.
    base
        Number of partitions by which the hash divides. None: the topic's number at the first reading. Set it
        once partitions were added, so that restarted producers divide by the same number.
    max_partitions
        Number of partitions up to which a policy may have partitions added; 0: never.
    add_seconds
        Minimum time between two added partitions, by any producer.

    Raises
    ------
    SettingsError
        If a value is out of range, or a name is empty.
    """

    connection: Mapping[str, object]
    topic: str
    group: str
    capacity_per_second: float | None = None
    interval_seconds: float = 0.25
    rate_seconds: float = 5.0
    commit_seconds: float = 5.0
    start_seconds: float = 10.0
    base: int | None = None
    max_partitions: int = 0
    add_seconds: float = 60.0

    def __post_init__(self) -> None:
        for name in ("topic", "group"):
            if not getattr(self, name):
                raise SettingsError(f"LoadSettings.{name} is empty, expected a name")
        for name in (
            "capacity_per_second", "interval_seconds", "rate_seconds", "commit_seconds", "start_seconds",
            "add_seconds",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and value > 0):
                unit = "records a second" if name == "capacity_per_second" else "seconds"
                raise SettingsError(f"LoadSettings.{name} is {value!r}, expected {unit} above 0")
        if self.base is not None and self.base < 1:
            raise SettingsError(f"LoadSettings.base is {self.base}, expected 1 partition or more")
        if self.max_partitions < 0:
            raise SettingsError(
                f"LoadSettings.max_partitions is {self.max_partitions}, expected 0 (never add) or more"
            )


def check_producer_config(
    acks: object,
    idempotent: object,
    delivery_ms: float,
    transaction: object,
    partitioner: str | None,
    following: RoutingConfig,
) -> None:
    """Reject settings of a producer that would break the order.

    Parameters
    ----------
    acks, idempotent, delivery_ms
        Values of the client's settings.
    transaction
        Its `transactional_id`; None without transactions.
    partitioner
        The name of a partitioner that does not place keys by the Java client's murmur2; else None.
    following
        Where routing tables are.

    Raises
    ------
    SettingsError
        With the setting, its value and the expected value.
    """
    if transaction is not None:
        raise SettingsError(
            f"transactional_id is {transaction!r}, expected none: consumers would wait gap_seconds for the "
            "records that an aborted transaction took back; leave it out, or send this topic's records in "
            "transactions by the client's own producer and publish no routing table for it"
        )
    if partitioner is not None:
        raise SettingsError(
            f"partitioner is {partitioner}, expected murmur2_random with confluent-kafka and the client's "
            "default with kafka-python and aiokafka: this producer places keys by the Java client's murmur2, "
            "so nearly all keys would change their partition at once and overtake older records; set it "
            "for a new topic, or once consumers have read all that was sent by the other partitioner"
        )
    if acks not in ("all", -1, "-1"):
        raise SettingsError(f"acks is {acks!r}, expected 'all': what only a leader has may be lost with it")
    if idempotent in (False, None, "false"):
        raise SettingsError(
            "idempotence is off, expected on: a batch that is appended twice would stand behind itself"
        )
    limit = following.ordering.delivery_seconds
    if delivery_ms > limit * 1000:
        raise SettingsError(
            f"the delivery time-out is {delivery_ms / 1000:g} s, expected {limit:g} s (delivery_seconds) or "
            "less: a record that comes later would be taken for lost; lower it, or raise that"
        )


def check_consumer_config(auto_commit: object, reset: object) -> None:
    """Reject settings of a consumer that would lose records or commit records that had no effect yet.

    Raises
    ------
    SettingsError
        With the setting, its value and the expected value.
    """
    if auto_commit not in (False, "false"):
        raise SettingsError("auto-commit is on, expected off: what is committed must have taken effect")
    if reset not in ("earliest", "smallest", "beginning"):
        raise SettingsError(
            f"auto.offset.reset is {reset!r}, expected 'earliest': records written to a new partition before "
            "the consumer learns of it would be skipped silently"
        )
