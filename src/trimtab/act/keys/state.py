"""Steps and states of executions of the balancer `keys`, orders and answers, and the port that takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol

from trimtab.act.execution.messages import Command, Event, Query
from trimtab.act.execution.published_steps import PublishedStepRecord
from trimtab.act.execution.publishing import PersistedPublishingState, PublishingState
from trimtab.act.keys.observation import KeysObservation
from trimtab.act.keys.settings import KeysExecutionSettings
from trimtab.act.port import ClaimPort
from trimtab.model.keys.plan import Places
from trimtab.model.keys.routing import RoutingTable


class RoutingStepKind(StrEnum):
    """What a step does."""

    ADD = "add"
    """Brings the topic to more partitions, and waits until its consumers have them."""
    PUBLISH = "publish"
    """Publishes a table, and waits until everybody follows it."""
    SETTLE = "settle"
    """Waits until what was written before is committed, and publishes the table without earlier places."""


@dataclass(frozen=True, slots=True)
class TableLocation:
    """A topic and where its tables are.

    Attributes
    ----------
    consumers
        The consumer group whose load is balanced; empty for the only one.
    topic_id
        Of the topic that the plan is for: one that was made anew has another. Empty in journals of before.
    """

    topic: str
    tables: str
    consumers: str
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class RoutingStep:
    """One step.

    Attributes
    ----------
    base
        Partitions that the hash divides by.
    count
        Partitions that there are to be.
    routes
        Of a publication: `kind/name` to partitions.
    orders
        Of the plan's moves.
    """

    number: int
    kind: RoutingStepKind
    place: TableLocation
    base: int
    count: int
    routes: Mapping[str, Places] = field(default_factory=dict)
    orders: tuple[int, ...] = ()
    follows: int | None = None

    @property
    def destinations(self) -> tuple[str, ...]:
        """None: brokers that fail are Kafka's business."""
        return ()


@dataclass(frozen=True, slots=True)
class RoutingStepRecord(PublishedStepRecord[RoutingStep]):
    """A step and how far it is."""


@dataclass(frozen=True, kw_only=True)
class PersistedKeysState(PersistedPublishingState[RoutingStepRecord, KeysExecutionSettings]):
    """The part that the journal keeps.

    Attributes
    ----------
    ends
        Ends of all partitions when everybody followed: once these are committed, nothing waits elsewhere.
    ends_version
        Of the table that they followed then; for another one, ends are taken anew.
    """

    ends: tuple[int, ...] = ()
    ends_version: int = 0


@dataclass(frozen=True, kw_only=True)
class KeysExecutionState(PersistedKeysState, PublishingState[RoutingStepRecord, KeysExecutionSettings]):
    """Everything the state machine knows.

    Attributes
    ----------
    observation
        The last look.
    lost, lost_since
        Why nothing can be published any more, and since when that is seen; empty where it can.
    """

    balancer: ClassVar[str] = "keys"
    persisted_type: ClassVar[type[PersistedKeysState]] = PersistedKeysState

    observation: KeysObservation | None = None
    lost: str = ""
    lost_since: float | None = None


@dataclass(frozen=True)
class DescribeTopic(Query):
    """Look at a topic and its clients. Answer: `TopicDescribed`."""

    place: TableLocation


@dataclass(frozen=True)
class CreateTableTopic(Command):
    """Make the topic of tables. Answer: `PublishCompleted`."""

    place: TableLocation


@dataclass(frozen=True)
class AddPartitions(Command):
    """Bring the topic to so many partitions. Answer: `PublishCompleted`."""

    place: TableLocation
    count: int


@dataclass(frozen=True)
class PublishTable(Command):
    """Publish a table over the one before. Answer: `PublishCompleted`."""

    place: TableLocation
    topic_id: str
    table: RoutingTable


@dataclass(frozen=True)
class TopicDescribed(Event):
    """Answer to `DescribeTopic`."""

    observation: KeysObservation


class KeysPort(ClaimPort, Protocol):
    """One cluster to act on."""

    def observe(self, place: TableLocation) -> KeysObservation:
        """The topic and its clients as they are; without an id where there is no topic of that name."""
        ...

    def make_tables(self, place: TableLocation) -> None:
        """Make the topic of tables, if there is none."""
        ...

    def add_partitions(self, place: TableLocation, count: int) -> None:
        """Bring the topic to so many partitions, unless it is another one by now."""
        ...

    def publish(self, place: TableLocation, topic_id: str, table: RoutingTable) -> int | None:
        """Publish a table; its version, or None where somebody else was faster.

        That is so where the version before it is not the newest there any more, where another table came
        between or after, or where the topic has another id by now.
        """
        ...
