"""A node without a log rejoins: it has no vote in a group until it has learnt all it may have voted for.

A node whose disk was emptied has forgotten promises and acceptances on which other nodes rely. It asks all
other nodes, and neither promises nor accepts nor proposes until one of these holds:

- No other node has promised anything: nothing was ever chosen, so the cluster is new. The node notes
  `RESTARTED`
  on its disk, and votes once all others have done so. Before that nobody votes, so a node that has
  `RESTARTED` on its disk and nothing else has forgotten nothing.
- All other nodes have answered and vote, one of them leads with a ballot that is not below any promise, and
  this node has applied every slot that the leader had used when it answered.

That is enough. Whatever this node accepted before, its proposer had promised that ballot on its own disk, so
the ballot is not above the leader's. With a lower ballot: what was chosen was reported to the leader when it
prepared, by a node that still knows it or by this node before it lost its disk. With the leader's ballot: it
stands in a slot that the leader had used. Whatever this node promised before, its proposer had promised, too.
A ballot of its own that led was promised by a majority, so this node proposes with a higher one.
"""

from __future__ import annotations

from math import inf

from trimtab_store.core.acceptor import NO_BALLOT, Acceptor
from trimtab_store.core.messages import Ballot, Rejoin, Rejoined
from trimtab_store.core.node_context import NodeContext

RESTARTED: Ballot = (0, 0)
ALL_RESTARTED: Ballot = (0, 1)
"""Promised in a new cluster, below all ballots of proposers: this node has a log; and all nodes have."""


class VoteRecovery:
    """The way of this node to its vote in one group."""

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
        """The highest ballot that another node has promised, as far as this one has heard."""
        return max((one.promised for one in self._responses.values()), default=NO_BALLOT)

    def next_deadline(self) -> float:
        """When to ask again."""
        return inf if self._acceptor.votes else self._ask_at

    def tick(self) -> None:
        """Ask all other nodes, less and less often; where none leads, ask one after another to lead."""
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
        """Take in an answer; True if its sender may have more of the log."""
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
        elif not complete or ballot < self._promised or applied < upto or not all(one.votes for one in heard):
            return
        acceptor.votes = True
        acceptor.promise(ballot)
