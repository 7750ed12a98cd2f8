"""A cluster in virtual time: nodes with clocks and disks, a network between them, and clients."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from trimtab.lab.simulate.masters.checkers import Checkers
from trimtab.lab.simulate.masters.clients import Consumer, Producer
from trimtab.lab.simulate.masters.clock import Clock
from trimtab.lab.simulate.masters.deliveries import Deliveries
from trimtab.lab.simulate.masters.disk import Disk
from trimtab.lab.simulate.masters.histories import Histories
from trimtab.lab.simulate.masters.machine import Machine
from trimtab.lab.simulate.masters.network import Address, Network
from trimtab.lab.simulate.masters.store import SlotStore
from trimtab.online.masters.engines import EMBEDDED
from trimtab.online.masters.log import Engine
from trimtab.online.masters.messages import Due, MapSeen, Received, Send, Write
from trimtab.online.masters.node import Node
from trimtab.online.masters.settings import MasterSettings
from trimtab.online.masters.slots import Ask, Fact, Order, Told
from trimtab.online.masters.state import GroupState

SYNC_SECONDS = 0.001
STORE: Final = "store"
"""The address of the store of slots, where there is one."""
STORE_SECONDS: Final = 0.002
"""What it takes to choose, beside the ways there and back."""


class World:
    """All of it.

    Parameters
    ----------
    seed
        Of all chance.
    engine
        What chooses; with any but `EMBEDDED` there is a store of slots.
    clients
        Producers, and as many consumers, of each group.

    Attributes
    ----------
    now
        True seconds.
    closing
        Whether producers have nothing new to send.
    store, store_away_until
        Where the slots are, if the nodes do not choose themselves; and until when it answers nobody.
    story
        What happened, each with its second.
    histories
        What clients asked for and were told.
    ambush
        Strikes at moments that matter.
    """

    def __init__(
        self,
        seed: int,
        *,
        nodes: int,
        groups: int,
        settings: MasterSettings,
        engine: Engine = EMBEDDED,
        clocks_kept: bool = True,
        latency_seconds: float = 0.004,
        interval_seconds: float = 0.6,
        clients: int = 1,
    ) -> None:
        self.chance = Random(seed)
        self.nodes, self.groups, self.settings = nodes, groups, settings
        self.now = 0.0
        self.closing = False
        self.engine = engine
        self.store = None if engine is EMBEDDED else SlotStore()
        self.store_away_until = 0.0
        self.events = 0
        self.ambush: Callable[[], None] | None = None
        self.story: list[tuple[float, str]] = []
        self.network = Network(self.chance, latency_seconds)
        self.machines = [Machine(number, Clock(), Disk()) for number in range(nodes)]
        self.checkers = Checkers(self, clocks_kept=clocks_kept)
        self.histories = Histories(groups)
        self.map = MapSeen(0, (0,) * groups)
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self.clients: dict[str, Producer | Consumer] = {}
        for client in range(groups * clients):
            name, group = f"producer-{client}", client % groups
            self.clients[name] = Producer(self, name, group, "t", interval_seconds)
            name = f"consumer-{client}"
            self.clients[name] = Consumer(self, name, group, "t", 2 * interval_seconds)
        for one in self.clients.values():
            self.at(self.chance.random(), one.tick)
        for machine in self.machines:
            self.start(machine)

    def moment(self) -> None:
        """Something has begun that a fault could hurt: often one comes at once, or a message later."""
        if self.ambush is not None and self.chance.random() < 0.5:
            self.at(self.now + 4 * self.network.latency_seconds * self.chance.random(), self.ambush)

    @property
    def watching(self) -> Deliveries:
        """Who is told what clients hear."""
        return self.checkers.deliveries

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

    def start(self, machine: Machine) -> None:
        """Start a node on what its disk holds."""
        machine.life += 1
        machine.wake_at, machine.syncing, machine.paused_until = float("inf"), False, 0.0
        machine.waiting.clear()
        machine.core = Node(
            machine.number,
            self.nodes,
            self.groups,
            life=machine.life,
            now=machine.clock.read(self.now),
            settings=self.settings,
            written=self.store.recovered(self.groups) if self.store is not None else machine.disk.recovered(),
            engine=self.engine,
        )
        self.checkers.begun_anew(machine.number)
        self.moment()
        self.tell(machine, machine.life, self.map)

    def stop(self, machine: Machine, *, power: bool) -> None:
        """End a node without a word; with the power, what was not synced goes too."""
        machine.core = None
        if power:
            lost = machine.disk.cut_power(self.chance)
            self.note(f"node {machine.number} loses power, and {lost} lines of its log")
        else:
            # Written but not synced survives the process: it is the kernel's.
            machine.disk.synced = len(machine.disk.lines)
            self.note(f"node {machine.number} is killed")

    def tell(self, machine: Machine, life: int, fact: Fact) -> None:
        """A fact comes to a node."""
        if machine.core is None or life != machine.life:
            return
        if self.now < machine.paused_until:
            self.at(machine.paused_until, self.tell, machine, life, fact)
            return
        orders = machine.core.handle(machine.clock.read(self.now), fact)
        self.checkers.after(machine, fact)
        for order in orders:
            self._perform(machine, order)
        self._wake(machine)

    def _perform(self, machine: Machine, order: Order) -> None:
        if isinstance(order, Write):
            machine.disk.lines.append((order.group, order.written))
            return
        if isinstance(order, Ask):
            self.checkers.asked(machine, order)
            for delay in self.network.delays(machine.number, STORE):
                self.at(self.now + delay + STORE_SECONDS, self._ask, machine, machine.life, order)
            return
        disk = machine.disk
        if not order.synced or disk.synced == len(disk.lines):
            self._send(machine, order)
            return
        machine.waiting.append((len(disk.lines), order))
        if not machine.syncing:
            self._sync(machine)

    def _sync(self, machine: Machine) -> None:
        machine.syncing = True
        seconds = SYNC_SECONDS * machine.disk.slow * (0.5 + self.chance.random())
        self.at(self.now + seconds, self._synced, machine, machine.life, len(machine.disk.lines))

    def _synced(self, machine: Machine, life: int, lines: int) -> None:
        if machine.core is None or life != machine.life:
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

    def _send(self, machine: Machine, order: Send) -> None:
        self.checkers.sent(machine, order)
        self.transmit(machine.number, order.to, order.group, order.message)

    def _ask(self, machine: Machine, life: int, ask: Ask) -> None:
        """A question comes to the store; answers go as messages do, and so does what it tells all."""
        assert self.store is not None
        if self.now < self.store_away_until:
            # Nobody is answered; what came in is chosen when it works again, or never.
            if self.chance.random() < 0.5:
                self.at(self.store_away_until, self._ask, machine, life, ask)
            return
        answers, seen = self.store.ask(ask)
        for answer in answers:
            self._tell_later(machine, life, answer)
        for other in self.machines:
            for told in seen:
                self._tell_later(other, other.life, told)

    def _tell_later(self, machine: Machine, life: int, told: Told) -> None:
        for delay in self.network.delays(STORE, machine.number):
            self.at(self.now + delay, self.tell, machine, life, told)

    def _wake(self, machine: Machine) -> None:
        assert machine.core is not None
        due = max(machine.clock.true(machine.core.due()), self.now + 1e-6)
        if due < machine.wake_at:
            machine.wake_at = due
            self.at(due, self._woken, machine, machine.life, due)

    def _woken(self, machine: Machine, life: int, due: float) -> None:
        if life == machine.life and due == machine.wake_at:
            if self.now < machine.paused_until:
                machine.wake_at = machine.paused_until
                self.at(machine.paused_until, self._woken, machine, life, machine.paused_until)
                return
            machine.wake_at = float("inf")
            self.tell(machine, life, Due())

    # ------------------------------------------------------------ messages

    def transmit(self, sender: Address, receiver: Address, group: int, message: Any) -> None:
        """Send, by a network that does as it likes."""
        for delay in self.network.delays(sender, receiver):
            self.at(self.now + delay, self._arrive, sender, receiver, group, message)

    def _arrive(self, sender: Address, receiver: Address, group: int, message: Any) -> None:
        if isinstance(receiver, int):
            machine = self.machines[receiver]
            self.tell(machine, machine.life, Received(sender, group, message))
        elif isinstance(sender, int):
            self.clients[receiver].received(sender, message)

    def publish_map(self, ideal: tuple[int, ...]) -> None:
        """Every node sees a new version, each in its own time."""
        self.map = MapSeen(self.map.version + 1, ideal)
        self.note(f"the ideal map is {ideal}")
        for machine in self.machines:
            self.at(self.now + self.chance.random(), self.tell, machine, machine.life, self.map)
