"""A machine with one node on it, and what checkers and clients see of the world that it stands in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from trimtab.lab.simulate.masters.clock import Clock
from trimtab.lab.simulate.masters.disk import Disk
from trimtab.lab.simulate.masters.histories import Histories
from trimtab.lab.simulate.masters.network import Address
from trimtab.lab.simulate.masters.store import SlotStore
from trimtab.online.masters.messages import MapSeen, Published, Pulled, Send
from trimtab.online.masters.node import Node
from trimtab.online.masters.settings import MasterSettings
from trimtab.online.masters.slots import Fact
from trimtab.online.masters.state import GroupState


@dataclass(slots=True)
class Machine:
    """One node with what it stands on.

    Attributes
    ----------
    core
        None while it is down.
    life
        Rises with every start; events of an earlier life come to nothing.
    paused_until, busy_until
        True seconds; facts wait until then.
    inbox, due_waits
        Facts that wait, in the order in which they came; and whether one of them tells it the time.
    map
        What the file of the ideal map holds, as this machine sees it.
    map_late_seconds
        New versions come to be seen here so much later; infinite for never.
    """

    number: int
    clock: Clock
    disk: Disk
    map: MapSeen
    core: Node | None = None
    life: int = 0
    paused_until: float = 0.0
    busy_until: float = 0.0
    inbox: deque[Fact] = field(default_factory=deque)
    due_waits: bool = False
    map_late_seconds: float = 0.0
    wake_at: float = float("inf")
    syncing: bool = False
    waiting: list[tuple[int, Send]] = field(default_factory=list)


class Watching(Protocol):
    """Whoever is told what clients hear."""

    def stored(self, group: int, message: Published) -> None:
        """A producer was told that its message is stored."""

    def pulled(self, consumer: Any, message: Pulled, *, fresh: bool) -> None:
        """A consumer got messages."""


class Client(Protocol):
    """A program with connections to all nodes."""

    def tick(self) -> None:
        """Do something now and then."""

    def received(self, sender: int, message: Any) -> None:
        """Hear from a node."""

    def lost(self, node: int) -> None:
        """The connection to a node has ended, or could not be made."""


class Stage(Protocol):
    """The world; `World` is one, and says what each of these is."""

    now: float
    chance: Random
    closing: bool
    connected: bool
    padding: bytes
    clients: dict[str, Client]
    nodes: int
    groups: int
    settings: MasterSettings
    machines: list[Machine]
    store: SlotStore | None
    map: MapSeen
    histories: Histories

    @property
    def watching(self) -> Watching:
        """Who is told."""

    def moment(self) -> None:
        """Something has begun that a fault could hurt."""

    def broken(self, invariant: str, what: str) -> None:
        """End the run."""

    def note(self, what: str) -> None:
        """Add to the story."""

    def any_node(self) -> int:
        """One of them, by chance."""

    def state(self, node: int, group: int) -> GroupState:
        """What a node that is up holds of a group."""

    def at(self, when: float, do: Callable[..., None], *arguments: Any) -> None:
        """Have something happen."""

    def tell(self, machine: Machine, life: int, fact: Fact) -> None:
        """A fact comes to a node."""

    def transmit(self, sender: Address, receiver: Address, group: int, message: Any) -> None:
        """Send, by a network that does as it likes."""
