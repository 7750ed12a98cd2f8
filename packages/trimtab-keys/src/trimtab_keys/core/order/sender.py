"""The producer's side of the order guard: which table it follows, and what it writes into each record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trimtab_keys.core.hashes import MAX_CACHED_KEY_BYTES, MAX_CACHED_KEYS, Hashes
from trimtab_keys.core.order.messages import (
    PLAIN,
    Fence,
    FillGap,
    Flush,
    OrderingConfig,
    ReadEnds,
    SenderOrder,
    Stamp,
)
from trimtab_keys.core.policies import Chance
from trimtab_keys.core.routing import Route, RoutingTable, group_count

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
