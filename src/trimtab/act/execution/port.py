"""The interface between an execution and a cluster: commands, events, and what all ports share.

A runner performs one command at a time. Each is answered by exactly one event of those that its docstring
names, or by `CommandFailed`. `StopRequested`, `CancelRequested`, `SettingsChanged` and `Resumed` arrive from
outside at any time.

Each balancer has a port of its own (`trimtab.act.replicas.port.ClusterPort`, ...), and commands and events of
its own beside it. Rules for every adapter:

- A call that failed as a whole raises `PortError`, which says whether a retry may help.
- A call that raised may still have reached the cluster. The execution observes the cluster before it decides
  what to do next, so an adapter need not find out.
- A call changes nothing but what its arguments name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from trimtab.model.errors import ActError
from trimtab_common.errors import ConnectError


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


@dataclass(frozen=True)
class SettingsChanged(Event):
    """Someone changes settings of a running execution; the values have been checked."""

    changes: Mapping[str, object]


class WaitEnded(Event):
    """Answer to `Wait`; may come early when something else happened."""


@dataclass(frozen=True)
class CommandFailed(Event):
    """A command failed as a whole; whether it took effect is unknown."""

    failure: Failure


@dataclass(frozen=True)
class Command:
    """A command that the executor performs on the cluster."""


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


_T = TypeVar("_T")


class PortError(ActError):
    """A call to the cluster failed as a whole; whether it took effect is unknown.

    Attributes
    ----------
    failure
        What went wrong; `failure.transient` tells whether to try again.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.code}: {failure.message}")
        self.failure = failure


def calling(call: Callable[[], _T]) -> _T:
    """What a call answers; trying again may help where the system does not answer it (`ConnectError`).

    Raises
    ------
    PortError
        If it does not answer.
    """
    try:
        return call()
    except ConnectError as error:
        raise PortError(Failure("NoAnswer", str(error), transient=True)) from error


class ClaimPort(Protocol):
    """The place in a cluster where trimtabs leave word that they act there (`trimtab.act.lease`)."""

    @property
    def claim_rights(self) -> str:
        """The right that an operator has to grant so that claims can be left there: `grant ... on ...`."""
        ...

    def read_claims(self) -> frozenset[str]:
        """The texts that trimtabs left in the cluster to say that they act, or want to act, there."""
        ...

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """Leave some texts and remove others, in one change; removing one that is not there is no error."""
        ...
