"""The replicas snapshot weighs placements as Kafka would."""

import numpy as np
import pytest

from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.replicas.snapshot import (
    NO_BROKER,
    LogDirs,
    Partitions,
    ReplicaBrokers,
    ReplicaBrokerState,
    ReplicasSnapshot,
)


def snapshot(
    states: list[ReplicaBrokerState], replicas: list[list[int]], leader: list[int]
) -> ReplicasSnapshot:
    """Partitions whose leader weighs 10 and whose followers weigh 1 in every resource."""
    brokers = len(states)
    partitions = len(replicas)
    table = np.array(replicas, dtype=np.int32)
    return ReplicasSnapshot(
        SnapshotReference("c", "2026-11-21T05:00:00Z", "0" * 64),
        Quality(),
        ReplicaBrokers(
            np.arange(brokers),
            tuple(f"h{b}" for b in range(brokers)),
            tuple(f"r{b}" for b in range(brokers)),
            np.array(states, dtype=np.int8),
            np.full((brokers, 4), 100.0),
        ),
        LogDirs(np.empty(0, np.int32), (), np.empty(0, np.int8), np.empty(0)),
        Partitions(
            ("t",),
            np.zeros(partitions, np.int32),
            np.arange(partitions, dtype=np.int32),
            table,
            np.array(leader, np.int32),
            table != NO_BROKER,
            np.full(table.shape, NO_BROKER, np.int32),
            np.full((partitions, 4), 10.0),
            np.full((partitions, 4), 1.0),
        ),
    )


def test_leaders_weigh_their_role_and_followers_theirs() -> None:
    """Broker 0 leads one partition and follows the other; the padding of the list weighs nothing."""
    found = snapshot([ReplicaBrokerState.ALIVE] * 3, [[0, 1, NO_BROKER], [1, 0, 2]], [0, 1]).broker_load()
    assert found[:, 0] == pytest.approx([11, 11, 1])


def test_a_dead_broker_carries_nothing_and_is_not_measured() -> None:
    """Its replicas are offline: they weigh nothing there, and the mean is over the others."""
    view = snapshot(
        [ReplicaBrokerState.ALIVE, ReplicaBrokerState.DEAD, ReplicaBrokerState.ALIVE],
        [[0, 1], [2, 1]],
        [0, 2],
    )
    assert view.broker_load()[:, 0] == pytest.approx([10, 0, 10])
    assert view.imbalance().measures().sigma["cpu"] == pytest.approx(0)


def test_an_offline_leader_weighs_as_followers_only() -> None:
    """Without a leader no broker carries the leader's share."""
    found = snapshot([ReplicaBrokerState.ALIVE] * 2, [[0, 1]], [NO_BROKER]).broker_load()
    assert found[:, 0] == pytest.approx([1, 1])


def test_the_total_does_not_depend_on_the_leaders() -> None:
    """Moving roles or replicas between online brokers changes shares, never the sum."""
    view = snapshot([ReplicaBrokerState.ALIVE] * 3, [[0, 1], [1, 2]], [0, 1])
    moved = view.broker_load(np.array([[2, 1], [0, 2]], np.int32), np.array([1, 0], np.int32))
    assert moved.sum(axis=0) == pytest.approx(view.broker_load().sum(axis=0))
