"""A lease by local clocks only: the holder counts from before it sends, all others from the arrival.

The group of the whole cluster: the token for transfers, and the versions of the preferred map.

One node holds the token, by a lease on this group's log. Only it may start a transfer of a mastership.
Versions of the preferred map are entries of the same log.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final
from zlib import crc32

from trimtab_store.core.messages import (
    CLAIM_BYTES,
    AcquireToken,
    AskMap,
    Change,
    ChangeClaims,
    ChangeMap,
    Entry,
    MapChanged,
    MapIs,
    Nonce,
    PublishMap,
    State,
    claims_bytes,
)
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.state import NO_MASTER
from trimtab_store.core.stored import MakeLog


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


class Registry:
    """What is published in the log of the token; the same on every node after the same slot.

    Attributes
    ----------
    version, preferred
        Of the map; version 0 before the first.
    claims
        Texts of programs that publish maps, by which they keep one another out.
    """

    __slots__ = ("claims", "preferred", "version")

    def __init__(self) -> None:
        self.version = 0
        self.preferred: tuple[int, ...] = ()
        self.claims: frozenset[str] = frozenset()

    def apply(self, entry: Change) -> None:
        """An entry was chosen; a map over another version than the newest is void."""
        match entry:
            case PublishMap(expected, version, preferred):
                if expected == self.version < version:
                    self.version, self.preferred = version, preferred
            case ChangeClaims(added, removed):
                claims = (self.claims | set(added)) - set(removed)
                if claims_bytes(claims) <= CLAIM_BYTES:
                    self.claims = claims

    def snapshot(self) -> tuple[int, tuple[int, ...], tuple[str, ...]]:
        """All of it as a value, the same on every node."""
        return self.version, self.preferred, tuple(sorted(self.claims))

    def restore(self, version: int = 0, preferred: tuple[int, ...] = (), claims: Iterable[str] = ()) -> None:
        """Restore the map from a value of `snapshot`."""
        self.version, self.preferred, self.claims = version, preferred, frozenset(claims)


class MapVersions:
    """The newest map that a node has seen, and which ones others say that they have.

    Nodes see maps each in its own time. A node that stays at an older version, though, takes nothing over by
    the newer one, and would by its own: it is passed over, and takes nothing over itself. One version with
    another content is as bad: each of two preferred nodes would take the group over from the other, without
    end.

    Parameters
    ----------
    bound_seconds
        A node whose version is older for longer, and does not rise, will not see the newer one by itself.

    Attributes
    ----------
    newest
        The map.
    checksum
        Of its content.
    disputed_by
        Nodes that last said to have another map of the same version.
    older, newer
        Version of each node that last said to have an older map, or a newer one.
    late
        Of these, those with which it has been so for longer than the bound.
    """

    __slots__ = ("_bound", "_others", "_since", "checksum", "disputed_by", "late", "newer", "newest", "older")

    def __init__(self, groups: int, bound_seconds: float) -> None:
        self.newest = MapChanged(0, (NO_MASTER,) * groups)
        self.checksum = 0
        self.disputed_by: tuple[int, ...] = ()
        self.older: dict[int, int] = {}
        self.newer: dict[int, int] = {}
        self.late: frozenset[int] = frozenset()
        self._bound = bound_seconds
        self._others: dict[int, tuple[int, int]] = {}
        self._since: dict[int, float] = {}

    def adopt(self, now: float, observation: MapChanged) -> None:
        """A map was published; an older one, or another of the same version, changes nothing."""
        if observation.version > self.newest.version:
            # Whoever was behind the last one does not get longer for this one.
            self._since = {node: self._since[node] for node in self.older}
            self.newest, self.checksum = observation, crc32(repr(tuple(observation.preferred)).encode())
            self._compare(now)

    def record_peer_version(self, now: float, sender: int, version: int, checksum: int) -> None:
        """Another node has said which map it has."""
        if self.older.get(sender, version) < version:
            del self._since[sender]  # it does see new maps, only later
        self._others[sender] = version, checksum
        self._compare(now)

    def _compare(self, now: float) -> None:
        mine = self.newest.version
        versions = {node: version for node, (version, _) in sorted(self._others.items())}
        self._since = {
            node: self._since.get(node, now) for node, version in versions.items() if version != mine
        }
        self.late = frozenset(node for node, since in self._since.items() if now - since > self._bound)
        self.older = {node: version for node, version in versions.items() if version < mine}
        self.newer = {node: version for node, version in versions.items() if version > mine}
        same = [node for node, version in versions.items() if version == mine]
        self.disputed_by = tuple(node for node in same if self._others[node][1] != self.checksum)


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
        # A waiting proposal names an outdated version and would be void when chosen.
        self.log.discard_pending(AcquireToken)
        self.log.propose(AcquireToken(self._context.node, group, self.lease.new_proposal(), self.version))

    def give_back(self) -> None:
        """Release the token and propose that the cluster group holds it."""
        self.lease.give_up()
        self.group = CLUSTER
        self.log.propose(AcquireToken(self._context.node, CLUSTER, self._context.nonce(), self.version))

    def client_says(self, message: object, observation: MapChanged) -> None:
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
        # Compare and swap: of two proposals for one version only the first chosen one counts.
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

    def _restore(self, value: State) -> None:
        self.version, *published = value
        self.registry.restore(*published)
        # Who holds it since when is not told: it is left alone for a whole term.
        self.lease.others_until = self._context.now + self._context.settings.cycle_seconds
        self.lease.own_until, self.group = float("-inf"), CLUSTER
