"""The token of the cluster: whoever holds it takes over a group, and nobody else does meanwhile."""

from __future__ import annotations

from typing import Any, Final

from trimtab.online.masters.entries import Entry, TakeToken
from trimtab.online.masters.lease import Lease
from trimtab.online.masters.log import MakeLog
from trimtab.online.masters.state import NOBODY
from trimtab.online.masters.station import Station

CLUSTER: Final = -1
"""The number of the group in whose log the token is kept; also the group of a token that is free."""


class Token:
    """A log of its own, in which the token is taken by comparing its version, and given back.

    Attributes
    ----------
    version
        The slot in which it last changed hands.
    taker
        The node that took it last, or gave it back.
    group
        For which group this node holds it; -1 if it does not.
    """

    def __init__(self, station: Station, make_log: MakeLog) -> None:
        self._station = station
        self.lease = Lease(station, station.settings.cycle_seconds)
        self.log = make_log(station, CLUSTER, self._apply, self._snapshot, self._restore)
        self.version, self.taker, self.group = 0, NOBODY, CLUSTER
        self._asked_at: float | None = None

    def take(self, group: int) -> None:
        """Propose to hold it, unless it was proposed a moment ago."""
        now, settings = self._station.now, self._station.settings
        if self._asked_at is not None and now - self._asked_at < settings.propose_seconds:
            return
        self._asked_at = now
        self.log.withdraw(TakeToken)
        self.log.propose(TakeToken(self._station.node, group, self.lease.asking(), self.version))

    def give_back(self) -> None:
        """Hold it no more."""
        self.lease.give_up()
        self.group = CLUSTER
        self.log.propose(TakeToken(self._station.node, CLUSTER, self._station.nonce(), self.version))

    def _apply(self, slot: int, entry: Entry) -> None:
        if not isinstance(entry, TakeToken) or entry.expected != self.version:
            return
        self.version, self.taker, self.group, self._asked_at = slot, entry.node, CLUSTER, None
        if entry.group == CLUSTER:
            self.lease.freed()
            return
        self.lease.taken(entry.node, entry.nonce, self.log.seen_at(slot))
        if entry.node == self._station.node and entry.nonce[0] != self._station.life:
            # That life is over, and its takeover may go on at the incumbent.
            self.lease.others_until = self._station.now + self._station.settings.cycle_seconds
        if self.lease.held:
            self.group = entry.group

    def _snapshot(self) -> tuple[Any, ...]:
        return (self.version,)

    def _restore(self, value: tuple[Any, ...]) -> None:
        (self.version,) = value
        # Who holds it since when is not told: it is left alone for a whole term.
        self.lease.others_until = self._station.now + self._station.settings.cycle_seconds
        self.lease.own_until, self.group = float("-inf"), CLUSTER
