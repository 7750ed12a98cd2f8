"""The acceptor of a group: what this node has promised and accepted."""

from __future__ import annotations

from trimtab.online.masters.entries import Entry
from trimtab.online.masters.messages import (
    Accept,
    Accepted,
    AcceptedAt,
    Accepting,
    Ballot,
    Prepare,
    Promise,
    Promised,
    Refused,
)
from trimtab.online.masters.station import Station

NO_BALLOT: Ballot = (0, -1)
LEARNT: Ballot = (1 << 62, 0)
"""The ballot under which a value is kept that was learnt as chosen: above any other."""


class Acceptor:
    """Promises and accepted values, kept until a snapshot covers them.

    Attributes
    ----------
    promised
        The highest ballot.
    accepted
        Slot to ballot and value.
    base
        The first slot that no snapshot covers.
    votes
        Whether it may promise and accept: not where this node may have forgotten that it did.
    """

    __slots__ = ("_began", "_group", "_seen", "_station", "accepted", "base", "promised", "votes")

    def __init__(self, station: Station, group: int) -> None:
        self._station, self._group = station, group
        self.promised: Ballot = NO_BALLOT
        self.accepted: dict[int, tuple[Ballot, Entry]] = {}
        self.base = 1
        self.votes = not (station.rejoins and station.others)
        self._began = station.now
        self._seen: dict[int, float] = {}

    def since(self, slot: int) -> tuple[Accepting, ...]:
        """All that was accepted from a slot on."""
        return tuple((at, *self.accepted[at]) for at in sorted(self.accepted) if at >= slot)

    def promise(self, ballot: Ballot) -> bool:
        """Promise a ballot, if none as high was; the promise is good once it is on disk."""
        if ballot <= self.promised:
            return False
        self.promised = ballot
        self._station.write(self._group, Promised(ballot))
        return True

    def accept(self, ballot: Ballot, slot: int, entry: Entry) -> None:
        """Accept a value; that is good once it is on disk."""
        known = self.accepted.get(slot)
        if known is None or known[1] != entry:
            self._seen[slot] = self._station.now
        self.accepted[slot] = ballot, entry
        self._station.write(self._group, AcceptedAt(slot, ballot, entry))

    def seen_at(self, slot: int) -> float:
        """When this node first had the value of a slot, by its clock; what its disk held, when it started."""
        return self._seen.get(slot, self._began if slot in self.accepted else self._station.now)

    def prepare(self, sender: int, asked: Prepare) -> None:
        """Answer a proposer that begins."""
        if not self.votes:
            return
        if asked.ballot < self.promised:
            self._station.send(sender, self._group, Refused(self.promised))
            return
        self.promise(asked.ballot)
        answer = Promise(asked.ballot, self.base, self.since(asked.since))
        # A promise that a power cut takes back has let two proposers through.
        self._station.send(sender, self._group, answer, synced=True)

    def take(self, sender: int, asked: Accept, applied: int) -> None:
        """Answer a proposer that wants a value accepted; what is chosen already stays as it is."""
        if not self.votes:
            return
        if asked.ballot < self.promised:
            self._station.send(sender, self._group, Refused(self.promised))
            return
        self.promise(asked.ballot)
        if asked.slot > applied and self.accepted.get(asked.slot) != (asked.ballot, asked.entry):
            self.accept(asked.ballot, asked.slot, asked.entry)
        # An acceptance that a power cut takes back was counted as one.
        self._station.send(sender, self._group, Accepted(asked.ballot, asked.slot), synced=True)

    def cut(self, slot: int) -> None:
        """Forget what a snapshot after that slot covers."""
        self.base = max(self.base, slot + 1)
        self.accepted = {at: kept for at, kept in self.accepted.items() if at > slot}
        self._seen = {at: seen for at, seen in self._seen.items() if at > slot}
