"""Snapshots of the balancer `keys`, small enough to be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.keys import HotKey, KeyGroupLoad, KeysSnapshot, PartitionLoad
from trimtab_keys.core.routing import group_count


def a_key(name: str, group: int, rate: float, *partitions: int, share: float = 0.5) -> HotKey:
    """A hot key that goes to these partitions."""
    return HotKey(name, group, rate, share, partitions)


def a_snapshot(
    groups: Mapping[int, float],
    *keys: HotKey,
    capacity: float | None = None,
    places: Mapping[int, int] | None = None,
    base: int = 4,
    partitions: int | None = None,
    **head: Any,
) -> KeysSnapshot:
    """Groups with their records a second, the keys' included; each at home unless `places` says otherwise."""
    moved = places or {}
    rows = tuple(
        KeyGroupLoad(group, moved.get(group, group % base), groups.get(group, 0.0))
        for group in range(group_count(base))
    )
    loads = [0.0] * (partitions or base)
    own = {key.group: key for key in keys if key.partitions != (moved.get(key.group, key.group % base),)}
    for row in rows:
        rate = row.records_per_second
        if row.group in own:
            key = own[row.group]
            rate -= key.records_per_second
            for one in key.partitions:
                loads[one] += key.records_per_second / len(key.partitions)
        loads[row.partition] += rate
    extra = () if capacity else (("x_nominal_capacity", ["records"]),)
    found = KeysSnapshot(
        SnapshotReference("orders@here", "2026-11-23T04:00:00Z", "0" * 64),
        Quality(cpu="absent", extra=extra),
        topic="orders",
        topic_id="id of orders",
        consumers="billing",
        version=0,
        base=base,
        hashed=False,
        capacity=capacity,
        consumer_capacity=capacity,
        partitions=tuple(PartitionLoad(number, load, 0, 100.0) for number, load in enumerate(loads)),
        groups=rows,
        keys=keys,
    )
    return replace(found, **head)
