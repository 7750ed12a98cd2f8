"""A node: its groups, the token, and the one wrong group that is taken over next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import inf
from typing import Any, Final

from trimtab.model.errors import SettingsError
from trimtab.online.masters.challenge import Challenge
from trimtab.online.masters.engines import EMBEDDED
from trimtab.online.masters.group import Group
from trimtab.online.masters.log import STORE, Engine
from trimtab.online.masters.maps import Maps
from trimtab.online.masters.messages import AskReport, Beat, Gone, MapSeen, Received
from trimtab.online.masters.settings import MasterSettings
from trimtab.online.masters.slots import Fact, Order, Told
from trimtab.online.masters.state import NOBODY
from trimtab.online.masters.station import Station
from trimtab.online.masters.token import CLUSTER, Token

LOOKS: Final = 4
"""So often a node is waited for that could take a group over, with half of R between."""


class Node:
    """A node of a cluster; facts go in with their time, orders come out.

    Orders are carried out in their order: what is written need not be on disk before the next, but a message
    that is `synced` waits for the disk, and one that this node sends to itself comes back as a fact. A node
    whose disk failed to sync is told nothing more.

    Parameters
    ----------
    node, nodes
        Its number, and how many there are.
    groups
        How many.
    life
        A number that no other life of this node has had.
    now
        Seconds on a clock of this node that never goes back.
    written
        Group to what its log takes in at the start, in order: what former lives wrote, or what the store
        holds.
    engine
        What chooses.
    map_in_store
        Whether the ideal map is read in the store, where clients publish it; otherwise it is told.

    Attributes
    ----------
    idle
        Node to its smallest wrong group, of nodes that could take one over and have not: groups behind these
        no longer wait.
    resting
        Group to the node that the map names for it and that lost it soon, when this was looked at last.
    """

    def __init__(
        self,
        node: int,
        nodes: int,
        groups: int,
        *,
        life: int,
        now: float,
        settings: MasterSettings,
        written: Mapping[int, list[Any]] | None = None,
        engine: Engine = EMBEDDED,
        map_in_store: bool = False,
    ) -> None:
        if engine.most_nodes is not None and nodes > engine.most_nodes:
            raise SettingsError(
                f"masters.nodes are {nodes}, expected 1 to {engine.most_nodes} voters: run larger clusters "
                "on etcd"
            )
        self.station = Station(node, nodes, life, settings, now, rejoins=True)
        self.token = Token(self.station, engine.log, map_in_store=map_in_store)
        self.groups = [Group(self.station, number, engine.log) for number in range(groups)]
        self.maps = Maps(groups, 2 * settings.renewal_seconds)
        self.resting: dict[int, int] = {}
        self.idle: dict[int, int] = {}
        self._looks: Counter[int] = Counter()
        self._looked_at = (0, 0)
        self._heard = dict.fromkeys(range(nodes), now)
        self._beats: dict[int, Beat] = {}
        self._muted: dict[int, float] = {}
        self._beat_at = now
        self._challenged: Group | None = None
        self._nodes_vote = engine.most_nodes is not None
        for number, lines in (written or {}).items():
            if number == CLUSTER:
                self.token.log.recover(lines)
                self.token.lease.others_until = now + settings.cycle_seconds
            elif number < groups:
                self.groups[number].recover(lines)
        self.station.orders.clear()
        self._look_in_store()
        # When each group wants to be woken: that changes only when something is done with it.
        self._dues = [group.due() for group in self.groups]

    def handle(self, now: float, fact: Fact) -> list[Order]:
        """Take a fact in; the orders that follow from it."""
        station = self.station
        station.now = now
        orders: list[Order] = []
        station.orders = orders
        if isinstance(fact, Received):
            self._received(now, fact)
        elif isinstance(fact, Told):
            self._told(fact)
        elif isinstance(fact, MapSeen):
            self.maps.look(now, fact)
        elif isinstance(fact, Gone):
            for group in self.groups:
                group.lost(fact.client)
                self._dues[group.number] = group.due()
        else:
            self._go_on()
        self._look_in_store()
        if self.token.group != CLUSTER or self._challenged is not None:
            self._hold_token()
        return orders

    def _received(self, now: float, fact: Received) -> None:
        sender, number, message = fact
        if isinstance(sender, int):
            self._heard[sender] = now
        # What concerns all nodes is no business of clients.
        if isinstance(message, Beat) or number == CLUSTER:
            self._of_cluster(sender, message)
        elif 0 <= number < len(self.groups) and isinstance(message, AskReport):
            version, ideal = self.maps.seen
            report = self.groups[number].report(version, ideal[number] if number < len(ideal) else NOBODY)
            self.station.send(message.client, number, report)
        elif 0 <= number < len(self.groups):
            group = self.groups[number]
            group.received(sender, message)
            self._dues[number] = group.due()

    def _of_cluster(self, sender: int | str, message: Any) -> None:
        if not isinstance(sender, int):
            self.token.client_says(message, self.maps.seen)
        elif isinstance(message, Beat):
            self._beats[sender] = message
            self.maps.heard(self.station.now, sender, message.version, message.checksum)
            if self.token.map_in_store and message.version > self.maps.seen.version:
                # It was away when that was chosen, and nothing else may be chosen in that log for long.
                self.token.log.catch_up(sender)
        else:
            self.token.log.received(sender, message)

    def _look_in_store(self) -> None:
        """Go by what is published in the store, if it is newer."""
        registry, groups = self.token.registry, len(self.groups)
        if self.token.map_in_store and registry.version > self.maps.seen.version:
            # The cluster may have been given another number of groups since.
            ideal = (*registry.ideal, *(NOBODY,) * groups)[:groups]
            self.maps.look(self.station.now, MapSeen(registry.version, ideal))

    def _told(self, fact: Told) -> None:
        """The store has told something of a log."""
        number, told = fact
        if number == CLUSTER:
            self.token.log.received(STORE, told)
        elif 0 <= number < len(self.groups):
            group = self.groups[number]
            group.log.received(STORE, told)
            self._dues[number] = group.due()

    def due(self) -> float:
        """When `Due` is to be told at the latest, on this node's clock."""
        return min(self._beat_at, self.token.log.due(), *self._dues)

    def _go_on(self) -> None:
        station = self.station
        if station.now >= self._beat_at:
            self._beat_at = station.now + station.settings.renewal_seconds / 2
            self._muted = {group: until for group, until in self._muted.items() if until > station.now}
            station.tell_others(CLUSTER, self._beat())
            self._choose()
            if self.token.map_in_store:
                # A map may be chosen while nobody is left who knows that, and nothing comes after it.
                self.token.log.settle()
        for group in self.groups:
            if station.now >= self._dues[group.number]:
                group.go_on()
                self._dues[group.number] = group.due()
        self.token.log.go_on()

    def _beat(self) -> Beat:
        (version, ideals), now = self.maps.seen, self.station.now
        named = zip(self.groups, ideals, strict=False)
        self.resting = {group.number: ideal for group, ideal in named if group.rests.left(now, ideal)}
        return Beat(tuple(sorted(self._muted)), version, self.maps.checksum, tuple(self.resting))

    # ------------------------------------------------------------ takeovers

    def _choose(self) -> None:
        """The smallest wrong group that can be put right: this node takes it over if it is its ideal.

        If another one is, it is waited for a while: something may keep it that nobody else knows.
        """
        looked_at = self.maps.seen.version, self.token.version
        if looked_at[0] != self._looked_at[0]:
            self._looks.clear()
        elif looked_at != self._looked_at:
            del self._looks[self.token.taker]
        self._looked_at = looked_at
        if self.token.group != CLUSTER or not self.token.lease.open or self._stands_back:
            return
        self.idle = {}
        for group, ideal in zip(self.groups, self.maps.seen.ideal, strict=False):
            if not self._wrong(group, ideal) or not self._able(group.number, ideal):
                continue
            if ideal == self.station.node:
                self.token.take(group.number)
                return
            self._looks[ideal] += ideal not in self.idle
            if self._looks[ideal] <= LOOKS:
                return
            self.idle.setdefault(ideal, group.number)

    def _wrong(self, group: Group, ideal: int) -> bool:
        state = group.state
        return ideal not in (NOBODY, state.master) and state.ideal == NOBODY and not group.lease.open

    def _able(self, number: int, ideal: int) -> bool:
        """Whether an ideal node is alive, has this map, and has not failed at this group lately."""
        if self._rests(number, ideal):
            return False
        if ideal == self.station.node:
            return number not in self._muted
        if not self._alive(ideal) or ideal in self.passed_over:
            return False
        return ideal not in self._beats or number not in self._beats[ideal].muted

    def _rests(self, number: int, ideal: int) -> bool:
        """Whether any node that is alive knows that the ideal node lost this group soon after it had it."""
        version = self.maps.seen.version
        return self.groups[number].rests.left(self.station.now, ideal) > 0 or any(
            number in beat.resting and beat.version == version and self._alive(node)
            for node, beat in self._beats.items()
        )

    def _alive(self, node: int) -> bool:
        silent = self.station.now - self._heard.get(node, -inf)
        return silent < 2 * self.station.settings.renewal_seconds

    @property
    def disputed_by(self) -> list[int]:
        """Nodes that are alive and have another map of the same version; nothing is taken over meanwhile."""
        return [node for node in self.maps.disputed_by if self._alive(node)]

    @property
    def passed_over(self) -> dict[int, int]:
        """Version of each node that is alive and stays at an older map: it will take nothing over."""
        return self._late(self.maps.older)

    @property
    def outdated_by(self) -> dict[int, int]:
        """Version of each node that is alive and has a newer map, which this node does not come to see."""
        return self._late(self.maps.newer)

    def _late(self, versions: dict[int, int]) -> dict[int, int]:
        return {node: of for node, of in versions.items() if node in self.maps.late and self._alive(node)}

    @property
    def lacks_nodes(self) -> int:
        """How many more nodes must be heard before this one learns what is published in the store."""
        if not self.token.map_in_store or not self._nodes_vote:
            return 0
        return max(0, self.station.majority - 1 - sum(map(self._alive, self.station.others)))

    @property
    def _stands_back(self) -> bool:
        """Whether others go by another map, as this one is old or disputed: nothing is taken over by it."""
        return bool(self.disputed_by) or any(map(self._alive, self.maps.newer))

    @property
    def without_vote(self) -> list[str]:
        """Why this node has no vote, of each group in which it has none: see `rejoin`."""
        return [why for group in self.groups if (why := group.log.without_vote)]

    def _hold_token(self) -> None:
        """Run the takeover for which this node holds the token; give it back when nothing is left of it."""
        token, group = self.token, self._challenged
        challenge = None if group is None else group.challenge
        if group is not None and challenge is not None:
            over = challenge.outcome is not None and challenge.ended
            if not over and challenge.cycle == token.version:
                return
            group.challenge = self._challenged = None
            if not challenge.outcome:
                self._muted[group.number] = self.station.now + self.station.settings.mute_seconds
            if challenge.cycle == token.version:
                token.give_back()
        if token.group == CLUSTER:
            return
        group = self.groups[token.group]
        ideal = self.maps.seen.ideal[group.number]
        # The map may have changed while the token was asked for, or be old or disputed by now.
        wrong = ideal == self.station.node and self._wrong(group, ideal) and not self._stands_back
        if not token.lease.held or not wrong:
            token.give_back()
            return
        self._challenged = group
        group.challenge = Challenge(
            token.version, token.lease.own_until, group.state.master, self.station.now
        )
        group.look()
        self._dues[group.number] = group.due()
