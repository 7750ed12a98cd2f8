"""Refusals of the simulated cluster as an execution is told them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trimtab.act.execution.failure import Failure
from trimtab.act.port import PortError
from trimtab.simulate.kafka_state import ErrorCode, KafkaRefusal

NAMES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "UnknownTopicOrPartition",
    ErrorCode.REPLICA_NOT_AVAILABLE: "ReplicaNotAvailable",
    ErrorCode.INVALID_REPLICATION_FACTOR: "InvalidReplicationFactor",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "InvalidReplicationAssignment",
    ErrorCode.INVALID_CONFIG: "InvalidConfiguration",
    ErrorCode.NOT_CONTROLLER: "NotController",
    ErrorCode.LOG_DIR_NOT_FOUND: "LogDirNotFound",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "PreferredLeaderNotAvailable",
    ErrorCode.ELECTION_NOT_NEEDED: "ElectionNotNeeded",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "NoReassignmentInProgress",
}
TRANSIENT = {ErrorCode.NOT_CONTROLLER, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def failure_of(refusal: KafkaRefusal) -> Failure:
    """What an execution is told instead."""
    return Failure(NAMES[refusal.code], refusal.message, refusal.code in TRANSIENT)


def answer_to(action: Callable[[], object], yes: ErrorCode = ErrorCode.NONE) -> Failure | None:
    """Kafka's word on one partition; without a controller the whole call fails.

    Parameters
    ----------
    yes
        The refusal that means that nothing had to be done.

    Raises
    ------
    PortError
        While there is no controller.
    """
    with whole_call():
        try:
            action()
        except KafkaRefusal as refusal:
            if refusal.code is ErrorCode.NOT_CONTROLLER:
                raise
            return None if refusal.code is yes else failure_of(refusal)
    return None


@contextmanager
def whole_call() -> Iterator[None]:
    """Around a call that fails as a whole: a refusal becomes a `PortError`."""
    try:
        yield
    except KafkaRefusal as refusal:
        raise PortError(failure_of(refusal)) from refusal
