"""Orders that an execution of any level gives; a runner performs them one at a time.

Each is answered by one event. What a level orders besides stands with its state machine
(`trimtab.act.replicas.commands`, ...).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """An order."""


@dataclass(frozen=True)
class Look(Command):
    """An order that only looks: what people ask meanwhile is taken in before it is performed."""


@dataclass(frozen=True)
class Wait(Command):
    """Do nothing until that time (seconds since 1970) or until someone asks to stop. Answer: `WaitEnded`."""

    until: float


@dataclass(frozen=True)
class Finish(Command):
    """The execution has reached a final status: nothing of it is left in the cluster. No answer."""


@dataclass(frozen=True)
class GiveUp(Command):
    """The cluster cannot be reached or is another one; the execution can be resumed later. No answer."""

    reason: str
