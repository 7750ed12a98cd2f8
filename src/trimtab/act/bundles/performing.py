"""Performing orders on a Pulsar cluster: a call of the port, and its answer as the event that follows."""

from collections.abc import Callable

from trimtab.act.bundles.commands import LookUp, Observe, ReadBalancing, Split, Unload, WriteBalancing
from trimtab.act.bundles.events import (
    BalancingRead,
    BalancingWritten,
    ClusterSeen,
    LookedUp,
    SplitAnswered,
    UnloadAnswered,
)
from trimtab.act.bundles.machine import absorb, decide
from trimtab.act.bundles.port import BundlesPort
from trimtab.act.bundles.state import BundlesState
from trimtab.act.execution.commands import Command
from trimtab.act.execution.events import Event


class BundlesMachine:
    """The state machine of this level, with hands: a `trimtab.act.execution.machine.Machine`.

    Parameters
    ----------
    port
        The cluster.
    clock
        Seconds since 1970.
    """

    changes = (Unload, Split, WriteBalancing, LookUp)

    def __init__(self, port: BundlesPort, clock: Callable[[], float]) -> None:
        self._port = port
        self._clock = clock

    def absorb(self, state: BundlesState, event: Event) -> BundlesState:
        """See `trimtab.act.bundles.machine.absorb`."""
        return absorb(state, event)

    def decide(self, state: BundlesState) -> tuple[BundlesState, Command]:
        """See `trimtab.act.bundles.machine.decide`."""
        return decide(state)

    def perform(self, command: Command, state: BundlesState) -> Event:
        """Perform an order that is for the cluster; the event that answers it.

        Raises
        ------
        PortError
            If the call failed as a whole.
        """
        match command:
            case Observe(namespaces, destinations, deep):
                seen = self._port.observe(namespaces, destinations, deep=deep)
                return ClusterSeen(self._clock(), seen)
            case ReadBalancing(everywhere):
                balancing = self._port.read_balancing(everywhere=everywhere)
                return BalancingRead(self._clock(), balancing)
            case WriteBalancing(values):
                failures = self._port.write_balancing(values)
                return BalancingWritten(self._clock(), failures)
            case Unload(targets):
                answers = self._port.unload(targets)
                return UnloadAnswered(self._clock(), answers)
            case Split(_, bundle, boundaries):
                failure = self._port.split(bundle, boundaries)
                return SplitAnswered(self._clock(), failure)
            case LookUp(bundles):
                answers = self._port.look_up(bundles)
                return LookedUp(self._clock(), answers)
        raise AssertionError(f"no way to perform {command}")
