"""Executions in simulated clusters, hundreds of them: killed at every write, with everything going wrong."""

from pathlib import Path
from typing import Any

import pytest

from simulate.checkers.kafka import cordons_of
from simulate.kafka.state import ConfigOperation
from simulation.worlds import ACTOR, World, random_world
from tiers import by_tier
from trimtab.act import control as runner_module
from trimtab.act import lease as lease_module
from trimtab.act.execution.state import ExecutionStatus

SMALL = 20e6
"""Bytes of a middling partition where many lives of one plan are tried."""


@pytest.fixture(autouse=True)
def only_the_present_life_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """All lives of a world share this process; to the lease each but the newest is a dead one."""
    monkeypatch.setattr(lease_module, "is_running", lambda holder: False)
    # Nobody asks for a stop here while an execution waits, so it may sleep through.
    monkeypatch.setattr(runner_module, "NAP_SECONDS", 10.0)


def assert_good(world: World) -> None:
    """Nothing is wrong; if it is, everything needed to find out is shown."""
    wrong = world.evaluate()
    assert wrong == [], "\n".join([*wrong, str(world)])


def assert_plan_carried_out(world: World) -> None:
    """Every partition of the plan is where the plan wants it."""
    assert world.state is not None
    assert world.state.status is ExecutionStatus.FINISHED, world
    for wanted in world.plan.assignments:
        partition = world.cluster.partition(wanted.topic, wanted.partition)
        assert (tuple(partition.replicas), partition.leader) == (wanted.after, wanted.leader_after), world
    for move in world.plan.moves:
        if move.target_dir is not None:
            held = world.cluster.partition(move.topic, move.partition).held[move.target]
            assert (held.log_dir, held.future_dir) == (move.target_dir, None), f"{move}\n{world}"


@pytest.mark.parametrize("seed", range(20))
def test_an_undisturbed_plan_is_carried_out(seed: int, tmp_path: Path) -> None:
    """Nothing goes wrong: every step is done and nothing is left behind."""
    world = random_world(seed, tmp_path)
    assert world.live()
    assert_plan_carried_out(world)
    assert_good(world)


@pytest.mark.parametrize("seed", range(100, by_tier(101, 102, 102)))
def test_killed_at_every_write_and_resumed_the_plan_is_carried_out(seed: int, tmp_path: Path) -> None:
    """The process is killed at any write of the journal, and the next one finishes the plan."""
    world = random_world(seed, tmp_path / "whole", median_bytes=SMALL)
    world.live()
    for write in range(1, world.writes + 1):
        for before in (True, False):
            again = random_world(seed, tmp_path / f"{write}-{before}", median_bytes=SMALL)
            again.live(dies_at=write, before=before)
            again.live_to_the_end()
            assert_plan_carried_out(again)
            assert_good(again)


@pytest.mark.parametrize("seed", range(200, by_tier(201, 202, 202)))
def test_killed_at_every_write_and_cancelled_the_cluster_is_clean(seed: int, tmp_path: Path) -> None:
    """Cancelled instead of resumed, what was in flight is rolled back and nothing is left behind."""
    world = random_world(seed, tmp_path / "whole", median_bytes=SMALL)
    world.live()
    for write in range(2, world.writes + 1):
        again = random_world(seed, tmp_path / str(write), median_bytes=SMALL)
        if not again.live(dies_at=write):
            again.live_to_the_end(cancel=True)
        assert_good(again)


@pytest.mark.parametrize("seed", range(3300, 3310))
def test_a_drained_broker_is_cordoned_before_the_first_batch_and_stays_so(seed: int, tmp_path: Path) -> None:
    """Nothing is moved before the broker is cordoned; no cordon is removed after a drain that ended."""
    world = random_world(seed, tmp_path, drains=True)
    assert world.live()
    assert_plan_carried_out(world)
    assert_good(world)
    drained: Any = world.plan.settings["drain"]
    (broker,) = drained
    deeds = [h for h in world.cluster.history if h.actor == ACTOR and h.verb in ("configure", "reassign")]
    cordons = [h for h in deeds if h.subject == ("broker", str(broker))]
    assert [h.detail for h in cordons] == [(("cordoned.log.dirs", ConfigOperation.SET, "*"),)]
    moves = [h for h in deeds if h.verb == "reassign"]
    assert all(deeds.index(move) > deeds.index(cordons[0]) for move in moves)
    assert cordons_of(world.cluster)[broker] == "*"


@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("seed", by_tier((3325,), (3320, 3325), (3320, 3321, 3325)))
def test_killed_at_every_write_of_a_drain(seed: int, cancel: bool, tmp_path: Path) -> None:
    """Whether resumed or cancelled, the broker is cordoned after the drain alone; else it is as before."""
    world = random_world(seed, tmp_path / "whole", median_bytes=SMALL, drains=True)
    world.live()
    drained: Any = world.plan.settings["drain"]
    (broker,) = drained
    for write in range(2, world.writes + 1):
        for before in (True, False):
            again = random_world(seed, tmp_path / f"{write}-{before}", median_bytes=SMALL, drains=True)
            if not again.live(dies_at=write, before=before):
                again.live_to_the_end(cancel=cancel)
            assert_good(again)
            assert again.state is not None
            done = again.state.status is ExecutionStatus.FINISHED
            assert done or cancel
            assert cordons_of(again.cluster)[broker] == ("*" if done else again.before.cordons[broker])


def live_through_kills(world: World, last_write: int) -> None:
    """Up to three lives, each killed at a write before `last_write`, else one to the end; then judge it."""
    for _ in range(int(world.generator.integers(0, 4))):
        dies_at = int(world.generator.integers(1, last_write))
        if world.live(dies_at=dies_at, before=bool(world.generator.integers(2))):
            break
        world.pass_time(float(world.generator.choice([0.1, 3.0, 30.0, 100.0])))
    else:
        world.live_to_the_end(cancel=bool(world.generator.integers(2)))
    assert_good(world)


@pytest.mark.parametrize("seed", range(3400, by_tier(3415, 3460, 3460)))
def test_under_any_faults_a_drain_leaves_no_cordon_behind(seed: int, tmp_path: Path) -> None:
    """Brokers die, the drained one among them, calls get lost, trimtab is killed, stopped or cancelled."""
    world = random_world(seed, tmp_path, seed % 7, lost_fraction=0.03 * (seed % 3), drains=True)
    live_through_kills(world, 20)


@pytest.mark.parametrize(
    ("seed", "resizes"),
    [
        *((seed, False) for seed in range(1000, by_tier(1030, 1100, 1100))),
        *((seed, True) for seed in range(3200, 3220)),
    ],
)
def test_under_any_faults_no_setting_is_left_behind(seed: int, resizes: bool, tmp_path: Path) -> None:
    """Brokers die, calls get lost, others delete, create, move and cancel, trimtab is killed.

    Also while replicas are added and dropped: every partition is as its last done step left it.
    """
    faults = seed % 7
    world = random_world(seed, tmp_path, faults, lost_fraction=0.03 * (seed % 3), resizes=resizes)
    live_through_kills(world, 40)


@pytest.mark.parametrize("seed", range(3000, 3010))
def test_a_plan_that_adds_and_drops_replicas_is_carried_out(seed: int, tmp_path: Path) -> None:
    """Lists grow and shrink, a leader's replica among those that go; throttled as any copy."""
    world = random_world(seed, tmp_path, resizes=True)
    assert world.live()
    assert_plan_carried_out(world)
    assert_good(world)


@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("seed", range(3100, by_tier(3101, 3102, 3102)))
def test_killed_at_every_write_while_replicas_are_added_and_dropped(
    seed: int, cancel: bool, tmp_path: Path
) -> None:
    """Resumed, the plan is carried out; cancelled, what was in flight has its list from before."""
    world = random_world(seed, tmp_path / "whole", median_bytes=SMALL, resizes=True)
    world.live()
    for write in range(2 if cancel else 1, world.writes + 1):
        again = random_world(seed, tmp_path / str(write), median_bytes=SMALL, resizes=True)
        if not again.live(dies_at=write) or not cancel:
            again.live_to_the_end(cancel=cancel)
        if not cancel:
            assert_plan_carried_out(again)
        assert_good(again)
