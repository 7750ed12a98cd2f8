"""Simulated producers and consumers of keyed records: records on their way, places in logs, pending acks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from simulate.keys.checker import KeysInvariantError, SimulatedEffects
from trimtab_keys.core.order import (
    OrderedReceiver,
    OrderedRecord,
    OrderedSender,
    ReadEnds,
    SearchStream,
    Stream,
)


class SimulatedLogEntry(NamedTuple):
    """A record on its way or in a log; without a record it is a marker, as transactions write them."""

    record: OrderedRecord | None
    number: int
    sent: int = 0
    since: float = 0.0


@dataclass(slots=True)
class SimulatedKeyProducer:
    """One run of a producer, with what is on its way to each partition, and the runs before it."""

    name: str
    sender: OrderedSender
    to_send: deque[bytes]
    flying: list[deque[SimulatedLogEntry]]
    numbers: dict[bytes, int] = field(default_factory=dict)
    sent: int = 0
    before: tuple[str, ...] = ()
    flush: tuple[int, int] | None = None
    ends: ReadEnds | None = None


@dataclass(slots=True)
class SimulatedKeyConsumer:
    """A consumer, with the records that it keeps, and those of them that it may let take effect."""

    receiver: OrderedReceiver
    ready: deque[tuple[int, int]] = field(default_factory=deque)
    retained: set[tuple[int, int]] = field(default_factory=set)


class SequencePositions:
    """Where sequences lie, as far as logs have been gone through for that."""

    def __init__(self, partitions: int) -> None:
        self._places: dict[Stream, dict[int, list[tuple[int, int]]]] = {}
        self._indexed = [0] * partitions

    def found(
        self, search: SearchStream, logs: Sequence[Sequence[SimulatedLogEntry]], begins: Sequence[int]
    ) -> int | None:
        """The lowest sequence of those searched for that lies where logs are read; None for none."""
        for partition, log in enumerate(logs):
            for offset in range(self._indexed[partition], len(log)):
                record = log[offset].record
                if record is not None and record.stamp.sequence:
                    its = self._places.setdefault(record.stream, {})
                    its.setdefault(record.stamp.sequence, []).append((partition, offset))
            self._indexed[partition] = len(log)
        places = self._places.get(search.stream, {})
        for sequence in range(search.first, search.last + 1):
            if any(offset >= begins[partition] for partition, offset in places.get(sequence, ())):
                return sequence
        return None


class PendingAcks:
    """What earlier runs had acknowledged when a run began to follow a table: that takes effect first."""

    def __init__(self, *, retention: bool = False) -> None:
        self._retention = retention
        self._pending_acks: dict[str, tuple[int, dict[bytes, list[tuple[str, int]]]]] = {}
        self._followed: dict[tuple[str, bytes], int] = {}
        self._left: dict[str, int] = {}
        self._back: dict[str, int] = {}
        self._all: dict[tuple[str, bytes], list[int]] = {}
        self._known: dict[str, dict[tuple[str, bytes], int]] = {}

    def left_behind(self, name: str, version: int) -> None:
        """Whoever publishes took a run for dead; what it writes by older tables is owed to nobody."""
        self._left[name] = version

    def acknowledged(
        self, entry: SimulatedLogEntry, name: tuple[str, bytes], *, from_the_first: bool
    ) -> None:
        """A record of a run and key is in the log.

        A run without a table yet writes where the hash says; tables need not name that place any more. The
        same goes for one that was left behind.
        """
        if name[0] in self._left or entry.sent < self._back.get(name[0], 0):
            return
        run = self._pending_acks.get(name[0])
        if from_the_first or (run is not None and entry.sent >= run[0]):
            self._followed[name] = entry.number
            if self._retention:
                self._all.setdefault(name, []).append(entry.number)

    def follows(self, producer: SimulatedKeyProducer) -> None:
        """Note what is owed to a run, once it follows a table; and that one follows again."""
        left = self._left.get(producer.name)
        if left is not None and producer.sender.table.version >= left:
            del self._left[producer.name]
            self._back[producer.name] = producer.sent
        if producer.before and producer.sender.table.version and producer.name not in self._pending_acks:
            owed: dict[bytes, list[tuple[str, int]]] = {}
            for (name, key), number in self._followed.items():
                if name in producer.before:
                    owed.setdefault(key, []).append((name, number))
            self._pending_acks[producer.name] = producer.sent, owed
            if self._retention:
                self._known[producer.name] = {name: len(its) for name, its in self._all.items()}

    def check(self, entry: SimulatedLogEntry, record: OrderedRecord, effects: SimulatedEffects) -> None:
        """A record takes effect.

        Raises
        ------
        ViolationError
            If something that it has to wait for has not.
        """
        begun, owed = self._pending_acks.get(record.producer, (0, {}))
        if entry.number and entry.sent >= begun:
            # What has taken effect once has for all records that follow.
            for name, number in owed.pop(record.key, ()):
                done = effects.numbers.get((name, record.key), ())
                last = done[-1] if done else 0
                if last < number and not self._deleted(record.producer, (name, record.key), last, effects):
                    raise KeysInvariantError(
                        f"{record} took effect before number {number} of the run before, {name}"
                    )

    def _deleted(self, run: str, name: tuple[str, bytes], last: int, effects: SimulatedEffects) -> bool:
        """Whether retention deleted all that a run knew to be owed, above what took effect last."""
        if not self._retention:
            return False
        known = self._all[name][: self._known[run][name]]
        deleted = effects.deleted.get(name, ())
        return all(number in deleted for number in known if number > last)
