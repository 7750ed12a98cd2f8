"""Nodes of groups on a bench: messages come at once and disks sync at once, unless a test holds them back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from trimtab_store.core.messages import Event, MapChanged, Received, SendMessage, TimerExpired, WriteLog
from trimtab_store.core.node import StoreNode
from trimtab_store.core.settings import StoreSettings

Held = tuple[int | str, int | str, int, Any]
"""Sender, receiver, group and message."""


class Bench:
    """Three nodes with one clock.

    Attributes
    ----------
    holds
        Says of a message whether it is held back.
    held
        Those that were, in order.
    heard
        What clients were sent: node, group and message.
    """

    def __init__(self, groups: int = 1, *, map_in_store: bool = False, **settings: Any) -> None:
        self.settings = StoreSettings(**settings)
        self.now = 0.0
        self.holds: Callable[[int | str, int | str, Any], bool] = lambda sender, receiver, message: False
        self.held: list[Held] = []
        self.heard: list[tuple[int, int, Any]] = []
        self.written: dict[int, dict[int, list[Any]]] = {node: {} for node in range(3)}
        self._groups, self._map_in_store = groups, map_in_store
        self._in_transit: deque[Held] = deque()
        self.nodes = [self._node(node, incarnation=1) for node in range(3)]
        self.down: set[int] = set()

    def _node(self, node: int, incarnation: int) -> StoreNode:
        return StoreNode(
            node,
            3,
            self._groups,
            incarnation=incarnation,
            now=self.now,
            settings=self.settings,
            written=self.written[node],
            map_in_store=self._map_in_store,
        )

    def restart(self, node: int, incarnation: int) -> None:
        """Start a node anew, on what it wrote."""
        self.nodes[node] = self._node(node, incarnation)
        self.down.discard(node)

    def tell(self, node: int, fact: Event) -> None:
        """A fact comes to a node; all that follows at once happens."""
        self._take(node, fact)
        while self._in_transit:
            sender, receiver, group, message = self._in_transit.popleft()
            if isinstance(receiver, int):
                self._take(receiver, Received(sender, group, message))
            else:
                assert isinstance(sender, int)
                self.heard.append((sender, group, message))

    def _take(self, node: int, fact: Event) -> None:
        if node in self.down:
            return
        for order in self.nodes[node].handle(self.now, fact):
            match order:
                case WriteLog(group, written):
                    self.written[node].setdefault(group, []).append(written)
                case SendMessage(to, group, message):
                    if self.holds(node, to, message):
                        self.held.append((node, to, group, message))
                    else:
                        self._in_transit.append((node, to, group, message))

    def send(self, node: int, message: Any, group: int = 0) -> list[Any]:
        """A client sends a message; what clients are told by what follows at once."""
        before = len(self.heard)
        self.tell(node, Received("client", group, message))
        return [told for _, _, told in self.heard[before:]]

    def let_go(self) -> None:
        """What was held back comes now."""
        self.holds = lambda sender, receiver, message: False
        held, self.held = self.held, []
        self._in_transit.extend(held)
        for node in range(3):
            self.tell(node, TimerExpired())

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while True:
            up = [node for node in range(3) if node not in self.down]
            due, node = min((max(self.nodes[node].next_deadline(), self.now), node) for node in up)
            if due > end:
                break
            # A node that is due for something it cannot do yet is asked again a moment later.
            self.now = max(due, self.now + 1e-4)
            self.tell(node, TimerExpired())
        self.now = end

    def run_until(self, so: Callable[[], object]) -> None:
        """Let time pass until something is so; where a transfer never comes, a minute is enough to see it."""
        end = self.now + 60.0
        while not so():
            assert self.now < end, "nothing of the kind within a minute"
            self.run(0.01)

    def publish_map(self, *preferred: int, version: int = 1) -> None:
        """All nodes see a map."""
        for node in range(3):
            self.tell(node, MapChanged(version, preferred))

    def masters(self, group: int = 0) -> list[int]:
        """Who counts itself as master of a group, now."""
        found = []
        for node in self.nodes:
            node.context.now = self.now
            if node.context.node not in self.down and node.groups[group].lease.held:
                found.append(node.context.node)
        return found

    def elected(self) -> int:
        """Let a first master of group 0 come; it."""
        self.run(self.settings.lease_seconds + self.settings.renewal_seconds)
        (master,) = self.masters()
        return master
