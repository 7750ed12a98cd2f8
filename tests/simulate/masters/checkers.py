"""Checkers of a simulated store: all invariants, and what its consumers were delivered."""

from __future__ import annotations

from collections.abc import Callable

from simulate.masters.clients import SimulatedStoreConsumer
from simulate.masters.logs import AppliedLogs
from simulate.masters.machine import SimulatedNode, StoreWorldProtocol
from simulate.masters.masterships import MastershipChecker
from trimtab_store.core.messages import (
    Event,
    FetchResponse,
    MessageRecord,
    ProduceResponse,
    Received,
    SendMessage,
    StoreEvent,
    StoreRequest,
    TimerExpired,
)
from trimtab_store.core.state import GroupState
from trimtab_store.core.token import CLUSTER


class DeliveryChecker:
    """Messages as producers and consumers were told of them.

    Attributes
    ----------
    clean
        Clean transfers that consumers went through.
    """

    def __init__(
        self, world: StoreWorldProtocol, logs: AppliedLogs, broken: Callable[[str, str], None]
    ) -> None:
        self._world, self._logs, self._broken = world, logs, broken
        self._stored: dict[tuple[int, str, str], int] = {}
        self._read: dict[tuple[int, str, int], MessageRecord] = {}
        self._fences: dict[tuple[int | str, int], int] = {}
        self._started = set[str]()
        self.clean = 0

    def sent(self, machine: SimulatedNode, order: SendMessage) -> None:
        """A master answers a consumer: under which fence, for what it holds may be another one's soon."""
        message = order.message
        if isinstance(message, FetchResponse) and message.verdict == "stored":
            state = self._world.state(machine.number, order.group)
            self._fences[order.to, message.number] = state.fence
            consumer = self._world.clients.get(order.to) if isinstance(order.to, str) else None
            if isinstance(consumer, SimulatedStoreConsumer) and consumer.client not in self._started:
                # A life begins here, though the answer may be lost. Without a clean transfer in between, what
                # the life before it did not hand in comes again.
                self._started.add(consumer.client)
                if not self._is_clean(consumer, state.fence):
                    consumer.worked_off = min(consumer.worked_off, message.offset)

    def _is_clean(self, consumer: SimulatedStoreConsumer, fence: int) -> bool:
        """Whether a clean transfer lies between the master that answered a consumer last and this one."""
        return self._logs.switches.get((consumer.group, fence)) == (consumer.fence, True)

    def stored(self, group: int, message: ProduceResponse) -> None:
        """A producer was told that its message is stored."""
        key = group, message.topic, message.producer
        self._stored[key] = max(self._stored.get(key, 0), message.sequence)

    def pulled(self, consumer: SimulatedStoreConsumer, message: FetchResponse, *, fresh: bool) -> None:
        """A consumer got messages."""
        fence = self._fences[consumer.client, message.number]
        clean = self._is_clean(consumer, fence)
        self.clean += clean
        if fresh:
            # What is kept while the answer is under way may have overtaken it.
            if message.offset < consumer.stored_before:
                self._broken(
                    "I5", f"{consumer.name} begins at {message.offset}, and {consumer.stored_before} was kept"
                )
            if message.offset > consumer.reached:
                self._broken(
                    "I5", f"{consumer.name} begins at {message.offset}, and had got those before "
                    f"{consumer.reached}"
                )  # fmt: skip
            if clean and message.offset < consumer.worked_off:
                self._broken(
                    "I5", f"{consumer.name} gets {message.offset} again after a clean transfer, "
                    f"and those before {consumer.worked_off} were worked off"
                )  # fmt: skip
        consumer.fence = fence
        for offset, record in enumerate(message.records, message.offset):
            known = self._read.setdefault((consumer.group, message.topic, offset), record)
            if known != record:
                self._broken("I4", f"{consumer.name} read {record} at {offset}, and {known} stood there")

    def ended(self, number: int, state: GroupState) -> None:
        """All is quiet: everything that was acknowledged is in the group's state."""
        for (group, topic, producer), last in self._stored.items():
            if group != number:
                continue
            there = [one.sequence for one in state.topics.get(topic, []) if one.producer == producer]
            if there != list(range(1, len(there) + 1)) or len(there) < last:
                self._broken(
                    "I4", f"of {producer} {last} were acknowledged, and {there[-5:]} are the last there"
                )

    def all_ended(self) -> None:
        """What was read is there too."""
        for (number, topic, offset), record in self._read.items():
            if self._world.state(0, number).topics[topic][offset] != record:
                self._broken("I4", f"what was read at {offset} of {topic} is not there")


class StoreInvariantError(Exception):
    """An invariant was broken."""


class InvariantCheckers:
    """I1 to I8 of the protocol's page, over all nodes at true time; `run` asks for I9 when all is over.

    Parameters
    ----------
    clock_history
        Whether clocks drift no more than promised: I1 and I6 are promised under that condition alone.

    Attributes
    ----------
    deliveries
        Is told what clients hear.
    """

    def __init__(self, world: StoreWorldProtocol, *, clock_history: bool) -> None:
        self._world = world
        self._logs = AppliedLogs(world, self.broken)
        self._masterships = MastershipChecker(world, self._logs, self.broken, clock_history=clock_history)
        self.deliveries = DeliveryChecker(world, self._logs, self.broken)

    @property
    def transfers(self) -> list[float]:
        """Seconds that each transfer took so far."""
        return self._masterships.transfers

    def broken(self, invariant: str, what: str) -> None:
        """End the run."""
        raise StoreInvariantError(f"{invariant} at {self._world.now:.3f} s: {what}")

    def restarted(self, node: int) -> None:
        """A node has started again: what it knew may be less than it was."""
        self._logs.restarted(node)
        self._masterships.restarted(node)

    def after(self, machine: SimulatedNode, fact: Event) -> None:
        """A node has taken a fact in.

        A message of a group changes that group alone, and the one that the node takes over, which it may
        leave for another one then.
        """
        core, node = machine.core, machine.number
        assert core is not None
        self._logs.after(node, CLUSTER, core.token.log)
        self._masterships.token(machine)
        only = fact.group if isinstance(fact, Received | StoreEvent) else CLUSTER
        # Nothing is overdue at a node that has just been told the time.
        due = isinstance(fact, TimerExpired)
        for group in core.groups:
            if only not in (CLUSTER, group.number) and not self._masterships.moving(node, group):
                continue
            self._logs.after(node, group.number, group.log)
            self._masterships.after(machine, group, deadline=due)

    def store_requested(self, machine: SimulatedNode, ask: StoreRequest) -> None:
        """The store is asked for slots."""
        self._masterships.store_requested(machine, ask)

    def sent(self, machine: SimulatedNode, order: SendMessage) -> None:
        """A message leaves a node."""
        self._masterships.sent(machine, order)
        self.deliveries.sent(machine, order)

    def mastered(self, since: float) -> None:
        """Faults have ended long ago: see `MastershipChecker.mastered`."""
        self._masterships.mastered(since)

    def ended(self) -> None:
        """All is quiet: preferred masters, one state everywhere, and everything that was acknowledged."""
        for number, preferred in enumerate(self._world.map.preferred):
            machine = self._world.machines[preferred]
            # Whoever has not seen the map is passed over: any one master is right.
            self._masterships.ended(number, preferred if machine.map == self._world.map else None)
            self.deliveries.ended(number, self._logs.ended(number))
        self.deliveries.all_ended()
