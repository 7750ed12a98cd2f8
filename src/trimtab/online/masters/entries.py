"""What is chosen in the slots of a group's log. Tuples: they are written by position."""

from __future__ import annotations

from typing import NamedTuple

Nonce = tuple[int, int]
"""Life of a process (a number that no other life of the node has), and a count within it."""


class NoOp(NamedTuple):
    """A slot that was left empty."""


class MessageRecord(NamedTuple):
    """A message of a producer; its sequence is one more than that of the producer's last in the topic."""

    topic: str
    producer: str
    sequence: int
    payload: bytes


class AppendMessages(NamedTuple):
    """A batch of messages, from whoever may write by the fence; void under any other fence."""

    fence: int
    records: tuple[MessageRecord, ...]


class SyncOffsets(NamedTuple):
    """Offsets of consumers, each (consumer, topic, next offset); fenced as messages are."""

    fence: int
    offsets: tuple[tuple[str, str, int], ...]


class ClaimMastership(NamedTuple):
    """A node wants to be master, or stay it; void unless the mastership last changed in slot `expected`."""

    node: int
    nonce: Nonce
    expected: int


class TransferMastership(NamedTuple):
    """The current master hands over; void unless the mastership last changed in slot `expected`.

    `ready` is the nonce under which the preferred node noted when it was ready.
    """

    current_master: int
    preferred: int
    expected: int
    scheme: int
    ready: Nonce


class AcquireToken(NamedTuple):
    """A node wants the token of the cluster, for a transfer; with group -1 it gives it back."""

    node: int
    group: int
    nonce: Nonce
    expected: int


class PublishMap(NamedTuple):
    """A map for all nodes, in the log of the token; void unless `expected` is the version published there.

    `preferred` names a node for each group, -1 for whoever likes; `version` is higher than `expected`, which
    is 0 where nothing is published.
    """

    expected: int
    version: int
    preferred: tuple[int, ...]


class ChangeClaims(NamedTuple):
    """Programs that publish maps say so, in the log of the token: texts that come, and texts that go."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


Change = PublishMap | ChangeClaims
"""Of what is published in the log of the token."""
Entry = NoOp | AppendMessages | SyncOffsets | ClaimMastership | TransferMastership | AcquireToken | Change


def counts_once(entry: Entry) -> bool:
    """Whether an entry counts once, however often and late it is chosen: it may be proposed again.

    A token may be given back late, too: by nobody else, and no term begins with it.
    """
    if isinstance(entry, AcquireToken):
        return entry.group < 0
    return isinstance(entry, AppendMessages | SyncOffsets | Change)
