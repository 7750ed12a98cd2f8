"""A lease by local clocks alone: its holder counts from before sending, everybody else from hearing of it."""

from __future__ import annotations

from math import inf

from trimtab.online.masters.entries import Nonce
from trimtab.online.masters.station import Station


class Lease:
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
        Until when this node writes in the place of a master, if a takeover names it.
    """

    __slots__ = (
        "_given_up", "_seconds", "_starts", "_station", "acting_until", "others_until", "own_until",
    )  # fmt: skip

    def __init__(self, station: Station, seconds: float) -> None:
        self._station, self._seconds = station, seconds
        self._starts: dict[Nonce, float] = {}
        self._given_up: Nonce | None = None
        self.own_until = self.acting_until = -inf
        # Whatever this node knew in a former life, somebody may have become master just before this one.
        self.others_until = station.now + seconds

    def asking(self) -> Nonce:
        """A nonce for a proposal that is sent no earlier than now."""
        nonce, now = self._station.nonce(), self._station.now
        self._starts = {one: at for one, at in self._starts.items() if now - at < 2 * self._seconds}
        self._starts[nonce] = now
        return nonce

    def give_up(self) -> None:
        """Hold it no more, before others are told; only a proposal from after this gives it back."""
        self.own_until, self._given_up = -inf, self._station.nonce()

    def taken(self, node: int, nonce: Nonce, seen: float) -> None:
        """A proposal by which a node holds it was applied here, now, and came here first when it was `seen`.

        Its holder counts from before it was sent, so from before then. A proposal that lay about for long,
        and was chosen by somebody who found it, makes nobody wait for a term that is over.
        """
        self.own_until = -inf
        # A nonce of another life of this node has no start here: that life's term is not this one's.
        start = self._starts.get(nonce) if node == self._station.node else None
        # Nor is it a reason to wait: that life is over, and nobody else holds what it was given.
        if start is not None or node != self._station.node:
            self.others_until = seen + self._seconds
        else:
            # Where it learns its former life anew, a takeover that came before may have made it wait longer.
            self.others_until = min(self.others_until, self._station.now + self._seconds)
        if start is not None and (self._given_up is None or nonce > self._given_up):
            self.own_until, self._given_up = start + self._seconds * (1 - self._station.settings.margin), None

    def named(self, ready: Nonce) -> None:
        """A takeover names this node, which may write meanwhile; a term counts from when it was ready."""
        start = self._starts.get(ready)
        if start is not None:
            self.acting_until = start + self._seconds * (1 - self._station.settings.margin)

    def handed(self, *, ends_now: bool, waits: float = 0.0) -> None:
        """It was promised to a node, which may try at once; others leave it alone for one term.

        Where that node has to wait for the old term's end and for its own next try, others leave it alone for
        so many seconds more: they would be the first to try now and then. Never longer: it may have died.
        """
        self.own_until = -inf
        self.others_until = -inf if ends_now else self._station.now + self._seconds + waits

    def freed(self) -> None:
        """It was given back."""
        self.own_until = self.others_until = -inf

    @property
    def held(self) -> bool:
        """Whether this node holds it now."""
        return self._station.now < self.own_until

    @property
    def given_up(self) -> bool:
        """Whether this node gave it up, and has not had it since."""
        return self._given_up is not None

    @property
    def open(self) -> bool:
        """Whether this node believes that nobody holds it."""
        return self._station.now >= self.others_until
