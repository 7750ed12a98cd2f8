"""I1 to I8 of the protocol's page, told of everything; a broken one ends the run with a sentence."""

from __future__ import annotations

from trimtab.lab.simulate.masters.deliveries import Deliveries
from trimtab.lab.simulate.masters.logs import Logs
from trimtab.lab.simulate.masters.machine import Machine, Stage
from trimtab.lab.simulate.masters.masterships import Masterships
from trimtab.online.masters.messages import Due, Received, Send
from trimtab.online.masters.slots import Ask, Fact, Told
from trimtab.online.masters.token import CLUSTER


class ViolationError(Exception):
    """An invariant was broken."""


class Checkers:
    """I1 to I8 of the protocol's page, over all nodes at true time; `run` asks for I9 when all is over.

    Parameters
    ----------
    clocks_kept
        Whether clocks drift no more than promised: I1 and I6 are promised under that condition alone.

    Attributes
    ----------
    deliveries
        Is told what clients hear.
    """

    def __init__(self, world: Stage, *, clocks_kept: bool) -> None:
        self._world = world
        self._logs = Logs(world, self.broken)
        self._masterships = Masterships(world, self._logs, self.broken, clocks_kept=clocks_kept)
        self.deliveries = Deliveries(world, self._logs, self.broken)

    @property
    def takeovers(self) -> list[float]:
        """Seconds that each takeover took so far."""
        return self._masterships.takeovers

    def broken(self, invariant: str, what: str) -> None:
        """End the run."""
        raise ViolationError(f"{invariant} at {self._world.now:.3f} s: {what}")

    def begun_anew(self, node: int) -> None:
        """A node has started again: what it knew may be less than it was."""
        self._logs.begun_anew(node)
        self._masterships.begun_anew(node)

    def after(self, machine: Machine, fact: Fact) -> None:
        """A node has taken a fact in.

        A message of a group changes that group alone, and the one that the node takes over, which it may
        leave for another one then.
        """
        core, node = machine.core, machine.number
        assert core is not None
        self._logs.after(node, CLUSTER, core.token.log)
        self._masterships.token(machine)
        only = fact.group if isinstance(fact, Received | Told) else CLUSTER
        # Nothing is overdue at a node that has just been told the time.
        due = isinstance(fact, Due)
        for group in core.groups:
            if only not in (CLUSTER, group.number) and not self._masterships.moving(node, group):
                continue
            self._logs.after(node, group.number, group.log)
            self._masterships.after(machine, group, due=due)

    def asked(self, machine: Machine, ask: Ask) -> None:
        """The store is asked for slots."""
        self._masterships.asked(machine, ask)

    def sent(self, machine: Machine, order: Send) -> None:
        """A message leaves a node."""
        self._masterships.sent(machine, order)
        self.deliveries.sent(machine, order)

    def mastered(self, since: float) -> None:
        """Faults have ended long ago: see `Masterships.mastered`."""
        self._masterships.mastered(since)

    def ended(self) -> None:
        """All is quiet: ideal masters, one state everywhere, and everything that was acknowledged."""
        for number, ideal in enumerate(self._world.map.ideal):
            machine = self._world.machines[ideal]
            # Whoever has not seen the map is passed over: any one master is right.
            self._masterships.ended(number, ideal if machine.map == self._world.map else None)
            self.deliveries.ended(number, self._logs.ended(number))
        self.deliveries.all_ended()
