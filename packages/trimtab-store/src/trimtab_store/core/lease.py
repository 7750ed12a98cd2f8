"""A lease by local clocks only: the holder counts from before it sends, all others from the arrival."""

from __future__ import annotations

from math import inf

from trimtab_store.core.messages import Nonce
from trimtab_store.core.node_context import NodeContext


class MastershipLease:
    """What one node knows of one lease: of a mastership, or of the token of the cluster.

    The holder's term begins before it sends its proposal. The term of the others begins when the proposal
    arrives, which is later. So the holder is always the first to see the lease expire.

    Parameters
    ----------
    seconds
        The term, as the others count it.

    Attributes
    ----------
    own_until
        Time until which this node counts itself as the holder.
    others_until
        Time until which this node does not claim the lease.
    acting_until
        Time until which this node writes instead of a master, if a transfer names it.
    """

    def __init__(self, context: NodeContext, seconds: float) -> None:
        self._context, self._seconds = context, seconds
        self._starts: dict[Nonce, float] = {}
        self._released: Nonce | None = None
        self.own_until = self.acting_until = -inf
        # Whatever this node knew in a former life, somebody may have become master just before this one.
        self.others_until = context.now + seconds

    def new_proposal(self) -> Nonce:
        """A nonce for a proposal that is sent now or later."""
        nonce, now = self._context.nonce(), self._context.now
        # Older proposals are forgotten: a term counted from their start would be over.
        self._starts = {one: at for one, at in self._starts.items() if now - at < 2 * self._seconds}
        self._starts[nonce] = now
        return nonce

    def give_up(self) -> None:
        """Release the lease before others know; only a later proposal acquires it again."""
        self.own_until, self._released = -inf, self._context.nonce()

    def acquired(self, node: int, nonce: Nonce, observation: float) -> None:
        """Note a proposal of a holder that is applied now, and that first arrived at `seen`.

        The holder counts from before it sent the proposal, so from before `seen`. A late proposal that
        another node had chosen makes no node wait for a term that is over.
        """
        self.own_until = -inf
        # A nonce of another life of this node has no start here: that life's term is not this one's.
        start = self._starts.get(nonce) if node == self._context.node else None
        # Nor is it a reason to wait: that life is over, and nobody else holds what it was given.
        if start is not None or node != self._context.node:
            self.others_until = observation + self._seconds
        else:
            # Where it learns its former life anew, a transfer that came before may have made it wait longer.
            self.others_until = min(self.others_until, self._context.now + self._seconds)
        # The term counts from the proposal's start, shortened by the margin. So it ends here before it ends
        # at any other node, even if clocks drift.
        if start is not None and (self._released is None or nonce > self._released):
            self.own_until, self._released = start + self._seconds * (1 - self._context.settings.margin), None

    def named(self, ready: Nonce) -> None:
        """Note that a transfer names this node, which may write meanwhile; its term counts from its
        readiness.
        """
        start = self._starts.get(ready)
        if start is not None:
            self.acting_until = start + self._seconds * (1 - self._context.settings.margin)

    def reserve(self, *, ends_now: bool, waits: float = 0.0) -> None:
        """Reserve the lease for a node that may claim it at once; others do not claim it for one term.

        If that node must wait for the end of the old term and for its next attempt, others wait so much
        longer, or they would sometimes be first. The time is limited, because the node may have failed.
        """
        self.own_until = -inf
        self.others_until = -inf if ends_now else self._context.now + self._seconds + waits

    def freed(self) -> None:
        """The holder released the lease."""
        self.own_until = self.others_until = -inf

    @property
    def held(self) -> bool:
        """Whether this node holds it now."""
        return self._context.now < self.own_until

    @property
    def is_released(self) -> bool:
        """Whether this node released the lease, and has not acquired it since."""
        return self._released is not None

    @property
    def open(self) -> bool:
        """Whether this node knows of no holder."""
        return self._context.now >= self.others_until
