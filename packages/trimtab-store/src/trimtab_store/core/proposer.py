"""The proposer of a group: one prepare for all slots to come, then a value a slot, several at once."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf

from trimtab_store.core.acceptor import NO_BALLOT, Acceptor
from trimtab_store.core.entries import Entry, NoOp, counts_once
from trimtab_store.core.messages import Accept, Accepted, Ballot, Prepare, Promise, Rejected
from trimtab_store.core.node_context import NodeContext


@dataclass(slots=True)
class InFlightProposal:
    """A value sent to the acceptors of a slot.

    Attributes
    ----------
    found
        Whether it was found among what acceptors had: another node proposed it, or this one before.
    again_at, pause
        When it is sent again to those that have not answered, and how long that is after the last time: twice
        as long each time, for whoever is slow gets slower by what comes twice.
    """

    entry: Entry
    found: bool
    again_at: float
    pause: float
    by: set[int] = field(default_factory=set)


class Proposer:
    """Values waiting for a slot, and those under way.

    Attributes
    ----------
    ballot
        Its own, while it prepares or leads.
    leads
        Whether a majority has promised, and nobody has told of a higher ballot since.
    first
        The first slot that it proposed in under this ballot.
    waiting
        Values without a slot.
    in_flight
        Slot to value, until it is chosen.
    """

    __slots__ = (
        "_acceptor",
        "_context",
        "_failures",
        "_group",
        "_highest",
        "_next",
        "_promises",
        "_since",
        "_try_at",
        "ballot",
        "first",
        "in_flight",
        "leads",
        "waiting",
    )  # fmt: skip

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
        """The last slot that it has proposed in, or found something in, while it leads."""
        return self._next - 1

    def propose(self, entry: Entry, applied: int) -> None:
        """Have a value chosen in some slot, if this node can; whether it was is known when it is applied."""
        self.waiting.append(entry)
        self.tick(applied)

    def tick(self, applied: int) -> None:
        """Send what may be sent, and again what was not answered."""
        now, settings = self._context.now, self._context.settings
        if self.leads:
            while self.waiting and len(self.in_flight) < settings.window:
                self._send(self._next, self.waiting.popleft(), found=False)
                self._next += 1
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
        """Forget waiting values of a kind; nobody has seen them."""
        self.waiting = deque(entry for entry in self.waiting if type(entry) is not kind)

    def next_deadline(self) -> float:
        """When to go on though nothing happened."""
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
        """Count a promise; False if its sender has more in a snapshot than this node has learnt."""
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
                if slot > applied and (slot not in found or ballot > found[slot][0]):
                    found[slot] = ballot, entry
        self._promises, self.leads, self._failures = None, True, 0
        self.first, self._next = applied + 1, max(found, default=applied) + 1
        for slot in range(self.first, self._next):
            self._send(slot, found[slot][1] if slot in found else NoOp(), found=True)
        self.tick(applied)

    def _send(self, slot: int, entry: Entry, *, found: bool) -> None:
        pause = self._context.settings.retry_seconds
        self.in_flight[slot] = InFlightProposal(entry, found, self._context.now + pause, pause)
        self._context.broadcast(self._group, Accept(self.ballot, slot, entry))
        self._acceptor.accept(self.ballot, slot, entry)
        own = Accepted(self.ballot, slot)
        self._context.send(self._context.node, self._group, own, synced=True)

    def accepted(self, sender: int, answer: Accepted) -> Entry | None:
        """Count an acceptance; the value if it is chosen by it."""
        under_way = self.in_flight.get(answer.slot)
        if answer.ballot != self.ballot or under_way is None:
            return None
        under_way.by.add(sender)
        if len(under_way.by) < self._context.majority:
            return None
        del self.in_flight[answer.slot]
        return under_way.entry

    def refused(self, answer: Rejected) -> None:
        """Somebody has promised a higher ballot."""
        self._highest = max(self._highest, answer.ballot[0])
        if answer.ballot > self.ballot:
            self.step_down()

    def step_down(self) -> None:
        """Lead no more; what was under way may be chosen or not.

        What counts once of this node is proposed again; what was found is left to its proposer, or nodes
        that outdo one another double it each time. A mastership is not:
        whoever wants one asks anew, with what is known then.
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
