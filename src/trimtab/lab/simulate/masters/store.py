"""A store of slots as etcd is one: every key is made once, a transaction is all or nothing, all see it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from trimtab.online.masters.bounds import entry_bytes
from trimtab.online.masters.entries import Entry
from trimtab.online.masters.messages import Snapshot
from trimtab.online.masters.slots import (
    Ask,
    Create,
    Created,
    Keep,
    Kept,
    ReadFrom,
    Seen,
    Taken,
    Told,
    Unknown,
)

REQUEST_BYTES = 1536 << 10
"""Of one transaction: etcd refuses a larger one, and always will, by an error that says nothing of slots."""


class SlotStore:
    """All logs of a cluster; it never forgets what it has said yes to.

    Attributes
    ----------
    slots
        Group to slot to entry, as far as it is not cut off.
    kept
        Group to its last snapshot.
    history
        (group, slot) to what was ever put there, cut off or not.
    """

    def __init__(self) -> None:
        self.slots: dict[int, dict[int, Entry]] = defaultdict(dict)
        self.kept: dict[int, Snapshot] = {}
        self.history: dict[tuple[int, int], Entry] = {}

    def ask(self, ask: Ask) -> tuple[list[Told], list[Told]]:
        """Do what is asked; the answer to the node that asks, and what all that watch see."""
        group, asked = ask
        if isinstance(asked, Create):
            return self._create(group, asked)
        if isinstance(asked, Keep):
            return [], self._keep(group, asked)
        assert isinstance(asked, ReadFrom)
        return [Told(group, one) for one in self.read(group, asked.slot)], []

    def _create(self, group: int, asked: Create) -> tuple[list[Told], list[Told]]:
        number, slot, entries = asked
        if sum(map(entry_bytes, entries)) > REQUEST_BYTES:
            return [Told(group, Unknown(number))], []
        slots = self.slots[group]
        wanted = range(slot, slot + len(entries))
        follows = slot - 1 in slots or (slot == 1 and group not in self.kept)
        if not follows or any(at in slots for at in wanted):
            there = [slots[at] for at in wanted if at in slots] if slot in slots else []
            return [Told(group, Taken(number, slot, tuple(there)))], []
        for at, entry in zip(wanted, entries, strict=True):
            assert (group, at) not in self.history, f"slot {at} of group {group} is filled a second time"
            slots[at] = self.history[group, at] = entry
        return [Told(group, Created(number))], [Told(group, Seen(slot, entries))]

    def _keep(self, group: int, asked: Keep) -> list[Told]:
        if group in self.kept and self.kept[group].slot >= asked.slot:
            return []
        self.kept[group] = Snapshot(asked.slot, asked.state)
        self.slots[group] = {at: entry for at, entry in self.slots[group].items() if at > asked.cut}
        return [Told(group, Kept(asked.slot))]

    def read(self, group: int, since: int) -> list[Any]:
        """What stands in the slots from there on, behind a snapshot where they are cut off."""
        found: list[Any] = []
        slots = self.slots[group]
        if since not in slots and group in self.kept and self.kept[group].slot >= since:
            found.append(self.kept[group])
            since = self.kept[group].slot + 1
        entries = list[Entry]()
        while since + len(entries) in slots:
            entries.append(slots[since + len(entries)])
        return [*found, Seen(since, tuple(entries))]

    def recovered(self, groups: int) -> dict[int, list[Any]]:
        """Group to what a node finds that starts."""
        return {group: self.read(group, 1) for group in range(-1, groups)}
