"""How far an execution is, whatever its level, and the only ways from one status to another."""

from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """How far an execution is."""

    RUNNING = "running"
    WAITING = "waiting"
    """Begins nothing new until something in the cluster is over; `Execution.reason` says what."""
    STOPPING = "stopping"
    """Begins nothing new; ends when what is in flight has finished."""
    CANCELLING = "cancelling"
    """Rolls back what is in flight, where that can be done."""
    CLEANING = "cleaning"
    """Nothing is in flight; gives back the settings of the cluster that it has changed."""
    FINISHED = "finished"
    """Every step is done, or was found not to be needed any more."""
    INCOMPLETE = "incomplete"
    """Ended, but some step failed or did not apply any more."""
    STOPPED = "stopped"
    """Ended early; steps not begun are still pending and can be resumed."""
    CANCELLED = "cancelled"
    """Ended early, with what was in flight rolled back; can be resumed."""


FINAL: Final = frozenset({Status.FINISHED, Status.INCOMPLETE, Status.STOPPED, Status.CANCELLED})
"""In these, nothing of the execution is left in the cluster: nothing in flight, no setting of ours."""

STATUS_TRANSITIONS: Final[dict[Status, frozenset[Status]]] = {
    Status.RUNNING: frozenset({Status.WAITING, Status.STOPPING, Status.CANCELLING, Status.CLEANING}),
    Status.WAITING: frozenset({Status.RUNNING, Status.STOPPING, Status.CANCELLING, Status.CLEANING}),
    Status.STOPPING: frozenset({Status.RUNNING, Status.CANCELLING, Status.CLEANING}),
    Status.CANCELLING: frozenset({Status.RUNNING, Status.CLEANING}),
    Status.CLEANING: frozenset(
        {Status.RUNNING, Status.FINISHED, Status.INCOMPLETE, Status.STOPPED, Status.CANCELLED}
    ),
    Status.STOPPED: frozenset({Status.RUNNING}),
    Status.CANCELLED: frozenset({Status.RUNNING}),
    Status.FINISHED: frozenset(),
    Status.INCOMPLETE: frozenset(),
}
