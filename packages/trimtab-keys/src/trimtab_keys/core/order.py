"""The order of each key while it changes partitions: messages, the sender's side and the receiver's side.

A sender stamps records with the version of its routing table. A receiver holds records of a moved key back
until it has passed the fences of the earlier partitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import NamedTuple

from trimtab_common.errors import SettingsError
from trimtab_keys.core.policies import Chance
from trimtab_keys.core.routing import (
    MAX_CACHED_KEY_BYTES,
    MAX_CACHED_KEYS,
    Hashes,
    Route,
    RoutingTable,
    group_count,
)


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


Name = int | bytes
"""A key group, or a key that a table names or named."""


@dataclass(slots=True)
class KeyLineage:
    """What a key or a group brings along since its route began.

    Attributes
    ----------
    stamp
        Of its next record, but for the sequence.
    partitions
        Of its route.
    sequence
        Of its last record, if it is split.
    turn
        Which of the partitions that one went to.
    """

    stamp: Stamp
    partitions: tuple[int, ...]
    sequence: int = 0
    turn: int = 0


class OrderedSender:
    """The tables that one run of a producer follows, one after the other.

    Everything that it has not been told by a table goes where the plain hash puts it, without a stamp.

    Parameters
    ----------
    base
        Partitions that the hash divides by.
    settings
        Time-outs.

    Attributes
    ----------
    table
        The one that it follows; version 0 is the plain hash.
    gave_up
        How often a change of tables took too long.
    plain
        Partitions of keys that were met and go without a stamp, until the next change of routes: most records
        need no more than this. Forgotten as hashes are, see `Hashes`.
    """

    def __init__(self, base: int, settings: OrderingConfig | None = None) -> None:
        self.settings = OrderingConfig() if settings is None else settings
        self.table = RoutingTable(0, base, base)
        self.gave_up = 0
        self.plain: dict[bytes, int] = {}
        self._groups, self._hashes = group_count(base), Hashes()
        self._trails: dict[Name, KeyLineage] = {}
        self._next: RoutingTable | None = None
        self._later: RoutingTable | None = None
        self._changing: dict[Name, tuple[int, ...]] = {}
        self._since = 0.0

    def group(self, key: bytes) -> int:
        """The key group of a key."""
        return self._hashes[key] % self._groups

    def place(self, key: bytes, chance: Chance) -> tuple[int, Stamp] | None:
        """Partition and stamp of a key's next record; None where it must wait for the change of tables.

        The runs of a split key go to its partitions in turn, from any of them on: equal parts are what the
        plan balanced.
        """
        known = self.plain.get(key)
        if known is not None:
            return known, PLAIN
        name: Name = key
        trail = self._trails.get(key)
        if trail is None and key not in self.table.keys:
            name = self._hashes[key] % self._groups
            trail = self._trails.get(name)
        if self._changing and (key in self._changing or name in self._changing):
            return None
        if trail is None:
            place, stamp = self.table.route(self.group(key), key).partitions[0], PLAIN
            self._remember(key, place)
        elif len(trail.partitions) == 1:
            place, stamp = trail.partitions[0], trail.stamp
        else:
            if trail.sequence % self.settings.run_records == 0:
                count = len(trail.partitions)
                trail.turn = (trail.turn + 1) % count if trail.sequence else int(chance() * count)
            trail.sequence += 1
            place = trail.partitions[trail.turn]
            stamp = Stamp(trail.stamp.epoch, trail.stamp.fence, trail.sequence)
        return place, stamp

    def _remember(self, key: bytes, place: int) -> None:
        if len(key) <= MAX_CACHED_KEY_BYTES:
            if len(self.plain) >= MAX_CACHED_KEYS:
                self.plain.clear()
            self.plain[key] = place

    def adopt_table(self, table: RoutingTable, now: float) -> list[SenderOrder]:
        """A table was read; one that is not newer than the newest seen changes nothing."""
        newest = self._later or self._next or self.table
        if table.version <= newest.version:
            return []
        if self._next is not None:
            self._later = table
            return []
        return self._begin(table, now)

    @property
    def changing(self) -> int:
        """Version of the table that it is changing to; 0 for none."""
        return 0 if self._next is None else self._next.version

    def flushed(self, version: int) -> list[SenderOrder]:
        """Nothing that was sent before the order is on its way any more."""
        if version != self.changing:
            return []
        return [
            ReadEnds(version, tuple(sorted({one for places in self._changing.values() for one in places})))
        ]

    def ends_read(self, version: int, ends: Mapping[int, int], now: float) -> list[SenderOrder]:
        """The end offsets asked for; from now on the new table holds."""
        if self._next is None or version != self._next.version:
            return []
        for name, places in self._changing.items():
            fence: Fence = tuple((place, ends[place]) for place in places)
            stamp = Stamp(self._next.version, fence)
            self._trails[name] = KeyLineage(stamp, self._route(self._next, name).partitions)
        self._adopt(self._next)
        later, self._later = self._later, None
        return [] if later is None else self._begin(later, now)

    def failed(self, key: bytes, stamp: Stamp) -> list[SenderOrder]:
        """A record was given up: in a stream its place must be filled, or all after it would wait."""
        if not stamp.sequence:
            return []
        return [FillGap(key, stamp, self.table.route(self.group(key), key).partitions)]

    def ticked(self, now: float) -> list[SenderOrder]:
        """Time has passed; a change that takes too long is given up: nothing was sent by the new table."""
        if self._next is not None and now - self._since >= self.settings.switch_seconds:
            self._next, self._later = None, None
            self._changing.clear()
            self.gave_up += 1
        return []

    def _begin(self, table: RoutingTable, now: float) -> list[SenderOrder]:
        self._next, self._since = table, now
        self._changing = dict(self._changes(table))
        if self._changing:
            self.plain.clear()
            return [Flush(table.version)]
        self._adopt(table)
        return []

    def _adopt(self, table: RoutingTable) -> None:
        for name, trail in list(self._trails.items()):
            if name not in self._changing:
                self._pass(table.passed, name, trail)
        self.table, self._next = table, None
        self._changing.clear()

    def _pass(self, passed: tuple[int, ...], name: Name, lineage: KeyLineage) -> None:
        """Drop of a fence what had taken effect when the table was published.

        That the route names no earlier places any more would not do: who took them out may have looked
        before this run began, or when it was taken for dead, and knew nothing of what its fence waits for.
        """
        fence = tuple(
            (place, offset)
            for place, offset in lineage.stamp.fence
            if place >= len(passed) or passed[place] < offset
        )
        if not fence and len(lineage.partitions) == 1:
            del self._trails[name]
        elif fence != lineage.stamp.fence:
            lineage.stamp = lineage.stamp._replace(fence=fence)

    def _changes(self, table: RoutingTable) -> Iterator[tuple[Name, tuple[int, ...]]]:
        """Groups and keys that go elsewhere, each with all the partitions in which older records may wait."""
        names: set[Name] = {*self.table.groups, *table.groups, *self.table.keys, *table.keys, *self._trails}
        fresh = self.table.version == 0
        for name in sorted(names, key=lambda one: (isinstance(one, bytes), one)):
            old, new = self._route(self.table, name), self._route(table, name)
            split, trail = len(new.partitions) > 1, self._trails.get(name)
            # A key named for the first time went with its group so far, and waits for what that waits for.
            first = False
            if isinstance(name, bytes) and trail is None and name not in self.table.keys:
                first, trail = True, self._trails.get(self.group(name))
            if (
                old.partitions == new.partitions
                and not (fresh and (new.earlier or split))
                and not (first and trail)
            ):
                continue
            waiting = {
                *old.partitions,
                *new.earlier,
                *((place for place, _ in trail.stamp.fence) if trail else ()),
            }
            if fresh and split:
                # A run of this producer before may have written there, and its sequences are not ours.
                waiting.update(new.partitions)
            yield name, tuple(sorted(waiting))

    def _route(self, table: RoutingTable, name: Name) -> Route:
        if isinstance(name, bytes):
            return table.route(self.group(name), name)
        return table.group_route(name)


class HeldRecord(NamedTuple):
    """A record that waits: where it lies, and since when it is here."""

    partition: int
    offset: int
    record: OrderedRecord
    since: float


@dataclass(slots=True)
class PartitionState:
    """A partition that is ours.

    Attributes
    ----------
    position
        The next offset that will be received.
    committed
        What was ordered to be committed.
    unfinished, finished
        Offsets received, in their order, and those of them that are done with.
    behind
        Records that wait at or behind a fence, by key group.
    fenced
        Records that wait at a fence, by stream; they keep their order by their sequence.
    full_since
        When it was last found to hold as many records as may wait; None where it does not.
    """

    position: int
    committed: int
    unfinished: deque[int] = field(default_factory=deque)
    finished: set[int] = field(default_factory=set)
    behind: dict[int, deque[HeldRecord]] = field(default_factory=dict)
    fenced: dict[Stream, deque[HeldRecord]] = field(default_factory=dict)
    full_since: float | None = None


class OrderedReceiver:
    """The partitions that one consumer has, the records in them that are not done, and why they wait.

    All of it is found again in the log, the commits and the marks by whoever takes a partition over.

    Attributes
    ----------
    lanes
        By partition.
    """

    def __init__(self, settings: OrderingConfig | None = None) -> None:
        self.settings = OrderingConfig() if settings is None else settings
        self.lanes: dict[int, PartitionState] = {}
        self._passed: dict[int, int] = {}
        self._marks: dict[Stream, int] = {}
        self._early: dict[Stream, dict[int, HeldRecord]] = {}
        self._searched: dict[Stream, float] = {}
        self._records: dict[tuple[int, int], OrderedRecord] = {}
        self._probed: dict[int, set[tuple[int, int]]] = {}
        self._probed_at: dict[int, float] = {}
        self._forgiven: set[tuple[int, int, int]] = set()

    @property
    def held(self) -> int:
        """Records received that may not take effect yet."""
        held = sum(map(len, self._early.values()))
        for lane in self.lanes.values():
            held += sum(map(len, lane.behind.values())) + sum(map(len, lane.fenced.values()))
        return held

    def has_capacity(self, partition: int, now: float) -> bool:
        """Whether more of a partition is to be fetched; see `OrderingConfig.held_records`."""
        lane, most = self.lanes[partition], self.settings.held_records
        waiting = len(lane.unfinished) - len(lane.finished)
        if waiting <= (most - 1 if lane.full_since is None else most // 2):
            lane.full_since = None
            return True
        if lane.full_since is None:
            lane.full_since = now
        overdue = now - lane.full_since >= self.settings.gap_seconds
        if overdue:
            lane.full_since = now
        return overdue

    def waits_for(self, stream: Stream) -> bool:
        """Whether records of a stream are held until those before them have taken effect."""
        return stream in self._early

    @property
    def waits_at_fence(self) -> bool:
        """Whether a record waits until others' commits have passed its fence."""
        return any(lane.behind or lane.fenced for lane in self.lanes.values())

    @property
    def may_commit(self) -> bool:
        """Whether something is done that was not ordered to be committed."""
        return any(self.done_below(one) > lane.committed for one, lane in self.lanes.items())

    def done_below(self, partition: int) -> int:
        """The offset below which everything of a partition has taken effect."""
        lane = self.lanes[partition]
        while lane.unfinished and lane.unfinished[0] in lane.finished:
            lane.finished.discard(lane.unfinished.popleft())
        return lane.unfinished[0] if lane.unfinished else lane.position

    def assigned(self, partition: int, position: int) -> list[ReceiverOrder]:
        """A partition is ours from now on, to be received from what is committed, or from its beginning."""
        self.lanes[partition] = PartitionState(position, position)
        # Who waits for this partition knows it by its commits: it must have one, though nothing comes.
        return [CommitOffset(partition, position)]

    def revoked(self, partition: int) -> None:
        """A partition is another's; all of its records are forgotten."""
        self.lanes.pop(partition, None)
        for place in [one for one in self._records if one[0] == partition]:
            del self._records[place]
        for stream in list(self._early):
            left = {
                number: held for number, held in self._early[stream].items() if held.partition != partition
            }
            self._early[stream] = left
            if not left:
                del self._early[stream]

    def arrived(self, partition: int, offset: int, record: OrderedRecord, now: float) -> list[ReceiverOrder]:
        """A record was received; offsets ascend, with gaps where a log has no records."""
        lane = self.lanes.get(partition)
        if lane is None or offset < lane.position:
            return []
        lane.position = offset + 1
        lane.unfinished.append(offset)
        held = HeldRecord(partition, offset, record, now)
        stamp = record.stamp
        if stamp.sequence:
            if self._passes(held):
                return self._in_turn(held)
            lane.fenced.setdefault(record.stream, deque()).append(held)
            return []
        queue = lane.behind.get(record.group)
        if queue is not None:
            queue.append(held)
            return []
        if stamp.fence and not self._passes(held):
            lane.behind[record.group] = deque([held])
            return []
        return self._release(held)

    def positioned(self, partition: int, position: int) -> None:
        """Up to there the log has no more records: markers of transactions, or what was compacted away."""
        lane = self.lanes.get(partition)
        if lane is not None:
            lane.position = max(lane.position, position)

    def applied(self, partition: int, offset: int) -> list[ReceiverOrder]:
        """A released record has taken effect, or had done so before."""
        record = self._records.pop((partition, offset), None)
        if record is None:
            return []
        self.lanes[partition].finished.add(offset)
        if not record.stamp.sequence:
            return []
        return self.marked(record.stream, record.stamp.sequence)

    def marked(self, stream: Stream, sequence: int) -> list[ReceiverOrder]:
        """Everything of a stream up to a sequence has taken effect, somewhere."""
        before = self._marks.get(stream, 0)
        mark = self._marks[stream] = max(sequence, before)
        early = self._early.get(stream)
        if early is None:
            return []
        orders: list[ReceiverOrder] = []
        # A mark mostly grows by one: all that waits need not be gone through for it.
        grown = range(before + 1, mark + 1)
        for number in [
            one for one in (grown if len(grown) < len(early) else early) if one in grown and one in early
        ]:
            orders += self._drop(early.pop(number))
        if mark + 1 in early:
            orders += self._release(early.pop(mark + 1))
        if not early:
            del self._early[stream]
            self._searched.pop(stream, None)
        return orders

    def passed(self, partition: int, offset: int) -> list[ReceiverOrder]:
        """Everything below an offset of a partition has taken effect: it is committed."""
        if offset <= self._passed.get(partition, 0):
            return []
        self._passed[partition] = offset
        return self._freed()

    def ticked(self, now: float) -> list[ReceiverOrder]:
        """Time has passed: what is done is committed, and what has waited too long is looked after."""
        orders: list[ReceiverOrder] = []
        for partition, lane in self.lanes.items():
            low = self.done_below(partition)
            if low > lane.committed:
                lane.committed = low
                orders.append(CommitOffset(partition, low))
        for stream, early in self._early.items():
            # Another consumer may have done what is waited for: nobody tells us its marks.
            orders.append(ReadCheckpoint(stream))
            first, last = self._marks.get(stream, 0) + 1, min(early) - 1
            since = max(early[last + 1].since, self._searched.get(stream, 0.0))
            if now - since >= self.settings.gap_seconds:
                self._searched[stream] = now
                orders.append(SearchStream(stream, first, last))
        return orders + self._overdue(now)

    def searched(self, stream: Stream, first: int, found: int | None, last: int) -> list[ReceiverOrder]:
        """The lowest sequence found of those searched for; what is nowhere is skipped."""
        upto = last if found is None else found - 1
        if upto < first or self._marks.get(stream) != first - 1:
            return []
        return [SkipSequence(stream, first, upto)]

    def probed(self, partition: int, committed: int, end: int) -> list[ReceiverOrder]:
        """A partition's end: who waited for more than there is, and than was committed, waits no longer."""
        waiting = self._probed.pop(partition, set())
        if committed < end:
            return []
        self._forgiven.update((place, offset, partition) for place, offset in waiting)
        return self._freed()

    def _passes(self, held: HeldRecord) -> bool:
        fence: Fence = held.record.stamp.fence
        for partition, offset in fence:
            if (
                self._passed.get(partition, 0) < offset
                and (held.partition, held.offset, partition) not in self._forgiven
            ):
                return False
        return True

    def _release(self, held: HeldRecord) -> list[ReceiverOrder]:
        self._records[held.partition, held.offset] = held.record
        return [ReleaseRecord(held.partition, held.offset)]

    def _drop(self, held: HeldRecord) -> list[ReceiverOrder]:
        self.lanes[held.partition].finished.add(held.offset)
        return [DropRecord(held.partition, held.offset)]

    def _in_turn(self, held: HeldRecord) -> list[ReceiverOrder]:
        """A record of a stream that is behind no fence: now, when its turn comes, or never again."""
        stream, sequence = held.record.stream, held.record.stamp.sequence
        mark = self._marks.get(stream)
        if mark is not None and sequence <= mark:
            return self._drop(held)
        if mark is not None and sequence == mark + 1:
            return self._release(held)
        early = self._early.setdefault(stream, {})
        twin = early.get(sequence)
        if twin is not None:
            # The same record twice: either will do, and the first is here already.
            return self._drop(held)
        early[sequence] = held
        return [] if mark is not None else [ReadCheckpoint(stream)]

    def _freed(self) -> list[ReceiverOrder]:
        orders: list[ReceiverOrder] = []
        for lane in self.lanes.values():
            for group, queue in list(lane.behind.items()):
                while queue and self._passes(queue[0]):
                    orders += self._release(queue.popleft())
                if not queue:
                    del lane.behind[group]
            for stream, waiting in list(lane.fenced.items()):
                while waiting and self._passes(waiting[0]):
                    orders += self._in_turn(waiting.popleft())
                if not waiting:
                    del lane.fenced[stream]
        return orders

    def _overdue(self, now: float) -> list[ReceiverOrder]:
        """Probes for records that wait at a fence for too long; the answer excuses only what waits now.

        A partition may only lag: it is probed again after as long a wait, or its consumers would be asked
        at each tick and have no time left.
        """
        found: dict[int, set[tuple[int, int]]] = {}
        for lane in self.lanes.values():
            for held in (queue[0] for queue in (*lane.behind.values(), *lane.fenced.values())):
                if now - held.since >= self.settings.fence_seconds:
                    for partition, offset in held.record.stamp.fence:
                        due = now - self._probed_at.get(partition, -inf) >= self.settings.fence_seconds
                        if due and self._passed.get(partition, 0) < offset:
                            found.setdefault(partition, set()).add((held.partition, held.offset))
        self._probed |= found
        self._probed_at |= dict.fromkeys(found, now)
        return [ProbePartition(partition) for partition in sorted(found)]
