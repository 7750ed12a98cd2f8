"""Steps and states of executions of the level `keys`, and what there is to see of a topic and its clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Protocol

from trimtab.act.execution.asked import AskedRecord
from trimtab.act.execution.messages import Command, Event, Look
from trimtab.act.execution.published import KeptPublishing, Publishing
from trimtab.act.keys.settings import KeysSettings
from trimtab.act.port import ClaimPort
from trimtab.model.keys.naming import key_bytes
from trimtab.model.keys.plan import MoveKind, Places
from trimtab.model.keys.routing import Route, RoutingTable
from trimtab.online.keys.murmur2 import key_group


class StepKind(StrEnum):
    """What a step does."""

    ADD = "add"
    """Brings the topic to more partitions, and waits until its consumers have them."""
    PUBLISH = "publish"
    """Publishes a table, and waits until everybody follows it."""
    SETTLE = "settle"
    """Waits until what was written before is committed, and publishes the table without earlier places."""


@dataclass(frozen=True, slots=True)
class Place:
    """A topic, where its tables are, and the consumer group that counts; empty for the only one."""

    topic: str
    tables: str
    consumers: str


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
    kind: StepKind
    place: Place
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
class RoutingRecord(AskedRecord[RoutingStep]):
    """A step and how far it is."""


@dataclass(frozen=True, kw_only=True)
class KeptRouting(KeptPublishing[RoutingRecord, KeysSettings]):
    """The part that the journal keeps.

    Attributes
    ----------
    ends
        Ends of all partitions when everybody followed: once these are committed, nothing waits elsewhere.
    """

    ends: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RoutingState(KeptRouting, Publishing[RoutingRecord, KeysSettings]):
    """Everything the state machine knows; `seen` is the last look."""

    level: ClassVar[str] = "keys"
    kept: ClassVar[type[KeptRouting]] = KeptRouting

    seen: Seen | None = None


@dataclass(frozen=True)
class Client:
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
    """

    process: str
    role: str
    version: int
    wrapped: bool
    plain_because: str = ""
    member: str = ""


@dataclass(frozen=True)
class Seen:
    """One look.

    Attributes
    ----------
    cluster
        The id of the cluster.
    table
        In force; None where none was published.
    begins, ends
        Offsets by partition.
    consumers
        Name of the group that reads the topic; empty for none.
    committed
        Offsets that it has committed, by partition.
    assigned
        Its members, with the partitions that they have.
    clients
        Those who tell.
    tells
        Whether clients can tell at all: not where tables are in a file.
    there
        Whether the topic of tables is: before that nobody tells.
    """

    cluster: str
    topic_id: str
    table: RoutingTable | None
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    consumers: str = ""
    committed: Mapping[int, int] = field(default_factory=dict)
    assigned: Mapping[str, frozenset[int]] = field(default_factory=dict)
    clients: tuple[Client, ...] = ()
    tells: bool = True
    there: bool = True

    @property
    def unguarded(self) -> tuple[str, ...]:
        """Members and producers that do not keep order, as far as anybody can see."""
        guarded = {one.member for one in self.clients if one.wrapped and one.role == "consumer"}
        members = [f"member {one} of group {self.consumers}" for one in self.assigned if one not in guarded]
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

    def without_consumer(self, count: int, base: int) -> tuple[int, ...]:
        """Partitions from `base` on that no consumer has, or of which none has committed anything."""
        held = {part for its in self.assigned.values() for part in its}
        if not self.consumers or not self.assigned:
            held = set(range(count))
        missing = [
            part
            for part in range(base, count)
            if part not in held or part >= len(self.ends) or (self.assigned and part not in self.committed)
        ]
        return tuple(missing)

    @property
    def passed(self) -> tuple[int, ...]:
        """Offsets by partition below which nothing waits: committed, or before the log begins."""
        return tuple(self.committed.get(part, begin) for part, begin in enumerate(self.begins))


def route_in(table: RoutingTable, key: str) -> Places:
    """The partitions of `kind/name` by a table."""
    kind, _, name = key.partition("/")
    if kind == MoveKind.GROUP:
        return table.group_route(int(name)).partitions
    raw = key_bytes(name)
    return table.route(key_group(raw, table.base), raw).partitions


def with_routes(table: RoutingTable, routes: Mapping[str, Places], partitions: int) -> RoutingTable:
    """The next table: other routes (`kind/name` to partitions), which name where older records may wait."""
    groups, keys = dict(table.groups), dict(table.keys)
    for key, places in routes.items():
        kind, _, name = key.partition("/")
        if kind == MoveKind.GROUP:
            groups[int(name)] = table.group_route(int(name)).moved(places)
        else:
            raw = key_bytes(name)
            keys[raw] = table.route(key_group(raw, table.base), raw).moved(places)
    return RoutingTable(table.version + 1, table.base, max(partitions, table.partitions), groups, keys)


def settled(table: RoutingTable) -> RoutingTable:
    """The next table: earlier places are passed. Groups at home, and keys with theirs, need no route."""
    groups = {
        group: Route(route.partitions)
        for group, route in table.groups.items()
        if route.partitions != (group % table.base,)
    }
    plain = RoutingTable(table.version + 1, table.base, table.partitions, groups)
    keys = {
        key: Route(route.partitions)
        for key, route in table.keys.items()
        if route.partitions != plain.route(key_group(key, table.base), key).partitions
    }
    return replace(plain, keys=keys)


@dataclass(frozen=True)
class LookAtTopic(Look):
    """Look at a topic and its clients. Answer: `TopicSeen`."""

    place: Place


@dataclass(frozen=True)
class MakeTables(Command):
    """Make the topic of tables. Answer: `PublishTold`."""

    place: Place


@dataclass(frozen=True)
class AddPartitions(Command):
    """Bring the topic to so many partitions. Answer: `PublishTold`."""

    place: Place
    count: int


@dataclass(frozen=True)
class PublishTable(Command):
    """Publish a table over the one before. Answer: `PublishTold`."""

    place: Place
    topic_id: str
    table: RoutingTable


@dataclass(frozen=True)
class TopicSeen(Event):
    """Answer to `LookAtTopic`."""

    seen: Seen


class KeysPort(ClaimPort, Protocol):
    """One cluster to act on."""

    def observe(self, place: Place) -> Seen:
        """The topic and its clients as they are."""
        ...

    def make_tables(self, place: Place) -> None:
        """Make the topic of tables, if there is none."""
        ...

    def add_partitions(self, place: Place, count: int) -> None:
        """Bring the topic to so many partitions."""
        ...

    def publish(self, place: Place, topic_id: str, table: RoutingTable) -> int | None:
        """Publish a table; its version, or None where that before it is not the one in force any more."""
        ...
