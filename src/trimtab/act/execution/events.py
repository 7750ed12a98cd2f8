"""Facts that an execution of any level is told, each with the time it became known (seconds since 1970).

Every command is answered by exactly one event of those that its docstring names, or by `CommandFailed`.
`StopRequested`, `CancelRequested` and `Resumed` come from outside at any time.
"""

from dataclasses import dataclass

from trimtab.act.execution.failure import Failure


@dataclass(frozen=True)
class Event:
    """A fact; `at` is when it became known."""

    at: float


@dataclass(frozen=True)
class Resumed(Event):
    """A process has taken the execution up (again); whatever was under way must be looked at first."""


@dataclass(frozen=True)
class StopRequested(Event):
    """Someone wants it to end once what is in flight has finished."""

    reason: str = "stopped on request"


@dataclass(frozen=True)
class CancelRequested(Event):
    """Someone wants it to end now; what is in flight is rolled back where the level can."""

    reason: str = "cancelled on request"


@dataclass(frozen=True)
class WaitEnded(Event):
    """Answer to `Wait`; may come early when something else happened."""


@dataclass(frozen=True)
class CommandFailed(Event):
    """A command failed as a whole; whether it took effect is unknown."""

    failure: Failure
