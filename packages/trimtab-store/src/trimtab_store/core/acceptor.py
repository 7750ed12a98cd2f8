"""The acceptor of a group: what this node has promised and accepted."""

from __future__ import annotations

from trimtab_store.core.entries import Entry
from trimtab_store.core.messages import (
    Accept,
    Accepted,
    AcceptedAt,
    Accepting,
    Ballot,
    Prepare,
    Promise,
    Promised,
    Rejected,
)
from trimtab_store.core.node_context import NodeContext

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

    __slots__ = (
        "_context",
        "_first_learned",
        "_group",
        "_started_at",
        "accepted",
        "base",
        "promised",
        "votes",
    )

    def __init__(self, context: NodeContext, group: int) -> None:
        self._context, self._group = context, group
        self.promised: Ballot = NO_BALLOT
        self.accepted: dict[int, tuple[Ballot, Entry]] = {}
        self.base = 1
        self.votes = not (context.rejoins and context.peers)
        self._started_at = context.now
        self._first_learned: dict[int, float] = {}

    def since(self, slot: int) -> tuple[Accepting, ...]:
        """All that was accepted from a slot on."""
        return tuple((at, *self.accepted[at]) for at in sorted(self.accepted) if at >= slot)

    def promise(self, ballot: Ballot) -> bool:
        """Promise a ballot, if none as high was; the promise is good once it is on disk."""
        if ballot <= self.promised:
            return False
        self.promised = ballot
        self._context.write(self._group, Promised(ballot))
        return True

    def accept(self, ballot: Ballot, slot: int, entry: Entry) -> None:
        """Accept a value; that is good once it is on disk."""
        known = self.accepted.get(slot)
        if known is None or known[1] != entry:
            self._first_learned[slot] = self._context.now
        self.accepted[slot] = ballot, entry
        self._context.write(self._group, AcceptedAt(slot, ballot, entry))

    def first_learned_at(self, slot: int) -> float:
        """When this node first had the value of a slot, by its clock; what its disk held, when it started."""
        return self._first_learned.get(slot, self._started_at if slot in self.accepted else self._context.now)

    def prepare(self, sender: int, request: Prepare) -> None:
        """Answer a proposer that begins."""
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
        """Answer a proposer that wants a value accepted; what is chosen already stays as it is."""
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
        """Forget what a snapshot after that slot covers."""
        self.base = max(self.base, slot + 1)
        self.accepted = {at: kept for at, kept in self.accepted.items() if at > slot}
        self._first_learned = {at: seen for at, seen in self._first_learned.items() if at > slot}
