"""What nodes and clients tell one another, what a node writes down, and the orders that it gives."""

from __future__ import annotations

from typing import Any, NamedTuple

from trimtab.online.masters.entries import Change, Entry, Nonce, Record

Ballot = tuple[int, int]
"""Round and node."""
Accepting = tuple[int, Ballot, Entry]
"""Slot, ballot and value of something accepted."""


# ---------------------------------------------------------------- Paxos


class Prepare(NamedTuple):
    """Promise me the slots from `since` on."""

    ballot: Ballot
    since: int


class Promise(NamedTuple):
    """Promised; this was accepted from `since` on, and slots before `base` are only in a snapshot."""

    ballot: Ballot
    base: int
    accepted: tuple[Accepting, ...]


class Refused(NamedTuple):
    """A higher ballot was promised."""

    ballot: Ballot


class Accept(NamedTuple):
    """Accept a value."""

    ballot: Ballot
    slot: int
    entry: Entry


class Accepted(NamedTuple):
    """Accepted, and on disk."""

    ballot: Ballot
    slot: int


class Commit(NamedTuple):
    """All slots from `since` to `upto` are chosen as they were accepted under this ballot."""

    ballot: Ballot
    since: int
    upto: int


class CatchUp(NamedTuple):
    """Tell me what was chosen from `since` on."""

    since: int


class Chosen(NamedTuple):
    """What was chosen from `since` on."""

    since: int
    entries: tuple[Entry, ...]


class Rejoin(NamedTuple):
    """I have no log, and no vote in this life: what have you promised? With `lead`: nobody leads, do it."""

    life: int
    lead: bool


class Rejoined(NamedTuple):
    """What I have promised, whether I vote and lead, and the last slot that I know or have proposed in."""

    life: int
    promised: Ballot
    votes: bool
    leads: bool
    upto: int


class Snapshot(NamedTuple):
    """A group after slot `slot`; on the wire and on disk."""

    slot: int
    state: tuple[Any, ...]


# ---------------------------------------------------------------- nodes about takeovers


class Beat(NamedTuple):
    """I am there, and do not want these groups for now; which ideal map I have, by its content.

    Groups in `resting` should not be given to the node that this map names for them, for now.
    """

    muted: tuple[int, ...]
    version: int
    checksum: int
    resting: tuple[int, ...] = ()


class Probe(NamedTuple):
    """The ideal node holds the token in version `cycle`, and asks how far the master is."""

    cycle: int


class Probed(NamedTuple):
    """The master's answer, by its own clock."""

    cycle: int
    life: int
    stamp: float
    applied: int


class Start(NamedTuple):
    """Begin the takeover; `seconds` of the token are left, counted from the stamp."""

    cycle: int
    life: int
    stamp: float
    seconds: float


class AskReady(NamedTuple):
    """The master asks once more, just before it hands over."""

    cycle: int
    applied: int


class Ready(NamedTuple):
    """The ideal node is caught up, and has noted the time under a nonce."""

    cycle: int
    nonce: Nonce


class Ended(NamedTuple):
    """Nothing of the takeover is left at the incumbent."""

    cycle: int


# ---------------------------------------------------------------- clients


class Publish(NamedTuple):
    """A message for the group; its answer carries the number of the attempt in which it was sent last."""

    client: str
    record: Record
    attempt: int = 0


class Forward(NamedTuple):
    """A message that came to the incumbent, for the ideal node."""

    publish: Publish


class Published(NamedTuple):
    """What became of a message: `stored` (now or before), `gap` (an earlier one is missing) or `moved`."""

    topic: str
    producer: str
    sequence: int
    verdict: str
    master: int
    attempt: int = 0


class Pull(NamedTuple):
    """A consumer wants messages from `offset` on, or with -1 from where the master says.

    The number tells its questions apart: only the answer to its last one counts.
    """

    client: str
    consumer: str
    topic: str
    number: int
    offset: int
    most: int


class Pulled(NamedTuple):
    """The next messages, from `offset` on; with verdict `moved` or `wait` there are none."""

    consumer: str
    topic: str
    number: int
    verdict: str
    offset: int
    records: tuple[Record, ...]
    master: int


class AskUpload(NamedTuple):
    """The master asks a consumer for its offset, and sends it nothing more in this takeover."""

    consumer: str
    topic: str
    cycle: int


class Upload(NamedTuple):
    """All messages before `offset` are worked off; `cycle` of the question, or -1 if nobody asked.

    A consumer that `leaves` reads no more.
    """

    client: str
    consumer: str
    topic: str
    offset: int
    cycle: int
    leaves: bool = False


class OffsetKept(NamedTuple):
    """The offset is chosen; it never goes back."""

    consumer: str
    topic: str
    offset: int


class AskStanding(NamedTuple):
    """Whoever looks on wants to know how a group stands on a node."""

    client: str


class Standing(NamedTuple):
    """How a group stands on a node, now.

    `holds` says whether this node counts itself as its master, `master` who was it last as far as is known
    here; `version` is the slot in which that last changed, `applied` the last slot that was applied here.
    """

    holds: bool
    master: int
    version: int
    applied: int
    messages: int


class AskReport(NamedTuple):
    """Whoever samples a cluster wants to know what a node has done for a group."""

    client: str


class Report(NamedTuple):
    """What a node has done for a group since its process began, and how the group stands there now.

    `life` tells processes apart: counters begin anew with each. `held_seconds` is how long this node has been
    master without a break, 0 if it is not; `map_version` is that of the ideal map that this node goes by, and
    `rest_seconds` for how long the group is not given to the node that it names, as far as is known here; the
    others are those of `Standing` and `Tally`.
    """

    life: int
    holds: bool
    master: int
    version: int
    applied: int
    held_seconds: float
    messages: int
    stored: int
    stored_bytes: int
    pulls: int
    pulled: int
    pulled_bytes: int
    proposals: int
    proposed_seconds: float
    map_version: int
    rest_seconds: float


class AskMap(NamedTuple):
    """Whoever publishes maps in the store wants to know what is published there."""

    client: str


class MapIs(NamedTuple):
    """The ideal map that a node goes by, and what is published in the store as far as is known there.

    `in_store` says whether the node reads its map there, `applied` is the last slot of that log that was
    applied on it, `published` the version that is published there, 0 for none: `version` may be that of the
    node's own configuration instead.
    """

    in_store: bool
    applied: int
    published: int
    version: int
    ideal: tuple[int, ...]
    claims: tuple[str, ...]

    @property
    def map(self) -> MapSeen:
        """The map that the node goes by."""
        return MapSeen(self.version, self.ideal)


class ChangeMap(NamedTuple):
    """A map or claims are to be published in the store; what came of it is seen there."""

    change: Change


# ---------------------------------------------------------------- the node's own log


class Promised(NamedTuple):
    """A ballot was promised."""

    ballot: Ballot


class AcceptedAt(NamedTuple):
    """A value was accepted."""

    slot: int
    ballot: Ballot
    entry: Entry


class ChosenUpTo(NamedTuple):
    """All slots up to this one are chosen, as they stand in this log."""

    slot: int


# ---------------------------------------------------------------- facts and orders


class Received(NamedTuple):
    """A message came."""

    sender: int | str
    group: int
    message: Any


class Gone(NamedTuple):
    """The connection of a client has ended: its process has, or it will come back by another one."""

    client: str


class Due(NamedTuple):
    """The time that the node asked to be woken at has come."""


class MapSeen(NamedTuple):
    """A version of the ideal map: node of each group, by index; -1 for whoever likes."""

    version: int
    ideal: tuple[int, ...]


class Write(NamedTuple):
    """Append to the log of the node, without waiting for the disk."""

    group: int
    written: Any


class Send(NamedTuple):
    """Send; with `synced` not before everything that was written until now is on disk."""

    to: int | str
    group: int
    message: Any
    synced: bool
