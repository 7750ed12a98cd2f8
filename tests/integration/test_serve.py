"""`trimtab serve` as a real process on a simulated Kafka: plans, approvals, executions by its API."""

from __future__ import annotations

import hashlib
import json
import signal
import sqlite3
import time
import urllib.error
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from simulate.kafka.cluster import SimulatedKafka
from simulate.served_cluster import ServedCluster
from trimtab.files.replicated import unpacked

pytestmark = pytest.mark.slow

PROPOSE = """
lease_seconds = 8
[serve]
interval_seconds = 2
settle_seconds = 600
restart_quiet_seconds = 3
lease_seconds = 3
poll_seconds = 0.3
retry_seconds = 2
[serve.drift]
mode = "ask"
hold_seconds = 2
load = "recent"
"""
QUIET = PROPOSE.replace('mode = "ask"', 'mode = "observe"')
TARGET = "/api/v1/clusters/sim/replicas"


def apply_drain(world: ServedCluster) -> None:
    """Apply a plan that drains broker 5."""
    settings = {"cluster": "sim", "balancer": "replicas", "settings": {"drain": [5]}}
    plan = world.call("a", "POST", "/api/v1/plans", settings)
    world.call("a", "POST", f"/api/v1/plans/{plan['digest']}/apply")


def held_by(world: ServedCluster, broker: int) -> int:
    """Number of replicas that a broker holds."""
    return world.server.do(lambda cluster: sum(broker in one.replicas for one in cluster.partitions.values()))


def executed_plan(world: ServedCluster, name: str) -> bytes:
    """The plan that the journal of executions has of the newest execution."""
    with closing(sqlite3.connect(world.folder / name / "serve" / "executions.sqlite", timeout=10)) as db:
        return unpacked(db.execute("SELECT plan FROM executions ORDER BY id DESC LIMIT 1").fetchone()[0])


def facts_of_the_execution(world: ServedCluster, name: str) -> dict[str, Any]:
    """What the journal says of the order to execute; it tells two executions of one plan apart."""
    with closing(sqlite3.connect(world.folder / name / "serve" / "executions.sqlite", timeout=10)) as db:
        found: dict[str, Any] = json.loads(db.execute("SELECT facts FROM executions").fetchone()[0])
        return found


def asked_plan(world: ServedCluster) -> dict[str, Any]:
    """The plan that waits for an approval."""
    world.wait_for("a plan that asks", lambda: world.call("a", "GET", "/api/v1/approvals"))
    found: dict[str, Any] = world.call("a", "GET", "/api/v1/approvals")[0]
    return found


def test_an_approved_plan_is_executed_byte_for_byte(tmp_path: Path) -> None:
    """The file that was shown is the plan in the journal; approving it again executes nothing more."""
    with ServedCluster(tmp_path, PROPOSE, balanced=False) as world:
        world.start("a")
        plan = asked_plan(world)
        shown = world.call("a", "GET", f"/api/v1/plans/{plan['digest']}/file")
        content = shown if isinstance(shown, bytes) else json.dumps(shown).encode()
        assert world.moves() == 0
        world.call("a", "POST", f"/api/v1/plans/{plan['digest']}/approve")
        world.wait_for("the end", lambda: world.kinds("a", "ended"), 90)
        executed = executed_plan(world, "a")
        assert hashlib.sha256(executed).hexdigest() == plan["digest"]
        assert json.loads(executed) == json.loads(content)
        assert world.is_whole()
        record = world.call("a", "GET", f"/api/v1/plans/{plan['digest']}")
        assert record["state"] == "executed"
        assert world.call("a", "POST", f"/api/v1/plans/{plan['digest']}/apply")["state"] == "executed"
        with pytest.raises(urllib.error.HTTPError) as refused:
            world.call("a", "POST", f"/api/v1/plans/{plan['digest']}/approve")
        assert refused.value.code == 409
        (ordered,) = world.kinds("a", "execute")
        assert facts_of_the_execution(world, "a")["ordered_at"] == ordered["at"]


def test_a_plan_for_a_changed_cluster_is_withdrawn_with_the_differences(tmp_path: Path) -> None:
    """An operator moves a partition of the plan by hand: the plan is no longer on offer, and says why."""
    with ServedCluster(tmp_path, PROPOSE, balanced=False) as world:
        world.start("a")
        plan = asked_plan(world)
        move = world.call("a", "GET", f"/api/v1/plans/{plan['digest']}/file")["moves"][0]

        def by_hand(cluster: SimulatedKafka) -> None:
            name = cluster.partition(move["topic"], move["partition"])
            others = [one for one in cluster.brokers if one not in name.replicas]
            cluster.controller.reassign(move["topic"], move["partition"], [*name.replicas[:2], others[-1]])

        world.server.do(by_hand)
        world.wait_for(
            "its withdrawal",
            lambda: world.call("a", "GET", f"/api/v1/plans/{plan['digest']}")["state"] == "withdrawn",
        )
        record = world.call("a", "GET", f"/api/v1/plans/{plan['digest']}")
        assert f"{move['topic']}-{move['partition']}" in record["state_reason"]
        assert world.kinds("a", "execute") == []


def test_a_proposed_change_is_made_after_its_approval_only(tmp_path: Path) -> None:
    """A broker is drained by a plan that was looked at first; the applied plan is that one."""
    with ServedCluster(tmp_path, QUIET) as world:
        world.start("a")
        world.wait_for("a snapshot", lambda: world.call("a", "GET", TARGET)["status"]["snapshot_taken_at"])
        settings = {"cluster": "sim", "balancer": "replicas", "settings": {"drain": [5]}}
        plan = world.call("a", "POST", "/api/v1/plans", settings)
        assert plan["state"] == "what-if"
        assert plan["moves"] >= 12
        text = world.call("a", "GET", f"/api/v1/plans/{plan['digest']}/text")
        assert b"broker 5" in (text if isinstance(text, bytes) else json.dumps(text).encode())
        time.sleep(3)
        assert world.moves() == 0
        for _ in range(2):
            applied = world.call("a", "POST", f"/api/v1/plans/{plan['digest']}/apply")
            assert applied["state"] in ("approved", "executing")
        world.wait_for("the end", lambda: world.kinds("a", "ended"), 90)
        assert len(world.kinds("a", "execute")) == 1
        assert world.kinds("a", "notify") == []
        assert held_by(world, 5) == 0
        assert hashlib.sha256(executed_plan(world, "a")).hexdigest() == plan["digest"]
        assert world.left_over() == []


def test_a_pause_outlives_a_restart_and_forbids_executions(tmp_path: Path) -> None:
    """Nothing is executed while a person pauses the target; afterwards the approved plan is."""
    with ServedCluster(tmp_path, QUIET) as world:
        world.start("a")
        world.wait_for("a snapshot", lambda: world.call("a", "GET", TARGET)["status"]["snapshot_taken_at"])
        world.call("a", "POST", f"{TARGET}/pause", {"reason": "release"})
        apply_drain(world)
        time.sleep(4)
        world.kill("a")
        world.start("a")
        world.wait_for("the pause", lambda: world.call("a", "GET", TARGET)["status"]["pause"])
        time.sleep(4)
        status = world.call("a", "GET", TARGET)["status"]
        assert "release" in status["waiting"]["reason"]
        assert world.moves() == 0
        world.call("a", "POST", f"{TARGET}/resume")
        world.wait_for("the end", lambda: world.kinds("a", "ended"), 90)
        assert held_by(world, 5) == 0


def test_a_stopped_execution_is_resumed_or_cancelled_by_a_person(tmp_path: Path) -> None:
    """A stop leaves steps; they are done after a resume. The service itself does not resume before."""
    with ServedCluster(tmp_path, QUIET, speed=1.0) as world:
        world.start("a")
        world.wait_for("a snapshot", lambda: world.call("a", "GET", TARGET)["status"]["snapshot_taken_at"])
        apply_drain(world)
        world.wait_for("moves", lambda: world.moves() > 0)
        world.call("a", "POST", "/api/v1/clusters/sim/executions/1/stop")
        world.wait_for("the stop", lambda: world.kinds("a", "ended"), 90)
        assert "stopped" in world.kinds("a", "ended")[0]["reason"]
        assert [one["by"] for one in world.kinds("a", "stopped_execution")] == ["local"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            world.call("a", "POST", "/api/v1/clusters/sim/executions/1/stop")
        assert refused.value.code == 409
        assert held_by(world, 5) > 0
        time.sleep(4)
        assert world.kinds("a", "resume") == []
        world.call("a", "POST", "/api/v1/clusters/sim/executions/1/resume")
        world.wait_for("the end", lambda: len(world.kinds("a", "ended")) == 2, 120)
        assert held_by(world, 5) == 0
        assert world.left_over() == []


def test_the_throttle_of_a_running_execution_changes(tmp_path: Path) -> None:
    """Copies begin too slow to end in this test; with another throttle they end, and none is left."""
    settings = "throttle = 1000\nstall_timeout_seconds = 600\n" + QUIET
    path = "/api/v1/clusters/sim/executions/1/throttle"
    with ServedCluster(tmp_path, settings, speed=1.0) as world:
        world.start("a")
        world.wait_for("a snapshot", lambda: world.call("a", "GET", TARGET)["status"]["snapshot_taken_at"])
        apply_drain(world)
        world.wait_for("moves", lambda: world.moves() > 0)
        time.sleep(3)
        assert world.kinds("a", "ended") == []
        with pytest.raises(urllib.error.HTTPError) as refused:
            world.call("a", "POST", path, {"bytes_per_second": 0})
        assert refused.value.code == 400
        world.call("a", "POST", path, {"bytes_per_second": 1e12})
        world.wait_for("the end", lambda: world.kinds("a", "ended"), 90)
        record = world.call("a", "GET", "/api/v1/clusters/sim/executions/1")["execution"]
        assert record["throttle_bytes_per_second"] == 1e12
        assert [one["by"] for one in world.kinds("a", "changed_throttle")] == ["local"]
        assert held_by(world, 5) == 0
        assert world.left_over() == []


def test_sigterm_in_an_execution_leaves_it_to_the_next_start(tmp_path: Path) -> None:
    """The process ends within 10 s; the execution is in the journal, and the next start finishes it."""
    with ServedCluster(tmp_path, QUIET, speed=1.0) as world:
        world.start("a")
        world.wait_for("a snapshot", lambda: world.call("a", "GET", TARGET)["status"]["snapshot_taken_at"])
        apply_drain(world)
        world.wait_for("moves", lambda: world.moves() > 0)
        newest = world.call("a", "GET", "/api/v1/decisions?limit=1")[0]["number"]
        world.kill("a", signal.SIGTERM)
        begun = time.monotonic()
        assert world.processes.pop("a").wait(30) == 0
        assert time.monotonic() - begun < 10
        world.start("a")
        world.wait_for("the end", lambda: world.kinds("a", "ended"), 120)
        assert held_by(world, 5) == 0
        assert world.left_over() == []
        later = world.call("a", "GET", f"/api/v1/decisions?after={newest}&limit=500")
        assert [one["number"] for one in later] == list(range(newest + 1, newest + 1 + len(later)))
