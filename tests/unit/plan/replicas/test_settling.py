"""A price for moving twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simulate.instances import lognormal_skew
from simulated_clusters.weeks import plain_snapshot
from trimtab.files.replicas.plan import plan_bytes
from trimtab.files.replicas.snapshot import read_snapshot, write_snapshot
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.plan.replicas import trim
from trimtab_common.errors import InputError

THETA = ReplicasSettings(goals=("theta",), recent_move_hours=2.0, recent_move_cost_factor=5.0)


def snapshot(held_seconds: list[list[float]]) -> ReplicasSnapshot:
    """Broker 1 takes in 90 of 100, in two partitions, of which 0 has fewer bytes; broker 2 has a third."""
    load = np.array([[1.0, 10.0, 45.0, 1.0], [1.0, 12.0, 45.0, 1.0], [1.0, 10.0, 10.0, 1.0]])
    made = plain_snapshot(
        "c",
        ids=np.array([1, 2]),
        capacity=np.full((2, 4), 100.0),
        topics=("t",),
        topic=np.zeros(3, dtype=np.int32),
        number=np.arange(3, dtype=np.int32),
        replicas=np.array([[0], [0], [1]], dtype=np.int32),
        leader_load=load,
        follower_load=load,
    )
    return replace(made, partitions=replace(made.partitions, held_seconds=np.array(held_seconds)))


@pytest.mark.parametrize(
    ("held", "hours", "moved"),
    [
        ([[np.inf], [np.inf], [np.inf]], 2.0, 0),
        ([[3600.0], [np.inf], [np.inf]], 2.0, 1),
        ([[3600.0], [3600.0], [np.inf]], 2.0, 0),
        ([[7200.0], [np.inf], [np.inf]], 2.0, 0),
        ([[3600.0], [np.inf], [np.inf]], 0.0, 0),
    ],
)
def test_recently_moved_replicas_stay_if_another_move_helps(
    held: list[list[float]], hours: float, moved: int
) -> None:
    """10 bytes are less than 12, but 5 times 10 are more; two hours are over after 7200 s; 0 are none."""
    (move,) = trim.plan(snapshot(held), replace(THETA, recent_move_hours=hours)).moves
    assert move.partition == moved
    assert move.bytes == (10, 12)[moved], "the cost is that of the bytes"


def test_recently_moved_replicas_move_if_nothing_else_helps() -> None:
    """It is a price, not a ban."""
    held = [[60.0], [60.0], [60.0]]
    plan = trim.plan(snapshot(held), THETA)
    assert plan.verdict == "balanced"
    assert plan.cost.bytes == 10
    assert plan.bound.bytes <= 10, "the bound is of true bytes"


def test_without_hours_the_plan_is_the_same_to_the_byte() -> None:
    """For any arrival times."""
    known = lognormal_skew(6, 120, seed=4)
    young = np.full(known.partitions.replicas.shape, 60.0)
    told = replace(known, partitions=replace(known.partitions, held_seconds=young))
    settings = ReplicasSettings(recent_move_hours=0.0)
    assert plan_bytes(trim.plan(told, settings)) == plan_bytes(trim.plan(known, settings))


@pytest.mark.parametrize("name", ["snapshot.json", "folder"])
def test_ages_are_read_as_they_were_written(tmp_path: Path, name: str) -> None:
    """In whole seconds; null is not known, and where nothing is known nothing is written."""
    known = lognormal_skew(4, 12, seed=1, racks=2, replication_factor=2)
    held = np.full(known.partitions.replicas.shape, np.inf)
    held[0, 1], held[2, 0] = 60.4, 3600.0
    write_snapshot(replace(known, partitions=replace(known.partitions, held_seconds=held)), tmp_path / name)
    back = read_snapshot(tmp_path / name).partitions
    held[0, 1] = 60.0
    np.testing.assert_array_equal(back.held_seconds, held)
    assert back.settled_seconds[[0, 1, 2]].tolist() == [60.0, np.inf, 3600.0]


def test_an_age_for_each_replica(tmp_path: Path) -> None:
    """A list of another length is refused."""
    known = lognormal_skew(4, 12, seed=1, racks=2, replication_factor=2)
    held = np.full(known.partitions.replicas.shape, 5.0)
    path = tmp_path / "snapshot.json"
    write_snapshot(replace(known, partitions=replace(known.partitions, held_seconds=held)), path)
    path.write_text(path.read_text().replace('"held_seconds":[5,5]', '"held_seconds":[5]', 1))
    with pytest.raises(InputError, match=r"partitions\[0\].held_seconds is a list of 1, expected 2"):
        read_snapshot(path)
