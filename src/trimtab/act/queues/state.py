"""Settings, steps and state of executions of the balancer `queues`, and its port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from trimtab.act.execution.port import ClaimPort, Command, Event, Query
from trimtab.act.execution.publishing import PersistedPublishingState, PublishedStepRecord, PublishingState
from trimtab.act.execution.settings import RetryPolicy

Value = float | str
Table = Mapping[str, Value]
"""What is published, by `kind/name`."""


@dataclass(frozen=True, slots=True)
class PublishStep:
    """One weight or setting to be published.

    Attributes
    ----------
    key
        `weight/class` or `setting/name`.
    after
        Its value; None: it is published no more.
    order
        Of the plan's move; 0 for what an older plan takes back.
    """

    number: int
    key: str
    after: Value | None
    order: int
    follows: int | None = None

    @property
    def destinations(self) -> tuple[str, ...]:
        """None: processes take up what is published when they see it."""
        return ()


@dataclass(frozen=True, slots=True)
class PublishStepRecord(PublishedStepRecord[PublishStep]):
    """A step and how far it is."""


@dataclass(frozen=True, kw_only=True)
class PersistedQueuesState(PersistedPublishingState[PublishStepRecord, RetryPolicy]):
    """The part that the journal keeps."""


@dataclass(frozen=True, kw_only=True)
class QueuesExecutionState(PersistedQueuesState, PublishingState[PublishStepRecord, RetryPolicy]):
    """Everything the state machine knows; `seen` is what was published at the last look."""

    balancer: ClassVar[str] = "queues"
    persisted_type: ClassVar[type[PersistedQueuesState]] = PersistedQueuesState

    observation: PublishedObservation | None = None


@dataclass(frozen=True)
class PublishedObservation:
    """One look.

    Attributes
    ----------
    cluster
        The set of queues and its server.
    name
        Under which its samples are filed.
    version, table
        What is published; 0 and nothing where nothing is.
    history
        Tables of all versions that the server keeps.
    """

    cluster: str
    name: str
    version: int
    table: Table
    history: Mapping[int, Table] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadPublished(Query):
    """Look at what is published. Answer: `PublishedRead`."""


@dataclass(frozen=True)
class PublishChanges(Command):
    """Publish these changes over a version. Answer: `PublishCompleted`."""

    base: int
    changes: Mapping[str, Value | None]


@dataclass(frozen=True)
class PublishedRead(Event):
    """The answer to `ReadPublished`: the observation."""

    observation: PublishedObservation


class QueuesPort(ClaimPort, Protocol):
    """One set of queues to act on."""

    def observe(self) -> PublishedObservation:
        """Read the published weights and settings."""
        ...

    def publish(self, base: int, changes: Mapping[str, Value | None]) -> int | None:
        """Publish changes over a version; its number, or None where that version is the newest no more."""
        ...
