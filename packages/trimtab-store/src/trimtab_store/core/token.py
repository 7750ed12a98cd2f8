"""The log of the cluster: the token, whose holder takes over a group, and what is published for all nodes."""

from __future__ import annotations

from typing import Any, Final

from trimtab_store.core.bounds import CLAIM_BYTES, claims_bytes
from trimtab_store.core.entries import AcquireToken, Change, ChangeClaims, Entry, PublishMap
from trimtab_store.core.lease import MastershipLease
from trimtab_store.core.log import MakeLog
from trimtab_store.core.map_versions import Registry
from trimtab_store.core.messages import AskMap, ChangeMap, MapChanged, MapIs
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.state import NO_MASTER

CLUSTER: Final = -1
"""The number of the group in whose log the token is kept; also the group of a token that is free."""
WholeCluster = tuple[int, int, tuple[int, ...], tuple[str, ...]]
"""The state of that log as a value: the token's version, the map's version, the map, and claims."""


class TransferToken:
    """A log of its own, in which the token is taken by comparing its version, and given back.

    Parameters
    ----------
    map_in_store
        Whether nodes read the preferred map in this log, and clients may publish it there.

    Attributes
    ----------
    version
        The slot in which it last changed hands.
    holder_candidate
        The node that took it last, or gave it back.
    group
        For which group this node holds it; -1 if it does not.
    map_in_store
        As given.
    registry
        What is published in the same log.
    """

    def __init__(self, context: NodeContext, make_log: MakeLog, *, map_in_store: bool = False) -> None:
        self._context, self.map_in_store = context, map_in_store
        self.lease = MastershipLease(context, context.settings.cycle_seconds)
        self.log = make_log(context, CLUSTER, self._apply, self._snapshot, self._restore)
        self.version, self.holder_candidate, self.group = 0, NO_MASTER, CLUSTER
        self.registry = Registry()
        self._requested_at: float | None = None

    def acquire(self, group: int) -> None:
        """Propose to hold it, unless it was proposed a moment ago."""
        now, settings = self._context.now, self._context.settings
        if self._requested_at is not None and now - self._requested_at < settings.propose_seconds:
            return
        self._requested_at = now
        self.log.discard_pending(AcquireToken)
        self.log.propose(AcquireToken(self._context.node, group, self.lease.new_proposal(), self.version))

    def give_back(self) -> None:
        """Hold it no more."""
        self.lease.give_up()
        self.group = CLUSTER
        self.log.propose(AcquireToken(self._context.node, CLUSTER, self._context.nonce(), self.version))

    def client_says(self, message: Any, observation: MapChanged) -> None:
        """A client wants to know the map, or to publish one, or its claim.

        Parameters
        ----------
        observation
            The map that this node goes by.
        """
        match message:
            case AskMap(client):
                published, _, claims = self.registry.snapshot()
                answer = MapIs(self.map_in_store, self.log.applied, published, *observation, claims)
                self._context.send(client, CLUSTER, answer)
            case ChangeMap(PublishMap() as change):
                if self.map_in_store and self._follows(change, observation):
                    # The newest counts: where none can be chosen they must not pile up.
                    self.log.discard_pending(PublishMap)
                    self.log.propose(change)
            case ChangeMap(ChangeClaims() as change):
                if self.map_in_store and claims_bytes(change.added) <= CLAIM_BYTES:
                    self.log.propose(change)

    def _follows(self, change: PublishMap, observation: MapChanged) -> bool:
        """Whether a map is one of this cluster, and newer than that of this node."""
        nodes = range(NO_MASTER, self._context.nodes)
        names = len(change.preferred) == len(observation.preferred) and all(
            node in nodes for node in change.preferred
        )
        return names and change.version > observation.version

    def _apply(self, slot: int, entry: Entry) -> None:
        if isinstance(entry, Change):
            self.registry.apply(entry)
        if not isinstance(entry, AcquireToken) or entry.expected != self.version:
            return
        self.version, self.holder_candidate, self.group, self._requested_at = slot, entry.node, CLUSTER, None
        if entry.group == CLUSTER:
            self.lease.freed()
            return
        self.lease.acquired(entry.node, entry.nonce, self.log.first_learned_at(slot))
        if entry.node == self._context.node and entry.nonce[0] != self._context.incarnation:
            # That life is over, and its transfer may go on at the current master.
            self.lease.others_until = self._context.now + self._context.settings.cycle_seconds
        if self.lease.held:
            self.group = entry.group

    def _snapshot(self) -> WholeCluster:
        return (self.version, *self.registry.snapshot())

    def _restore(self, value: tuple[Any, ...]) -> None:
        self.version, *published = value
        self.registry.restore(*published)
        # Who holds it since when is not told: it is left alone for a whole term.
        self.lease.others_until = self._context.now + self._context.settings.cycle_seconds
        self.lease.own_until, self.group = float("-inf"), CLUSTER
