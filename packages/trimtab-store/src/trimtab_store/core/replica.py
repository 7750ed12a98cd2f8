"""A group's replicated log on one node: acceptor, proposer and what was learnt, in one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

from trimtab_store.core.acceptor import LEARNT, NO_BALLOT, Acceptor
from trimtab_store.core.bounds import entry_bytes
from trimtab_store.core.entries import Entry, NoOp
from trimtab_store.core.log import CatchUpRetry
from trimtab_store.core.messages import (
    Accept,
    Accepted,
    AcceptedAt,
    CatchUp,
    Chosen,
    ChosenUpTo,
    Commit,
    GroupSnapshot,
    Prepare,
    Promise,
    Promised,
    Rejected,
    Rejoin,
    Rejoined,
)
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.proposer import Proposer
from trimtab_store.core.rejoin import ALL_RESTARTED, VoteRecovery

MAX_BATCH_ENTRIES = 256
MAX_BATCH_BYTES = 16 << 20
"""Entries are told up to so many bytes, and one at least: a frame has its limit."""


class PaxosLog:
    """The log of one group, chosen by the nodes themselves; see `GroupLog`.

    Parameters
    ----------
    apply
        Called with every chosen slot and value, in order, once.
    snapshot, restore
        The state after the last applied slot as a value, and back.

    Attributes
    ----------
    applied
        The last slot that was applied.
    """

    __slots__ = (
        "_ahead",
        "_apply",
        "_catch_up_retry",
        "_chosen",
        "_context",
        "_group",
        "_left_at",
        "_restore",
        "_snapshot",
        "acceptor",
        "applied",
        "proposer",
        "rejoining",
    )  # fmt: skip

    def __init__(
        self,
        context: NodeContext,
        group: int,
        apply: Callable[[int, Entry], None],
        snapshot: Callable[[], tuple[Any, ...]],
        restore: Callable[[tuple[Any, ...]], None],
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

    def recover(self, written: Iterable[Any]) -> None:
        """Take in what this node wrote down in former lives, in order."""
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
        """See `GroupLog.without_vote`."""
        return self.rejoining.blocking_reason

    @property
    def in_flight(self) -> tuple[Entry, ...]:
        """What was sent to the acceptors of its slot."""
        return tuple(one.entry for one in self.proposer.in_flight.values())

    def propose(self, entry: Entry) -> None:
        """See `Proposer.propose`; without a vote nothing is proposed."""
        if self.acceptor.votes:
            self.proposer.propose(entry, self.applied)

    def discard_pending(self, kind: type) -> None:
        """See `Proposer.discard_pending`."""
        self.proposer.discard_pending(kind)

    def settle(self) -> None:
        """See `GroupLog.settle`: whoever leads finds what was accepted, and has it chosen."""
        is_left = max(self.acceptor.accepted, default=0) > self.applied
        if is_left and self._left_at == self.applied and not (self.proposer.leads or self.proposer.waiting):
            self.propose(NoOp())
        self._left_at = self.applied if is_left else None

    def first_learned_at(self, slot: int) -> float:
        """See `GroupLog.first_learned_at`."""
        return self.acceptor.first_learned_at(slot)

    def tick(self) -> None:
        """See `Proposer.tick` and `VoteRecovery.tick`; and ask a node that has more, if it was too early."""
        self.proposer.tick(self.applied)
        self.rejoining.tick()
        if self._ahead is not None:
            self.catch_up(self._ahead)

    def next_deadline(self) -> float:
        """See `Proposer.next_deadline` and `VoteRecovery.next_deadline`; or when a node that has more may be
        asked.
        """
        ask_at = inf if self._ahead is None else self._catch_up_retry.may_ask_at(self.applied)
        return min(self.proposer.next_deadline(), self.rejoining.next_deadline(), ask_at)

    def received(self, sender: int, message: Any) -> bool:
        """Take in a message of Paxos; False if it is none."""
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
        """Tell a node without a vote what it needs for one; lead if it says that nobody does."""
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
        """Ask a node for what was chosen since, or later if it is too early."""
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
