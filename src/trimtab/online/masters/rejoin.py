"""A node without a log rejoins: it has no vote in a group until it has learnt all it may have voted for.

A node whose disk was emptied has forgotten promises and acceptances on which other nodes rely. It asks all
other nodes, and neither promises nor accepts nor proposes until one of these holds:

- No other node has promised anything: nothing was ever chosen, so the cluster is new. The node notes `BEGUN`
  on its disk, and votes once all others have done so. Before that nobody votes, so a node that has `BEGUN` on
  its disk and nothing else has forgotten nothing.
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

from trimtab.online.masters.acceptor import NO_BALLOT, Acceptor
from trimtab.online.masters.messages import Ballot, Rejoin, Rejoined
from trimtab.online.masters.station import Station

BEGUN: Ballot = (0, 0)
ALL_BEGUN: Ballot = (0, 1)
"""Promised in a new cluster, below all ballots of proposers: this node has a log; and all nodes have."""


class Rejoining:
    """The way of this node to its vote in one group."""

    __slots__ = ("_acceptor", "_ask_at", "_group", "_heard", "_leader", "_pause", "_station")

    def __init__(self, station: Station, group: int, acceptor: Acceptor) -> None:
        self._station, self._group, self._acceptor = station, group, acceptor
        self._heard: dict[int, Rejoined] = {}
        self._leader: tuple[Ballot, int] = NO_BALLOT, 0
        self._pause = station.settings.retry_seconds
        self._ask_at = station.now

    @property
    def why(self) -> str:
        """Why this node has no vote; empty if it has one."""
        if self._acceptor.votes:
            return ""
        silent = [node for node in self._station.others if node not in self._heard]
        if silent:
            return f"node {silent[0]} has not answered"
        without = [node for node, one in self._heard.items() if not one.votes]
        if without:
            return f"node {without[0]} has no vote either"
        return "it has not caught up with a leader"

    @property
    def _promised(self) -> Ballot:
        """The highest ballot that another node has promised, as far as this one has heard."""
        return max((one.promised for one in self._heard.values()), default=NO_BALLOT)

    def due(self) -> float:
        """When to ask again."""
        return inf if self._acceptor.votes else self._ask_at

    def go_on(self) -> None:
        """Ask all other nodes, less and less often; where none leads, ask one after another to lead."""
        now, others = self._station.now, self._station.others
        if self._acceptor.votes or now < self._ask_at:
            return
        self._ask_at = now + self._pause
        self._pause = min(2 * self._pause, self._station.settings.renewal_seconds)
        none_leads = len(self._heard) == len(others) and self._leader[0] < self._promised > ALL_BEGUN
        turn = int(now / self._pause) % len(others)
        for place, node in enumerate(others):
            asked = Rejoin(self._station.life, none_leads and place == turn)
            self._station.send(node, self._group, asked)

    def answered(self, sender: int, answer: Rejoined, applied: int) -> bool:
        """Take in an answer; True if its sender may have more of the log."""
        if self._acceptor.votes or answer.life != self._station.life:
            return False
        # Answers may overtake one another: a ballot that was promised once is a bound for ever.
        before = self._heard.get(sender, answer)
        self._heard[sender] = answer._replace(promised=max(before.promised, answer.promised))
        if answer.leads:
            self._leader = max(self._leader, (answer.promised, answer.upto))
        self.look(applied)
        return answer.upto > applied

    def look(self, applied: int) -> None:
        """Vote from now on, if that is safe."""
        acceptor, heard = self._acceptor, self._heard.values()
        complete = len(self._heard) == len(self._station.others)
        if acceptor.votes:
            return
        if acceptor.promised == NO_BALLOT and complete and self._promised <= ALL_BEGUN:
            acceptor.promise(BEGUN)
            self._ask_at, self._pause = self._station.now, self._station.settings.retry_seconds
        ballot, upto = self._leader
        if acceptor.promised == BEGUN:
            ballot = ALL_BEGUN
            if self._promised < ALL_BEGUN and not (complete and all(one.promised >= BEGUN for one in heard)):
                return
        elif not complete or ballot < self._promised or applied < upto or not all(one.votes for one in heard):
            return
        acceptor.votes = True
        acceptor.promise(ballot)
