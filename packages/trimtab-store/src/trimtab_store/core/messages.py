"""Entries of logs, messages between nodes and clients, requests to a store of logs, and their sizes.

A node's core takes events and gives effects. Both are values of this module; `trimtab_store.format.wire` has
them as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

State = tuple[Any, ...]
"""The state of a group as a value: `Integers` of `core.state`, or `WholeCluster` of `core.token`."""
Nonce = tuple[int, int]
"""Incarnation of a process (unique on its node), and a count within it."""


class NoOp(NamedTuple):
    """The value of an empty slot."""


class MessageRecord(NamedTuple):
    """A message of a producer. Its sequence is one more than that of the producer's previous message in the
    topic.
    """

    topic: str
    producer: str
    sequence: int
    payload: bytes


class AppendMessages(NamedTuple):
    """A batch of messages from the writer of the fence; void under any other fence."""

    fence: int
    records: tuple[MessageRecord, ...]


class SyncOffsets(NamedTuple):
    """Offsets of consumers, each (consumer, topic, next offset); fenced like messages."""

    fence: int
    offsets: tuple[tuple[str, str, int], ...]


class ClaimMastership(NamedTuple):
    """Claim or renewal of a mastership; void unless the mastership last changed in slot `expected`."""

    node: int
    nonce: Nonce
    expected: int


class TransferMastership(NamedTuple):
    """Handover by the current master; void unless the mastership last changed in slot `expected`.

    `ready` is the nonce under which the preferred node recorded the time at which it was ready.
    """

    current_master: int
    preferred: int
    expected: int
    scheme: int
    ready: Nonce


class AcquireToken(NamedTuple):
    """Request of a node for the token of the cluster, for a transfer; with group -1 it returns the token."""

    node: int
    group: int
    nonce: Nonce
    expected: int


class PublishMap(NamedTuple):
    """A map for all nodes, in the log of the token; void unless `expected` is the version published there.

    `preferred` has one node per group, or -1 for any. `version` is higher than `expected`, which is 0 if no
    map is published.
    """

    expected: int
    version: int
    preferred: tuple[int, ...]


class ChangeClaims(NamedTuple):
    """Claims of programs that publish maps, in the log of the token: texts added and removed."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


Change = PublishMap | ChangeClaims
"""A change of the map or of the claims published in the log of the token."""
Entry = NoOp | AppendMessages | SyncOffsets | ClaimMastership | TransferMastership | AcquireToken | Change


def counts_once(entry: Entry) -> bool:
    """Whether an entry counts once, however often and late it is chosen: it may be proposed again.

    A token may be given back late, too: by nobody else, and no term begins with it.
    """
    if isinstance(entry, AcquireToken):
        return entry.group < 0
    return isinstance(entry, AppendMessages | SyncOffsets | Change)


Ballot = tuple[int, int]
"""Round and node."""
Accepting = tuple[int, Ballot, Entry]
"""Slot, ballot and value of an accepted entry."""


# ---------------------------------------------------------------- Paxos


class Prepare(NamedTuple):
    """Request for a promise of the slots from `since` on."""

    ballot: Ballot
    since: int


class Promise(NamedTuple):
    """Promise, with the values accepted from `since` on; slots before `base` are only in a snapshot."""

    ballot: Ballot
    base: int
    accepted: tuple[Accepting, ...]


class Rejected(NamedTuple):
    """Rejection: a higher ballot was promised."""

    ballot: Ballot


class Accept(NamedTuple):
    """Request to accept a value."""

    ballot: Ballot
    slot: int
    entry: Entry


class Accepted(NamedTuple):
    """Confirmation that a value is accepted and on disk."""

    ballot: Ballot
    slot: int


class Commit(NamedTuple):
    """Notice that the values accepted under this ballot in slots `since` to `upto` are chosen."""

    ballot: Ballot
    since: int
    upto: int


class CatchUp(NamedTuple):
    """Request for the entries chosen from `since` on."""

    since: int


class Chosen(NamedTuple):
    """The entries chosen from `since` on."""

    since: int
    entries: tuple[Entry, ...]


class Rejoin(NamedTuple):
    """Request for the promises of a node, from a node without log and vote. `lead`: no node leads, please
    lead.
    """

    incarnation: int
    lead: bool


class Rejoined(NamedTuple):
    """The ballot promised, whether the sender votes and leads, and its last known or proposed slot."""

    incarnation: int
    promised: Ballot
    votes: bool
    leads: bool
    upto: int


class GroupSnapshot(NamedTuple):
    """The state of a group after slot `slot`; on the wire and on disk."""

    slot: int
    state: State


# ---------------------------------------------------------------- nodes about transfers


class NodeHeartbeat(NamedTuple):
    """Heartbeat of a node, with the groups that it declines for now, and the checksum of its preferred map.

    Groups in `resting` should not go to the node that this map names for them, for now.
    """

    excluded: tuple[int, ...]
    version: int
    checksum: int
    resting: tuple[int, ...] = ()


class ProbeTransfer(NamedTuple):
    """The preferred node holds the token in version `cycle`, and requests the progress of the master."""

    cycle: int


class TransferProbed(NamedTuple):
    """The master's response, by its own clock."""

    cycle: int
    incarnation: int
    stamp: float
    applied: int


class StartTransfer(NamedTuple):
    """Request to start the transfer; `seconds` of the token are left, counted from the stamp."""

    cycle: int
    incarnation: int
    stamp: float
    seconds: float


class ConfirmReady(NamedTuple):
    """The master's last check before the handover."""

    cycle: int
    applied: int


class TransferReady(NamedTuple):
    """The preferred node is caught up, and has recorded the time under a nonce."""

    cycle: int
    nonce: Nonce


class TransferEnded(NamedTuple):
    """The current master has no state of the transfer left."""

    cycle: int


# ---------------------------------------------------------------- clients


class ProduceRequest(NamedTuple):
    """A message for the group. The response has the number of the last attempt."""

    client: str
    record: MessageRecord
    attempt: int = 0


class ForwardMessage(NamedTuple):
    """A message received by the current master, for the preferred node."""

    publish: ProduceRequest


class ProduceResponse(NamedTuple):
    """The result of a message: `stored` (now or before), `gap` (an earlier one is missing) or `moved`."""

    topic: str
    producer: str
    sequence: int
    verdict: str
    master: int
    attempt: int = 0


class FetchRequest(NamedTuple):
    """Request of a consumer for messages from `offset` on; -1: the master selects the offset.

    The number identifies the request: only the response to the last one counts.
    """

    client: str
    consumer: str
    topic: str
    number: int
    offset: int
    max_messages: int


class FetchResponse(NamedTuple):
    """The next messages from `offset` on; none with verdict `moved` or `wait`."""

    consumer: str
    topic: str
    number: int
    verdict: str
    offset: int
    records: tuple[MessageRecord, ...]
    master: int


class RequestOffset(NamedTuple):
    """The master requests a consumer's offset, and sends it no further messages in this transfer."""

    consumer: str
    topic: str
    cycle: int


class OffsetUpload(NamedTuple):
    """Upload of an offset: all earlier messages are processed. `cycle`: that of the request, -1 without one.

    A consumer that `leaves` reads no more.
    """

    client: str
    consumer: str
    topic: str
    offset: int
    cycle: int
    leaves: bool = False


class OffsetCommitted(NamedTuple):
    """Notice that the offset is chosen; it never decreases."""

    consumer: str
    topic: str
    offset: int


class DescribeGroup(NamedTuple):
    """Request for the status of a group on a node."""

    client: str


class GroupStatus(NamedTuple):
    """The current status of a group on a node.

    `holds`: whether this node acts as master. `master`: the last known master. `version`: the slot of the
    last change of the mastership. `applied`: the last slot applied on this node. `votes`: whether this node
    counts in a majority of the group and of the transfers' token; it does not after its log was lost, until
    it has recovered.
    """

    holds: bool
    master: int
    version: int
    applied: int
    messages: int
    votes: bool


class ReadGroupMetrics(NamedTuple):
    """Request for the metrics of a group on a node."""

    client: str


class GroupReport(NamedTuple):
    """The metrics of a group since the start of the node's process, and its current status on the node.

    `incarnation` identifies the process: counters restart with it. `held_seconds`: time as master without
    interruption, 0 if it is not the master. `map_version`: version of the node's preferred map.
    `rest_seconds`: time for which the group does not go to the node that the map names, as far as this node
    knows. The others are those of `GroupStatus` and `GroupMetrics`.
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
    votes: bool


class AskMap(NamedTuple):
    """Request for the preferred map published in the store."""

    client: str


class MapIs(NamedTuple):
    """The preferred map of a node, and the map published in the store as far as the node knows.

    `in_store`: whether the node reads its map from the store. `applied`: the last slot of that log applied on
    the node. `published`: the version published in the store, 0 for none. `version` may be that of the node's
    own configuration instead.
    """

    in_store: bool
    applied: int
    published: int
    version: int
    preferred: tuple[int, ...]
    claims: tuple[str, ...]

    @property
    def map(self) -> MapChanged:
        """The map that the node uses."""
        return MapChanged(self.version, self.preferred)


class ChangeMap(NamedTuple):
    """Request to publish a map or claims in the store; the result is visible there."""

    change: Change


# ---------------------------------------------------------------- the node's own log


class Promised(NamedTuple):
    """Log entry: a ballot was promised."""

    ballot: Ballot


class AcceptedAt(NamedTuple):
    """Log entry: a value was accepted."""

    slot: int
    ballot: Ballot
    entry: Entry


class ChosenUpTo(NamedTuple):
    """Log entry: all slots up to this one are chosen, with the values in this log."""

    slot: int


# ---------------------------------------------------------------- facts and orders


class Received(NamedTuple):
    """Event: a message of a peer or client was received."""

    sender: int | str
    group: int
    message: Any


class ClientDisconnected(NamedTuple):
    """The connection of a client has ended. The process has ended, or it will reconnect."""

    client: str


class TimerExpired(NamedTuple):
    """The next deadline of the node has been reached."""


class MapChanged(NamedTuple):
    """A version of the preferred map: one node per group, or -1 for any."""

    version: int
    preferred: tuple[int, ...]


class WriteLog(NamedTuple):
    """Append to the log of the node, without waiting for the disk."""

    group: int
    written: object


class SendMessage(NamedTuple):
    """Send a message. `synced`: only after all earlier writes are on disk."""

    to: int | str
    group: int
    message: Any
    synced: bool


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
    state: State


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


PAYLOAD_BYTES: Final = 1 << 16
"""Of one message, at most."""
NAME_BYTES: Final = 255
"""Of a topic, a producer or a consumer, at most."""
ENTRY_BYTES: Final = 1 << 20
"""Of a batch of messages or offsets, at most: etcd takes 1.5 MiB at once, and would never take a larger
one. The same with both engines."""
CLAIM_BYTES: Final = 1 << 16
"""Of all claims together, at most."""
UNFIT: Final = "unfit"
"""The verdict on a message that no node takes, however often it is sent."""
_RECORD_BYTES: Final = 32
_OFFSET_BYTES: Final = 16


def name_bytes(name: str) -> int:
    """Length of a name in UTF-8 bytes."""
    return len(name) if name.isascii() else len(name.encode())


def fits_entry(record: MessageRecord) -> bool:
    """Whether a message may be stored: neither it nor its names are too large, and numbers begin at 1."""
    return (
        isinstance(record.payload, bytes)
        and len(record.payload) <= PAYLOAD_BYTES
        and name_bytes(record.topic) <= NAME_BYTES
        and name_bytes(record.producer) <= NAME_BYTES
        and record.sequence > 0
    )


def record_bytes(record: MessageRecord) -> int:
    """What a message takes in a log, or a little more."""
    return len(record.payload) + name_bytes(record.topic) + name_bytes(record.producer) + _RECORD_BYTES


def offset_bytes(consumer: str, topic: str) -> int:
    """What a consumer's offset takes in a log, or a little more."""
    return name_bytes(consumer) + name_bytes(topic) + _OFFSET_BYTES


def claims_bytes(claims: Iterable[str]) -> int:
    """What claims take in a log, or a little more."""
    return sum(name_bytes(claim) + _OFFSET_BYTES for claim in claims)


def entry_bytes(entry: Entry) -> int:
    """What an entry takes in a log, about."""
    match entry:
        case AppendMessages(_, records):
            return sum(map(record_bytes, records))
        case SyncOffsets(_, offsets):
            return sum(offset_bytes(consumer, topic) for consumer, topic, _ in offsets)
        case PublishMap(_, _, preferred):
            return 64 + 9 * len(preferred)
        case ChangeClaims(added, removed):
            return 64 + claims_bytes(added) + claims_bytes(removed)
    return 64
