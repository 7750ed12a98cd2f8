"""A machine with one node on it, and what checkers and clients see of the world that it stands in."""

from __future__ import annotations

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
    paused_until
        True seconds; facts wait until then.
    """

    number: int
    clock: Clock
    disk: Disk
    core: Node | None = None
    life: int = 0
    paused_until: float = 0.0
    wake_at: float = float("inf")
    syncing: bool = False
    waiting: list[tuple[int, Send]] = field(default_factory=list)


class Watching(Protocol):
    """Whoever is told what clients hear."""

    def stored(self, group: int, message: Published) -> None:
        """A producer was told that its message is stored."""

    def pulled(self, consumer: Any, message: Pulled, *, fresh: bool) -> None:
        """A consumer got messages."""


class Stage(Protocol):
    """The world; `World` is one, and says what each of these is."""

    now: float
    chance: Random
    closing: bool
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

    def note(self, what: str) -> None:
        """Add to the story."""

    def any_node(self) -> int:
        """One of them, by chance."""

    def state(self, node: int, group: int) -> GroupState:
        """What a node that is up holds of a group."""

    def at(self, when: float, do: Callable[..., None], *arguments: Any) -> None:
        """Have something happen."""

    def transmit(self, sender: Address, receiver: Address, group: int, message: Any) -> None:
        """Send, by a network that does as it likes."""
