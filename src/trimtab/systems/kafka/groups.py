"""Consumer groups that read a topic: their commits, their members, and what brokers do not tell of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

CLASSIC: Final = frozenset({"", "classic"})
"""Types of groups whose members brokers tell; brokers before KIP-848 name no type."""
SHARE: Final = "share"
REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})
EMPTY: Final = "Empty"
UNKNOWN_GROUP: Final = "[Error 69]"
"""GroupIdNotFound, as kafka-python words it."""


@dataclass(frozen=True)
class ConsumerGroup:
    """A consumer group.

    Attributes
    ----------
    committed
        Offsets by partition, as far as there are.
    assigned
        Partitions of the topic by member id; a member that waits for its share has none.
    rebalancing
        It gives out partitions anew: brokers do not tell meanwhile what its members read.
    unlisted_reason
        Why brokers do not tell its members; empty where they do.
    """

    name: str = ""
    committed: Mapping[int, int] = field(default_factory=dict)
    assigned: Mapping[str, frozenset[int]] = field(default_factory=dict)
    rebalancing: bool = False
    unlisted_reason: str = ""


def all_groups(admin: Any, topic: str, partitions: Iterable[int], named: str) -> tuple[ConsumerGroup, ...]:
    """Every group with commits on a topic or members that read it, by name.

    The one that is named is among them in any case. Share groups are not: they keep no order.

    Parameters
    ----------
    admin
        kafka-python's admin client.
    partitions
        Those of the topic: a cluster may have thousands of groups with commits on other topics.
    """
    from kafka import TopicPartition

    listed = {one["group_id"]: one for one in admin.list_groups()}
    kinds = {name: (one.get("group_type") or "").lower() for name, one in listed.items()}
    kinds = {name: kind for name, kind in kinds.items() if kind != SHARE}
    if named:
        kinds.setdefault(named, "")
    ours = [TopicPartition(topic, one) for one in partitions]
    found = {one.name: one for one in _listed_groups(admin, topic, kinds, ours)}
    # Members of these are there and not told. Whoever has commits, and none here, reads something else.
    unsure = [
        one.name
        for one in found.values()
        if not one.committed
        and (one.rebalancing or one.unlisted_reason)
        and listed.get(one.name, {}).get("group_state") != EMPTY
    ]
    elsewhere = admin.list_group_offsets(dict.fromkeys(unsure)) if unsure else {}
    return tuple(
        one
        for name, one in sorted(found.items())
        if one.committed or one.assigned or name == named or (name in unsure and not elsewhere.get(name))
    )


def one_group(admin: Any, topic: str, name: str) -> ConsumerGroup:
    """A group by its name, whether it reads the topic or not."""
    return _listed_groups(admin, topic, {name: ""}, None)[0]


def _listed_groups(
    admin: Any, topic: str, kinds: Mapping[str, str], partitions: Sequence[Any] | None
) -> list[ConsumerGroup]:
    """Groups by name and type, whether they read the topic or not."""
    if not kinds:
        return []
    offsets = admin.list_group_offsets(dict.fromkeys(kinds, partitions))
    classic = [name for name, kind in kinds.items() if kind in CLASSIC]
    described = admin.describe_groups(classic) if classic else {}
    found = []
    for name, kind in sorted(kinds.items()):
        committed = {
            one.partition: its.offset
            for one, its in offsets.get(name, {}).items()
            if one.topic == topic and its.offset >= 0
        }
        told = described.get(name, {})
        assigned = {
            member["member_id"]: parts
            for member in told.get("members", ())
            if (parts := _assigned(member, topic)) is not None
        }
        changing = told.get("group_state") in REBALANCING and told.get("protocol_type") == "consumer"
        found.append(
            ConsumerGroup(name, committed, assigned, changing, _unlisted_reason(kind, told, bool(committed)))
        )
    return found


def _unlisted_reason(kind: str, text: Mapping[str, Any], committed: bool) -> str:
    """Why the members of a group are not told; empty where they are, or where it is gone."""
    if kind not in CLASSIC:
        return (
            "speaks the newer group protocol (group.protocol=consumer, KIP-848), by which brokers do not "
            "tell its members to this trimtab"
            if kind == "consumer"
            else f"is of type {kind}, of which brokers do not tell the members to this trimtab"
        )
    error = text.get("error")
    if error:
        return "" if UNKNOWN_GROUP in error and not committed else f"cannot be described ({error})"
    if text.get("group_state") == "Dead" and committed:
        return "has commits, and its broker calls it dead, as it does with one of a newer group protocol"
    return ""


def _assigned(member: Mapping[str, Any], topic: str) -> frozenset[int] | None:
    """The partitions that a member has; none where it waits for some, None where it reads another topic."""
    found = member.get("member_assignment") or {}
    parts = found.get("assigned_partitions", ()) if isinstance(found, Mapping) else ()
    ours = [one["partitions"] for one in parts if one["topic"] == topic]
    if ours:
        return frozenset(ours[0])
    wants = member.get("member_metadata") or {}
    return frozenset() if isinstance(wants, Mapping) and topic in wants.get("topics", ()) else None
