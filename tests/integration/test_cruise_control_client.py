"""Cruise Control's official client runs against the adapter, over a real socket."""

import hashlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from integration.test_serve import QUIET, TARGET, executed_plan, held_by
from simulate.served_cluster import CAPACITY, ServedCluster
from support.fake_service import FakeService
from trimtab.serve.cruise_control import cruise_control_routes
from trimtab.serve.http.app import create_app


@pytest.fixture
def service() -> FakeService:
    """A service with one cluster of Kafka; nothing runs."""
    made = FakeService()
    for key in [key for key in made._targets if key != ("payments", "replicas")]:
        del made._targets[key]
    return made


@pytest.fixture
def address(service: FakeService) -> Iterator[str]:
    """Host and port of the service, for the option -a."""
    app = create_app(service, cruise_control_routes(service, lambda: service.now, wait_seconds=0.2))
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listener.close()


def cccli(address: str, *arguments: str) -> Any:
    """The document that the client prints."""
    command = [sys.executable, "-m", "cruisecontrolclient.client.cccli", "-a", address, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("rebalance", "--goals", "RackAwareGoal", "DiskCapacityGoal"), "rebalance"),
        (("add-broker", "5,6"), "add_broker"),
        (("remove-broker", "2"), "remove_broker"),
        (("demote-broker", "2"), "demote_broker"),
        (("fix-offline-replicas",), "fix_offline_replicas"),
        (
            ("topic-configuration", "--topic", "live-.*", "--replication-factor", "3"),
            "topic_configuration",
        ),
    ],
)
def test_dry_run_then_execution_of_the_same_plan(
    service: FakeService, address: str, arguments: tuple[str, ...], call: str
) -> None:
    """Of each call that changes a cluster, the client executes the plan that its dry run has shown."""
    shown = cccli(address, *arguments, "--dry-run")
    digest = str(shown["trimtab"]["plan"])
    content = service.plan_bytes(digest)
    assert service.plan(digest).state == "what-if"
    service.advance(60)  # from here on, a plan with these options is another one

    executed = cccli(address, *arguments)

    assert executed["trimtab"] == {**shown["trimtab"], "state": "approved"}
    assert service.plan_bytes(digest) == content
    assert service.executions("payments")[0].digest == digest
    tasks = cccli(address, "user-tasks", "--endpoints", call)["userTasks"]
    assert [one["Status"] for one in tasks[:2]] == ["InExecution", "Completed"]
    state = cccli(address, "state")
    assert state["ExecutorState"]["triggeredUserTaskId"] == tasks[0]["UserTaskId"]
    assert "cancelled" in str(cccli(address, "stop", "--force-stop")["message"])
    tasks = cccli(address, "user-tasks", "--endpoints", call)["userTasks"]
    assert tasks[0]["Status"] == "CompletedWithError"


def test_the_client_polls_until_the_plan_is_made(service: FakeService, address: str) -> None:
    """The client sends its request again after status 202, and one plan is made."""
    original, calls = service.make_plan, []

    def slow(*call: object) -> object:
        calls.append(call)
        time.sleep(1)
        return original(*call)  # type: ignore[arg-type]

    service.make_plan = slow  # type: ignore[method-assign, assignment]
    assert "summary" in cccli(address, "rebalance", "--dry-run")
    assert len(calls) == 1


def test_every_other_call_is_served_or_refused_with_a_remedy(address: str) -> None:
    """The client prints a document for each of its commands."""
    for call, part in {
        ("state", "--substates", "executor", "analyzer", "monitor", "anomaly_detector"): "AnalyzerState",
        ("load",): "brokers",
        ("kafka-cluster-state",): "KafkaBrokerState",
        ("partition-load", "--resource", "nw_in"): "records",
        ("proposals",): "summary",
        ("user-tasks",): "userTasks",
        ("stop",): "message",
    }.items():
        assert part in cccli(address, *call), call
    for call, remedy in {
        ("bootstrap",): "trimtab pipeline run",
        ("train",): "CPU model",
        ("rightsize",): "adds no brokers",
        ("review",): "approve or reject",
        ("review-board",): "wait for an approval",
        ("pause-sampling", "--reason", "night"): "stop trimtab collect",
        ("resume-sampling",): "start trimtab collect",
        ("admin", "--disable-self-healing-for", "goal_violation"): "set the mode of the trigger",
        ("remove-broker", "99"): "does not exist.",
    }.items():
        assert remedy in str(cccli(address, *call)["errorMessage"]), call


def test_a_real_service_executes_the_plan_that_it_showed(tmp_path: Path) -> None:
    """A broker is emptied on a simulated cluster: the journal has the plan of the dry run, byte for byte.

    The loads after the plan that the dry run showed are those that are measured in the end.
    """
    settings = QUIET.replace("[serve]\n", "[serve]\ncruise_control = true\n", 1)
    with ServedCluster(tmp_path, settings) as world:
        world.start("a")
        address = world.url("a").removeprefix("http://")
        world.wait_for("a snapshot", lambda: world.call("a", "GET", TARGET)["status"]["snapshot_taken_at"])
        for row in cccli(address, "load")["brokers"]:
            # 24 topics with 3 replicas of 40 MiB, 1 MB/s in and 2 MB/s out, on six brokers.
            assert (row["Leaders"], row["Replicas"], row["DiskMB"]) == (4, 12, 480)
            assert row["LeaderNwInRate"] == pytest.approx(4e6 / 1024)
            assert row["FollowerNwInRate"] == pytest.approx(8e6 / 1024)
            assert row["NwOutRate"] == pytest.approx(8e6 / 1024)
            assert row["PnwOutRate"] == pytest.approx(24e6 / 1024)
            assert (row["NumCore"], row["DiskCapacityMB"]) == (CAPACITY[0], CAPACITY[1] / 2**20)
            assert row["NwInPct"] == pytest.approx(100 * 12e6 / CAPACITY[2])
        shown = cccli(address, "remove-broker", "5", "--dry-run")
        digest = shown["trimtab"]["plan"]
        assert shown["summary"]["numReplicaMovements"] >= 12
        time.sleep(2)
        assert world.moves() == 0

        executed = cccli(address, "remove-broker", "5")

        assert executed["trimtab"]["plan"] == digest
        world.wait_for("the end", lambda: world.kinds("a", "ended"), 90)
        assert hashlib.sha256(executed_plan(world, "a")).hexdigest() == digest
        assert held_by(world, 5) == 0
        expected = shown["loadAfterOptimization"]["brokers"]
        assert [row["Replicas"] for row in expected if row["Broker"] == 5] == [0]
        world.wait_for("the loads of the plan", lambda: cccli(address, "load")["brokers"] == expected, 20)
        tasks = cccli(address, "user-tasks", "--endpoints", "remove_broker")["userTasks"]
        assert [one["Status"] for one in tasks[:2]] == ["Completed", "Completed"]
        assert cccli(address, "state")["ExecutorState"]["state"] == "NO_TASK_IN_PROGRESS"
