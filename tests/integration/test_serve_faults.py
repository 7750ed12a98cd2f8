"""`trimtab serve` as real processes on a simulated Kafka: lost brokers, killed services, two instances."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from simulate.served_cluster import ServedCluster, can_be_elsewhere
from tiers import by_tier

pytestmark = pytest.mark.slow

ACT = """
lease_seconds = 8
[serve]
interval_seconds = 2
settle_seconds = 3
measure_seconds = 4
restart_quiet_seconds = 5
lease_seconds = 3
poll_seconds = 0.3
retry_seconds = 2
[serve.broker_lost]
mode = "act"
after_seconds = 5
[serve.broker_added]
mode = "act"
after_seconds = 2
[serve.drift]
mode = "observe"
"""
HEALED_SECONDS = 60.0
RESUMED_SECONDS = 15.0
TAKEOVER_SECONDS = 75.0


def observed(world: ServedCluster, name: str) -> bool:
    """Whether an instance has seen a balanced cluster."""
    return any(one["reason"].startswith("balanced") for one in world.kinds(name, "wait"))


def finished(world: ServedCluster, name: str) -> list[dict[str, Any]]:
    """Executions that have ended with all their steps done."""
    return [one for one in world.kinds(name, "ended") if one["reason"].endswith("finished")]


def test_a_lost_broker_is_healed_and_gets_replicas_back(tmp_path: Path) -> None:
    """Nothing moves before the waiting time; then all replicas are in sync; the returned broker is filled."""
    with ServedCluster(tmp_path, ACT) as world:
        world.start("a")
        world.wait_for("a balanced cluster", lambda: observed(world, "a"))
        killed_at = time.time()
        world.kill_broker(3)
        world.wait_for("an execution", lambda: world.kinds("a", "started"))
        assert world.kinds("a", "started")[0]["at"] - killed_at >= 5.0
        world.wait_for("its end", lambda: finished(world, "a"), HEALED_SECONDS)
        assert world.is_whole()
        assert world.left_over() == []
        world.start_broker(3)
        world.wait_for("a second execution", lambda: len(finished(world, "a")) == 2, HEALED_SECONDS)
        held = world.server.do(lambda cluster: sum(3 in one.replicas for one in cluster.partitions.values()))
        assert held >= 9, f"broker 3 holds {held} of 72 replicas: its share is 12"
        assert world.is_whole()
        assert world.left_over() == []
        assert [one["trigger"] for one in world.kinds("a", "execute")] == ["broker_lost", "broker_added"]


def test_a_rolling_restart_moves_nothing(tmp_path: Path) -> None:
    """Each broker is gone for half of the waiting time, one after another."""
    with ServedCluster(tmp_path, ACT) as world:
        world.start("a")
        world.wait_for("a balanced cluster", lambda: observed(world, "a"))
        for number in range(1, 7):
            world.kill_broker(number)
            time.sleep(2.5)
            world.start_broker(number)
            time.sleep(1.5)
        time.sleep(6)
        assert world.moves() == 0
        assert world.kinds("a", "execute") == []
        assert any("restart" in one["reason"] for one in world.kinds("a", "wait"))


def test_half_of_the_brokers_lost_at_once_alerts_and_moves_nothing(tmp_path: Path) -> None:
    """An outage is no case for new copies: one alert, and one message that it is over."""
    with ServedCluster(tmp_path, ACT) as world:
        world.start("a")
        world.wait_for("a balanced cluster", lambda: observed(world, "a"))
        for number in (1, 3, 5):
            world.kill_broker(number)
        world.wait_for("an alert", lambda: world.kinds("a", "notify"))
        time.sleep(10)
        assert world.moves() == 0
        for number in (1, 3, 5):
            world.start_broker(number)
        world.wait_for("its end", lambda: world.kinds("a", "notify")[-1]["is_over"])
        time.sleep(8)
        assert world.moves() == 0
        outage = [one for one in world.kinds("a", "notify") if one["key"] == "outage"]
        assert [one["is_over"] for one in outage] == [False, True]
        assert "3 of 6" in outage[0]["reason"]


@pytest.mark.parametrize("seed", range(by_tier(1, 1, 3)))
def test_a_service_killed_while_it_heals_finishes_by_itself(seed: int, tmp_path: Path) -> None:
    """SIGKILL at random moments, and a new start each time; the healing ends, and nothing is left over."""
    drawn = random.Random(seed)
    kills = by_tier(4, 10, 10)
    with ServedCluster(tmp_path, ACT, speed=2.0) as world:
        world.start("a")
        world.wait_for("a balanced cluster", lambda: observed(world, "a"))
        world.kill_broker(3)
        world.wait_for("a plan", lambda: world.kinds("a", "make_plan"))
        for _ in range(kills):
            time.sleep(drawn.uniform(0.0, 3.0))
            world.kill("a")
            world.start("a")
        started_at = time.monotonic()
        world.wait_for("the end of the healing", lambda: finished(world, "a"), HEALED_SECONDS)
        took = time.monotonic() - started_at
        assert world.is_whole()
        assert world.left_over() == []
        numbers = {one["execution"] for one in world.kinds("a", "started")}
        assert len(numbers) == 1, "the healing is one execution"
        assert len({one["digest"] for one in world.kinds("a", "execute")}) == 1, "of one plan"
        lost = {one["reason"] for one in world.kinds("a", "make_plan")}
        assert len({reason.split(";")[0] for reason in lost}) == 1, "the time of the loss does not begin anew"
        print(f"healed {took:.1f} s after the last start")


@pytest.mark.skipif(not can_be_elsewhere(), reason="unshare --user --pid does not work on this machine")
@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_the_other_instance_finishes_the_execution(fault: str, tmp_path: Path) -> None:
    """The deciding instance ends in the middle of an execution; the other has a state folder of its own."""
    with ServedCluster(tmp_path, ACT, speed=0.5) as world:
        world.start("a", elsewhere=True)
        world.wait_for("a leader", lambda: world.kinds("a", "leadership"))
        world.start("b")
        world.wait_for("a balanced cluster", lambda: observed(world, "a"))
        world.kill_broker(3)
        world.wait_for("reassignments", lambda: world.moves() > 0, HEALED_SECONDS)
        stopped_at = world.server.do(lambda cluster: cluster.now)
        begun = time.monotonic()
        world.kill("a", signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
        world.wait_for("the end of the execution at b", lambda: finished(world, "b"), TAKEOVER_SECONDS + 60)
        took = time.monotonic() - begun
        if fault == "frozen":
            world.kill("a", signal.SIGCONT)
            time.sleep(5)
            late = world.server.do(
                lambda cluster: [
                    (one.at, one.verb)
                    for one in cluster.history
                    if one.actor == "a"
                    and one.at > stopped_at + 1.0
                    and one.verb in ("reassign", "configure", "elect")
                ]
            )
            # Its claim may go: it is told that another holds the lease, and takes its own text away.
            assert [verb for _, verb in late if verb != "configure"] == []
        assert world.left_over() == []
        assert world.is_whole()
        assert len(world.kinds("b", "execute")) == 1
        print(f"finished by b after {took:.1f} s")
