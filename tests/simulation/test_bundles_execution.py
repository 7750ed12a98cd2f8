"""Executions of bundles on a simulated admin API: killed at every write, with everything going wrong."""

from pathlib import Path

import pytest

from simulation.bundle_worlds import BundleWorld, random_bundle_world
from trimtab.act import control as runner_module
from trimtab.act import lease as lease_module
from trimtab.act.execution.state import ExecutionStatus


@pytest.fixture(autouse=True)
def only_the_present_life_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """All lives of a world share this process; to the lease each but the newest is a dead one."""
    monkeypatch.setattr(lease_module, "is_running", lambda holder: False)
    # Nobody asks for a stop here while an execution waits, so it may sleep through.
    monkeypatch.setattr(runner_module, "NAP_SECONDS", 10.0)


def assert_good(world: BundleWorld) -> None:
    """Nothing is wrong; if it is, everything needed to find out is shown."""
    wrong = world.evaluate()
    assert wrong == [], "\n".join([*wrong, str(world)])


def assert_plan_carried_out(world: BundleWorld) -> None:
    """Every bundle of the plan is with whom the plan wants it, and cut where the plan wants it."""
    assert world.state is not None
    assert world.state.status is ExecutionStatus.FINISHED, world
    for wanted in world.plan.assignments:
        if wanted.after is not None:
            assert world.bed.cluster.owners[wanted.bundle] == wanted.after, world


@pytest.mark.parametrize("seed", range(8))
def test_an_undisturbed_plan_is_carried_out(seed: int, tmp_path: Path) -> None:
    """Nothing goes wrong: every step is done and nothing is left behind."""
    world = random_bundle_world(seed, tmp_path)
    assert world.live()
    assert_plan_carried_out(world)
    assert_good(world)


@pytest.mark.parametrize("seed", range(100, 101))
def test_killed_at_every_write_and_resumed_the_plan_is_carried_out(seed: int, tmp_path: Path) -> None:
    """The process is killed at any write of the journal, and the next one finishes the plan."""
    world = random_bundle_world(seed, tmp_path / "whole")
    world.live()
    for write in range(1, world.writes + 1):
        for before in (True, False):
            again = random_bundle_world(seed, tmp_path / f"{write}-{before}")
            again.live(dies_at=write, before=before)
            again.live_to_the_end()
            assert_plan_carried_out(again)
            assert_good(again)


@pytest.mark.parametrize("seed", range(200, 201))
def test_killed_at_every_write_and_cancelled_the_cluster_is_clean(seed: int, tmp_path: Path) -> None:
    """Cancelled instead of resumed: bundles under way have owners, and the balancing is given back."""
    world = random_bundle_world(seed, tmp_path / "whole")
    world.live()
    for write in range(2, world.writes + 1):
        again = random_bundle_world(seed, tmp_path / str(write))
        if not again.live(dies_at=write):
            again.live_to_the_end(cancel=True)
        assert_good(again)


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_under_any_faults_no_setting_is_left_behind(seed: int, tmp_path: Path) -> None:
    """Brokers die, calls get lost, others split, move and switch, trimtab is killed."""
    world = random_bundle_world(seed, tmp_path, faults=1 + seed % 8, lost_fraction=0.1 * (seed % 3))
    for _ in range(int(world.generator.integers(0, 4))):
        dies_at = int(world.generator.integers(1, 30))
        if world.live(dies_at=dies_at, before=bool(world.generator.integers(2))):
            break
        world.bed.sleep(float(world.generator.choice([0.1, 3.0, 30.0, 100.0])))
        world.bed.cluster.settle()
    else:
        world.live_to_the_end(cancel=bool(world.generator.integers(2)))
    if world.state is not None:
        assert_good(world)
