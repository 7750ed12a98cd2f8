"""A second, plain account of what a group's log means, for checkers to compare with."""

from __future__ import annotations

from trimtab_store.core.entries import (
    AppendMessages,
    ClaimMastership,
    Entry,
    MessageRecord,
    TransferMastership,
)
from trimtab_store.core.settings import TransferScheme


class GroupModel:
    """What a log makes of a group, written a second time and plainly: who may write, and what is there."""

    def __init__(self) -> None:
        self._waiting: dict[int, Entry] = {}
        self._next = 1
        self._version, self._writer = 0, (-1, 0)
        self._last: dict[tuple[str, str], int] = {}
        self.master = self.pending = -1
        self.fence = 0
        self.topics: dict[str, list[MessageRecord]] = {}

    @property
    def slot(self) -> int:
        """The last slot that was worked off."""
        return self._next - 1

    def chosen(self, slot: int, entry: Entry) -> None:
        """A slot's value is known; it is worked off when all before it are."""
        if slot >= self._next:
            self._waiting[slot] = entry
        while self._next in self._waiting:
            self._work_off(self._next, self._waiting.pop(self._next))
            self._next += 1

    def _work_off(self, slot: int, entry: Entry) -> None:
        if isinstance(entry, ClaimMastership) and entry.expected == self._version:
            if self._writer != (entry.node, entry.nonce[0]):
                self._writer, self.fence = (entry.node, entry.nonce[0]), slot
            self.master, self.pending, self._version = entry.node, -1, slot
        elif isinstance(entry, TransferMastership):
            if entry.expected == self._version and self.pending < 0:
                self.fence = self._version = slot
                self._writer = entry.preferred, entry.ready[0]
                if entry.scheme == TransferScheme.INSTATE:
                    self.master = entry.preferred
                else:
                    self.pending = entry.preferred
        elif isinstance(entry, AppendMessages) and entry.fence == self.fence:
            for record in entry.records:
                key = record.topic, record.producer
                if record.sequence == self._last.get(key, 0) + 1:
                    self._last[key] = record.sequence
                    self.topics.setdefault(record.topic, []).append(record)
