"""A simulated node of a store: drifting clock, a disk that loses what was not synced, network, process."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from simulate.masters.histories import ClientHistories
from simulate.masters.store import SimulatedLogStore
from trimtab_store.core.messages import Event, FetchResponse, MapChanged, ProduceResponse, SendMessage
from trimtab_store.core.node import StoreNode
from trimtab_store.core.paxos import RetainedLog
from trimtab_store.core.settings import StoreSettings
from trimtab_store.core.state import GroupState


@dataclass(slots=True)
class DriftingClock:
    """A node's clock: true time at a rate that changes now and then.

    Attributes
    ----------
    rate
        Seconds of this clock in a true second.
    wall_offset
        What an operator or a time server has added to the wall clock, seconds; leaves the other alone.
    reads_wall
        Whether nodes read the wall clock: a mistake, by which checkers show that its jumps would be noticed.
    """

    rate: float = 1.0
    wall_offset: float = 0.0
    reads_wall: bool = False
    _true: float = 0.0
    _local: float = 0.0

    def monotonic(self, true: float) -> float:
        """Seconds since it was started; never goes back."""
        return self._local + (true - self._true) * self.rate

    def wall(self, true: float) -> float:
        """The time of day, which jumps; nothing may hang on it."""
        return self.monotonic(true) + self.wall_offset

    def read(self, true: float) -> float:
        """What nodes read, and so what their terms are counted in."""
        return self.wall(true) if self.reads_wall else self.monotonic(true)

    def true(self, local: float) -> float:
        """When nodes will read that, if its rate stays and nobody sets it."""
        if self.reads_wall:
            local -= self.wall_offset
        return self._true + (local - self._local) / self.rate

    def drift(self, true: float, rate: float) -> None:
        """Go at another rate from now on."""
        self._local, self._true, self.rate = self.monotonic(true), true, rate


class SimulatedDisk:
    """The log of one node, over all its lives.

    Attributes
    ----------
    lines
        (group, written).
    synced
        How many of them would survive a power cut.
    slow
        Factor on the seconds of a sync.
    failing
        Whether syncs fail: the process ends then, for it cannot know what is on disk.
    """

    __slots__ = ("failing", "lines", "slow", "synced")

    def __init__(self) -> None:
        self.lines: list[tuple[int, Any]] = []
        self.synced = 0
        self.slow = 1.0
        self.failing = False

    def cut_power(self, chance: Random) -> int:
        """Lose what was not synced, or the end of it: a torn log. How many lines are lost."""
        kept = chance.randint(self.synced, len(self.lines))
        lost = len(self.lines) - kept
        del self.lines[kept:]
        self.synced = kept
        return lost

    def recovered(self) -> dict[int, list[Any]]:
        """Group to what is needed of all that was written for it, as a node's log tells it; only that stays.

        Read when a node starts: then nothing is on its way to the disk.
        """
        found: defaultdict[int, RetainedLog[Any]] = defaultdict(RetainedLog)
        for group, written in self.lines:
            found[group].absorb(written, written)
        needed = {group: [*kept.places(), *kept.state_records()] for group, kept in found.items()}
        self.lines = [(group, one) for group, lines in needed.items() for one in lines]
        self.synced = len(self.lines)
        return needed


Address = int | str
RETRANSMIT_SECONDS = 0.2


def _place(address: Address) -> Address:
    """Where it is: lives of one client follow one another in the same place."""
    return address if isinstance(address, int) else address.partition("#")[0]


class SimulatedNetwork:
    """What becomes of messages.

    Attributes
    ----------
    latency_seconds
        Mean; each message draws its own, so that they overtake one another.
    loss, double
        Chances.
    delay_seconds
        The most that is added to one message in ten.
    cut
        Directions, each (sender, receiver), in which nothing gets through; of clients without their lives.
    """

    __slots__ = ("_chance", "cut", "delay_seconds", "double", "latency_seconds", "loss")

    def __init__(self, chance: Random, latency_seconds: float) -> None:
        self._chance, self.latency_seconds = chance, latency_seconds
        self.loss = self.double = self.delay_seconds = 0.0
        self.cut: set[tuple[Address, Address]] = set()

    def heal(self) -> None:
        """Work as it should."""
        self.loss = self.double = self.delay_seconds = 0.0
        self.cut.clear()

    def delays(self, sender: Address, receiver: Address) -> tuple[float, ...]:
        """Seconds until each copy of a message arrives; none if it is lost."""
        if sender == receiver:
            return (0.0,)
        if self._cut_off(sender, receiver) or (self.loss and self._chance.random() < self.loss):
            return ()
        once = self._delay()
        if self.double and self._chance.random() < self.double:
            return once, self._delay()
        return (once,)

    def delay_of_connection(self, sender: Address, receiver: Address) -> float | None:
        """Seconds until a message arrives over a connection, which sends again what is lost; None if cut."""
        if self._cut_off(sender, receiver):
            return None
        lost = self.loss and self._chance.random() < self.loss
        return self._delay() + (RETRANSMIT_SECONDS if lost else 0.0)

    def _cut_off(self, sender: Address, receiver: Address) -> bool:
        return bool(self.cut) and (_place(sender), _place(receiver)) in self.cut

    def _delay(self) -> float:
        delay = self.latency_seconds * (0.5 + self._chance.random())
        if self.delay_seconds and self._chance.random() < 0.1:
            delay += self._chance.random() * self.delay_seconds
        return delay


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
