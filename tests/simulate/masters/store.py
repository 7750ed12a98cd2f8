"""A store of slots as etcd is one: every key is made once, a transaction is all or nothing, all see it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from trimtab_store.core.messages import (
    AppendConflict,
    AppendTimeout,
    CreateEntries,
    EntriesCreated,
    EntriesRead,
    Entry,
    GroupSnapshot,
    ReadEntries,
    SnapshotStored,
    StoreEvent,
    StoreRequest,
    StoreSnapshot,
    entry_bytes,
)

REQUEST_BYTES = 1536 << 10
"""Of one transaction: etcd refuses a larger one, and always will, by an error that says nothing of slots."""


class SimulatedLogStore:
    """All logs of a cluster; it never forgets what it has said yes to.

    Attributes
    ----------
    slots
        Group to slot to entry, as far as it is not cut off.
    stored
        Group to its last snapshot.
    history
        (group, slot) to what was ever put there, cut off or not.
    """

    def __init__(self) -> None:
        self.slots: dict[int, dict[int, Entry]] = defaultdict(dict)
        self.stored: dict[int, GroupSnapshot] = {}
        self.history: dict[tuple[int, int], Entry] = {}

    def request(self, request: StoreRequest) -> tuple[list[StoreEvent], list[StoreEvent]]:
        """Do what is asked; the answer to the node that asks, and what all that watch see."""
        group, asked = request
        if isinstance(asked, CreateEntries):
            return self._create(group, asked)
        if isinstance(asked, StoreSnapshot):
            return [], self._keep(group, asked)
        assert isinstance(asked, ReadEntries)
        return [StoreEvent(group, one) for one in self.read(group, asked.slot)], []

    def _create(self, group: int, request: CreateEntries) -> tuple[list[StoreEvent], list[StoreEvent]]:
        number, slot, entries = request
        if sum(map(entry_bytes, entries)) > REQUEST_BYTES:
            return [StoreEvent(group, AppendTimeout(number))], []
        slots = self.slots[group]
        wanted = range(slot, slot + len(entries))
        follows = slot - 1 in slots or (slot == 1 and group not in self.stored)
        if not follows or any(at in slots for at in wanted):
            there = [slots[at] for at in wanted if at in slots] if slot in slots else []
            return [StoreEvent(group, AppendConflict(number, slot, tuple(there)))], []
        for at, entry in zip(wanted, entries, strict=True):
            assert (group, at) not in self.history, f"slot {at} of group {group} is filled a second time"
            slots[at] = self.history[group, at] = entry
        return [StoreEvent(group, EntriesCreated(number))], [StoreEvent(group, EntriesRead(slot, entries))]

    def _keep(self, group: int, request: StoreSnapshot) -> list[StoreEvent]:
        if group in self.stored and self.stored[group].slot >= request.slot:
            return []
        self.stored[group] = GroupSnapshot(request.slot, request.state)
        self.slots[group] = {at: entry for at, entry in self.slots[group].items() if at > request.cut}
        return [StoreEvent(group, SnapshotStored(request.slot))]

    def read(self, group: int, since: int) -> list[Any]:
        """What stands in the slots from there on, behind a snapshot where they are cut off."""
        found: list[Any] = []
        slots = self.slots[group]
        if since not in slots and group in self.stored and self.stored[group].slot >= since:
            found.append(self.stored[group])
            since = self.stored[group].slot + 1
        entries = list[Entry]()
        while since + len(entries) in slots:
            entries.append(slots[since + len(entries)])
        return [*found, EntriesRead(since, tuple(entries))]

    def recovered(self, groups: int) -> dict[int, list[Any]]:
        """Group to what a node finds that starts."""
        return {group: self.read(group, 1) for group in range(-1, groups)}
