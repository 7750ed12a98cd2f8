"""A machine with one node on it, and what checkers and clients see of the world that it stands in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from simulate.masters.clock import DriftingClock
from simulate.masters.disk import SimulatedDisk
from simulate.masters.histories import ClientHistories
from simulate.masters.network import Address
from simulate.masters.store import SimulatedLogStore
from trimtab_store.core.messages import FetchResponse, MapChanged, ProduceResponse, SendMessage
from trimtab_store.core.node import StoreNode
from trimtab_store.core.settings import StoreSettings
from trimtab_store.core.state import GroupState
from trimtab_store.core.store_messages import Event


@dataclass(slots=True)
class SimulatedNode:
    """One node with what it stands on.

    Attributes
    ----------
    core
        None while it is down.
    incarnation
        Rises with every start; events of an earlier life come to nothing.
    paused_until, busy_until
        True seconds; facts wait until then.
    inbox, timer_pending
        Facts that wait, in the order in which they came; and whether one of them is to tell it the time.
    map
        What the file of the preferred map holds, as this machine sees it.
    map_late_seconds
        New versions come to be seen here so much later; infinite for never.
    """

    number: int
    clock: DriftingClock
    disk: SimulatedDisk
    map: MapChanged
    core: StoreNode | None = None
    incarnation: int = 0
    paused_until: float = 0.0
    busy_until: float = 0.0
    inbox: deque[Event] = field(default_factory=deque)
    timer_pending: bool = False
    map_late_seconds: float = 0.0
    wake_at: float = float("inf")
    syncing: bool = False
    waiting: list[tuple[int, SendMessage]] = field(default_factory=list)


class ClientObserver(Protocol):
    """Whoever is told what clients hear."""

    def stored(self, group: int, message: ProduceResponse) -> None:
        """A producer was told that its message is stored."""

    def pulled(self, consumer: Any, message: FetchResponse, *, fresh: bool) -> None:
        """A consumer got messages."""


class SimulatedStoreClient(Protocol):
    """A program with connections to all nodes."""

    def tick(self) -> None:
        """Do something now and then."""

    def received(self, sender: int, message: Any) -> None:
        """Hear from a node."""

    def lost(self, node: int) -> None:
        """The connection to a node has ended, or could not be made."""


class StoreWorldProtocol(Protocol):
    """The world; `World` is one, and says what each of these is."""

    now: float
    chance: Random
    closing: bool
    connected: bool
    padding: bytes
    clients: dict[str, SimulatedStoreClient]
    nodes: int
    groups: int
    settings: StoreSettings
    machines: list[SimulatedNode]
    store: SimulatedLogStore | None
    map: MapChanged
    histories: ClientHistories

    @property
    def watching(self) -> ClientObserver:
        """Who is told."""

    def fault_point(self) -> None:
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

    def deliver(self, machine: SimulatedNode, incarnation: int, fact: Event) -> None:
        """A fact comes to a node."""

    def transmit(self, sender: Address, receiver: Address, group: int, message: Any) -> None:
        """Send, by a network that does as it likes."""
