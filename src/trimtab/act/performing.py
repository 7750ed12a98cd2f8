"""Performing one order on a cluster: a call of the port, and its answer as the event that follows."""

from collections.abc import Callable, Mapping
from typing import Final

from trimtab.act.execution.commands import (
    CancelReassignments,
    Command,
    ElectPreferred,
    MoveLogDirs,
    Observe,
    ReadThrottle,
    Reassign,
    WriteThrottle,
)
from trimtab.act.execution.events import (
    CancelAnswered,
    ClusterObserved,
    ElectionAnswered,
    Event,
    LogDirMovesAnswered,
    ReassignAnswered,
    ThrottleRead,
    ThrottleWritten,
)
from trimtab.act.execution.observation import Answers, TopicPartition
from trimtab.act.port import ClusterPort

CHANGES: Final = (Reassign, MoveLogDirs, CancelReassignments, ElectPreferred, WriteThrottle)
"""Orders that change the cluster: the lease is looked at before each."""


def perform_on(port: ClusterPort, command: Command, clock: Callable[[], float]) -> Event:
    """Perform an order that is for the cluster; the event that answers it.

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
