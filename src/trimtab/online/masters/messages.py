"""What nodes and clients tell one another, what a node writes down, and the orders that it gives."""

from __future__ import annotations

from typing import Any, NamedTuple

from trimtab.online.masters.entries import Change, Entry, MessageRecord, Nonce

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


class Rejected(NamedTuple):
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

    incarnation: int
    lead: bool


class Rejoined(NamedTuple):
    """What I have promised, whether I vote and lead, and the last slot that I know or have proposed in."""

    incarnation: int
    promised: Ballot
    votes: bool
    leads: bool
    upto: int


class GroupSnapshot(NamedTuple):
    """A group after slot `slot`; on the wire and on disk."""

    slot: int
    state: tuple[Any, ...]


# ---------------------------------------------------------------- nodes about transfers


class NodeHeartbeat(NamedTuple):
    """I am there, and do not want these groups for now; which preferred map I have, by its content.

    Groups in `resting` should not be given to the node that this map names for them, for now.
    """

    excluded: tuple[int, ...]
    version: int
    checksum: int
    resting: tuple[int, ...] = ()


class ProbeTransfer(NamedTuple):
    """The preferred node holds the token in version `cycle`, and asks how far the master is."""

    cycle: int


class TransferProbed(NamedTuple):
    """The master's answer, by its own clock."""

    cycle: int
    incarnation: int
    stamp: float
    applied: int


class StartTransfer(NamedTuple):
    """Begin the transfer; `seconds` of the token are left, counted from the stamp."""

    cycle: int
    incarnation: int
    stamp: float
    seconds: float


class ConfirmReady(NamedTuple):
    """The master asks once more, just before it hands over."""

    cycle: int
    applied: int


class TransferReady(NamedTuple):
    """The preferred node is caught up, and has noted the time under a nonce."""

    cycle: int
    nonce: Nonce


class TransferEnded(NamedTuple):
    """Nothing of the transfer is left at the current master."""

    cycle: int


# ---------------------------------------------------------------- clients


class ProduceRequest(NamedTuple):
    """A message for the group; its answer carries the number of the attempt in which it was sent last."""

    client: str
    record: MessageRecord
    attempt: int = 0


class ForwardMessage(NamedTuple):
    """A message that came to the current master, for the preferred node."""

    publish: ProduceRequest


class ProduceResponse(NamedTuple):
    """What became of a message: `stored` (now or before), `gap` (an earlier one is missing) or `moved`."""

    topic: str
    producer: str
    sequence: int
    verdict: str
    master: int
    attempt: int = 0


class FetchRequest(NamedTuple):
    """A consumer wants messages from `offset` on, or with -1 from where the master says.

    The number tells its questions apart: only the answer to its last one counts.
    """

    client: str
    consumer: str
    topic: str
    number: int
    offset: int
    max_messages: int


class FetchResponse(NamedTuple):
    """The next messages, from `offset` on; with verdict `moved` or `wait` there are none."""

    consumer: str
    topic: str
    number: int
    verdict: str
    offset: int
    records: tuple[MessageRecord, ...]
    master: int


class RequestOffset(NamedTuple):
    """The master asks a consumer for its offset, and sends it nothing more in this transfer."""

    consumer: str
    topic: str
    cycle: int


class OffsetUpload(NamedTuple):
    """All messages before `offset` are worked off; `cycle` of the question, or -1 if nobody asked.

    A consumer that `leaves` reads no more.
    """

    client: str
    consumer: str
    topic: str
    offset: int
    cycle: int
    leaves: bool = False


class OffsetCommitted(NamedTuple):
    """The offset is chosen; it never goes back."""

    consumer: str
    topic: str
    offset: int


class DescribeGroup(NamedTuple):
    """Whoever looks on wants to know how a group stands on a node."""

    client: str


class GroupStatus(NamedTuple):
    """How a group stands on a node, now.

    `holds` says whether this node counts itself as its master, `master` who was it last as far as is known
    here; `version` is the slot in which that last changed, `applied` the last slot that was applied here.
    """

    holds: bool
    master: int
    version: int
    applied: int
    messages: int


class ReadGroupMetrics(NamedTuple):
    """Whoever samples a cluster wants to know what a node has done for a group."""

    client: str


class GroupReport(NamedTuple):
    """What a node has done for a group since its process began, and how the group stands there now.

    `life` tells processes apart: counters begin anew with each. `held_seconds` is how long this node has been
    master without a break, 0 if it is not; `map_version` is that of the preferred map that this node goes by,
    and `rest_seconds` for how long the group is not given to the node that it names, as far as is known here;
    the others are those of `GroupStatus` and `GroupMetrics`.
    """

    incarnation: int
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
    """The preferred map that a node goes by, and what is published in the store as far as is known there.

    `in_store` says whether the node reads its map there, `applied` is the last slot of that log that was
    applied on it, `published` the version that is published there, 0 for none: `version` may be that of the
    node's own configuration instead.
    """

    in_store: bool
    applied: int
    published: int
    version: int
    preferred: tuple[int, ...]
    claims: tuple[str, ...]

    @property
    def map(self) -> MapChanged:
        """The map that the node goes by."""
        return MapChanged(self.version, self.preferred)


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


class ClientDisconnected(NamedTuple):
    """The connection of a client has ended: its process has, or it will come back by another one."""

    client: str


class TimerExpired(NamedTuple):
    """The time that the node asked to be woken at has come."""


class MapChanged(NamedTuple):
    """A version of the preferred map: node of each group, by index; -1 for whoever likes."""

    version: int
    preferred: tuple[int, ...]


class WriteLog(NamedTuple):
    """Append to the log of the node, without waiting for the disk."""

    group: int
    written: Any


class SendMessage(NamedTuple):
    """Send; with `synced` not before everything that was written until now is on disk."""

    to: int | str
    group: int
    message: Any
    synced: bool
