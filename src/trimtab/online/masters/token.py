"""The log of the cluster: the token, whose holder takes over a group, and what is published for all nodes."""

from __future__ import annotations

from typing import Any, Final

from trimtab.online.masters.bounds import CLAIM_BYTES, claims_bytes
from trimtab.online.masters.entries import Change, ChangeClaims, Entry, PublishMap, TakeToken
from trimtab.online.masters.lease import Lease
from trimtab.online.masters.log import MakeLog
from trimtab.online.masters.maps import Registry
from trimtab.online.masters.messages import AskMap, ChangeMap, MapIs, MapSeen
from trimtab.online.masters.state import NOBODY
from trimtab.online.masters.station import Station

CLUSTER: Final = -1
"""The number of the group in whose log the token is kept; also the group of a token that is free."""
WholeCluster = tuple[int, int, tuple[int, ...], tuple[str, ...]]
"""The state of that log as a value: the token's version, the map's version, the map, and claims."""


class Token:
    """A log of its own, in which the token is taken by comparing its version, and given back.

    Parameters
    ----------
    map_in_store
        Whether nodes read the ideal map in this log, and clients may publish it there.

    Attributes
    ----------
    version
        The slot in which it last changed hands.
    taker
        The node that took it last, or gave it back.
    group
        For which group this node holds it; -1 if it does not.
    map_in_store
        As given.
    registry
        What is published in the same log.
    """

    def __init__(self, station: Station, make_log: MakeLog, *, map_in_store: bool = False) -> None:
        self._station, self.map_in_store = station, map_in_store
        self.lease = Lease(station, station.settings.cycle_seconds)
        self.log = make_log(station, CLUSTER, self._apply, self._snapshot, self._restore)
        self.version, self.taker, self.group = 0, NOBODY, CLUSTER
        self.registry = Registry()
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

    def client_says(self, message: Any, seen: MapSeen) -> None:
        """A client wants to know the map, or to publish one, or its claim.

        Parameters
        ----------
        seen
            The map that this node goes by.
        """
        match message:
            case AskMap(client):
                published, _, claims = self.registry.snapshot()
                answer = MapIs(self.map_in_store, self.log.applied, published, *seen, claims)
                self._station.send(client, CLUSTER, answer)
            case ChangeMap(PublishMap() as change):
                if self.map_in_store and self._follows(change, seen):
                    # The newest counts: where none can be chosen they must not pile up.
                    self.log.withdraw(PublishMap)
                    self.log.propose(change)
            case ChangeMap(ChangeClaims() as change):
                if self.map_in_store and claims_bytes(change.added) <= CLAIM_BYTES:
                    self.log.propose(change)

    def _follows(self, change: PublishMap, seen: MapSeen) -> bool:
        """Whether a map is one of this cluster, and newer than that of this node."""
        nodes = range(NOBODY, self._station.nodes)
        names = len(change.ideal) == len(seen.ideal) and all(node in nodes for node in change.ideal)
        return names and change.version > seen.version

    def _apply(self, slot: int, entry: Entry) -> None:
        if isinstance(entry, Change):
            self.registry.apply(entry)
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

    def _snapshot(self) -> WholeCluster:
        return (self.version, *self.registry.snapshot())

    def _restore(self, value: tuple[Any, ...]) -> None:
        self.version, *published = value
        self.registry.restore(*published)
        # Who holds it since when is not told: it is left alone for a whole term.
        self.lease.others_until = self._station.now + self._station.settings.cycle_seconds
        self.lease.own_until, self.group = float("-inf"), CLUSTER
