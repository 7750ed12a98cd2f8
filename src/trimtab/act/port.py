"""The part of a port to a cluster that all systems share.

Each balancer has a port of its own (`trimtab.act.replicas.port.ClusterPort`, ...). Rules for every adapter:

- A call that failed as a whole raises `PortError`, which says whether trying again may help.
- A call that raised may still have reached the cluster. The execution looks before it decides what to do
  next, so an adapter need not find out.
- Nothing is touched but what the call names.
"""

from collections.abc import Callable, Collection
from typing import Protocol, TypeVar

from trimtab.act.execution.messages import Failure
from trimtab.model.errors import ActError, ConnectError

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
