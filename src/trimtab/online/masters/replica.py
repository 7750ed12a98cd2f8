"""A group's replicated log on one node: acceptor, proposer and what was learnt, in one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

from trimtab.online.masters.acceptor import LEARNT, NO_BALLOT, Acceptor
from trimtab.online.masters.bounds import entry_bytes
from trimtab.online.masters.entries import Entry, Nothing
from trimtab.online.masters.log import CatchUpRetry
from trimtab.online.masters.messages import (
    Accept,
    Accepted,
    AcceptedAt,
    CatchUp,
    Chosen,
    ChosenUpTo,
    Commit,
    Prepare,
    Promise,
    Promised,
    Refused,
    Rejoin,
    Rejoined,
    Snapshot,
)
from trimtab.online.masters.proposer import Proposer
from trimtab.online.masters.rejoin import ALL_BEGUN, Rejoining
from trimtab.online.masters.station import Station

ENTRIES_AT_ONCE = 256
BYTES_AT_ONCE = 16 << 20
"""Entries are told up to so many bytes, and one at least: a frame has its limit."""


class Replica:
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
        "_ahead", "_apply", "_catch_up_retry", "_chosen", "_group", "_left_at", "_restore", "_snapshot",
        "_station", "acceptor", "applied", "proposer", "rejoining",
    )  # fmt: skip

    def __init__(
        self,
        station: Station,
        group: int,
        apply: Callable[[int, Entry], None],
        snapshot: Callable[[], tuple[Any, ...]],
        restore: Callable[[tuple[Any, ...]], None],
    ) -> None:
        self._station, self._group = station, group
        self._apply, self._snapshot, self._restore = apply, snapshot, restore
        self.acceptor = Acceptor(station, group)
        self.proposer = Proposer(station, group, self.acceptor)
        self.rejoining = Rejoining(station, group, self.acceptor)
        self.applied = 0
        self._chosen: dict[int, Entry] = {}
        self._catch_up_retry = CatchUpRetry(station, station.settings.lease_seconds)
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
                case Snapshot(slot, state):
                    self._restore(state)
                    self.applied = upto = slot
                    acceptor.cut(slot)
        acceptor.votes |= acceptor.promised >= ALL_BEGUN
        for slot in range(self.applied + 1, upto + 1):
            self._chosen[slot] = acceptor.accepted[slot][1]
        self._advance(written_already=True)

    @property
    def without_vote(self) -> str:
        """See `GroupLog.without_vote`."""
        return self.rejoining.why

    @property
    def under_way(self) -> tuple[Entry, ...]:
        """What was sent to the acceptors of its slot."""
        return tuple(one.entry for one in self.proposer.under_way.values())

    def propose(self, entry: Entry) -> None:
        """See `Proposer.propose`; without a vote nothing is proposed."""
        if self.acceptor.votes:
            self.proposer.propose(entry, self.applied)

    def withdraw(self, kind: type) -> None:
        """See `Proposer.withdraw`."""
        self.proposer.withdraw(kind)

    def settle(self) -> None:
        """See `GroupLog.settle`: whoever leads finds what was accepted, and has it chosen."""
        is_left = max(self.acceptor.accepted, default=0) > self.applied
        if is_left and self._left_at == self.applied and not (self.proposer.leads or self.proposer.waiting):
            self.propose(Nothing())
        self._left_at = self.applied if is_left else None

    def seen_at(self, slot: int) -> float:
        """See `GroupLog.seen_at`."""
        return self.acceptor.seen_at(slot)

    def go_on(self) -> None:
        """See `Proposer.go_on` and `Rejoining.go_on`; and ask a node that has more, if it was too early."""
        self.proposer.go_on(self.applied)
        self.rejoining.go_on()
        if self._ahead is not None:
            self.catch_up(self._ahead)

    def due(self) -> float:
        """See `Proposer.due` and `Rejoining.due`; or when a node that has more may be asked."""
        ask_at = inf if self._ahead is None else self._catch_up_retry.may_ask_at(self.applied)
        return min(self.proposer.due(), self.rejoining.due(), ask_at)

    def received(self, sender: int, message: Any) -> bool:
        """Take in a message of Paxos; False if it is none."""
        match message:
            case Prepare():
                self.acceptor.prepare(sender, message)
                self._outdone()
            case Promise():
                if not self.proposer.promised(sender, message, self.applied):
                    self.catch_up(sender)
            case Refused():
                self.proposer.refused(message)
            case Accept():
                self.acceptor.take(sender, message, self.applied)
                self._outdone()
            case Accepted(_, slot):
                entry = self.proposer.accepted(sender, message)
                if entry is not None and slot > self.applied:
                    self._chosen[slot] = entry
                    self._advance()
            case Commit():
                self._committed(sender, message)
            case CatchUp(since):
                self._tell(sender, since)
            case Rejoin():
                self._rejoins(sender, message)
            case Rejoined():
                if self.rejoining.answered(sender, message, self.applied):
                    self.catch_up(sender)
            case Chosen(since, entries):
                self._learn(since, entries)
            case Snapshot():
                self._install(message)
            case _:
                return False
        return True

    def _rejoins(self, sender: int, asked: Rejoin) -> None:
        """Tell a node without a vote what it needs for one; lead if it says that nobody does."""
        proposer = self.proposer
        if asked.lead and not proposer.leads and not proposer.waiting:
            self.propose(Nothing())
        upto = max(self.applied, proposer.last if proposer.leads else 0)
        answer = Rejoined(asked.life, self.acceptor.promised, self.acceptor.votes, proposer.leads, upto)
        # What a power cut takes back must not be known to others.
        self._station.send(sender, self._group, answer, synced=True)

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
        self._station.write(self._group, ChosenUpTo(self.applied))
        self.rejoining.look(self.applied)
        if self.proposer.leads:
            self._station.tell_others(
                self._group, Commit(self.proposer.ballot, self.proposer.first, self.applied)
            )
            self.proposer.go_on(self.applied)
        if self.applied - self.acceptor.base >= self._station.settings.snapshot_entries:
            self._cut()

    def _cut(self) -> None:
        self._station.write(self._group, Snapshot(self.applied, self._snapshot()))
        # The newest half stays, for nodes that are a little behind.
        self.acceptor.cut(self.applied - self._station.settings.snapshot_entries // 2)

    def _committed(self, sender: int, told: Commit) -> None:
        for slot in range(self.applied + 1, told.upto + 1):
            ballot, entry = self.acceptor.accepted.get(slot, (None, None))
            # Another ballot's value may be another value, and before `since` the sender vouches for nothing.
            if slot < told.since or ballot != told.ballot or entry is None:
                if slot not in self._chosen:
                    break
            else:
                self._chosen[slot] = entry
        self._advance()
        if self.applied < told.upto:
            self.catch_up(sender)

    def catch_up(self, sender: int) -> None:
        """Ask a node for what was chosen since, or later if it is too early."""
        asks = self._catch_up_retry.ask(self.applied)
        self._ahead = None if asks else sender
        if asks:
            self._station.send(sender, self._group, CatchUp(self.applied + 1))

    def _tell(self, sender: int, since: int) -> None:
        if since > self.applied:
            return
        if since < self.acceptor.base:
            self._station.send(sender, self._group, Snapshot(self.applied, self._snapshot()))
            return
        last = min(self.applied, since + ENTRIES_AT_ONCE - 1)
        entries, size = list[Entry](), 0
        for slot in range(since, last + 1):
            entry = self.acceptor.accepted[slot][1]
            size += entry_bytes(entry)
            if entries and size > BYTES_AT_ONCE:
                break
            entries.append(entry)
        self._station.send(sender, self._group, Chosen(since, tuple(entries)))

    def _learn(self, since: int, entries: tuple[Entry, ...]) -> None:
        for slot, entry in enumerate(entries, since):
            if slot > self.applied and slot not in self._chosen:
                self._chosen[slot] = entry
                self.acceptor.accept(LEARNT, slot, entry)
                # A leader is told nothing that it did not choose itself: somebody else has led since.
                self.proposer.step_down()
        self._advance()

    def _install(self, snapshot: Snapshot) -> None:
        if snapshot.slot <= self.applied:
            return
        self.proposer.step_down()
        self._restore(snapshot.state)
        self.applied = snapshot.slot
        self._chosen = {slot: entry for slot, entry in self._chosen.items() if slot > snapshot.slot}
        self._station.write(self._group, snapshot)
        self.acceptor.cut(snapshot.slot)
        self.rejoining.look(self.applied)
        self._advance()
