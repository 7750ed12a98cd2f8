"""Multi-Paxos for the log of one group: acceptor, proposer, replica, and the vote after a lost log.

A slot of the log has one chosen entry. An acceptor promises ballots and accepts entries, a proposer gets
entries accepted by a majority, and a replica learns them in order. A node that lost its log has no vote until
it has rejoined.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Generic, TypeVar

from trimtab_common.errors import InputError
from trimtab_store.core.messages import (
    Accept,
    Accepted,
    AcceptedAt,
    Accepting,
    Ballot,
    CatchUp,
    Chosen,
    ChosenUpTo,
    Commit,
    Entry,
    GroupSnapshot,
    NoOp,
    Prepare,
    Promise,
    Promised,
    Rejected,
    Rejoin,
    Rejoined,
    State,
    counts_once,
    entry_bytes,
)
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.stored import CatchUpRetry

NO_BALLOT: Ballot = (0, -1)
LEARNT: Ballot = (1 << 62, 0)
"""The ballot under which a value is kept that was learnt as chosen: above any other."""


class Acceptor:
    """Promises and accepted entries, kept until a snapshot covers them.

    Attributes
    ----------
    promised
        The highest promised ballot.
    accepted
        Slot to ballot and entry.
    base
        The first slot that no snapshot covers.
    votes
        Whether it may promise and accept. It may not if this node may have forgotten an earlier vote.
    """

    def __init__(self, context: NodeContext, group: int) -> None:
        self._context, self._group = context, group
        self.promised: Ballot = NO_BALLOT
        self.accepted: dict[int, tuple[Ballot, Entry]] = {}
        self.base = 1
        self.votes = not (context.rejoins and context.peers)
        self._started_at = context.now
        self._first_learned: dict[int, float] = {}

    def since(self, slot: int) -> tuple[Accepting, ...]:
        """The entries accepted from a slot on."""
        return tuple((at, *self.accepted[at]) for at in sorted(self.accepted) if at >= slot)

    def promise(self, ballot: Ballot) -> bool:
        """Promise a ballot if it is the highest so far; the promise counts once it is on disk."""
        if ballot <= self.promised:
            return False
        self.promised = ballot
        self._context.write(self._group, Promised(ballot))
        return True

    def accept(self, ballot: Ballot, slot: int, entry: Entry) -> None:
        """Accept an entry; that counts once it is on disk."""
        known = self.accepted.get(slot)
        if known is None or known[1] != entry:
            self._first_learned[slot] = self._context.now
        self.accepted[slot] = ballot, entry
        self._context.write(self._group, AcceptedAt(slot, ballot, entry))

    def first_learned_at(self, slot: int) -> float:
        """Time at which this node first had the entry of a slot; for entries from the disk, the start."""
        return self._first_learned.get(slot, self._started_at if slot in self.accepted else self._context.now)

    def prepare(self, sender: int, request: Prepare) -> None:
        """Answer a request for a promise."""
        if not self.votes:
            return
        if request.ballot < self.promised:
            self._context.send(sender, self._group, Rejected(self.promised))
            return
        self.promise(request.ballot)
        answer = Promise(request.ballot, self.base, self.since(request.since))
        # A promise that a power cut takes back has let two proposers through.
        self._context.send(sender, self._group, answer, synced=True)

    def handle_accept(self, sender: int, request: Accept, applied: int) -> None:
        """Answer a request to accept an entry; an entry that is chosen already stays."""
        if not self.votes:
            return
        if request.ballot < self.promised:
            self._context.send(sender, self._group, Rejected(self.promised))
            return
        self.promise(request.ballot)
        if request.slot > applied and self.accepted.get(request.slot) != (request.ballot, request.entry):
            self.accept(request.ballot, request.slot, request.entry)
        # An acceptance that a power cut takes back was counted as one.
        self._context.send(sender, self._group, Accepted(request.ballot, request.slot), synced=True)

    def cut(self, slot: int) -> None:
        """Forget the slots that a snapshot covers."""
        self.base = max(self.base, slot + 1)
        self.accepted = {at: kept for at, kept in self.accepted.items() if at > slot}
        self._first_learned = {at: seen for at, seen in self._first_learned.items() if at > slot}


@dataclass(slots=True)
class InFlightProposal:
    """An entry sent to the acceptors of a slot.

    Attributes
    ----------
    found
        Whether acceptors had it already: another node proposed it, or this node earlier.
    again_at, pause
        Time of the next repetition to acceptors without an answer, and the time since the last. It doubles
        each time, because repetitions slow down a slow node.
    """

    entry: Entry
    found: bool
    again_at: float
    pause: float
    by: set[int] = field(default_factory=set)


class Proposer:
    """Entries waiting for a slot, and entries in flight.

    Attributes
    ----------
    ballot
        Its own ballot, while it prepares or leads.
    leads
        Whether a majority has promised, and no node has reported a higher ballot since.
    first
        The first slot that it proposed in under this ballot.
    waiting
        Entries without a slot.
    in_flight
        Slot to entry, until it is chosen.
    """

    def __init__(self, context: NodeContext, group: int, acceptor: Acceptor) -> None:
        self._context, self._group, self._acceptor = context, group, acceptor
        self.ballot: Ballot = NO_BALLOT
        self.leads = False
        self.first = self._next = self._since = 1
        self.waiting: deque[Entry] = deque()
        self.in_flight: dict[int, InFlightProposal] = {}
        self._promises: dict[int, Promise] | None = None
        self._highest = self._failures = 0
        self._try_at = -inf

    @property
    def last(self) -> int:
        """The last slot in which it has proposed, or found an entry, while it leads."""
        return self._next - 1

    def propose(self, entry: Entry, applied: int) -> None:
        """Propose an entry for some slot, if this node can. The result is known when an entry is applied."""
        self.waiting.append(entry)
        self.tick(applied)

    def tick(self, applied: int) -> None:
        """Send what may be sent now, and repeat what was not answered."""
        now, settings = self._context.now, self._context.settings
        if self.leads:
            while self.waiting and len(self.in_flight) < settings.window:
                self._send(self._next, self.waiting.popleft(), found=False)
                self._next += 1
            # Only nodes without an answer get a further copy, at doubling intervals: a slow follower would
            # never finish its queue otherwise.
            for slot, under_way in self.in_flight.items():
                if now >= under_way.again_at:
                    under_way.pause = min(2 * under_way.pause, settings.propose_seconds)
                    under_way.again_at = now + under_way.pause
                    for node in self._context.peers:
                        if node not in under_way.by:
                            self._context.send(node, self._group, Accept(self.ballot, slot, under_way.entry))
        elif self.waiting and now >= self._try_at:
            self._prepare(applied)

    def discard_pending(self, kind: type) -> None:
        """Discard waiting entries of a kind, which no node has received."""
        self.waiting = deque(entry for entry in self.waiting if type(entry) is not kind)

    def next_deadline(self) -> float:
        """Time at which `tick` must run next."""
        if self.leads:
            return min((one.again_at for one in self.in_flight.values()), default=inf)
        return self._try_at if self.waiting else inf

    def _prepare(self, applied: int) -> None:
        self._highest = max(self._highest, self._acceptor.promised[0]) + 1
        self.ballot, self._since = (self._highest, self._context.node), applied + 1
        self._acceptor.promise(self.ballot)
        self._promises = {}
        # Nodes that start at once must not go on refusing one another.
        retry = self._context.settings.retry_seconds
        self._failures = min(self._failures + 1, 4)
        share = 1 + self._context.node / self._context.nodes
        self._try_at = self._context.now + retry * self._failures * share
        # Sent when the own promise is on disk: a ballot must not be used again in another life.
        self._context.broadcast(self._group, Prepare(self.ballot, self._since), synced=True)
        own = Promise(self.ballot, self._acceptor.base, self._acceptor.since(self._since))
        self._context.send(self._context.node, self._group, own, synced=True)

    def promised(self, sender: int, answer: Promise, applied: int) -> bool:
        """Count a promise; False if its sender has a snapshot beyond the entries that this node has
        learned.
        """
        if answer.ballot != self.ballot or self._promises is None:
            return True
        if answer.base > applied + 1:
            # Its slots look empty though they are chosen: nothing may be proposed there.
            self._promises = None
            return False
        self._promises[sender] = answer
        if len(self._promises) >= self._context.majority:
            self._lead(applied)
        return True

    def _lead(self, applied: int) -> None:
        assert self._promises is not None
        found: dict[int, tuple[Ballot, Entry]] = {}
        for promise in self._promises.values():
            for slot, ballot, entry in promise.accepted:
                # A value found in a promise may be chosen already. Of several in a slot only the one of the
                # highest ballot can be, so that one is proposed again.
                if slot > applied and (slot not in found or ballot > found[slot][0]):
                    found[slot] = ballot, entry
        self._promises, self.leads, self._failures = None, True, 0
        self.first, self._next = applied + 1, max(found, default=applied) + 1
        # A hole gets an empty entry, because later slots are applied only after it.
        for slot in range(self.first, self._next):
            self._send(slot, found[slot][1] if slot in found else NoOp(), found=True)
        self.tick(applied)

    def _send(self, slot: int, entry: Entry, *, found: bool) -> None:
        pause = self._context.settings.retry_seconds
        self.in_flight[slot] = InFlightProposal(entry, found, self._context.now + pause, pause)
        self._context.broadcast(self._group, Accept(self.ballot, slot, entry))
        self._acceptor.accept(self.ballot, slot, entry)
        # The own acceptance counts like that of a peer: only once it is on disk.
        own = Accepted(self.ballot, slot)
        self._context.send(self._context.node, self._group, own, synced=True)

    def accepted(self, sender: int, answer: Accepted) -> Entry | None:
        """Count an acceptance; the entry if it is chosen now."""
        under_way = self.in_flight.get(answer.slot)
        # A late answer to an earlier ballot proves nothing about this one.
        if answer.ballot != self.ballot or under_way is None:
            return None
        under_way.by.add(sender)
        if len(under_way.by) < self._context.majority:
            return None
        del self.in_flight[answer.slot]
        return under_way.entry

    def refused(self, answer: Rejected) -> None:
        """Note that a node has promised a higher ballot."""
        self._highest = max(self._highest, answer.ballot[0])
        if answer.ballot > self.ballot:
            self.step_down()

    def step_down(self) -> None:
        """Stop leading. Entries in flight may be chosen or not.

        Own entries that count once are proposed again. Entries found at acceptors are left to their proposer,
        or competing nodes would double them each time. A mastership is not proposed again; its node claims it
        anew with current knowledge.
        """
        if not self.leads:
            self._promises = None
            return
        self.leads = False
        again = [
            one.entry for _, one in sorted(self.in_flight.items()) if counts_once(one.entry) and not one.found
        ]
        self.in_flight.clear()
        self.waiting.extendleft(reversed(again))
        self._try_at = self._context.now + self._context.settings.retry_seconds


RESTARTED: Ballot = (0, 0)
ALL_RESTARTED: Ballot = (0, 1)
"""Promised in a new cluster, below all ballots of proposers: this node has a log; and all nodes have."""


class VoteRecovery:
    """The recovery of this node's vote in one group."""

    __slots__ = ("_acceptor", "_ask_at", "_context", "_group", "_leader", "_pause", "_responses")

    def __init__(self, context: NodeContext, group: int, acceptor: Acceptor) -> None:
        self._context, self._group, self._acceptor = context, group, acceptor
        self._responses: dict[int, Rejoined] = {}
        self._leader: tuple[Ballot, int] = NO_BALLOT, 0
        self._pause = context.settings.retry_seconds
        self._ask_at = context.now

    @property
    def blocking_reason(self) -> str:
        """Why this node has no vote; empty if it has one."""
        if self._acceptor.votes:
            return ""
        silent = [node for node in self._context.peers if node not in self._responses]
        if silent:
            return f"node {silent[0]} has not answered"
        without = [node for node, one in self._responses.items() if not one.votes]
        if without:
            return f"node {without[0]} has no vote either"
        return "it has not caught up with a leader"

    @property
    def _promised(self) -> Ballot:
        """The highest ballot that another node has promised, as far as this node knows."""
        return max((one.promised for one in self._responses.values()), default=NO_BALLOT)

    def next_deadline(self) -> float:
        """Time of the next recovery request; infinity once this node votes."""
        return inf if self._acceptor.votes else self._ask_at

    def tick(self) -> None:
        """Send recovery requests to all other nodes, at growing intervals; if no node leads, ask one after
        another to lead.
        """
        now, others = self._context.now, self._context.peers
        if self._acceptor.votes or now < self._ask_at:
            return
        self._ask_at = now + self._pause
        self._pause = min(2 * self._pause, self._context.settings.renewal_seconds)
        none_leads = len(self._responses) == len(others) and self._leader[0] < self._promised > ALL_RESTARTED
        turn = int(now / self._pause) % len(others)
        for place, node in enumerate(others):
            asked = Rejoin(self._context.incarnation, none_leads and place == turn)
            self._context.send(node, self._group, asked)

    def answered(self, sender: int, answer: Rejoined, applied: int) -> bool:
        """Handle an answer; True if its sender may have more of the log."""
        if self._acceptor.votes or answer.incarnation != self._context.incarnation:
            return False
        # Answers may overtake one another: a ballot that was promised once is a bound for ever.
        before = self._responses.get(sender, answer)
        self._responses[sender] = answer._replace(promised=max(before.promised, answer.promised))
        if answer.leads:
            self._leader = max(self._leader, (answer.promised, answer.upto))
        self.try_vote(applied)
        return answer.upto > applied

    def try_vote(self, applied: int) -> None:
        """Vote from now on, if that is safe."""
        acceptor, heard = self._acceptor, self._responses.values()
        complete = len(self._responses) == len(self._context.peers)
        if acceptor.votes:
            return
        # A new cluster: no node has promised a ballot, so no value can have been accepted anywhere.
        if acceptor.promised == NO_BALLOT and complete and self._promised <= ALL_RESTARTED:
            acceptor.promise(RESTARTED)
            self._ask_at, self._pause = self._context.now, self._context.settings.retry_seconds
        ballot, upto = self._leader
        if acceptor.promised == RESTARTED:
            ballot = ALL_RESTARTED
            if self._promised < ALL_RESTARTED and not (
                complete and all(one.promised >= RESTARTED for one in heard)
            ):
                return
        # The lost disk may have held acknowledged values, so this node votes only after it has applied the
        # log of the leader with the highest ballot.
        elif not complete or ballot < self._promised or applied < upto or not all(one.votes for one in heard):
            return
        acceptor.votes = True
        acceptor.promise(ballot)


LocationT = TypeVar("LocationT")


class RetainedLog(Generic[LocationT]):
    """The lines of a group's log that are still needed, absorbed in the order in which they were written.

    The retained lines recover the same `PaxosLog` as all lines, whatever is written later; tests compare the
    two. So this class must change together with `PaxosLog.recover`.

    Attributes
    ----------
    promised
        The highest ballot. An accepted entry implies a promise of its ballot, unless it was learned.
    snapshot
        Slot and location of the last snapshot.
    accepted
        Slot to the location of its last accepted entry, for slots that no snapshot covers.
    upto
        The last slot that is known to be chosen.
    """

    __slots__ = ("accepted", "promised", "snapshot", "upto")

    def __init__(self) -> None:
        self.promised: Ballot = NO_BALLOT
        self.snapshot: tuple[int, LocationT] | None = None
        self.accepted: dict[int, LocationT] = {}
        self.upto = 0

    def absorb(self, written: object, place: LocationT) -> list[LocationT]:
        """Absorb the next line at its location; the locations that are no longer needed.

        Raises
        ------
        InputError
            If it is no line of a log: an unknown line must not be discarded.
        """
        match written:
            case Promised(ballot):
                self.promised = max(self.promised, ballot)
                return [place]
            case AcceptedAt(slot, ballot, _):
                if ballot != LEARNT:
                    self.promised = max(self.promised, ballot)
                before = self.accepted.get(slot)
                self.accepted[slot] = place
                return [] if before is None else [before]
            case ChosenUpTo(slot):
                self.upto = slot
                return [place]
            case GroupSnapshot(slot, _):
                covered = [self.accepted.pop(at) for at in [one for one in self.accepted if one <= slot]]
                if self.snapshot is not None:
                    covered.append(self.snapshot[1])
                self.snapshot, self.upto = (slot, place), slot
                return covered
        raise InputError(f"{type(written).__name__} is no line of a node's log: update this node")

    def places(self) -> Iterator[LocationT]:
        """Location of the snapshot, then those of accepted entries, by slot."""
        if self.snapshot is not None:
            yield self.snapshot[1]
        for slot in sorted(self.accepted):
            yield self.accepted[slot]

    def state_records(self) -> Iterator[Promised | ChosenUpTo]:
        """State without a location, to be written behind all retained lines."""
        if self.promised != NO_BALLOT:
            yield Promised(self.promised)
        if self.upto > (0 if self.snapshot is None else self.snapshot[0]):
            yield ChosenUpTo(self.upto)


MAX_BATCH_ENTRIES = 256
MAX_BATCH_BYTES = 16 << 20
"""Entries are told up to so many bytes, and one at least: a frame has its limit."""


class PaxosLog:
    """The log of one group, chosen by the nodes themselves (`GroupLog`).

    Parameters
    ----------
    apply
        Called with every chosen slot and entry, in order, once.
    snapshot, restore
        The state after the last applied slot as a value, and its restoration.

    Attributes
    ----------
    applied
        The last applied slot.
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
        self.acceptor = Acceptor(context, group)
        self.proposer = Proposer(context, group, self.acceptor)
        self.rejoining = VoteRecovery(context, group, self.acceptor)
        self.applied = 0
        self._chosen: dict[int, Entry] = {}
        self._catch_up_retry = CatchUpRetry(context, context.settings.lease_seconds)
        self._ahead: int | None = None
        self._left_at: int | None = None

    def recover(self, written: Iterable[object]) -> None:
        """Restore the log from the lines that earlier processes of this node wrote, in order."""
        acceptor, upto = self.acceptor, 0
        for one in written:
            match one:
                case Promised(ballot):
                    acceptor.promised = max(acceptor.promised, ballot)
                case AcceptedAt(slot, ballot, entry):
                    acceptor.accepted[slot] = ballot, entry
                    if ballot != LEARNT:
                        acceptor.promised = max(acceptor.promised, ballot)
                case ChosenUpTo(slot):
                    upto = slot
                case GroupSnapshot(slot, state):
                    self._restore(state)
                    self.applied = upto = slot
                    acceptor.cut(slot)
        acceptor.votes |= acceptor.promised >= ALL_RESTARTED
        for slot in range(self.applied + 1, upto + 1):
            self._chosen[slot] = acceptor.accepted[slot][1]
        self._advance(written_already=True)

    @property
    def without_vote(self) -> str:
        """Why this node does not vote although it could; empty if it votes."""
        return self.rejoining.blocking_reason

    @property
    def in_flight(self) -> tuple[Entry, ...]:
        """Entries sent to the acceptors of their slots."""
        return tuple(one.entry for one in self.proposer.in_flight.values())

    def propose(self, entry: Entry) -> None:
        """Propose an entry as `Proposer.propose` does; a node without a vote proposes nothing."""
        if self.acceptor.votes:
            self.proposer.propose(entry, self.applied)

    def discard_pending(self, kind: type) -> None:
        """Discard values of a kind that were not proposed yet."""
        self.proposer.discard_pending(kind)

    def settle(self) -> None:
        """Decide entries whose proposer has failed: the leader finds accepted entries, and has them
        chosen.
        """
        is_left = max(self.acceptor.accepted, default=0) > self.applied
        if is_left and self._left_at == self.applied and not (self.proposer.leads or self.proposer.waiting):
            self.propose(NoOp())
        self._left_at = self.applied if is_left else None

    def first_learned_at(self, slot: int) -> float:
        """Time at which this node learned the value of a slot, or a later one."""
        return self.acceptor.first_learned_at(slot)

    def tick(self) -> None:
        """Run the timers of the proposer and of the vote recovery, and repeat a request for entries that
        was too early.
        """
        self.proposer.tick(self.applied)
        self.rejoining.tick()
        if self._ahead is not None:
            self.catch_up(self._ahead)

    def next_deadline(self) -> float:
        """Earliest deadline of the proposer and of the vote recovery, and earliest time of a request for
        entries.
        """
        ask_at = inf if self._ahead is None else self._catch_up_retry.may_ask_at(self.applied)
        return min(self.proposer.next_deadline(), self.rejoining.next_deadline(), ask_at)

    def received(self, sender: int, message: object) -> bool:
        """Handle a message of Paxos; False if it is none."""
        match message:
            case Prepare():
                self.acceptor.prepare(sender, message)
                self._outdone()
            case Promise():
                if not self.proposer.promised(sender, message, self.applied):
                    self.catch_up(sender)
            case Rejected():
                self.proposer.refused(message)
            case Accept():
                self.acceptor.handle_accept(sender, message, self.applied)
                self._outdone()
            case Accepted(_, slot):
                entry = self.proposer.accepted(sender, message)
                if entry is not None and slot > self.applied:
                    self._chosen[slot] = entry
                    self._advance()
            case Commit():
                self._committed(sender, message)
            case CatchUp(since):
                self._send_chosen(sender, since)
            case Rejoin():
                self._rejoins(sender, message)
            case Rejoined():
                if self.rejoining.answered(sender, message, self.applied):
                    self.catch_up(sender)
            case Chosen(since, entries):
                self._learn(since, entries)
            case GroupSnapshot():
                self._install(message)
            case _:
                return False
        return True

    def _rejoins(self, sender: int, request: Rejoin) -> None:
        """Send a node without a vote what it needs for one; lead if it reports that no node leads."""
        proposer = self.proposer
        if request.lead and not proposer.leads and not proposer.waiting:
            self.propose(NoOp())
        upto = max(self.applied, proposer.last if proposer.leads else 0)
        answer = Rejoined(
            request.incarnation, self.acceptor.promised, self.acceptor.votes, proposer.leads, upto
        )
        # What a power cut takes back must not be known to others.
        self._context.send(sender, self._group, answer, synced=True)

    def _outdone(self) -> None:
        if self.acceptor.promised > self.proposer.ballot and self.proposer.ballot != NO_BALLOT:
            self.proposer.step_down()

    def _advance(self, *, written_already: bool = False) -> None:
        before = self.applied
        while self.applied + 1 in self._chosen:
            self.applied += 1
            self._apply(self.applied, self._chosen.pop(self.applied))
        if written_already or self.applied == before:
            return
        self._context.write(self._group, ChosenUpTo(self.applied))
        self.rejoining.try_vote(self.applied)
        if self.proposer.leads:
            self._context.broadcast(
                self._group, Commit(self.proposer.ballot, self.proposer.first, self.applied)
            )
            self.proposer.tick(self.applied)
        if self.applied - self.acceptor.base >= self._context.settings.snapshot_entries:
            self._cut()

    def _cut(self) -> None:
        self._context.write(self._group, GroupSnapshot(self.applied, self._snapshot()))
        # The newest half stays, for nodes that are a little behind.
        self.acceptor.cut(self.applied - self._context.settings.snapshot_entries // 2)

    def _committed(self, sender: int, text: Commit) -> None:
        for slot in range(self.applied + 1, text.upto + 1):
            ballot, entry = self.acceptor.accepted.get(slot, (None, None))
            # Another ballot's value may be another value, and before `since` the sender vouches for nothing.
            if slot < text.since or ballot != text.ballot or entry is None:
                if slot not in self._chosen:
                    break
            else:
                self._chosen[slot] = entry
        self._advance()
        if self.applied < text.upto:
            self.catch_up(sender)

    def catch_up(self, sender: int) -> None:
        """Request the chosen entries from a node, or later if it is too early."""
        asks = self._catch_up_retry.ask(self.applied)
        self._ahead = None if asks else sender
        if asks:
            self._context.send(sender, self._group, CatchUp(self.applied + 1))

    def _send_chosen(self, sender: int, since: int) -> None:
        if since > self.applied:
            return
        if since < self.acceptor.base:
            self._context.send(sender, self._group, GroupSnapshot(self.applied, self._snapshot()))
            return
        last = min(self.applied, since + MAX_BATCH_ENTRIES - 1)
        entries, size = list[Entry](), 0
        for slot in range(since, last + 1):
            entry = self.acceptor.accepted[slot][1]
            size += entry_bytes(entry)
            if entries and size > MAX_BATCH_BYTES:
                break
            entries.append(entry)
        self._context.send(sender, self._group, Chosen(since, tuple(entries)))

    def _learn(self, since: int, entries: tuple[Entry, ...]) -> None:
        for slot, entry in enumerate(entries, since):
            if slot > self.applied and slot not in self._chosen:
                self._chosen[slot] = entry
                self.acceptor.accept(LEARNT, slot, entry)
                # A leader is told nothing that it did not choose itself: somebody else has led since.
                self.proposer.step_down()
        self._advance()

    def _install(self, snapshot: GroupSnapshot) -> None:
        if snapshot.slot <= self.applied:
            return
        self.proposer.step_down()
        self._restore(snapshot.state)
        self.applied = snapshot.slot
        self._chosen = {slot: entry for slot, entry in self._chosen.items() if slot > snapshot.slot}
        self._context.write(self._group, snapshot)
        self.acceptor.cut(snapshot.slot)
        self.rejoining.try_vote(self.applied)
        self._advance()
