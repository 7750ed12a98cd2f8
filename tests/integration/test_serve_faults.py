"""`trimtab serve` as real processes on a simulated Kafka: lost brokers, killed services, two instances."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from simulate.kafka.cluster import SimulatedKafka
from simulate.kafka.state import PartitionName
from simulate.served_cluster import ServedCluster, can_be_elsewhere
from support.http_receiver import Receiver, receiver
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


EVEN = """
lease_seconds = 8
[serve]
interval_seconds = 2
settle_seconds = 5
measure_seconds = 60
restart_quiet_seconds = 3
lease_seconds = 3
poll_seconds = 0.3
retry_seconds = 2
[serve.drift]
mode = "act"
hold_seconds = 2
rest_seconds = 3
load = "recent"
[[serve.notifications]]
kind = "webhook"
url = "URL"
"""
"""Settings of a service that makes loads even; `URL` stands for its receiver of notifications."""
SETTLE_SECONDS = 5.0


def observed(world: ServedCluster, name: str) -> bool:
    """Whether an instance has seen a balanced cluster."""
    return any(one["reason"].startswith("balanced") for one in world.kinds(name, "wait"))


def placement(cluster: SimulatedKafka) -> dict[PartitionName, tuple[list[int], int | None]]:
    """Who holds each partition, and who leads it."""
    return {name: (sorted(one.replicas), one.leader) for name, one in cluster.partitions.items()}


def alerts(server: Receiver, key: str) -> list[dict[str, Any]]:
    """Notifications that have arrived, by the beginning of their key."""
    bodies = [json.loads(body) for _, _, body in server.requests]
    return [one for one in bodies if one["key"].startswith(key)]


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


def test_a_plan_of_poisoned_telemetry_is_undone(tmp_path: Path) -> None:
    """Telemetry shows an even load as uneven, and the plan that evens it makes it worse.

    Within three settling windows the effect is measured, the undo is ordered and people are notified. The
    trigger asks from then on. When a person approves a second such plan, the service pauses itself.
    """
    rounds = by_tier(1, 1, 2)
    with receiver() as server:
        section = EVEN.replace("URL", server.url)
        with ServedCluster(tmp_path, section, speed=20.0, measured=True) as world:
            world.start("a")
            world.wait_for("a balanced cluster", lambda: observed(world, "a"))
            for number in range(1, rounds + 1):
                act_on_a_lie(world, server, number)
            assert world.left_over() == []
            if rounds == 2:
                world.wait_for("the pause", lambda: alerts(server, "paused"))
                assert world.call("a", "GET", "/api/v1/clusters/sim/replicas")["status"]["pause"]


def act_on_a_lie(world: ServedCluster, server: Receiver, number: int) -> None:
    """Let the service execute a plan of poisoned telemetry, for the first or the second time."""
    before, executed = world.server.do(placement), 2 * number - 1
    world.wait_for("all effects", lambda: len(world.kinds("a", "measured")) == executed - 1)
    world.lie = {1: 1.6, 2: 1.6, 3: 1.6, 4: 0.4, 5: 0.4, 6: 0.4}
    if number == 2:
        world.wait_for("a plan that asks", lambda: world.call("a", "GET", "/api/v1/approvals"))
        (plan,) = world.call("a", "GET", "/api/v1/approvals")
        world.call("a", "POST", f"/api/v1/plans/{plan['digest']}/approve")
    world.wait_for("an execution", lambda: len(world.kinds("a", "execute")) == executed)
    world.lie = {}
    world.wait_for("its end", lambda: len(finished(world, "a")) == executed)
    ended_at = finished(world, "a")[-1]["at"]
    assert world.server.do(placement) != before
    world.wait_for("the undo", lambda: len(finished(world, "a")) == executed + 1)
    ordered = world.kinds("a", "execute")[-1]
    assert ordered["trigger"] == "undo"
    assert ordered["at"] - ended_at <= 3 * SETTLE_SECONDS
    print(f"undo ordered {ordered['at'] - ended_at:.1f} s after the end of the execution")
    assert world.server.do(placement) == before
    status = world.call("a", "GET", "/api/v1/clusters/sim/replicas")["status"]
    assert status["modes"]["drift"] == "ask"
    worse = [one for one in world.kinds("a", "notify") if one["key"].startswith("worse-")]
    assert len(worse) == number
    assert "drift asks for an approval from now on" in worse[-1]["reason"]
    world.wait_for("the alert", lambda: len(alerts(server, "worse-")) == number)
