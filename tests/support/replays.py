"""A small course of loads, and planners that hand out plans made beforehand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from simulated_clusters.weeks import plain_snapshot
from trimtab.history.replicas.load_series import LoadSeries
from trimtab.model.replicas.plan import ReplicaMoveKind
from trimtab.model.replicas.settings import CPU, DISK, NETWORK_IN, NETWORK_OUT, ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.observe.lake.columns import SECOND

STEP = 900


def course(steps: int = 6, first: int = 0, disk: float = 100.0, capacity: float = 1.0) -> LoadSeries:
    """Three brokers; partition 0 on brokers 1 and 2, partition 1 on 2 and 3; the first leads.

    A leader has CPU 4 and network out 2, a follower CPU 1; step s brings s to network in.
    """
    leader = np.zeros((steps, 2, 4))
    leader[..., CPU], leader[..., DISK], leader[..., NETWORK_OUT] = 4.0, disk, 2.0
    leader[..., NETWORK_IN] = np.arange(steps)[:, None]
    follower = leader.copy()
    follower[..., CPU], follower[..., NETWORK_OUT] = 1.0, 0.0
    begun = plain_snapshot(
        "c",
        ids=np.array([1, 2, 3]),
        capacity=np.full((3, 4), capacity),
        topics=("t",),
        topic=np.zeros(2, dtype=np.int32),
        number=np.arange(2, dtype=np.int32),
        replicas=np.array([[0, 1], [1, 2]], dtype=np.int32),
        leader_load=leader[0],
        follower_load=follower[0],
    )
    end = (np.arange(steps) + 1) * STEP * SECOND
    nothing = np.zeros((0, 2, 4))
    return LoadSeries(begun, end, leader, follower, np.zeros(0, dtype=np.int64), nothing, nothing, first)


def move(kind: ReplicaMoveKind, partition: int, source: int, target: int) -> Any:
    """A move as far as a replay looks at it."""
    return SimpleNamespace(kind=kind, topic="t", partition=partition, source=source, target=target)


def planner(*plans: list[Any]) -> Any:
    """Hands out these plans one after the other, then empty ones; keeps what it saw."""
    waiting = list(plans)
    snapshots: list[ReplicasSnapshot] = []

    def plan(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Any:
        snapshots.append(snapshot)
        return SimpleNamespace(moves=waiting.pop(0) if waiting else [])

    plan.snapshots = snapshots  # type: ignore[attr-defined]
    return plan
