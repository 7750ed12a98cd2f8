"""A cluster in virtual time: nodes with clocks and disks, a network between them, and clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Any, Final, NamedTuple

from simulate.masters.checkers import DeliveryChecker, InvariantCheckers
from simulate.masters.clients import SimulatedStoreConsumer, SimulatedStoreProducer
from simulate.masters.histories import ClientHistories
from simulate.masters.machine import (
    Address,
    DriftingClock,
    SimulatedDisk,
    SimulatedNetwork,
    SimulatedNode,
    SimulatedStoreClient,
)
from simulate.masters.store import SimulatedLogStore
from trimtab_store.core.messages import (
    Accept,
    AppendMessages,
    Chosen,
    Effect,
    Event,
    FetchResponse,
    ForwardMessage,
    MapChanged,
    ProduceRequest,
    Promise,
    Received,
    SendMessage,
    StoreEvent,
    StoreRequest,
    TimerExpired,
    WriteLog,
    entry_bytes,
)
from trimtab_store.core.node import EMBEDDED, StoreNode
from trimtab_store.core.settings import StoreSettings
from trimtab_store.core.state import GroupState
from trimtab_store.core.stored import ConsensusEngine

SYNC_SECONDS = 0.001
STORE: Final = "store"
"""The address of the store of slots, where there is one."""
STORE_SECONDS: Final = 0.002
"""What it takes to choose, beside the ways there and back."""
REFUSED_SECONDS: Final = 0.2
"""Clients try again so often to connect to a process that is not there."""
IDLE_TIMEOUT_SECONDS: Final = 10.0
"""After that long clients count the connection to a machine without power as ended."""


class ProcessingCost(NamedTuple):
    """What a node's processor takes for a message; it does one thing after another."""

    message_seconds: float = 0.0
    byte_seconds: float = 0.0

    def of(self, fact: Event) -> float:
        """Seconds of a fact."""
        if not self.message_seconds:
            return 0.0
        size = _size(fact.message) if isinstance(fact, Received) else 0
        return self.message_seconds + size * self.byte_seconds


FREE: Final = ProcessingCost()


def _size(message: Any) -> int:
    """Bytes of messages of producers in a message, about."""
    match message:
        case ProduceRequest(_, record) | ForwardMessage(ProduceRequest(_, record)):
            return len(record.payload)
        case Accept(_, _, AppendMessages() as entry):
            return entry_bytes(entry)
        case Promise(_, _, accepted):
            return sum(entry_bytes(entry) for _, _, entry in accepted)
        case Chosen(_, entries):
            return sum(map(entry_bytes, entries))
        case FetchResponse():
            return sum(len(record.payload) for record in message.records)
    return 0


class StoreWorld:
    """All of it.

    Parameters
    ----------
    seed
        Of all chance.
    engine
        What chooses; with any but `EMBEDDED` there is a store of slots.
    clients
        Producers, and as many consumers, of each group.
    cost, padding_bytes
        What a node's processor takes, and what a message has beside its number.
    blind
        Nodes that never see a map.
    connected
        Whether what clients say comes over connections, to nodes and on to preferred nodes, which keep the
        order and lose nothing unless they are cut; else as all that nodes say to one another, which is worse.

    Attributes
    ----------
    now
        True seconds.
    closing
        Whether producers have nothing new to send, and consumers live on.
    clients
        Programs by the names of their connections.
    places
        Where they are.
    store, store_away_until
        Where the slots are, if the nodes do not choose themselves; and until when it answers nobody.
    story
        What happened, each with its second.
    histories
        What clients asked for and were told.
    ambush
        Strikes at moments that matter.
    faults, ends
        Kind of fault to how often it struck, and how often a node has ended; a node may be down already that
        is to end.
    """

    def __init__(
        self,
        seed: int,
        *,
        nodes: int,
        groups: int,
        settings: StoreSettings,
        engine: ConsensusEngine = EMBEDDED,
        clock_history: bool = True,
        latency_seconds: float = 0.004,
        interval_seconds: float = 0.6,
        clients: int = 1,
        cost: ProcessingCost = FREE,
        padding_bytes: int = 0,
        blind: frozenset[int] = frozenset(),
        connected: bool = True,
    ) -> None:
        self.chance = Random(seed)
        self.nodes, self.groups, self.settings = nodes, groups, settings
        self.now = 0.0
        self.closing = False
        self.engine = engine
        self.store = None if engine is EMBEDDED else SimulatedLogStore()
        self.store_away_until = 0.0
        self.events = 0
        self.ambush: Callable[[], None] | None = None
        self.faults: Counter[str] = Counter()
        self.ends = 0
        self.story: list[tuple[float, str]] = []
        self.network = SimulatedNetwork(self.chance, latency_seconds)
        self.map = MapChanged(0, (0,) * groups)
        self.machines = [
            SimulatedNode(number, DriftingClock(), SimulatedDisk(), self.map) for number in range(nodes)
        ]
        self.checkers = InvariantCheckers(self, clock_history=clock_history)
        self.histories = ClientHistories(groups)
        self.cost, self.padding, self.blind = cost, b" " * padding_bytes, blind
        self.connected = connected
        self._arrivals: dict[tuple[Address, Address], float] = {}
        for machine in self.machines:
            machine.map_late_seconds = inf if machine.number in blind else 0.0
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self.clients: dict[str, SimulatedStoreClient] = {}
        self.producers, self.consumers = list[SimulatedStoreProducer](), list[SimulatedStoreConsumer]()
        for client in range(groups * clients):
            producer = SimulatedStoreProducer(
                self, f"producer-{client}", client % groups, "t", interval_seconds
            )
            self.clients[producer.name] = producer
            self.producers.append(producer)
            self.consumers.append(
                SimulatedStoreConsumer(self, f"consumer-{client}", client % groups, "t", 2 * interval_seconds)
            )
        self.places = [one.name for one in self.producers] + [one.name for one in self.consumers]
        for one in [*self.clients.values()]:
            self.at(self.chance.random(), one.tick)
        for machine in self.machines:
            self.start(machine)

    def fault_point(self) -> None:
        """Something has begun that a fault could hurt: often one comes at once, or a message later."""
        if self.ambush is not None and self.chance.random() < 0.5:
            self.at(self.now + 4 * self.network.latency_seconds * self.chance.random(), self.ambush)

    @property
    def watching(self) -> DeliveryChecker:
        """Who is told what clients hear."""
        return self.checkers.deliveries

    def broken(self, invariant: str, what: str) -> None:
        """End the run; errors as in `InvariantCheckers.broken`."""
        self.checkers.broken(invariant, what)

    def note(self, what: str) -> None:
        """Add to the story."""
        self.story.append((self.now, what))

    def any_node(self) -> int:
        """One of them, by chance."""
        return self.chance.randrange(self.nodes)

    def state(self, node: int, group: int) -> GroupState:
        """What a node that is up holds of a group."""
        core = self.machines[node].core
        assert core is not None
        return core.groups[group].state

    # ------------------------------------------------------------ time

    def at(self, when: float, do: Callable[..., None], *arguments: Any) -> None:
        """Have something happen."""
        self._count += 1
        heappush(self._queue, (when, self._count, do, arguments))

    def run_until(self, end: float) -> None:
        """Let everything happen that happens before."""
        queue = self._queue
        while queue and queue[0][0] <= end:
            self.now, _, do, arguments = heappop(queue)
            self.events += 1
            do(*arguments)
        self.now = end

    # ------------------------------------------------------------ nodes

    def start(self, machine: SimulatedNode) -> None:
        """Start a node on what its disk holds."""
        machine.incarnation += 1
        machine.wake_at, machine.syncing, machine.paused_until, machine.busy_until = inf, False, 0.0, 0.0
        machine.waiting.clear()
        machine.inbox.clear()
        machine.timer_pending = False
        machine.core = StoreNode(
            machine.number,
            self.nodes,
            self.groups,
            incarnation=machine.incarnation,
            now=machine.clock.read(self.now),
            settings=self.settings,
            written=self.store.recovered(self.groups) if self.store is not None else machine.disk.recovered(),
            engine=self.engine,
        )
        self.checkers.restarted(machine.number)
        self.fault_point()
        self.deliver(machine, machine.incarnation, machine.map)
        if machine.incarnation > 1:
            self._lose(machine, machine.incarnation, 0.0)  # connections to its former life

    def stop(self, machine: SimulatedNode, *, power: bool) -> None:
        """End a node without a word; with the power, what was not synced goes too."""
        machine.core = None
        self.ends += 1
        if power:
            lost = machine.disk.cut_power(self.chance)
            self.note(f"node {machine.number} loses power, and {lost} lines of its log")
        else:
            # Written but not synced survives the process: it is the kernel's.
            machine.disk.synced = len(machine.disk.lines)
            self.note(f"node {machine.number} is killed")
        after, again = (IDLE_TIMEOUT_SECONDS, IDLE_TIMEOUT_SECONDS) if power else (0.0, REFUSED_SECONDS)
        self.at(self.now + after, self._lose, machine, machine.incarnation, again)

    def _lose(self, machine: SimulatedNode, incarnation: int, again: float) -> None:
        """Connections to a life of a node end, and cannot be made while it is down."""
        if incarnation == machine.incarnation:
            for client in [*self.clients.values()]:
                client.lost(machine.number)
            if machine.core is None:
                self.at(self.now + again, self._lose, machine, incarnation, again)

    def deliver(self, machine: SimulatedNode, incarnation: int, fact: Event) -> None:
        """A fact comes to a node, which takes it in as soon as it has taken in those before it."""
        if machine.core is None or incarnation != machine.incarnation:
            return
        free_at = max(machine.busy_until, machine.paused_until)
        if machine.inbox or self.now < free_at:
            if not machine.inbox:
                self.at(free_at, self._work, machine, incarnation)
            machine.inbox.append(fact)
        else:
            self._take(machine, fact)

    def _work(self, machine: SimulatedNode, incarnation: int) -> None:
        """A node takes in what has waited longest."""
        if machine.core is None or incarnation != machine.incarnation:
            return
        if self.now >= machine.paused_until:
            self._take(machine, machine.inbox.popleft())
        if machine.inbox and incarnation == machine.incarnation:
            self.at(max(machine.busy_until, machine.paused_until), self._work, machine, incarnation)

    def _take(self, machine: SimulatedNode, fact: Event) -> None:
        assert machine.core is not None
        machine.busy_until = self.now + self.cost.of(fact)
        machine.timer_pending = machine.timer_pending and not isinstance(fact, TimerExpired)
        orders = machine.core.handle(machine.clock.read(self.now), fact)
        self.checkers.after(machine, fact)
        for order in orders:
            self._perform(machine, order)
        self._wake(machine)

    def _perform(self, machine: SimulatedNode, order: Effect) -> None:
        if isinstance(order, WriteLog):
            machine.disk.lines.append((order.group, order.written))
            return
        if isinstance(order, StoreRequest):
            self.checkers.store_requested(machine, order)
            for delay in self.network.delays(machine.number, STORE):
                self.at(self.now + delay + STORE_SECONDS, self._ask, machine, machine.incarnation, order)
            return
        disk = machine.disk
        if not order.synced or disk.synced == len(disk.lines):
            self._send(machine, order)
            return
        machine.waiting.append((len(disk.lines), order))
        if not machine.syncing:
            self._sync(machine)

    def _sync(self, machine: SimulatedNode) -> None:
        machine.syncing = True
        seconds = SYNC_SECONDS * machine.disk.slow * (0.5 + self.chance.random())
        self.at(self.now + seconds, self._synced, machine, machine.incarnation, len(machine.disk.lines))

    def _synced(self, machine: SimulatedNode, incarnation: int, lines: int) -> None:
        if machine.core is None or incarnation != machine.incarnation:
            return
        if machine.disk.failing:
            self.note(f"node {machine.number} cannot sync its log and ends")
            self.stop(machine, power=True)
            return
        machine.disk.synced, machine.syncing = lines, False
        waiting, machine.waiting = machine.waiting, []
        for position, order in waiting:
            if position <= lines:
                self._send(machine, order)
            else:
                machine.waiting.append((position, order))
        if machine.waiting:
            self._sync(machine)

    def _send(self, machine: SimulatedNode, order: SendMessage) -> None:
        self.checkers.sent(machine, order)
        self.transmit(machine.number, order.to, order.group, order.message)

    def _ask(self, machine: SimulatedNode, incarnation: int, ask: StoreRequest) -> None:
        """A question comes to the store; answers go as messages do, and so does what it tells all."""
        assert self.store is not None
        if self.now < self.store_away_until:
            # Nobody is answered; what came in is chosen when it works again, or never.
            if self.chance.random() < 0.5:
                self.at(self.store_away_until, self._ask, machine, incarnation, ask)
            return
        answers, seen = self.store.request(ask)
        for answer in answers:
            self._deliver_later(machine, incarnation, answer)
        for other in self.machines:
            for told in seen:
                self._deliver_later(other, other.incarnation, told)

    def _deliver_later(self, machine: SimulatedNode, incarnation: int, text: StoreEvent) -> None:
        for delay in self.network.delays(STORE, machine.number):
            self.at(self.now + delay, self.deliver, machine, incarnation, text)

    def _wake(self, machine: SimulatedNode) -> None:
        assert machine.core is not None
        if machine.timer_pending:
            return  # it is told the time once, behind all that came before
        due = max(machine.clock.true(machine.core.next_deadline()), self.now + 1e-6)
        if due < machine.wake_at:
            machine.wake_at = due
            self.at(due, self._woken, machine, machine.incarnation, due)

    def _woken(self, machine: SimulatedNode, incarnation: int, deadline: float) -> None:
        if incarnation == machine.incarnation and deadline == machine.wake_at:
            machine.wake_at, machine.timer_pending = inf, True
            self.deliver(machine, incarnation, TimerExpired())

    # ------------------------------------------------------------ messages

    def transmit(self, sender: Address, receiver: Address, group: int, message: Any) -> None:
        """Send, by a network that does as it likes; but for clients' connections, which keep the order."""
        of_client = (
            isinstance(sender, str) or isinstance(receiver, str) or isinstance(message, ForwardMessage)
        )
        if self.connected and of_client:
            once = self.network.delay_of_connection(sender, receiver)
            if once is not None:
                arrival = max(self.now + once, self._arrivals.get((sender, receiver), 0.0))
                self._arrivals[sender, receiver] = arrival
                self.at(arrival, self._arrive, sender, receiver, group, message)
            return
        for delay in self.network.delays(sender, receiver):
            self.at(self.now + delay, self._arrive, sender, receiver, group, message)

    def _arrive(self, sender: Address, receiver: Address, group: int, message: Any) -> None:
        if isinstance(receiver, int):
            machine = self.machines[receiver]
            self.deliver(machine, machine.incarnation, Received(sender, group, message))
        elif isinstance(sender, int) and receiver in self.clients:
            self.clients[receiver].received(sender, message)

    def publish_map(self, preferred: tuple[int, ...]) -> None:
        """Every node sees a new version, each in its own time, and some of them never."""
        self.map = MapChanged(self.map.version + 1, preferred)
        self.note(f"the preferred map is {preferred}")
        for machine in self.machines:
            if machine.map_late_seconds < inf:
                late = self.chance.random() + machine.map_late_seconds
                self.at(self.now + late, self.show_map, machine, self.map)

    def longest_rest(self) -> float:
        """Seconds until the last group may be given to its preferred node, as far as any node knows."""
        cores = [(one, one.core) for one in self.machines if one.core is not None]
        return max(
            core.groups[group].rests.left(machine.clock.read(self.now), preferred)
            for machine, core in cores
            for group, preferred in enumerate(self.map.preferred)
        )

    def show_map(self, machine: SimulatedNode, observation: MapChanged) -> None:
        """A node's file holds a version, unless it holds a later one."""
        if observation.version > machine.map.version:
            machine.map = observation
            self.deliver(machine, machine.incarnation, observation)
