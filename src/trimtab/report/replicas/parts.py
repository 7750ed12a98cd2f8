"""Figures of brokers and partitions that lists of the service show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from trimtab.model.replicas.settings import DISK, RESOURCES
from trimtab.model.replicas.snapshot import NO_BROKER

if TYPE_CHECKING:
    from trimtab.model.load import FloatArray, IntArray
    from trimtab.model.replicas.snapshot import ReplicasSnapshot


def leaders_and_bytes(snapshot: ReplicasSnapshot) -> tuple[IntArray, FloatArray]:
    """Number of leaders, and stored bytes, of each broker; shape (brokers,)."""
    leader = snapshot.partitions.leader
    leads = np.bincount(leader[leader != NO_BROKER], minlength=len(snapshot.brokers))
    return leads.astype(np.int32), snapshot.broker_load()[:, DISK]


def largest(
    snapshot: ReplicasSnapshot, count: int
) -> Iterator[tuple[str, str, tuple[str, ...], dict[str, float]]]:
    """The largest partitions by stored bytes: name, leader, brokers, and the leader's load by resource.

    CPU is in cores, disk in bytes, network in bytes per second.
    """
    parts, ids = snapshot.partitions, snapshot.brokers.id
    for row in np.argsort(-parts.leader_load[:, DISK], kind="stable")[:count].tolist():
        leader = "" if parts.leader[row] == NO_BROKER else str(ids[parts.leader[row]])
        brokers = tuple(str(ids[one]) for one in parts.replicas[row] if one != NO_BROKER)
        load = dict(zip(RESOURCES, map(float, parts.leader_load[row]), strict=True))
        yield parts.name_of(row), leader, brokers, load
