"""What a node asks of a store in which every slot of a log is a key, and what it is told."""

from __future__ import annotations

from typing import Any, NamedTuple

from trimtab.online.masters.entries import Entry, Nonce
from trimtab.online.masters.messages import Due, Gone, MapSeen, Received, Send, Snapshot, Write

# ---------------------------------------------------------------- asked


class Create(NamedTuple):
    """Put entries into slots from `slot` on, all of them or none, in one transaction.

    It succeeds only if none of the slots is taken, and the one before them is: so a log has no holes, and a
    slot that was cut off behind a snapshot is never filled again by a node that is far behind.
    """

    number: Nonce
    slot: int
    entries: tuple[Entry, ...]


class ReadFrom(NamedTuple):
    """Tell all that stands in the slots from `slot` on, not less than at the time of the question."""

    slot: int


class Keep(NamedTuple):
    """Keep the state of the group after a slot, and drop slots up to `cut`, unless a later one is kept."""

    slot: int
    cut: int
    state: tuple[Any, ...]


# ---------------------------------------------------------------- told


class Created(NamedTuple):
    """COMMITTED: the entries stand in their slots."""

    number: Nonce


class Taken(NamedTuple):
    """Void, unless what stands in the slots is what this very node wanted there, by an earlier try.

    `entries` stand from that slot on, as many as are there of those that were asked for; none if the slots
    are cut off, or the one before them is not there.
    """

    number: Nonce
    slot: int
    entries: tuple[Entry, ...]


class Unknown(NamedTuple):
    """UNKNOWN: no answer in time, or a broken connection. It may be chosen, or be chosen later."""

    number: Nonce


class Seen(NamedTuple):
    """These entries stand in the slots from `slot` on."""

    slot: int
    entries: tuple[Entry, ...]


class Kept(NamedTuple):
    """The state after a slot is kept; earlier slots may be gone."""

    slot: int


class Ask(NamedTuple):
    """An order: ask the store, for a group."""

    group: int
    asked: Create | ReadFrom | Keep


class Told(NamedTuple):
    """A fact: the store tells something of a group."""

    group: int
    told: Created | Taken | Unknown | Seen | Kept | Snapshot


Fact = Received | Due | MapSeen | Gone | Told
Order = Write | Send | Ask
