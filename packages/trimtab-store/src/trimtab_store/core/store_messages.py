"""What a node asks of a store in which every slot of a log is a key, and what it is told."""

from __future__ import annotations

from typing import Any, NamedTuple

from trimtab_store.core.entries import Entry, Nonce
from trimtab_store.core.messages import (
    ClientDisconnected,
    GroupSnapshot,
    MapChanged,
    Received,
    SendMessage,
    TimerExpired,
    WriteLog,
)

# ---------------------------------------------------------------- asked


class CreateEntries(NamedTuple):
    """Put entries into slots from `slot` on, all of them or none, in one transaction.

    It succeeds only if none of the slots is taken, and the one before them is: so a log has no holes, and a
    slot that was cut off behind a snapshot is never filled again by a node that is far behind.
    """

    number: Nonce
    slot: int
    entries: tuple[Entry, ...]


class ReadEntries(NamedTuple):
    """Tell all that stands in the slots from `slot` on, not less than at the time of the question."""

    slot: int


class StoreSnapshot(NamedTuple):
    """Keep the state of the group after a slot, and drop slots up to `cut`, unless a later one is kept."""

    slot: int
    cut: int
    state: tuple[Any, ...]


# ---------------------------------------------------------------- told


class EntriesCreated(NamedTuple):
    """COMMITTED: the entries stand in their slots."""

    number: Nonce


class AppendConflict(NamedTuple):
    """The write failed, unless the stored entries equal this node's own earlier attempt.

    `entries` stand from that slot on, as many as are there of those that were asked for; none if the slots
    are cut off, or the one before them is not there.
    """

    number: Nonce
    slot: int
    entries: tuple[Entry, ...]


class AppendTimeout(NamedTuple):
    """UNKNOWN: no answer in time, or a broken connection. It may be chosen, or be chosen later."""

    number: Nonce


class EntriesRead(NamedTuple):
    """These entries stand in the slots from `slot` on."""

    slot: int
    entries: tuple[Entry, ...]


class SnapshotStored(NamedTuple):
    """The state after a slot is kept; earlier slots may be gone."""

    slot: int


class StoreRequest(NamedTuple):
    """An order: ask the store, for a group."""

    group: int
    request: CreateEntries | ReadEntries | StoreSnapshot


class StoreEvent(NamedTuple):
    """A fact: the store tells something of a group."""

    group: int
    event: EntriesCreated | AppendConflict | AppendTimeout | EntriesRead | SnapshotStored | GroupSnapshot


Event = Received | TimerExpired | MapChanged | ClientDisconnected | StoreEvent
Effect = WriteLog | SendMessage | StoreRequest
