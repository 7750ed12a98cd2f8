"""A course of loads gone through by a planner, step by step, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.replays import STEP, course, move, planner
from trimtab.history.replicas.replay import COPY_SHARE, PlanningScenario, trace_scenario
from trimtab.model.replicas.plan import ReplicaMoveKind
from trimtab.model.replicas.settings import CPU, DISK, NETWORK_IN, NETWORK_OUT, ReplicasSettings
from trimtab.observe.spark.expressions import HOUR

SETTINGS = ReplicasSettings()


def test_nothing_moved_is_the_load_as_it_was() -> None:
    """Broker 2 leads one partition and follows the other."""
    trace = trace_scenario(course(), PlanningScenario(None, SETTINGS))
    np.testing.assert_array_equal(trace.load[3, :, CPU], [4.0, 5.0, 1.0])
    np.testing.assert_array_equal(trace.load[3, :, NETWORK_IN], [3.0, 6.0, 3.0])
    assert (trace.plans.sum(), trace.leaders.sum(), len(trace.moves)) == (0, 0, 0)


def test_a_leader_changes_in_the_step_after_its_plan() -> None:
    """Planned after step 0, led by broker 2 from step 1 on; copies nothing."""
    trace = trace_scenario(
        course(), PlanningScenario(planner([move(ReplicaMoveKind.LEADER, 0, 1, 2)]), SETTINGS, every=10)
    )
    np.testing.assert_array_equal(trace.load[:3, :, CPU], [[4, 5, 1], [1, 8, 1], [1, 8, 1]])
    assert trace.leaders.tolist() == [0, 1, 0, 0, 0, 0]
    assert trace.copied_bytes.sum() == 0


def test_a_copy_takes_the_time_of_its_bytes() -> None:
    """A broker copies a tenth of its network in: 0.1 x 900 s = 90 of 100 bytes in one step, the rest in the
    next. Meanwhile the copy takes room and traffic there, and the replica still stands where it was.
    """
    assert COPY_SHARE * STEP == 90
    plan = planner([move(ReplicaMoveKind.REPLICA, 0, 1, 3)])
    trace = trace_scenario(course(), PlanningScenario(plan, SETTINGS, every=1))
    np.testing.assert_array_equal(trace.copied_bytes, [0, 90, 10, 0, 0, 0])
    assert trace.load[1, 2, DISK] == 100 + 90
    assert trace.load[2, :, DISK].tolist() == [100, 200, 200], "in its last step both hold it"
    assert trace.load[1, 2, NETWORK_IN] == pytest.approx(1 + 90 / STEP)
    assert trace.load[1, 0, NETWORK_OUT] == pytest.approx(2 + 90 / STEP)
    # Arrived within step 2, and led there, as the leader went along.
    np.testing.assert_array_equal(trace.load[2, :, CPU], [0, 5, 5])
    assert trace.moves.tolist() == [[2, -1]]
    assert trace.plans.tolist() == [1, 0, 1, 1, 1, 1], "no plan while a copy is on its way"


def test_waiting_copies_use_no_disk() -> None:
    """Both partitions, of one replica each, go to broker 3: 90 bytes a step, partition 0 first."""
    found = course()
    alone = replace(found.initial.partitions, replicas=np.array([[0, -1], [1, -1]], dtype=np.int32))
    found = replace(found, initial=replace(found.initial, partitions=alone))
    plan = planner([move(ReplicaMoveKind.REPLICA, 0, 1, 3), move(ReplicaMoveKind.REPLICA, 1, 2, 3)])
    trace = trace_scenario(found, PlanningScenario(plan, SETTINGS))
    assert trace.load[1:4, 2, DISK].tolist() == [90, 100 + 80, 200]


def test_a_replica_that_moves_on_is_identified_by_its_arrival() -> None:
    """1 to 3 in step 1, 3 to 1 in step 2: the second left a broker that it had come to in step 1."""
    there, back = move(ReplicaMoveKind.REPLICA, 0, 1, 3), move(ReplicaMoveKind.REPLICA, 0, 3, 1)
    trace = trace_scenario(course(disk=10.0), PlanningScenario(planner([there], [back]), SETTINGS))
    assert trace.moves.tolist() == [[1, -1], [2, 1]]


def test_no_move_of_a_partition_precedes_its_earlier_moves() -> None:
    """The role of partition 0 waits for its copy; partition 1's does not."""
    plan = planner(
        [
            move(ReplicaMoveKind.REPLICA, 0, 2, 3),
            move(ReplicaMoveKind.LEADER, 0, 1, 3),
            move(ReplicaMoveKind.LEADER, 1, 2, 3),
        ]
    )
    trace = trace_scenario(course(), PlanningScenario(plan, SETTINGS, every=10))
    assert trace.leaders.tolist() == [0, 1, 1, 0, 0, 0]


def test_history_is_not_replayed() -> None:
    """Three steps of six are history: the first plan sees the fourth step, whose window reaches back."""
    plan = planner()
    trace = trace_scenario(course(first=3), PlanningScenario(plan, SETTINGS, every=2, windows=2))
    assert trace.plans.tolist() == [1, 0, 1]
    first = plan.snapshots[0].partitions
    assert first.leader_load[0, NETWORK_IN] == 3.0, "network in is the latest"
    assert first.hours == 0


def test_the_hours_to_come_are_those_after_the_step() -> None:
    """After 30 minutes the hour that ends at 2 is first, with its profile; the rest is the recent load."""
    profile = np.full((2, 2, 4), np.nan)
    profile[1, :, NETWORK_IN] = 77.0
    hours = np.array([1, 2]) * HOUR
    found = replace(course(), hour_end=hours, leader_profile=profile, follower_profile=profile / 7)
    parts = found.snapshot_at(
        1, found.initial.partitions.replicas, found.initial.partitions.leader, 1
    ).partitions
    assert parts.hours == 24
    assert parts.leader_forecast[0, :2, NETWORK_IN].tolist() == [77.0, 1.0]
    assert parts.follower_forecast[0, 0, NETWORK_IN] == 11.0
    assert (parts.leader_forecast[..., DISK] == 100.0).all()
