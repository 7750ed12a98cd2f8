"""What the order guard's two sides say: stamps of records, and orders to whoever carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Stream = tuple[str, bytes, int]
"""Producer, key and epoch: sequences count within it."""
Fence = tuple[tuple[int, int], ...]
"""Partitions, each with the offset below which everything must have taken effect first."""


class Stamp(NamedTuple):
    """What a producer writes into a record's headers: nothing for keys that stay where the hash puts them.

    Attributes
    ----------
    epoch
        Version of the table with which the key's route began; 0 for none.
    fence
        What must have taken effect before this record may.
    sequence
        Place in its stream, from 1 on; 0 where the key is not split.
    """

    epoch: int = 0
    fence: Fence = ()
    sequence: int = 0


PLAIN = Stamp()


class OrderedRecord(NamedTuple):
    """A record as a consumer receives it.

    Attributes
    ----------
    producer
        Name of one run of a producer: one that starts anew has another.
    key, group
        The key and its key group.
    stamp
        As written.
    """

    producer: str
    key: bytes
    group: int
    stamp: Stamp

    @property
    def stream(self) -> Stream:
        """What its sequence counts in."""
        return self.producer, self.key, self.stamp.epoch


# -- orders to a producer


@dataclass(frozen=True, slots=True)
class Flush:
    """Wait until every record that was sent is acknowledged or has failed, then say `flushed`.

    Attributes
    ----------
    version
        Of the table that is meant; it comes back with the answer: one to an older question counts no more.
    """

    version: int


@dataclass(frozen=True, slots=True)
class ReadEnds:
    """Read the end offsets of these partitions, then say `ends_read`."""

    version: int
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FillGap:
    """Send a record without content in the place of one that failed, to any of these partitions."""

    key: bytes
    stamp: Stamp
    partitions: tuple[int, ...]


# -- orders to a consumer


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """Let the record take effect, after those released before it, then say `applied`."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class DropRecord:
    """Forget the record: it has taken effect, here or elsewhere, by this copy or by another."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class CommitOffset:
    """Commit this offset: everything below has taken effect."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class ReadCheckpoint:
    """Read the stream's mark where effects are kept, then say `marked`."""

    stream: Stream


@dataclass(frozen=True, slots=True)
class SearchStream:
    """Look for a stream's records `first` to `last` in all that is not committed, then say `searched`."""

    stream: Stream
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class SkipSequence:
    """Set a stream's mark to `last` if it is `first` - 1, then say `marked`: what is between is nowhere."""

    stream: Stream
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ProbePartition:
    """Read a partition's end and what is committed of it, then say `probed`: a record waits too long."""

    partition: int


SenderOrder = Flush | ReadEnds | FillGap
ReceiverOrder = (
    ReleaseRecord | DropRecord | CommitOffset | ReadCheckpoint | SearchStream | SkipSequence | ProbePartition
)
