"""Settings of producers and consumers that follow routing tables, and of partitioners that go by load.

A configuration of the client itself that would break order is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from trimtab_common.errors import SettingsError
from trimtab_keys.core.order.messages import OrderingConfig
from trimtab_keys.format.heartbeat import EVERY_SECONDS, LONGEST_SECONDS


@dataclass(frozen=True, slots=True)
class RoutingConfig:
    """Where routing tables are, and how they are followed.

    Attributes
    ----------
    connection
        Keyword arguments of kafka-python's clients (`bootstrap_servers`, security): of a connection beside
        that of the application, over which tables are read and offsets are asked for.
    tables_topic
        The compacted topic that tables are published to, and heartbeats told on; it has a partition for each.
    table_file
        A file instead, read again when it changes.
    base
        Partitions that the hash divides by while no table was read; None for those that the topic has then.
    start_seconds
        A producer waits so long for its first table before it begins by the plain hash.
    read_seconds
        Time between two looks at a file, and at what the topic is; the latter come less often where more than
        500 processes a second would ask.
    retry_seconds
        A change to a table that was given up is tried again after so long.
    heartbeat_interval_seconds
        Time between two heartbeats, 20 at most. Where all processes would write more than 50 a second, each
        waits longer, up to 20 s.
    ordering
        Time-outs of the order guard; `switch_seconds` is the longest that a send waits for a change.

    Raises
    ------
    SettingsError
        If a time is not above 0, heartbeats are too rare, or both places are given.
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
    """Whose load a partitioner goes by, how it is read, and how far a topic may grow.

    Attributes
    ----------
    connection
        Keyword arguments of kafka-python's clients (`bootstrap_servers`, security), for a connection beside
        that of the application.
    topic
        The topic.
    group
        The consumer group whose committed offsets tell what waits.
    capacity_per_second
        Records a second that the group can do of one partition; None: it is measured while records wait.
    interval_seconds
        Time between two readings of offsets: each is a metadata request, a request to every broker that leads
        partitions of the topic, and one to the group's coordinator.
    rate_seconds
        Time constant over which arrival rates are smoothed.
    commit_seconds
        The longest time between two commits of a healthy consumer; records count as waiting when a commit
        says so, or when none comes for so long.
    start_seconds
        The first reading must succeed within this time.
    base
        Partitions that the hash divides by; None for those that the topic has at the first reading. Give it
        once partitions were added, so that a producer that starts anew divides by the same number.
    max_partitions
        A policy may have partitions added to the topic up to this number; 0: never.
    add_seconds
        Time from an added partition, by whichever producer, to the next.

    Raises
    ------
    SettingsError
        If a value is out of its range, or a name is empty.
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
    """Refuse settings of a producer under which the protocol promises nothing.

    Parameters
    ----------
    acks, idempotent, delivery_ms
        As the client has them.
    transaction
        Its `transactional_id`; None for a producer without transactions.
    partitioner
        Of a client that places keys by another hash than the Java client's murmur2: its name.
    following
        Where tables are.

    Raises
    ------
    SettingsError
        With the setting, what it is and what it must be.
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
    """Refuse settings of a consumer under which records are lost, or commits say too much.

    Raises
    ------
    SettingsError
        With the setting, what it is and what it must be.
    """
    if auto_commit not in (False, "false"):
        raise SettingsError("auto-commit is on, expected off: what is committed must have taken effect")
    if reset not in ("earliest", "smallest", "beginning"):
        raise SettingsError(
            f"auto.offset.reset is {reset!r}, expected 'earliest': records written to a new partition before "
            "the consumer learns of it would be skipped silently"
        )
