"""Entries that are chosen in the slots of a group's log. They are tuples, written by position."""

from __future__ import annotations

from typing import NamedTuple

Nonce = tuple[int, int]
"""Incarnation of a process (unique on its node), and a count within it."""


class NoOp(NamedTuple):
    """An empty slot."""


class MessageRecord(NamedTuple):
    """A message of a producer. Its sequence is one more than that of the producer's previous message in the
    topic.
    """

    topic: str
    producer: str
    sequence: int
    payload: bytes


class AppendMessages(NamedTuple):
    """A batch of messages from the writer of the fence; void under any other fence."""

    fence: int
    records: tuple[MessageRecord, ...]


class SyncOffsets(NamedTuple):
    """Offsets of consumers, each (consumer, topic, next offset); fenced like messages."""

    fence: int
    offsets: tuple[tuple[str, str, int], ...]


class ClaimMastership(NamedTuple):
    """Claim or renewal of a mastership; void unless the mastership last changed in slot `expected`."""

    node: int
    nonce: Nonce
    expected: int


class TransferMastership(NamedTuple):
    """Handover by the current master; void unless the mastership last changed in slot `expected`.

    `ready` is the nonce under which the preferred node recorded the time at which it was ready.
    """

    current_master: int
    preferred: int
    expected: int
    scheme: int
    ready: Nonce


class AcquireToken(NamedTuple):
    """Request of a node for the token of the cluster, for a transfer; with group -1 it returns the token."""

    node: int
    group: int
    nonce: Nonce
    expected: int


class PublishMap(NamedTuple):
    """A map for all nodes, in the log of the token; void unless `expected` is the version published there.

    `preferred` has one node per group, or -1 for any. `version` is higher than `expected`, which is 0 if no
    map is published.
    """

    expected: int
    version: int
    preferred: tuple[int, ...]


class ChangeClaims(NamedTuple):
    """Claims of programs that publish maps, in the log of the token: texts added and removed."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


Change = PublishMap | ChangeClaims
"""A change of the map or of the claims published in the log of the token."""
Entry = NoOp | AppendMessages | SyncOffsets | ClaimMastership | TransferMastership | AcquireToken | Change


def counts_once(entry: Entry) -> bool:
    """Whether an entry counts once, however often and late it is chosen: it may be proposed again.

    A token may be given back late, too: by nobody else, and no term begins with it.
    """
    if isinstance(entry, AcquireToken):
        return entry.group < 0
    return isinstance(entry, AppendMessages | SyncOffsets | Change)
