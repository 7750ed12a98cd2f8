"""What a runner needs of a level: a pure state machine, and hands that perform its orders."""

from typing import Protocol, TypeVar

from trimtab.act.execution.commands import Command
from trimtab.act.execution.events import Event
from trimtab.act.execution.state import AnyExecution

MachineT = TypeVar("MachineT", bound=AnyExecution)


class Machine(Protocol[MachineT]):
    """One level's execution on one cluster.

    `absorb` and `decide` are pure, and the only way from one state to the next; `perform` is the only thing
    that touches the cluster.
    """

    @property
    def changes(self) -> tuple[type[Command], ...]:
        """Orders that change the cluster: the lease is looked at before each."""
        ...

    def absorb(self, state: MachineT, event: Event) -> MachineT:
        """The state after a fact; nothing is ordered yet."""
        ...

    def decide(self, state: MachineT) -> tuple[MachineT, Command]:
        """The next order, with the state marked as having given it."""
        ...

    def perform(self, command: Command, state: MachineT) -> Event:
        """Perform an order that is for the cluster; the event that answers it.

        Raises
        ------
        PortError
            If the call failed as a whole.
        """
        ...
