"""Settings, observations, steps and state of executions of the balancer `keys`, and its port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol

from trimtab.act.execution.port import ClaimPort, Command, Event, Query
from trimtab.act.execution.publishing import PersistedPublishingState, PublishedStepRecord, PublishingState
from trimtab.act.execution.settings import RetryPolicy, require_above_zero
from trimtab.model.keys import Places
from trimtab_keys.core.routing import RoutingTable


@dataclass(frozen=True)
class TablePublishingSettings:
    """Time-outs and checks of the publication of routing tables.

    Attributes
    ----------
    follow_timeout_seconds
        Time to wait until every producer and consumer follows a table, or every consumer has the added
        partitions. It must be at least five heartbeat intervals (15 s with few processes, at most 100 s), the
        time for which a killed process counts.
    drain_timeout_seconds
        Time to wait until consumers have passed the older records. After that the earlier partitions stay in
        the table, which costs some bytes per record; a later execution removes them.
    allow_unverified
        Publish even if consumers' ordering support cannot be verified: with tables in a file (no heartbeats),
        groups of the newer protocol (KIP-848, no member list), or groups that are down. You are responsible
        for every producer and consumer.
    overwrite_invalid
        Publish even if the last published table is unreadable, for example truncated or edited.
    """

    follow_timeout_seconds: float = 120.0
    drain_timeout_seconds: float = 300.0
    allow_unverified: bool = False
    overwrite_invalid: bool = False

    def __post_init__(self) -> None:
        """Refuse times that no execution could work with."""
        require_above_zero(self, "execution.keys", "follow_timeout_seconds", "drain_timeout_seconds")


@dataclass(frozen=True)
class KeysExecutionSettings(RetryPolicy):
    """The settings of an execution that publishes routing tables."""

    table: ClassVar[str] = "keys"

    publishing: TablePublishingSettings = field(default_factory=TablePublishingSettings)


@dataclass(frozen=True)
class KeyClient:
    """One producer or consumer that has told a heartbeat of late.

    Attributes
    ----------
    version
        Of the table that it follows.
    wrapped
        Whether it keeps order.
    plain_because
        Why it goes by the plain hash although it should not; empty where it does as it should.
    member
        Of a consumer, its member id in its group.
    lasting_seconds
        For so long it is silent before it is taken for gone.
    """

    process: str
    role: str
    version: int
    wrapped: bool
    plain_because: str = ""
    member: str = ""
    lasting_seconds: float = 0.0


@dataclass(frozen=True)
class KeyConsumerGroup:
    """A consumer group that reads the topic.

    Attributes
    ----------
    committed
        Offsets by partition.
    assigned
        Its members, with the partitions that they have.
    rebalancing
        It gives out partitions anew: its members are not seen meanwhile.
    unlisted_reason
        Why brokers do not tell its members; empty where they do.
    """

    name: str
    committed: Mapping[int, int] = field(default_factory=dict)
    assigned: Mapping[str, frozenset[int]] = field(default_factory=dict)
    rebalancing: bool = False
    unlisted_reason: str = ""

    @property
    def down(self) -> bool:
        """Whether nobody of it is there: what it has not read yet, it reads when it comes back."""
        return not (self.assigned or self.rebalancing or self.unlisted_reason)

    def passed(self, begins: Sequence[int]) -> tuple[int, ...]:
        """Offsets by partition below which nothing waits: committed, or before the log."""
        return tuple(self.committed.get(part, begin) for part, begin in enumerate(begins))

    def without(self, parts: range, vouched: bool) -> frozenset[int]:
        """Those of the partitions that none of its members has, or of which none has committed anything.

        A group without members is not one that has all of them: adding partitions makes it rebalance. Of one
        whose members nobody can see, and that is vouched for, commits say as much.
        """
        if vouched and self.down:
            return frozenset()
        held = {part for its in self.assigned.values() for part in its}
        if vouched and self.unlisted_reason:
            held = set(parts)
        return frozenset(part for part in parts if part not in held or part not in self.committed)


@dataclass(frozen=True)
class KeysObservation:
    """One look.

    Attributes
    ----------
    cluster
        The id of the cluster.
    topic_id
        Empty where there is no such topic.
    table
        In force; None where none was published, or none that can be read.
    begins, ends
        Offsets by partition.
    consumers
        Name of the group whose load is balanced; empty where none, or no single one, reads the topic.
    groups
        All that read it, by name.
    clients
        Those who tell.
    sends_heartbeats
        Whether clients can tell at all: not where tables are in a file.
    there
        Whether the topic of tables is: before that nobody tells.
    foreign_table
        Another table that some follow, of the same version or a higher one.
    damaged, base
        Why what was published last cannot be read, and the base that its text names; empty and 0 else.
    newest
        The highest version that was ever told.
    """

    cluster: str
    topic_id: str
    table: RoutingTable | None = None
    begins: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    consumers: str = ""
    groups: tuple[KeyConsumerGroup, ...] = ()
    clients: tuple[KeyClient, ...] = ()
    sends_heartbeats: bool = True
    there: bool = True
    foreign_table: RoutingTable | None = None
    damaged: str = ""
    base: int = 0
    newest: int = 0

    @property
    def unguarded(self) -> tuple[str, ...]:
        """Members and producers that do not keep order, as far as anybody can see."""
        guarded = {one.member for one in self.clients if one.wrapped and one.role == "consumer"}
        members = [
            f"member {one} of group {group.name}"
            for group in self.groups
            for one in group.assigned
            if one not in guarded
        ]
        senders = [
            f"producer {one.process}" for one in self.clients if one.role == "producer" and not one.wrapped
        ]
        return (*sorted(members), *senders)

    def behind(self, version: int) -> tuple[str, ...]:
        """Clients that do not follow a version, or go by the plain hash."""
        return tuple(
            f"{one.role} {one.process} follows {one.version}"
            + (f", by the plain hash: {one.plain_because}" if one.plain_because else "")
            for one in self.clients
            if one.version < version or one.plain_because
        )

    @property
    def lasting_seconds(self) -> float:
        """The longest time for which one of the clients may be gone and count all the same."""
        return max((one.lasting_seconds for one in self.clients), default=0.0)

    def without_consumer(self, count: int, base: int, vouched: bool = False) -> dict[int, list[str]]:
        """Partitions from `base` on that are not there yet, or that some groups do not read, with those.

        Parameters
        ----------
        vouched
            Whether somebody vouches for groups whose members are not seen.
        """
        parts = range(base, count)
        lacking: dict[int, list[str]] = {part: [] for part in parts if part >= len(self.ends)}
        for group in self.groups:
            for part in group.without(parts, vouched):
                lacking.setdefault(part, []).append(group.name)
        return dict(sorted(lacking.items()))

    @property
    def passed(self) -> tuple[int, ...]:
        """Offsets by partition below which nothing waits, in any group."""
        each = [group.passed(self.begins) for group in self.groups]
        return tuple(map(min, zip(*each, strict=True))) if each else self.begins

    def not_passed(self, ends: tuple[int, ...]) -> tuple[str, ...]:
        """Groups of which something below these offsets may still wait."""
        return tuple(
            group.name
            for group in self.groups
            if any(done < end for done, end in zip(group.passed(self.begins), ends, strict=False))
        )


class RoutingStepKind(StrEnum):
    """Kinds of steps, in the order of execution."""

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
    """The answer to `DescribeTopic`: the observation."""

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
