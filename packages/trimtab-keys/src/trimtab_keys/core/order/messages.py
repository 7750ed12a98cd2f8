"""What senders and receivers of the order guard are told and decide, and their settings.

A stamp in the header of a record names the stream of its key and its number there.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

from trimtab_common.errors import SettingsError


@dataclass(frozen=True, slots=True)
class OrderingConfig:
    """Settings of the order guard.

    Attributes
    ----------
    switch_seconds
        A producer that cannot change to a new table within it goes on with the old one, and tries again at
        the next table.
    delivery_seconds
        After so long a client gives a record up: it will not be appended any more (`delivery.timeout.ms`).
    gap_seconds
        A record that waits so long for one before it in its stream has its producer's partitions searched;
        longer than `delivery_seconds`, or the one before it might still come.
    fence_seconds
        A record that waits so long for another partition has that one's end looked at, and again each time
        as much has passed: what was lost with a leader will not be consumed.
    held_records
        A partition of which so many records have been received and wait is fetched no further until half of
        them wait no more. After `gap_seconds` in that state it is, by one batch: memory is spared, but
        nothing may wait for ever for what was not fetched.
    run_records
        Records of a split key that go to one partition before another is chosen. From run to run the turn
        goes to another consumer, which has to hear of it: with runs of 1 a key is as fast as such news.

    Raises
    ------
    SettingsError
        If one is not above 0, or a gap is given up before a delivery.
    """

    switch_seconds: float = 5.0
    delivery_seconds: float = 120.0
    gap_seconds: float = 150.0
    fence_seconds: float = 30.0
    held_records: int = 100_000
    run_records: int = 16

    def __post_init__(self) -> None:
        for name in ("switch_seconds", "delivery_seconds", "gap_seconds", "fence_seconds"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0):
                raise SettingsError(f"OrderingConfig.{name} is {value!r}, expected seconds above 0")
        for name in ("held_records", "run_records"):
            if getattr(self, name) < 1:
                raise SettingsError(f"OrderingConfig.{name} is {getattr(self, name)}, expected 1 or more")
        if self.gap_seconds <= self.delivery_seconds:
            raise SettingsError(
                f"OrderingConfig.gap_seconds is {self.gap_seconds:g}, expected more than delivery_seconds, "
                f"{self.delivery_seconds:g}: what is given up could still arrive"
            )


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
