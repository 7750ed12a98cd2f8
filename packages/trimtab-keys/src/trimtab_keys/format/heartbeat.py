"""Heartbeats, `trimtab/keys-heartbeat/1`: what each producer and consumer tells whoever publishes tables.

They are records of the same compacted topic as the tables, in a partition of their own, one key for each
process, so that whoever reads it finds the last of each. Only whoever publishes tables reads them; a process
that follows tables reads no other process' heartbeats. A process that ends in order deletes its own (a record
without value); of one that was killed the last stays, and counts no more once it is older than
`lasting_seconds`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from trimtab_common.documents import Count, Id, Name

FORMAT: Final = "trimtab/keys-heartbeat/1"
PARTITION: Final = 1
"""Of the topic of tables: the one that holds heartbeats."""
EVERY_SECONDS: Final = 3.0
"""Time between two heartbeats; a process that begins to follow another table tells at once."""
LONGEST_SECONDS: Final = 20.0
"""The same where many processes share the partition, and the longest that may be set."""
EXPIRY_HEARTBEATS: Final = 5
"""A process is taken for gone after so many that did not come."""


class ClientHeartbeat(msgspec.Struct, kw_only=True, forbid_unknown_fields=False):
    """What one producer or consumer of a topic tells.

    Attributes
    ----------
    process
        Name of its run: one that starts anew has another.
    role, client
        What it is, and the Kafka client that it runs on.
    topic, topic_id
        The topic that it sends to or receives from.
    at
        Seconds since 1970, by its own clock; the record's timestamp says when it was told.
    every_seconds
        Time until the next, `LONGEST_SECONDS` at most.
    version
        Of the table that it follows; 0 for the plain hash. A consumer follows what it has read.
    partitions
        How many the topic has, as it sees it.
    wrapped
        Whether it keeps order: a producer stamps its records, a consumer releases them in turn. A partitioner
        alone does not.
    plain_because
        Why it goes by the plain hash although it should follow a table; None where it should not.
    group, member
        Of a consumer: its group and its member id there, as brokers tell them; None before it has one.
    assigned
        Of a consumer: the partitions that it has.
    """

    format: str = FORMAT
    process: Name
    role: Literal["producer", "consumer"]
    client: str
    topic: Name
    topic_id: str
    at: float
    every_seconds: Annotated[float, Meta(gt=0)] = EVERY_SECONDS
    version: Count
    partitions: Count
    wrapped: bool
    plain_because: str | None = None
    group: str | None = None
    member: str | None = None
    assigned: list[Id] = []

    @property
    def lasting_seconds(self) -> float:
        """Seconds after which the heartbeat expires."""
        return EXPIRY_HEARTBEATS * self.every_seconds


def record_key(topic: str, process: str) -> bytes:
    """The key of a process' heartbeats among the records of a compacted topic."""
    return f"heartbeat/{topic}/{process}".encode()


def heartbeat_bytes(heartbeat: ClientHeartbeat) -> bytes:
    """Encode a heartbeat as JSON."""
    return msgspec.json.encode(heartbeat)


def read_heartbeat(data: bytes) -> ClientHeartbeat | None:
    """A heartbeat; None where it cannot be read: one process must not keep all others from being seen."""
    try:
        found = msgspec.json.decode(data, type=ClientHeartbeat)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if found.format == FORMAT else None
