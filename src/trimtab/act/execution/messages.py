"""Facts that an execution of any balancer is told, and orders that it gives.

A runner performs one order at a time. Each is answered by exactly one event of those that its docstring
names, or by `CommandFailed`; `StopRequested`, `CancelRequested` and `Resumed` come from outside at any time.
Orders and facts of a balancer's own system stand with its state machine (`trimtab.act.replicas.messages`,
...).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """A refusal or a failed call: for one item, or for a whole call.

    Attributes
    ----------
    code
        The system's own name of the error (Kafka's, without the word error: `NotController`; Pulsar's HTTP
        status: `409`).
    transient
        Whether the same call may well succeed in a moment.
    """

    code: str
    message: str
    transient: bool = False


@dataclass(frozen=True)
class Event:
    """A fact; `at` is when it became known, seconds since 1970."""

    at: float


class Resumed(Event):
    """A process has taken the execution up (again); whatever was under way must be looked at first."""


@dataclass(frozen=True)
class StopRequested(Event):
    """Someone wants it to end once what is in flight has finished."""

    reason: str = "stopped on request"


@dataclass(frozen=True)
class CancelRequested(Event):
    """Someone wants it to end now; what is in flight is rolled back where the balancer can."""

    reason: str = "cancelled on request"


class WaitEnded(Event):
    """Answer to `Wait`; may come early when something else happened."""


@dataclass(frozen=True)
class CommandFailed(Event):
    """A command failed as a whole; whether it took effect is unknown."""

    failure: Failure


@dataclass(frozen=True)
class Command:
    """An order."""


class Query(Command):
    """An order that only looks: what people ask meanwhile is taken in before it is performed."""


@dataclass(frozen=True)
class Wait(Command):
    """Do nothing until that time (seconds since 1970) or until someone asks to stop. Answer: `WaitEnded`."""

    until: float


class Finish(Command):
    """The execution has reached a final status: nothing of it is left in the cluster. No answer."""


@dataclass(frozen=True)
class Suspend(Command):
    """The cluster cannot be reached or is another one; the execution can be resumed later. No answer."""

    reason: str
