"""Settings, steps and state of executions of the balancer `masters`, and its port."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from trimtab.act.execution.port import ClaimPort, Command, Event, Failure, Query
from trimtab.act.execution.publishing import PersistedPublishingState, PublishedStepRecord, PublishingState
from trimtab.act.execution.settings import RetryPolicy, require_above_zero


@dataclass(frozen=True)
class TransferLimits:
    """Limits and time-outs of transfers.

    Attributes
    ----------
    max_in_flight
        Maximum number of requested and unconfirmed transfers. A store of Paxos groups executes them one by
        one.
    transfer_timeout_seconds
        Time after which an unconfirmed transfer is requested again.
    """

    max_in_flight: int = 4
    transfer_timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Refuse values that no execution could work with."""
        require_above_zero(self, "execution.masters", "max_in_flight", "transfer_timeout_seconds")


@dataclass(frozen=True)
class TransferSettings(RetryPolicy):
    """The settings of an execution that hands masterships over."""

    table: ClassVar[str] = "masters"

    masters: TransferLimits = field(default_factory=TransferLimits)


@dataclass(frozen=True, slots=True)
class TransferStep:
    """One mastership that is to go to a node.

    Attributes
    ----------
    source, target
        Names of nodes; source is None where nobody was master.
    order
        Of the plan's move.
    """

    number: int
    group: str
    source: str | None
    target: str
    order: int
    follows: int | None = None

    @property
    def destinations(self) -> tuple[str, ...]:
        """The node that is to be master."""
        return (self.target,)

    def __str__(self) -> str:
        return f"{self.group} to node {self.target}"


@dataclass(frozen=True, slots=True)
class TransferStepRecord(PublishedStepRecord[TransferStep]):
    """A step and how far it is."""


@dataclass(frozen=True)
class MastersObservation:
    """One look.

    Attributes
    ----------
    cluster, name
        The cluster's own id, and the name under which its samples are filed; empty where that is not known.
    version
        Of what is published; 0 where nothing is.
    masters
        Group to its master; None for nobody.
    able
        Group to the nodes that could be its master now.
    alive
        Nodes that answer.
    hindered
        Group to why no other node can be its master now, where the system tells more than that they are down
        or behind.
    """

    cluster: str
    name: str
    version: int
    masters: Mapping[str, str | None]
    able: Mapping[str, frozenset[str]] = field(default_factory=dict)
    alive: frozenset[str] = frozenset()
    hindered: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PersistedMastersState(PersistedPublishingState[TransferStepRecord, TransferSettings]):
    """The part that the journal keeps."""


@dataclass(frozen=True, kw_only=True)
class MastersExecutionState(PersistedMastersState, PublishingState[TransferStepRecord, TransferSettings]):
    """Everything the state machine knows; `seen` is the last look."""

    balancer: ClassVar[str] = "masters"
    persisted_type: ClassVar[type[PersistedMastersState]] = PersistedMastersState

    observation: MastersObservation | None = None


@dataclass(frozen=True)
class DescribeMasters(Query):
    """Look who is master of these groups. Answer: `MastersDescribed`."""

    groups: tuple[str, ...]


@dataclass(frozen=True)
class RequestTransfers(Command):
    """Ask that nodes become masters, over a version of what is published. Answer: `TransfersRequested`."""

    base: int
    targets: Mapping[str, str]


@dataclass(frozen=True)
class MastersDescribed(Event):
    """The answer to `DescribeMasters`: the observation."""

    observation: MastersObservation


@dataclass(frozen=True)
class TransferRequestResult:
    """What came of asking.

    Attributes
    ----------
    version
        Of what was published; None where somebody was faster, and nothing was.
    failures
        Group to why it was refused.
    """

    version: int | None
    failures: Mapping[str, Failure] = field(default_factory=dict)


@dataclass(frozen=True)
class TransfersRequested(Event):
    """The answer to `RequestTransfers`: its result."""

    answer: TransferRequestResult


class MastersPort(ClaimPort, Protocol):
    """One cluster to act on."""

    def observe(self, groups: Collection[str]) -> MastersObservation:
        """See who is master of these groups; one that does not exist is left out."""
        ...

    def request_transfers(self, base: int, targets: Mapping[str, str]) -> TransferRequestResult:
        """Ask that nodes become masters of groups: what was asked of others before stays asked."""
        ...
