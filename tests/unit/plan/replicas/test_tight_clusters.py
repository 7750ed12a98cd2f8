"""Clusters with little free capacity that can be balanced: they were balanced before they were scrambled."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from simulate.instances import TightInstance, tight_cluster
from trimtab.model.plan import Verdict
from trimtab.model.replicas.plan import Plan
from trimtab.model.replicas.settings import RESOURCES, ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.plan.replicas import trim
from trimtab.plan.replicas.descent import balance

TIGHT: dict[str, Callable[[], TightInstance]] = {
    # Copies wait for one another there, and the first plan that comes to mind fills a disk on the way.
    "60 brokers, .795": cache(lambda: tight_cluster(60, 1_200, seed=1, peak=0.795)),
    "30 brokers, racks, heavy tail": cache(
        lambda: tight_cluster(30, 400, seed=2, racks=3, peak=0.78, tail=1.2)
    ),
    "12 brokers, racks": cache(lambda: tight_cluster(12, 240, seed=3, racks=3)),
}


@cache
def planned(name: str) -> Plan:
    """The plan with the usual settings."""
    return trim.plan(TIGHT[name]().snapshot, ReplicasSettings())


def usage(of: ReplicasSnapshot) -> np.ndarray:
    """Shape (brokers, resources)."""
    return of.broker_load() / of.brokers.capacity


@pytest.mark.parametrize("name", TIGHT)
def test_a_witness_proves_that_the_cluster_can_be_balanced(name: str) -> None:
    """Same partitions, lawful places, no broker above θ or further than ε from the mean; the snapshot is
    neither.
    """
    made = TIGHT[name]()
    for one in (made.snapshot, made.witness):
        place, rack = one.partitions.replicas, np.array(one.brokers.rack)
        assert all(len(set(row)) == 3 for row in place.tolist())
        racks = min(3, len(set(rack.tolist())))
        assert all(len(set(row)) == racks for row in rack[place].tolist())
    assert np.array_equal(made.snapshot.partitions.leader_load, made.witness.partitions.leader_load)
    level, skewed = usage(made.witness), usage(made.snapshot)
    assert level.max() <= 0.7951
    assert level.mean(axis=0).min() >= 0.72
    assert np.abs(level / level.mean(axis=0) - 1).max() < 0.1
    assert skewed.max() > 0.85


@pytest.mark.parametrize("name", TIGHT)
def test_a_cluster_that_can_be_balanced_is_balanced(name: str) -> None:
    """Also where copies have to wait for one another, and none of them has room on a disk at first."""
    plan = planned(name)
    assert plan.verdict == Verdict.BALANCED
    assert max(plan.predicted.after.peak_usage.values()) <= 0.8
    assert not plan.problems


@pytest.mark.parametrize("name", ["60 brokers, .795", "12 brokers, racks"])
def test_the_search_ends_soon_if_theta_cannot_be_met(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The load is above θ on average, so every plan is infeasible: operators need to be told so soon."""
    descents = 0

    def counted(*arguments: Any) -> None:
        nonlocal descents
        descents += 1
        balance(*arguments)

    monkeypatch.setattr(trim, "balance", counted)
    level = TIGHT[name]().witness
    plan = trim.plan(level, ReplicasSettings(theta=(0.7,) * len(RESOURCES)))
    assert plan.verdict == Verdict.INFEASIBLE
    assert {one.kind for one in plan.problems} >= {"add_brokers"}
    assert plan.cost.bytes == 0
    # Hundreds of descents to the end otherwise.
    assert descents <= 2


def test_the_steps_to_the_witness_fill_no_disk() -> None:
    """Step by step, a copy being on its new broker before it leaves the old one."""
    made, plan = TIGHT["60 brokers, .795"]().snapshot, planned("60 brokers, .795")
    disk = made.broker_load()[:, RESOURCES.index("disk")]
    capacity = made.brokers.capacity[:, RESOURCES.index("disk")]
    most = np.maximum(0.8 * capacity, disk) * (1 + 1e-9)
    for move in plan.moves:
        if move.bytes:
            disk[move.target] += move.bytes
            # Bytes of a move are whole.
            assert disk[move.target] <= most[move.target] + len(plan.moves)
            disk[move.source] -= move.bytes
