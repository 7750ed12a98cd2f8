"""One node: it hosts a replica of every group, and passes each event to its group.

`ENGINES` names the consensus engines: Paxos between the nodes, or a store such as etcd.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

from trimtab_common.errors import SettingsError
from trimtab_store.core.group import ReplicatedGroup
from trimtab_store.core.messages import (
    ClientDisconnected,
    DescribeGroup,
    Effect,
    Event,
    MapChanged,
    NodeHeartbeat,
    ReadGroupMetrics,
    Received,
    StoreEvent,
)
from trimtab_store.core.node_context import NodeContext
from trimtab_store.core.paxos import PaxosLog
from trimtab_store.core.settings import MAX_VOTERS, StoreSettings
from trimtab_store.core.state import NO_MASTER
from trimtab_store.core.stored import STORE, ConsensusEngine, StoreLog
from trimtab_store.core.token import CLUSTER, MapVersions, TransferToken
from trimtab_store.core.transfer import IncomingTransfer

EMBEDDED: Final = ConsensusEngine("embedded", PaxosLog, MAX_VOTERS)
"""Paxos among the nodes themselves, on their own disks."""
ETCD: Final = ConsensusEngine("etcd", StoreLog, None)
"""Slots are keys of an etcd cluster; nodes keep nothing."""
ENGINES: Final = {engine.name: engine for engine in (EMBEDDED, ETCD)}


CHECKS_PER_RENEWAL: Final = 4
"""So often a node is waited for that could take a group over, with half of R between."""


class StoreNode:
    """A node of a cluster. Events go in with their time, effects come out.

    Effects are carried out in order. A write need not be on disk before the next effect, but a message that
    is `synced` waits for the disk, and a message to this node itself returns as an event. A node whose disk
    failed to sync gets no further events.

    Parameters
    ----------
    node, nodes
        Its number, and the number of nodes.
    groups
        Number of groups.
    incarnation
        A number that no other process of this node has had.
    now
        Seconds on a clock of this node that never goes back.
    written
        Group to the content of its log at the start, in order: what earlier processes wrote, or what the
        store holds.
    engine
        The consensus engine.
    map_in_store
        Whether clients publish the preferred map in the store; otherwise events bring it.

    Attributes
    ----------
    idle
        Node to its smallest misplaced group, for nodes that could take over a group and do not. Groups behind
        these no longer wait.
    resting
        Group to its preferred node, which lost the group soon, at the time of the last check.
    """

    def __init__(
        self,
        node: int,
        nodes: int,
        groups: int,
        *,
        incarnation: int,
        now: float,
        settings: StoreSettings,
        written: Mapping[int, Sequence[object]] | None = None,
        engine: ConsensusEngine = EMBEDDED,
        map_in_store: bool = False,
    ) -> None:
        if engine.max_nodes is not None and nodes > engine.max_nodes:
            raise SettingsError(
                f"masters.nodes are {nodes}, expected 1 to {engine.max_nodes} voters: run larger clusters "
                "on etcd"
            )
        self.context = NodeContext(node, nodes, incarnation, settings, now, rejoins=True)
        self.token = TransferToken(self.context, engine.log, map_in_store=map_in_store)
        self.groups = [ReplicatedGroup(self.context, number, engine.log) for number in range(groups)]
        self.maps = MapVersions(groups, 2 * settings.renewal_seconds)
        self.resting: dict[int, int] = {}
        self.idle: dict[int, int] = {}
        self._checks: Counter[int] = Counter()
        self._checked_at = (0, 0)
        self._peer_activity = dict.fromkeys(range(nodes), now)
        self._heartbeats: dict[int, NodeHeartbeat] = {}
        self._excluded: dict[int, float] = {}
        self._heartbeat_at = now
        self._challenged: ReplicatedGroup | None = None
        self._nodes_vote = engine.max_nodes is not None
        for number, lines in (written or {}).items():
            if number == CLUSTER:
                self.token.log.recover(lines)
                self.token.lease.others_until = now + settings.cycle_seconds
            elif number < groups:
                self.groups[number].recover(lines)
        self.context.orders.clear()
        self._poll_store()
        # When each group wants to be woken: that changes only when something is done with it.
        self._dues = [group.next_deadline() for group in self.groups]

    def handle(self, now: float, fact: Event) -> list[Effect]:
        """Handle an event; its effects."""
        station = self.context
        station.now = now
        orders: list[Effect] = []
        station.orders = orders
        if isinstance(fact, Received):
            self._received(now, fact)
        elif isinstance(fact, StoreEvent):
            self._handle_store_event(fact)
        elif isinstance(fact, MapChanged):
            self.maps.adopt(now, fact)
        elif isinstance(fact, ClientDisconnected):
            for group in self.groups:
                group.lost(fact.client)
                self._dues[group.number] = group.next_deadline()
        else:
            self._tick()
        self._poll_store()
        if self.token.group != CLUSTER or self._challenged is not None:
            self._hold_token()
        return orders

    def _received(self, now: float, fact: Received) -> None:
        sender, number, message = fact
        if isinstance(sender, int):
            self._peer_activity[sender] = now
        # What concerns all nodes is no business of clients.
        if isinstance(message, NodeHeartbeat) or number == CLUSTER:
            self._of_cluster(sender, message)
        elif 0 <= number < len(self.groups) and isinstance(message, DescribeGroup | ReadGroupMetrics):
            group = self.groups[number]
            status = group.status(token_votes=not self.token.log.without_vote)
            if isinstance(message, DescribeGroup):
                self.context.send(message.client, number, status)
                return
            version, preferred = self.maps.newest
            report = group.report(
                status, version, preferred[number] if number < len(preferred) else NO_MASTER
            )
            self.context.send(message.client, number, report)
        elif 0 <= number < len(self.groups):
            group = self.groups[number]
            group.received(sender, message)
            self._dues[number] = group.next_deadline()

    def _of_cluster(self, sender: int | str, message: object) -> None:
        if not isinstance(sender, int):
            self.token.client_says(message, self.maps.newest)
        elif isinstance(message, NodeHeartbeat):
            self._heartbeats[sender] = message
            self.maps.record_peer_version(self.context.now, sender, message.version, message.checksum)
            if self.token.map_in_store and message.version > self.maps.newest.version:
                # It was away when that was chosen, and nothing else may be chosen in that log for long.
                self.token.log.catch_up(sender)
        else:
            self.token.log.received(sender, message)

    def _poll_store(self) -> None:
        """Use the map that is published in the store, if it is newer."""
        registry, groups = self.token.registry, len(self.groups)
        if self.token.map_in_store and registry.version > self.maps.newest.version:
            # The cluster may have been given another number of groups since.
            preferred = (*registry.preferred, *(NO_MASTER,) * groups)[:groups]
            self.maps.adopt(self.context.now, MapChanged(registry.version, preferred))

    def _handle_store_event(self, fact: StoreEvent) -> None:
        """Handle an event of the store for a log."""
        number, told = fact
        if number == CLUSTER:
            self.token.log.received(STORE, told)
        elif 0 <= number < len(self.groups):
            group = self.groups[number]
            group.log.received(STORE, told)
            self._dues[number] = group.next_deadline()

    def next_deadline(self) -> float:
        """Latest time of the next `TimerExpired`, on this node's clock."""
        return min(self._heartbeat_at, self.token.log.next_deadline(), *self._dues)

    def _tick(self) -> None:
        station = self.context
        if station.now >= self._heartbeat_at:
            self._heartbeat_at = station.now + station.settings.renewal_seconds / 2
            self._excluded = {group: until for group, until in self._excluded.items() if until > station.now}
            station.broadcast(CLUSTER, self._send_heartbeat())
            self._choose()
            if self.token.map_in_store:
                # A map may be chosen while nobody is left who knows that, and nothing comes after it.
                self.token.log.settle()
        for group in self.groups:
            if station.now >= self._dues[group.number]:
                group.tick()
                self._dues[group.number] = group.next_deadline()
        self.token.log.tick()

    def _send_heartbeat(self) -> NodeHeartbeat:
        (version, preferred_nodes), now = self.maps.newest, self.context.now
        named = zip(self.groups, preferred_nodes, strict=False)
        self.resting = {
            group.number: preferred for group, preferred in named if group.rests.left(now, preferred)
        }
        return NodeHeartbeat(tuple(sorted(self._excluded)), version, self.maps.checksum, tuple(self.resting))

    # ------------------------------------------------------------ transfers

    def _choose(self) -> None:
        """The smallest misplaced group that can be moved; this node takes it over if it is its preferred
        node.

        If another node is preferred, this node waits a while for it: it may be kept from it by a reason
        unknown here.
        """
        looked_at = self.maps.newest.version, self.token.version
        if looked_at[0] != self._checked_at[0]:
            self._checks.clear()
        elif looked_at != self._checked_at:
            del self._checks[self.token.holder_candidate]
        self._checked_at = looked_at
        if self.token.group != CLUSTER or not self.token.lease.open or self._is_map_disputed:
            return
        self.idle = {}
        for group, preferred in zip(self.groups, self.maps.newest.preferred, strict=False):
            if not self._map_error(group, preferred) or not self._able(group.number, preferred):
                continue
            if preferred == self.context.node:
                self.token.acquire(group.number)
                return
            self._checks[preferred] += preferred not in self.idle
            if self._checks[preferred] <= CHECKS_PER_RENEWAL:
                return
            self.idle.setdefault(preferred, group.number)

    def _map_error(self, group: ReplicatedGroup, preferred: int) -> bool:
        state = group.state
        return (
            preferred not in (NO_MASTER, state.master)
            and state.preferred == NO_MASTER
            and not group.lease.open
        )

    def _able(self, number: int, preferred: int) -> bool:
        """Whether a preferred node is alive, has this map, and has not failed with this group recently; this
        node must also vote, since it could not renew the mastership.
        """
        if self._rests(number, preferred):
            return False
        if preferred == self.context.node:
            return number not in self._excluded and not self.groups[number].log.without_vote
        if not self._alive(preferred) or preferred in self.passed_over:
            return False
        return preferred not in self._heartbeats or number not in self._heartbeats[preferred].excluded

    def _rests(self, number: int, preferred: int) -> bool:
        """Whether any live node knows that the preferred node lost this group soon after it got it."""
        version = self.maps.newest.version
        return self.groups[number].rests.left(self.context.now, preferred) > 0 or any(
            number in beat.resting and beat.version == version and self._alive(node)
            for node, beat in self._heartbeats.items()
        )

    def _alive(self, node: int) -> bool:
        silent = self.context.now - self._peer_activity.get(node, -inf)
        return silent < 2 * self.context.settings.renewal_seconds

    @property
    def disputed_by(self) -> list[int]:
        """Live nodes with another map of the same version; they stop all takeovers."""
        return [node for node in self.maps.disputed_by if self._alive(node)]

    @property
    def passed_over(self) -> dict[int, int]:
        """Version of each live node that stays at an older map, and therefore takes over nothing."""
        return self._late(self.maps.older)

    @property
    def outdated_by(self) -> dict[int, int]:
        """Version of each live node with a newer map that this node does not receive."""
        return self._late(self.maps.newer)

    def _late(self, versions: dict[int, int]) -> dict[int, int]:
        return {node: of for node, of in versions.items() if node in self.maps.late and self._alive(node)}

    @property
    def lacks_nodes(self) -> int:
        """Number of further nodes that this node needs before it knows the map published in the store."""
        if not self.token.map_in_store or not self._nodes_vote:
            return 0
        return max(0, self.context.majority - 1 - sum(map(self._alive, self.context.peers)))

    @property
    def _is_map_disputed(self) -> bool:
        """Whether other nodes use another map because this one is old or disputed; it then allows no
        takeover.
        """
        return bool(self.disputed_by) or any(map(self._alive, self.maps.newer))

    @property
    def without_vote(self) -> list[str]:
        """Why this node has no vote, for each group without one, and for the transfers' token."""
        logs = (*(group.log for group in self.groups), self.token.log)
        return [why for log in logs if (why := log.without_vote)]

    def _hold_token(self) -> None:
        """Continue the transfer of the token's holder; return the token when nothing is left of the
        transfer.
        """
        token, group = self.token, self._challenged
        challenge = None if group is None else group.incoming_transfer
        if group is not None and challenge is not None:
            over = challenge.outcome is not None and challenge.ended
            if not over and challenge.cycle == token.version:
                return
            group.incoming_transfer = self._challenged = None
            if not challenge.outcome:
                self._excluded[group.number] = self.context.now + self.context.settings.backoff_seconds
            if challenge.cycle == token.version:
                token.give_back()
        if token.group == CLUSTER:
            return
        group = self.groups[token.group]
        preferred = self.maps.newest.preferred[group.number]
        # The map may have changed while the token was asked for, or be old or disputed by now.
        wrong = (
            preferred == self.context.node and self._map_error(group, preferred) and not self._is_map_disputed
        )
        if not token.lease.held or not wrong:
            token.give_back()
            return
        self._challenged = group
        group.incoming_transfer = IncomingTransfer(
            token.version, token.lease.own_until, group.state.master, self.context.now
        )
        group.advance_transfers()
        self._dues[group.number] = group.next_deadline()
