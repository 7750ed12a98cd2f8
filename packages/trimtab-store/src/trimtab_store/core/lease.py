"""A lease by local clocks alone: its holder counts from before sending, everybody else from hearing of it."""

from __future__ import annotations

from math import inf

from trimtab_store.core.messages import Nonce
from trimtab_store.core.node_context import NodeContext


class MastershipLease:
    """What one node knows of one lease; of a mastership, or of the token of the cluster.

    The holder's term begins before its proposal is sent, and everybody else's when it comes to them,
    which is later. So the holder is always the first to count it as expired.

    Parameters
    ----------
    seconds
        The term, as the others count it.

    Attributes
    ----------
    own_until
        Until when this node counts itself as the holder.
    others_until
        Until when this node leaves the lease alone.
    acting_until
        Until when this node writes in the place of a master, if a transfer names it.
    """

    def __init__(self, context: NodeContext, seconds: float) -> None:
        self._context, self._seconds = context, seconds
        self._starts: dict[Nonce, float] = {}
        self._released: Nonce | None = None
        self.own_until = self.acting_until = -inf
        # Whatever this node knew in a former life, somebody may have become master just before this one.
        self.others_until = context.now + seconds

    def new_proposal(self) -> Nonce:
        """A nonce for a proposal that is sent no earlier than now."""
        nonce, now = self._context.nonce(), self._context.now
        self._starts = {one: at for one, at in self._starts.items() if now - at < 2 * self._seconds}
        self._starts[nonce] = now
        return nonce

    def give_up(self) -> None:
        """Hold it no more, before others are told; only a proposal from after this gives it back."""
        self.own_until, self._released = -inf, self._context.nonce()

    def acquired(self, node: int, nonce: Nonce, observation: float) -> None:
        """A proposal by which a node holds it was applied here, now, and came here first when it was `seen`.

        Its holder counts from before it was sent, so from before then. A proposal that lay about for long,
        and was chosen by somebody who found it, makes nobody wait for a term that is over.
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
        if start is not None and (self._released is None or nonce > self._released):
            self.own_until, self._released = start + self._seconds * (1 - self._context.settings.margin), None

    def named(self, ready: Nonce) -> None:
        """A transfer names this node, which may write meanwhile; a term counts from when it was ready."""
        start = self._starts.get(ready)
        if start is not None:
            self.acting_until = start + self._seconds * (1 - self._context.settings.margin)

    def reserve(self, *, ends_now: bool, waits: float = 0.0) -> None:
        """It was promised to a node, which may try at once; others leave it alone for one term.

        Where that node has to wait for the old term's end and for its own next try, others leave it alone for
        so many seconds more: they would be the first to try now and then. Never longer: it may have died.
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
        """Whether this node gave it up, and has not had it since."""
        return self._released is not None

    @property
    def open(self) -> bool:
        """Whether this node believes that nobody holds it."""
        return self._context.now >= self.others_until
