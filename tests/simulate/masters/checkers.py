"""I1 to I8 of the protocol's page, told of everything; a broken one ends the run with a sentence."""

from __future__ import annotations

from simulate.masters.deliveries import DeliveryChecker
from simulate.masters.logs import AppliedLogs
from simulate.masters.machine import SimulatedNode, StoreWorldProtocol
from simulate.masters.masterships import MastershipChecker
from trimtab_store.core.messages import Received, SendMessage, TimerExpired
from trimtab_store.core.store_messages import Event, StoreEvent, StoreRequest
from trimtab_store.core.token import CLUSTER


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
