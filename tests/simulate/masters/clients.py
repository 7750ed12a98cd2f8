"""Programs that use a group by the producer and the consumer that users run, in virtual time.

`ProducerSession` and `ConsumerSession` decide, as in `SimulatedStoreProducer` and `SimulatedStoreConsumer` of
the data plane; timers and connections, which end with a node, are here.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any, Final

from simulate.masters.machine import StoreWorldProtocol
from trimtab_store.core.client_sessions import ConsumerSession, ProducerSession
from trimtab_store.core.messages import (
    ClientDisconnected,
    FetchRequest,
    FetchResponse,
    OffsetCommitted,
    OffsetUpload,
    ProduceRequest,
    ProduceResponse,
    RequestOffset,
    SendMessage,
)

WINDOW: Final = 64
"""Messages of a producer that may be unacknowledged at once."""
BURST: Final = 24
MAX_BURST: Final = 10
"""Messages that a consumer asks for at once, and that may wait for its program."""
CLOSING_SECONDS: Final = 5.0
ROUNDS_A_SECOND: Final = 60
"""Rounds that any producer needs in a second, beside what is new in it and its window once more, at most."""


class SimulatedStoreProducer:
    """A program that sends messages one by one and in bursts, through one producer for all of its life.

    Attributes
    ----------
    name
        Of the producer, and of its connections.
    stored
        Messages that were acknowledged.
    """

    def __init__(
        self, world: StoreWorldProtocol, name: str, group: int, topic: str, interval_seconds: float
    ) -> None:
        self._world, self.name, self._group = world, name, group
        self._interval = interval_seconds
        self._sending = ProducerSession(
            name, group, topic, name, nodes=world.nodes, master=group % world.nodes
        )
        self._wake_at = inf
        self._lately: deque[float] = deque()
        self.stored = 0

    @property
    def sent(self) -> int:
        """Messages that went out, again and again."""
        return self._sending.sent

    def tick(self) -> None:
        """Send what is new."""
        world, chance = self._world, self._world.chance
        count = 0 if world.closing else BURST if chance.random() < 0.03 else 1
        for _ in range(min(count, WINDOW - len(self._sending.open))):
            payload = b"%d" % (self._sending.last + 1) + world.padding
            orders = self._sending.post(world.now, payload)
            world.histories.appends(world.now, self._group, (self.name, self._sending.last))
            self._carry_out(orders)
        self._plan()
        world.at(world.now + self._interval * (0.5 + chance.random()), self.tick)

    def received(self, sender: int, message: Any) -> None:
        """Hear what became of a message."""
        if isinstance(message, ProduceResponse):
            stored = self._sending.received(self._world.now, sender, message)
            for sequence in stored:
                self._world.histories.appended(self._world.now, self._group, (self.name, sequence))
            self.stored += len(stored)
            if stored:
                self._world.watching.stored(self._group, message)
            self._plan()

    def lost(self, node: int) -> None:
        """The connection to a node has ended, or could not be made."""
        self._sending.lost(self._world.now, node)
        self._plan()

    def _plan(self) -> None:
        due = max(self._sending.next_deadline(), self._world.now)
        if due < self._wake_at:
            self._wake_at = due
            self._world.at(due, self._woken, due)

    def _woken(self, deadline: float) -> None:
        if deadline == self._wake_at:
            self._wake_at = inf
            if self._sending.next_deadline() <= self._world.now:
                self._carry_out(self._sending.tick(self._world.now))
            self._plan()

    def _carry_out(self, orders: list[SendMessage]) -> None:
        world, lately = self._world, self._lately
        for order in orders:
            assert isinstance(order.to, int) and isinstance(order.message, ProduceRequest)
            world.transmit(self.name, order.to, order.group, order.message)
            lately.append(world.now)
        while lately and lately[0] <= world.now - 1.0:
            lately.popleft()
        if world.connected and len(lately) > 3 * WINDOW + ROUNDS_A_SECOND:
            world.broken(
                "I10", f"{self.name} sends {len(lately)} messages in a second, {WINDOW} at once at most"
            )


class SimulatedStoreConsumer:
    """A program that reads, works off, and ends: in good order or not; then it is started anew.

    Attributes
    ----------
    name
        Under it the offset is kept, through all lives.
    client
        Of this life's connections.
    committed
        The highest offset of which a master said that it is kept.
    stored_before, done_before
        That, and how far messages were worked off, when it asked last.
    reached
        Before this offset are all messages that any life has got.
    worked_off
        How far messages were worked off when the last question was asked that was answered; no further than
        where a life began that came after it, though it may not have heard so.
    fence
        Of the master that answered last, when it did; noted by the checkers.
    incarnations
        So many were begun.
    """

    def __init__(
        self, world: StoreWorldProtocol, name: str, group: int, topic: str, interval_seconds: float
    ) -> None:
        self._world, self.name, self.group, self.topic = world, name, group, topic
        self._interval = interval_seconds
        self.committed = self.stored_before = self.done_before = self.worked_off = self.fence = (
            self.reached
        ) = 0
        self.incarnations = 0
        self._begin()

    def _begin(self) -> None:
        self.incarnations += 1
        self.client = f"{self.name}#{self.incarnations}"
        world = self._world
        self._reading = ConsumerSession(
            self.client, self.group, self.topic, self.name, nodes=world.nodes,
            master=self.group % world.nodes, max_messages=MAX_BURST, idle_seconds=self._interval,
            keep_seconds=1.0,
        )  # fmt: skip
        self._requested: int | None = None
        self._closing_until = inf
        self._ends = False
        self._waiting = 0
        self._wake_at = inf
        world.clients[self.client] = self
        self._plan()

    def tick(self) -> None:
        """Work off what has come, and end now and then."""
        world, chance, reading = self._world, self._world.chance, self._reading
        if self._closing_until < inf:
            if reading.left or world.now >= self._closing_until:
                self._ended()
        elif self._ends or (chance.random() < 0.05 and not world.closing):
            self._ended()
        elif reading.position is not None and chance.random() < 0.1 and not world.closing:
            self._closing_until = world.now + CLOSING_SECONDS
            reading.leave(world.now)
        elif self._waiting and reading.position is not None:
            taken = self._waiting if chance.random() < 0.8 else chance.randrange(self._waiting)
            self._waiting -= taken
            reading.has_capacity += taken
            reading.work_off(world.now, reading.position - self._waiting)
        self._plan()
        world.at(world.now + self._interval * (0.5 + chance.random()), self.tick)

    def _ended(self) -> None:
        """Nothing of this life is heard any more, and what comes for it goes nowhere."""
        world = self._world
        del world.clients[self.client]
        if world.chance.random() < 0.7:
            # The process has ended; else its machine has, and nobody hears of it.
            for machine in world.machines:
                world.at(
                    world.now + 0.05 * world.chance.random(),
                    world.deliver,
                    machine,
                    machine.incarnation,
                    ClientDisconnected(self.client),
                )
        self._begin()

    def received(self, sender: int, message: Any) -> None:
        """Take messages, or hear what a master has to say."""
        world, reading = self._world, self._reading
        if isinstance(message, FetchResponse) and message.number == self._requested:
            self._requested = None
            if message.verdict == "stored":
                world.histories.pulled(world.now, self.group, message)
                world.watching.pulled(self, message, fresh=reading.position is None)
                self.worked_off = self.done_before
        elif isinstance(message, OffsetCommitted):
            self.committed = max(self.committed, message.offset)
            world.histories.offset_acknowledged(world.now, self.group, self.name, message.offset)
        orders, records = reading.received(world.now, sender, message)
        self._waiting += len(records)
        self.reached = max(self.reached, reading.position or 0)
        self._carry_out(orders)
        if isinstance(message, RequestOffset) and world.chance.random() < 0.5:
            self._ends = True  # its last word was true, so that the transfer may be clean
        self._plan()

    def lost(self, node: int) -> None:
        """The connection to a node has ended, or could not be made."""
        if node == self._reading.master:
            self._requested = None
        self._reading.lost(self._world.now, node)
        self._plan()

    def _plan(self) -> None:
        due = max(self._reading.next_deadline(), self._world.now)
        if due < self._wake_at:
            self._wake_at = due
            self._world.at(due, self._woken, self.client, due)

    def _woken(self, client: str, deadline: float) -> None:
        if client == self.client and deadline == self._wake_at:
            self._wake_at = inf
            self._carry_out(self._reading.tick(self._world.now))
            self._plan()

    def _carry_out(self, orders: list[SendMessage]) -> None:
        world = self._world
        for order in orders:
            message = order.message
            assert isinstance(order.to, int)
            if isinstance(message, FetchRequest):
                self._requested, self.stored_before, self.done_before = (
                    message.number,
                    self.committed,
                    self._reading.done,
                )
                world.histories.pulls(world.now, self.group, self.name, message.offset, message.max_messages)
            elif isinstance(message, OffsetUpload) and message.offset > self.committed:
                world.histories.keeps(world.now, self.group, self.name, message.offset)
            world.transmit(self.client, order.to, order.group, message)
