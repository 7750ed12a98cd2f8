"""What there is to see of a topic: its offsets, its table, the groups that read it, and clients that tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trimtab.model.keys.routing import RoutingTable


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
