"""Copies that are written faster than they are copied: noticed by what is left, in virtual time."""

from pathlib import Path

import numpy as np
import pytest

from simulate.faults import FaultScript
from simulate.kafka.cluster import cluster_of
from simulation.worlds import World
from support.plans import plan_of
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.replicas.load_check import ProgressMeter
from trimtab.act.replicas.state import ReplicasExecutionSettings, ReplicasExecutionState, ReplicaStepState

MB = 1e6


def world_of(folder: Path, settings: ReplicasExecutionSettings, *hot: float, cold: bool = True) -> World:
    """Topics that are written at so many bytes per second, each sent from broker 1 to 4, and one at rest."""
    cluster = cluster_of(5, copy_bytes_per_second=100 * MB, dir_bytes=500e9)
    changes = []
    for number, rate in enumerate(hot):
        cluster.controller.create_topic(f"hot{number}", {0: [1, 2]}, 400 * MB, growth_bytes_per_second=rate)
        changes.append((f"hot{number}", 0, (1, 2), (4, 2)))
    if cold:
        cluster.controller.create_topic("cold", {0: [3, 2]}, 50 * MB)
        changes.append(("cold", 0, (3, 2), (5, 2)))
    generator = np.random.default_rng(1)
    return World(1, folder, cluster, plan_of(*changes), settings, FaultScript([]), generator)


def ends(world: World) -> dict[str, tuple[ReplicaStepState, str]]:
    """Topic -> state and reason of its copy."""
    assert world.state is not None
    return {r.step.partition.topic: (r.state, r.reason) for r in world.state.records if r.step.kind == "copy"}


def test_a_throttle_below_the_rate_of_writing_ends_with_one_clear_sentence(tmp_path: Path) -> None:
    """Written at 8 MB/s, copied at 5 MB/s: cancelled, rolled back, with a remedy; the rest continues."""
    world = world_of(
        tmp_path, ReplicasExecutionSettings(throttle="5000000", stall_timeout_seconds=60.0), 8 * MB
    )
    assert world.live()
    assert world.evaluate() == []
    assert world.state is not None
    assert world.state.status is ExecutionStatus.INCOMPLETE
    state, reason = ends(world)["hot0"]
    assert state is ReplicaStepState.FAILED
    assert "8 MB/s are written to it and the throttle lets 5 MB/s a broker through" in reason
    assert "apply with --throttle 16000000 or more" in reason
    assert world.cluster.partition("hot0", 0).replicas == [1, 2]
    assert ends(world)["cold"][0] is ReplicaStepState.DONE


def test_progress_includes_bytes_written_meanwhile(tmp_path: Path) -> None:
    """While a copy is outrun more and more is left of it, and no time is promised."""
    world = world_of(
        tmp_path,
        ReplicasExecutionSettings(throttle="5000000", stall_timeout_seconds=120.0),
        8 * MB,
        cold=False,
    )
    meter, figures = ProgressMeter(), []

    def remember(state: ReplicasExecutionState) -> None:
        world.state = state
        figures.append(meter(state))

    world._remember = remember  # type: ignore[method-assign]
    assert world.live()
    copying = [f for f in figures if f.steps_active and f.bytes_total > 1000 * MB]
    assert copying
    assert copying[-1].bytes_left > 500 * MB
    assert {f.seconds_left for f in copying[len(copying) // 2 :]} == {None}


def test_the_throttle_that_the_sentence_names_is_enough(tmp_path: Path) -> None:
    """With the suggested throttle the copy completes."""
    world = world_of(
        tmp_path, ReplicasExecutionSettings(throttle="16000000", stall_timeout_seconds=60.0), 8 * MB
    )
    assert world.live()
    assert world.evaluate() == []
    assert world.state is not None
    assert world.state.status is ExecutionStatus.FINISHED


def test_auto_raises_itself_above_the_write_rate(tmp_path: Path) -> None:
    """A pace that trimtab chose itself is no reason to give up: it is raised until the copy gets on."""
    settings = ReplicasExecutionSettings(
        throttle_initial_bytes_per_second=5 * MB, stall_timeout_seconds=120.0
    )
    world = world_of(tmp_path, settings, 8 * MB)
    assert world.live()
    assert world.evaluate() == []
    assert world.state is not None
    assert world.state.status is ExecutionStatus.FINISHED
    assert world.state.rate_bytes_per_second == pytest.approx(16 * MB, rel=0.1)


def test_of_copies_that_share_a_throttle_only_one_too_many_is_cancelled(tmp_path: Path) -> None:
    """8 and 6 MB/s are written, 10 MB/s may pass: without the first the second gets through."""
    world = world_of(
        tmp_path, ReplicasExecutionSettings(throttle="10000000", stall_timeout_seconds=60.0), 8 * MB, 6 * MB
    )
    assert world.live()
    assert world.evaluate() == []
    found = ends(world)
    assert found["hot0"][0] is ReplicaStepState.FAILED
    assert "10 MB/s a broker through, shared by 2 copies" in found["hot0"][1]
    assert "--throttle 28000000" in found["hot0"][1]
    assert found["hot1"][0] is ReplicaStepState.DONE


def test_a_copy_held_back_by_another_has_its_turn_afterwards(tmp_path: Path) -> None:
    """8 and 4 MB/s share 10 MB/s evenly: the first falls back until the second is through, then makes up."""
    settings = ReplicasExecutionSettings(throttle="10000000", stall_timeout_seconds=120.0)
    world = world_of(tmp_path, settings, 8 * MB, 4 * MB)
    assert world.live()
    assert world.evaluate() == []
    assert world.state is not None
    assert world.state.status is ExecutionStatus.FINISHED


def test_a_slow_copy_that_gets_nearer_is_let_go_on(tmp_path: Path) -> None:
    """Written at 8 MB/s, copied at 9 MB/s: it takes a multiple of the time-out, and completes."""
    settings = ReplicasExecutionSettings(throttle="9000000", stall_timeout_seconds=60.0)
    world = world_of(tmp_path, settings, 8 * MB, cold=False)
    began = world.cluster.now
    assert world.live()
    assert world.evaluate() == []
    assert world.state is not None
    assert world.state.status is ExecutionStatus.FINISHED
    assert world.cluster.now - began > 5 * settings.stall_timeout_seconds
