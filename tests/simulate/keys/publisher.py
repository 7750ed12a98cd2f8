"""Whoever publishes routing tables: routes are drawn, earlier places named until nothing waits there."""

from __future__ import annotations

import random
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from simulate.keys.world import KeysWorld
from trimtab_keys.core.murmur2 import key_group
from trimtab_keys.core.routing import Route, RoutingTable


@dataclass(slots=True)
class SimulatedPublisher:
    """Tables one after the other over a world; settled places are taken out of later ones.

    Attributes
    ----------
    hot
        Keys that may be split, the hottest first.
    """

    world: KeysWorld
    chance: random.Random
    keys: Sequence[bytes]
    hot: Sequence[bytes]
    groups: dict[int, Route] = field(default_factory=dict)
    routes: dict[bytes, Route] = field(default_factory=dict)
    version: int = 0
    ends: list[int] | None = None
    settled: int = 0

    def publish(self) -> None:
        """A table in which some groups move and a hot key is split, split otherwise or put together again."""
        draw, count = self.chance, len(self.world.logs)
        for key in draw.sample(self.keys, min(3, len(self.keys))):
            group = key_group(key, count)
            self.groups[group] = self._table().group_route(group).moved((draw.randrange(count),))
        key = draw.choice(self.hot)
        places = tuple(draw.sample(range(count), draw.choice((1, 2, min(3, count)))))
        self.routes[key] = self._table().route(key_group(key, count), key).moved(places)
        self._write()

    def settle(self, dead: Container[int] = ()) -> None:
        """Take earlier places out once every producer follows and what had been written then is committed.

        Parameters
        ----------
        dead
            Producers that are not waited for: their heartbeats are late, though they may only be paused.
        """
        world = self.world
        if self.ends is None:
            # Who follows has flushed what went elsewhere before, so that it is in the logs by now.
            behind = [
                number
                for number, one in enumerate(world.producers)
                if one.sender.table.version != self.version
            ]
            if all(number in dead for number in behind):
                for number in behind:
                    world.pending_acks.left_behind(world.producers[number].name, self.version)
                self.ends = [len(log) for log in world.logs]
        elif all(done >= end for done, end in zip(world.committed, self.ends, strict=True)):
            self.groups = {one: Route(route.partitions) for one, route in self.groups.items()}
            self.routes = {one: Route(route.partitions) for one, route in self.routes.items()}
            self.settled += 1
            self._write()

    def _write(self) -> None:
        self.version += 1
        self.ends = None
        self.world.tables.append(self._table())

    def _table(self) -> RoutingTable:
        count = len(self.world.logs)
        passed = tuple(self.world.committed)
        return RoutingTable(self.version, count, count, dict(self.groups), dict(self.routes), passed)
