"""The interface between groups and the consensus engine that chooses the entries of their logs.

A group's log in a store where every slot is a key that is made once: the store chooses, not the nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

from trimtab_store.core.messages import (
    ENTRY_BYTES,
    AppendConflict,
    AppendTimeout,
    CreateEntries,
    EntriesCreated,
    EntriesRead,
    Entry,
    GroupSnapshot,
    Nonce,
    ReadEntries,
    SnapshotStored,
    State,
    StoreRequest,
    StoreSnapshot,
    counts_once,
    entry_bytes,
)
from trimtab_store.core.node_context import NodeContext

STORE: Final = -2
"""Who sends what a store of slots tells; nodes have numbers from 0 on."""


class GroupLog(Protocol):
    """The log of one group on one node: one entry per slot, the same on every node.

    A proposer learns the outcome from the applied entries, never from an answer:

    - COMMITTED: the entry itself was applied;
    - void: another entry was applied in its place, or the entry was applied but no longer counts, because the
    mastership that it expected has changed;
    - UNKNOWN: neither. **UNKNOWN is possibly chosen**, also at any later time.

    Any entry may be applied twice. An engine proposes an entry of unknown outcome again, in the original
    order, if it counts once (`counts_once`). It never does so with masterships: the term of a mastership that
    is chosen late is over, but everybody waits for it.

    Attributes
    ----------
    applied
        The last slot applied on this node.
    """

    @property
    def applied(self) -> int:
        """The last slot applied on this node."""

    @property
    def in_flight(self) -> tuple[Entry, ...]:
        """Entries that this node has sent, and that are neither known to be chosen nor abandoned."""

    @property
    def without_vote(self) -> str:
        """Why this node has no vote although it could have one; empty if it has one."""

    def recover(self, written: Iterable[object]) -> None:
        """Restore the log from what earlier processes wrote, or from what the store holds."""

    def propose(self, entry: Entry) -> None:
        """Propose an entry for some slot, if this node can."""

    def discard_pending(self, kind: type) -> None:
        """Discard waiting entries of a kind, which no node has received."""

    def catch_up(self, sender: int) -> None:
        """Request the entries that another node has and this node lacks, unless it is too early."""

    def received(self, sender: int, message: object) -> bool:
        """Handle a message of the log, from a node or from `STORE`; False if it is none."""

    def settle(self) -> None:
        """Decide entries whose proposer has failed, if they were open at the last call too.

        In a log with continuous proposals the next proposal does this.
        """

    def first_learned_at(self, slot: int) -> float:
        """Time at which this node first had the entry of a slot, or later; never before it was proposed."""

    def tick(self) -> None:
        """Send what may be sent now, and repeat what was not answered."""

    def next_deadline(self) -> float:
        """Time at which `tick` must run next."""


class CatchUpRetry:
    """Intervals at which a node that is behind requests entries.

    An answer may be large, and wait at a slow node for longer than `retry_seconds`. Requests at this interval
    would fetch the same entries repeatedly, and the node would never catch up. So the node waits as long as
    the previous answer took, and twice as long after each missing answer, up to `longest_seconds`. After an
    applied entry it may request again after `retry_seconds`.

    Parameters
    ----------
    longest_seconds
        The longest interval.

    Attributes
    ----------
    requested_at
        Time of the last request.
    """

    __slots__ = ("_applied", "_context", "_first_at", "_longest_seconds", "_wait", "requested_at")

    def __init__(self, context: NodeContext, longest_seconds: float) -> None:
        self._context, self._longest_seconds = context, longest_seconds
        self.requested_at, self._first_at, self._applied, self._wait = -inf, -inf, -1, 0.0

    def may_ask_at(self, applied: int) -> float:
        """Earliest time of the next request."""
        retry_seconds = self._context.settings.retry_seconds
        return self.requested_at + (
            retry_seconds if applied > self._applied else max(self._wait, retry_seconds)
        )

    def ask(self, applied: int) -> bool:
        """Whether to send a request now; if so, its time is noted."""
        now, settings = self._context.now, self._context.settings
        if now < self.may_ask_at(applied):
            return False
        if applied > self._applied:
            # After a longer silence it is another time that the node is behind.
            wait = now - self._first_at if now - self.requested_at <= 2 * settings.lease_seconds else 0.0
            self._applied, self._first_at = applied, now
        else:
            wait = 2 * self._wait
        self._wait = min(max(wait, settings.retry_seconds), self._longest_seconds)
        self.requested_at = now
        return True


MakeLog = Callable[
    [
        NodeContext,
        int,
        Callable[[int, Entry], None],
        Callable[[], State],
        Callable[[State], None],
    ],
    GroupLog,
]
"""Station, group, and three functions: `apply`, called with every chosen slot and entry, in order, once;
`snapshot`, the state after the last applied slot as a value; `restore`, the inverse."""


@dataclass(frozen=True, slots=True)
class ConsensusEngine:
    """The engine that chooses the entries of logs.

    Attributes
    ----------
    log
        Creates the log of a group.
    max_nodes
        Maximum number of nodes of a cluster; None for no limit.
    """

    name: str
    log: MakeLog
    max_nodes: int | None


@dataclass(slots=True)
class _PendingTransaction:
    """A transaction under way: what of it was not seen in its slots yet, and when its outcome is UNKNOWN."""

    number: Nonce
    slot: int
    entries: tuple[Entry, ...]
    until: float


class StoreLog:
    """The log of one group, in the store; see `GroupLog`.

    One transaction is under way at a time, with as many entries as there may be at once: entries that raced
    for slots side by side would overtake one another whenever one of them is lost or comes late.

    Parameters
    ----------
    apply, snapshot, restore
        See `MakeLog`.

    Attributes
    ----------
    applied
        The last slot that was applied.
    """

    def __init__(
        self,
        context: NodeContext,
        group: int,
        apply: Callable[[int, Entry], None],
        snapshot: Callable[[], State],
        restore: Callable[[State], None],
    ) -> None:
        self._context, self._group = context, group
        self._apply, self._snapshot, self._restore = apply, snapshot, restore
        self.applied = self._cut = 0
        self._first_learned: dict[int, Entry] = {}
        self._waiting: deque[Entry] = deque()
        self._creating: _PendingTransaction | None = None
        # No longer than `_look_at` waits, or a look would be due that may not ask.
        self._catch_up_retry = CatchUpRetry(context, 2 * context.settings.renewal_seconds)
        self._try_at = self._keep_at = -inf
        self._response_at = context.now
        self._turning = False

    def recover(self, written: Iterable[object]) -> None:
        """Take in what the store holds."""
        for one in written:
            self.received(STORE, one)

    # ------------------------------------------------------------ proposing

    @property
    def without_vote(self) -> str:
        """Nothing: nodes do not vote, and keep nothing that they could lose."""
        return ""

    @property
    def in_flight(self) -> tuple[Entry, ...]:
        """What was asked for, and neither answered nor seen yet."""
        return self._creating.entries if self._creating is not None else ()

    def propose(self, entry: Entry) -> None:
        """Have an entry chosen in some slot, if the store can be asked."""
        self._waiting.append(entry)
        self.tick()

    def discard_pending(self, kind: type) -> None:
        """Forget waiting entries of a kind; nobody has seen them."""
        self._waiting = deque(entry for entry in self._waiting if type(entry) is not kind)

    def settle(self) -> None:
        """Nothing: what stands in a slot is chosen, and read after a while whatever was heard of it."""

    def first_learned_at(self, slot: int) -> float:
        """See `GroupLog.first_learned_at`: nobody hears of a slot here before the store has it."""
        return self._context.now

    def tick(self) -> None:
        """Ask for slots, if there is something to put there; and look when nothing is heard for long."""
        now = self._context.now
        if self._creating is not None and now >= self._creating.until:
            self._unknown()
        # In the middle of applying, the next slot may be taken already, by what is applied next.
        if self._waiting and self._creating is None and now >= self._try_at and not self._turning:
            self._create()
        if now >= self._read_slots:
            self.catch_up(STORE)

    def next_deadline(self) -> float:
        """When to go on though nothing happened."""
        at = self._read_slots
        if self._creating is not None:
            return min(at, self._creating.until)
        return min(at, self._try_at) if self._waiting else at

    @property
    def _read_slots(self) -> float:
        # A watch may be silent because nothing happens, or because it is dead without anybody's knowing.
        return (
            max(self._response_at, self._catch_up_retry.requested_at)
            + 2 * self._context.settings.renewal_seconds
        )

    def _create(self) -> None:
        settings, entries, size = self._context.settings, list[Entry](), 0
        while self._waiting and len(entries) < settings.window:
            # As large as one entry may be, for etcd takes no more at once.
            size += entry_bytes(self._waiting[0])
            if entries and size > ENTRY_BYTES:
                break
            entries.append(self._waiting.popleft())
        asked = CreateEntries(self._context.nonce(), self.applied + 1, tuple(entries))
        self._creating = _PendingTransaction(*asked, self._context.now + settings.propose_seconds)
        self._context.request_store(StoreRequest(self._group, asked))

    def _unknown(self) -> None:
        """It may be chosen, or be chosen later: read, and propose again what counts once."""
        assert self._creating is not None
        entries, self._creating = self._creating.entries, None
        # The same slot as before, for nothing else was seen there: whichever try comes first has it.
        self._back(filter(counts_once, entries))
        self._try_at = self._context.now + self._context.settings.retry_seconds
        self.catch_up(STORE)

    def _back(self, entries: Iterable[Entry]) -> None:
        """To the head of those that wait, in their order: later batches must not overtake them."""
        self._waiting.extendleft(reversed(tuple(entries)))

    # ------------------------------------------------------------ learning

    def received(self, sender: int, message: object) -> bool:
        """Take in what the store tells; False for anything else."""
        if sender != STORE:
            return False
        self._response_at = self._context.now
        creating = self._creating
        mine = creating is not None and getattr(message, "number", None) == creating.number
        match message:
            case EntriesCreated():
                if mine and creating is not None:
                    self._learn(creating.slot, creating.entries)
            case AppendConflict(_, slot, entries):
                self._learn(slot, entries)
                if mine:
                    self._void()
                if mine and not entries:
                    # This node is behind what is cut off, or the store behind what this node has seen.
                    self._try_at = self._context.now + self._context.settings.retry_seconds
                    self.catch_up(STORE)
            case AppendTimeout():
                if mine:
                    self._unknown()
            case EntriesRead(slot, entries):
                self._learn(slot, entries)
            case GroupSnapshot():
                self._install(message)
            case SnapshotStored(slot):
                self._cut = max(self._cut, slot)
            case _:
                return False
        if creating is not None and self._creating is None:
            self._keep()
        self.tick()
        return True

    def _void(self) -> None:
        """What is left stands nowhere, and will not by that transaction: it waits for the next."""
        if self._creating is not None:
            entries, self._creating = self._creating.entries, None
            self._back(entries)

    def _learn(self, slot: int, entries: tuple[Entry, ...]) -> None:
        for at, entry in enumerate(entries, slot):
            if at > self.applied:
                self._first_learned[at] = entry
        self._settle()
        self._advance()

    def _settle(self) -> None:
        """What stands in the slots decides, whatever was answered or not: an earlier try may have come late.

        A mastership has a nonce, and a batch that is the same to the letter is the same. An earlier try may
        have had fewer entries, so one that stands there says nothing of the next.
        """
        while (creating := self._creating) is not None and creating.slot in self._first_learned:
            if self._first_learned[creating.slot] != creating.entries[0]:
                self._void()
            elif len(creating.entries) == 1:
                self._creating = None
            else:
                creating.slot, creating.entries = creating.slot + 1, creating.entries[1:]

    def _advance(self) -> None:
        if self._turning:
            return
        self._turning = True
        while self.applied + 1 in self._first_learned:
            self.applied += 1
            self._apply(self.applied, self._first_learned.pop(self.applied))
        self._turning = False
        if self._first_learned:
            self.catch_up(STORE)  # a slot between was not seen

    def catch_up(self, sender: int) -> None:
        """Ask the store for what was chosen since, unless it is too early."""
        if self._catch_up_retry.ask(self.applied):
            self._context.request_store(StoreRequest(self._group, ReadEntries(self.applied + 1)))

    def _install(self, snapshot: GroupSnapshot) -> None:
        self._cut = max(self._cut, snapshot.slot)
        if snapshot.slot <= self.applied:
            return
        if self._creating is not None and self._creating.slot <= snapshot.slot:
            self._unknown()  # what stood in its slot is not known any more
        self._restore(snapshot.state)
        self.applied = snapshot.slot
        self._first_learned = {
            slot: entry for slot, entry in self._first_learned.items() if slot > snapshot.slot
        }
        self._advance()

    def _keep(self) -> None:
        """After so many entries, the next node whose proposal is decided has the state kept."""
        settings, now = self._context.settings, self._context.now
        if self.applied - self._cut >= settings.snapshot_entries and now >= self._keep_at:
            # Whether it was kept is told to all; until then nobody is asked again and again.
            self._keep_at = now + 10 * settings.propose_seconds
            # The newest half stays, for nodes that are a little behind; the last one must, for the next slot
            # is made only behind it.
            cut = self.applied - max(1, settings.snapshot_entries // 2)
            self._context.request_store(
                StoreRequest(self._group, StoreSnapshot(self.applied, cut, self._snapshot()))
            )
