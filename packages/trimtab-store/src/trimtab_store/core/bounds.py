"""How large messages, names and entries may be, and how large they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trimtab_store.core.entries import (
    AppendMessages,
    ChangeClaims,
    Entry,
    MessageRecord,
    PublishMap,
    SyncOffsets,
)

PAYLOAD_BYTES: Final = 1 << 16
"""Of one message, at most."""
NAME_BYTES: Final = 255
"""Of a topic, a producer or a consumer, at most."""
ENTRY_BYTES: Final = 1 << 20
"""Of a batch of messages or offsets, at most: etcd takes 1.5 MiB at once, and would never take a larger
one. The same with both engines."""
CLAIM_BYTES: Final = 1 << 16
"""Of all claims together, at most."""
UNFIT: Final = "unfit"
"""The verdict on a message that no node takes, however often it is sent."""
_RECORD_BYTES: Final = 32
_OFFSET_BYTES: Final = 16


def name_bytes(name: str) -> int:
    """What a name takes."""
    return len(name) if name.isascii() else len(name.encode())


def fits(record: MessageRecord) -> bool:
    """Whether a message may be stored: neither it nor its names are too large, and numbers begin at 1."""
    return (
        isinstance(record.payload, bytes)
        and len(record.payload) <= PAYLOAD_BYTES
        and name_bytes(record.topic) <= NAME_BYTES
        and name_bytes(record.producer) <= NAME_BYTES
        and record.sequence > 0
    )


def record_bytes(record: MessageRecord) -> int:
    """What a message takes in a log, or a little more."""
    return len(record.payload) + name_bytes(record.topic) + name_bytes(record.producer) + _RECORD_BYTES


def offset_bytes(consumer: str, topic: str) -> int:
    """What a consumer's offset takes in a log, or a little more."""
    return name_bytes(consumer) + name_bytes(topic) + _OFFSET_BYTES


def claims_bytes(claims: Iterable[str]) -> int:
    """What claims take in a log, or a little more."""
    return sum(name_bytes(claim) + _OFFSET_BYTES for claim in claims)


def entry_bytes(entry: Entry) -> int:
    """What an entry takes in a log, about."""
    match entry:
        case AppendMessages(_, records):
            return sum(map(record_bytes, records))
        case SyncOffsets(_, offsets):
            return sum(offset_bytes(consumer, topic) for consumer, topic, _ in offsets)
        case PublishMap(_, _, preferred):
            return 64 + 9 * len(preferred)
        case ChangeClaims(added, removed):
            return 64 + claims_bytes(added) + claims_bytes(removed)
    return 64
