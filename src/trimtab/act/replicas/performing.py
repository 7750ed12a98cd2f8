"""Performing orders on a Kafka cluster: a call of the port, and its answer as the event that follows."""

from collections.abc import Callable, Mapping
from typing import Protocol

from trimtab.act.execution.commands import Command
from trimtab.act.execution.events import Event
from trimtab.act.replicas.commands import (
    CancelReassignments,
    ElectPreferred,
    MoveLogDirs,
    Observe,
    ReadThrottle,
    Reassign,
    SenseLoad,
    WriteThrottle,
)
from trimtab.act.replicas.events import (
    CancelAnswered,
    ClusterObserved,
    ElectionAnswered,
    LoadSensed,
    LogDirMovesAnswered,
    ReassignAnswered,
    ThrottleRead,
    ThrottleWritten,
)
from trimtab.act.replicas.machine import absorb, decide
from trimtab.act.replicas.observation import Answers, TopicPartition
from trimtab.act.replicas.port import ClusterPort
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import StepRecord


class Sense(Protocol):
    """Finds out whether what is left to do is still needed."""

    def __call__(self, records: tuple[StepRecord, ...], at: float) -> LoadSensed:
        """`LoadSensed` for all steps as they are now, from load measured as late as can be had."""
        ...


class ReplicasMachine:
    """The state machine of this level, with hands: a `trimtab.act.execution.machine.Machine`.

    Parameters
    ----------
    port
        The cluster.
    clock
        Seconds since 1970.
    sense
        Asked before every batch; None: nothing is dropped.
    """

    changes = (Reassign, MoveLogDirs, CancelReassignments, ElectPreferred, WriteThrottle)

    def __init__(self, port: ClusterPort, clock: Callable[[], float], sense: Sense | None = None) -> None:
        self._port = port
        self._clock = clock
        self._sense = sense

    def absorb(self, state: ExecutionState, event: Event) -> ExecutionState:
        """See `trimtab.act.replicas.machine.absorb`."""
        return absorb(state, event)

    def decide(self, state: ExecutionState) -> tuple[ExecutionState, Command]:
        """See `trimtab.act.replicas.machine.decide`."""
        return decide(state)

    def perform(self, command: Command, state: ExecutionState) -> Event:
        """Perform an order that is for the cluster; the event that answers it.

        Raises
        ------
        PortError
            If the call failed as a whole.
        """
        if isinstance(command, SenseLoad):
            at = self._clock()
            return LoadSensed(at) if self._sense is None else self._sense(state.records, at)
        return perform_on(self._port, command, self._clock)


def perform_on(port: ClusterPort, command: Command, clock: Callable[[], float]) -> Event:
    """Perform an order on a cluster; the event that answers it.

    Raises
    ------
    PortError
        If the call failed as a whole.
    """
    match command:
        case Observe(partitions, brokers, wide):
            seen = port.observe(partitions, brokers, wide=wide)
            return ClusterObserved(clock(), seen)
        case Reassign(targets, directories):
            answers = _reassign(port, targets, directories)
            return ReassignAnswered(clock(), answers)
        case MoveLogDirs(targets):
            answers = port.move_log_dirs(targets)
            return LogDirMovesAnswered(clock(), answers)
        case CancelReassignments(partitions):
            answers = port.cancel_reassignments(partitions)
            return CancelAnswered(clock(), answers)
        case ElectPreferred(partitions):
            answers = port.elect_preferred(partitions)
            return ElectionAnswered(clock(), answers)
        case ReadThrottle(topics):
            return ThrottleRead(clock(), port.read_throttle(topics))
        case WriteThrottle(config):
            return ThrottleWritten(clock(), port.write_throttle(config))
    raise AssertionError(f"no way to perform {command}")


def _reassign(
    port: ClusterPort,
    targets: Mapping[TopicPartition, tuple[int, ...]],
    directories: Mapping[tuple[TopicPartition, int], str],
) -> Answers:
    refused = {}
    if directories:
        told = port.move_log_dirs(directories)
        refused = {partition: failure for partition, failure in told.items() if failure is not None}
    answers = port.reassign({p: r for p, r in targets.items() if p not in refused})
    return dict(answers) | refused
