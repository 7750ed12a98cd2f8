"""`trimtab serve` as real processes on a simulated Kafka: lost brokers, killed services, two instances."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simulate.kafka.cluster import SimulatedKafka
from simulate.kafka.state import PartitionName
from simulate.served_cluster import Link, ServedCluster, can_be_elsewhere
from support.http_receiver import Receiver, receiver
from support.object_store import object_store
from tiers import by_tier
from trimtab.files.store import place_of
from trimtab.files.versioned_documents import VersionedDocuments
from trimtab.serve.documents import DecisionRecord
from trimtab.serve.notifications import notification_id

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


@pytest.mark.parametrize("seed", range(by_tier(1, 1, 30)))
def test_a_service_killed_while_it_heals_finishes_by_itself(seed: int, tmp_path: Path) -> None:
    """SIGKILL at random moments, and a new start each time; the healing ends, and nothing is left over.

    Even seeds kill the service while it plans too; the others kill it while it executes.
    Every notification arrives, those of one condition in order, also where the receiver refuses one and
    answers slowly.
    """
    drawn = random.Random(seed)
    kills = drawn.randint(1, 3) if seed else by_tier(4, 10, 10)
    with receiver() as server:
        server.answer = lambda number: 500 if number == 2 else 200
        server.delay_seconds = 0.3
        hook = f'[[serve.notifications]]\nkind = "webhook"\nurl = "{server.url}"\n'
        with ServedCluster(tmp_path, ACT + hook, speed=4.0 if seed else 2.0) as world:
            world.start("a")
            world.wait_for("a balanced cluster", lambda: observed(world, "a"))
            world.kill_broker(3)
            begun = "started" if seed % 2 else "make_plan"
            world.wait_for("its begin", lambda: world.kinds("a", begun), HEALED_SECONDS)
            for _ in range(kills):
                world.publishing = drawn.random() < 0.5  # without snapshots there are notifications
                time.sleep(drawn.uniform(0.0, 2.0))
                world.kill("a")
                world.publishing = True
                world.start("a")
            started_at = time.monotonic()
            world.wait_for("the end of the healing", lambda: finished(world, "a"), HEALED_SECONDS)
            took = time.monotonic() - started_at
            print(f"healed {took:.1f} s after the last of {kills} starts")
            assert world.is_whole()
            assert world.left_over() == []
            numbers = {one["execution"] for one in world.kinds("a", "started")}
            assert len(numbers) == 1, "the healing is one execution"
            assert len({one["digest"] for one in world.kinds("a", "execute")}) == 1, "of one plan"
            lost = {one["reason"] for one in world.kinds("a", "make_plan")}
            assert len({reason.split(";")[0] for reason in lost}) == 1, "the time of the loss is still known"
            world.publishing = False
            world.wait_for("a stale snapshot", lambda: stale(world))

            def missing() -> set[str]:
                return set(notification_ids(world)) - set(delivered_ids(server))

            world.wait_for("all notifications", lambda: not missing())
            assert len(set(notification_ids(world))) == len(world.kinds("a", "notify"))
            for key in {one["key"] for one in world.kinds("a", "notify")}:
                assert list(dict.fromkeys(delivered_ids(server, key))) == notification_ids(world, key)
            if seed:
                assert took <= RESUMED_SECONDS


def stale(world: ServedCluster) -> bool:
    """Whether the newest notification says that snapshots are missing."""
    newest = world.kinds("a", "notify")[-1:]
    return bool(newest) and newest[0]["key"] == "stale" and not newest[0]["is_over"]


def notification_ids(world: ServedCluster, key: str = "") -> list[str]:
    """Ids of the notifications of the journal, in order: all, or those of one condition."""
    decisions = [msgspec.convert(one, DecisionRecord) for one in world.kinds("a", "notify")]
    return [notification_id(one) for one in decisions if key in ("", one.key)]


def delivered_ids(server: Receiver, key: str = "") -> list[str]:
    """Ids of the notifications that the receiver has accepted; it refuses the second request."""
    accepted = [one for number, one in enumerate(list(server.requests), 1) if number != 2]
    return [headers["x-trimtab-id"] for _, headers, body in accepted if key in ("", json.loads(body)["key"])]


def test_a_lake_that_others_fill_again_is_picked_up(tmp_path: Path) -> None:
    """Without snapshots nothing is moved, and people are notified; with them the service goes on.

    The cluster itself tells that a broker is lost, within an interval and 5 s.
    """
    with ServedCluster(tmp_path, ACT.replace("interval_seconds = 2", "interval_seconds = 1")) as world:
        world.start("a")
        world.wait_for("a balanced cluster", lambda: observed(world, "a"))
        world.publishing = False
        world.kill_broker(3)
        world.wait_for("the loss", lambda: world.call("a", "GET", "/api/v1/clusters")[0]["lost_brokers"], 6.0)
        world.wait_for("an alert", lambda: stale(world))
        time.sleep(3)
        waiting = world.call("a", "GET", "/api/v1/clusters/sim/replicas")["status"]["waiting"]["reason"]
        assert re.search(r"the newest snapshot is .* old, limit 3", waiting)
        assert world.kinds("a", "make_plan") == []
        world.publishing = True
        world.wait_for("a plan", lambda: world.kinds("a", "make_plan"))
        assert world.kinds("a", "make_plan")[0]["trigger"] == "broker_lost"
        assert not stale(world)


@pytest.mark.skipif(not can_be_elsewhere(), reason="unshare --user --pid does not work on this machine")
@pytest.mark.parametrize("number", range(by_tier(1, 1, 10)))
@pytest.mark.parametrize("fault", ["killed", "frozen", "cut off"])
def test_the_other_instance_finishes_the_execution(
    fault: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deciding instance fails in the middle of an execution; the other has a state folder of its own.

    An instance that is cut off reaches neither the cluster nor the lake, which is an object store here.
    """
    drawn = random.Random(f"{fault} {number}")
    with ExitStack() as stack:
        lake, environment = None, dict[str, str]()
        if fault == "cut off":
            store = stack.enter_context(object_store())
            link = stack.enter_context(Link(int(store.endpoint.rpartition(":")[2])))
            for name, value in store.environment.items():
                monkeypatch.setenv(name, value)
            lake, environment = (
                place_of(store.bucket()),
                {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{link.port}"},
            )
        world = stack.enter_context(ServedCluster(tmp_path, ACT, speed=2.0, lake=lake))
        world.start("a", elsewhere=True, environment=environment)
        world.wait_for("a leader", lambda: world.kinds("a", "leadership"))
        world.start("b")
        world.wait_for("a balanced cluster", lambda: observed(world, "a"))
        world.wait_for("a follower", lambda: observed(world, "b"))
        world.kill_broker(3)
        world.wait_for("reassignments", lambda: world.moves() > 0, HEALED_SECONDS)
        time.sleep(drawn.uniform(0.0, 3.0))
        assert not finished(world, "a"), "the execution has ended too early for this test"
        begun = time.time()
        if fault == "cut off":
            link.is_cut = True
            world.server.cut_off.add("a")
        else:
            world.kill("a", signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
        world.wait_for("another leader", lambda: "this instance decides" in world.log("b"), TAKEOVER_SECONDS)
        took = time.time() - begun
        world.wait_for("the end of the execution at b", lambda: finished(world, "b"), TAKEOVER_SECONDS)
        ended = finished(world, "b")[-1]["at"] - begun
        print(f"{fault}: b decides after {took:.1f} s, and has finished after {ended:.1f} s")
        if fault == "frozen":
            world.kill("a", signal.SIGCONT)
        if fault == "cut off":
            link.is_cut = False
            world.server.cut_off.clear()
        if fault != "killed":
            time.sleep(5)
            newest = len(world.decisions("b"))
            world.wait_for("a follower", lambda: len(world.decisions("a")) >= newest, TAKEOVER_SECONDS)
        both = zip(world.decisions("a"), world.decisions("b"), strict=False)
        assert all(one == other for one, other in both), "the journals differ"
        actors = [actor for actor, _ in groupby(one.actor for one in world.orders())]
        assert actors == ["a", "b"], world.orders()[-5:]
        assert world.left_over() == []
        assert world.is_whole()
        assert len(world.kinds("b", "execute")) == 1


@pytest.mark.long
def test_a_healing_is_not_worse_because_the_broker_returns(tmp_path: Path) -> None:
    """A returned broker is empty: the healing is not undone for it, and the next loss is healed too."""
    section = ACT.replace("measure_seconds = 4", "measure_seconds = 60")
    with ServedCluster(tmp_path, section, measured=True) as world:
        world.start("a")
        world.wait_for("a balanced cluster", lambda: observed(world, "a"))
        world.kill_broker(3)
        world.wait_for("the end of the healing", lambda: finished(world, "a"), HEALED_SECONDS)
        world.start_broker(3)
        world.wait_for("its effect", lambda: world.kinds("a", "measured"))
        world.wait_for("a second execution", lambda: len(finished(world, "a")) == 2, HEALED_SECONDS)
        assert [one["trigger"] for one in world.kinds("a", "execute")] == ["broker_lost", "broker_added"]
        status = world.call("a", "GET", "/api/v1/clusters/sim/replicas")["status"]
        assert status["modes"]["broker_lost"] == "act", world.kinds("a", "measured")


@pytest.mark.parametrize("is_cut_off", by_tier([False], [False], [False, True]))
def test_an_ended_service_holds_its_lease_until_its_last_order(is_cut_off: bool, tmp_path: Path) -> None:
    """SIGTERM in the middle of a copy: the lease is not released while an order may be on its way."""
    with ServedCluster(tmp_path, ACT, speed=0.5) as world:
        documents = VersionedDocuments(world.lake / "serve" / "lease", retained=4)
        world.start("a")
        world.wait_for("a balanced cluster", lambda: observed(world, "a"))
        world.kill_broker(3)
        world.wait_for("reassignments", lambda: world.moves() > 0, HEALED_SECONDS)
        if is_cut_off:
            world.server.cut_off.add("a")
            time.sleep(1)
        process, begun = world.processes["a"], time.monotonic()
        world.kill("a", signal.SIGTERM)
        released = []
        while process.poll() is None and time.monotonic() < begun + 20:
            newest = documents.newest()
            assert newest is not None
            released.append(json.loads(newest[1])["released"])
            time.sleep(0.05)
        took = time.monotonic() - begun
        newest = documents.newest()
        assert newest is not None
        released.append(json.loads(newest[1])["released"])
        assert took < 10
        del world.processes["a"]
        assert any(released) is not is_cut_off
        print(f"ended after {took:.1f} s")


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


def processes_of_session(leader: int, command: str) -> list[int]:
    """Processes of a session whose command line contains a text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            session = int((folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[3])
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended
            continue
        if session == leader and command in line:
            found.append(int(folder.name))
    return found


RUN = """
[serve]
observe = "run"
interval_seconds = 5
[serve.broker_lost]
mode = "observe"
[serve.drift]
mode = "observe"
[collect]
interval_seconds = 5
[pipeline]
window_seconds = 30
slide_seconds = 30
[capacity]
cpu_cores = 8
disk_bytes = 1e11
network_in_bytes_per_second = 1e8
network_out_bytes_per_second = 1e8
"""


@pytest.mark.long
@pytest.mark.parametrize("command", [["collect"], ["pipeline", "stream"]], ids=" ".join)
def test_a_killed_child_of_the_service_returns(command: list[str], tmp_path: Path) -> None:
    """The collector, or the stream with its JVM: snapshots of the time after the kill come by themselves."""
    with ServedCluster(tmp_path, RUN, speed=1.0) as world:
        world.publishing = False
        world.start("a")

        def taken_at() -> float:
            (one,) = world.call("a", "GET", "/api/v1/clusters")
            return float(one["snapshot_taken_at"] or 0.0)

        def pids() -> list[int]:
            return processes_of_session(world.processes["a"].pid, " ".join(["-m trimtab", *command]))

        world.wait_for("a snapshot", taken_at, 180)
        (killed,), jvms = pids(), processes_of_session(world.processes["a"].pid, "SparkSubmit")
        assert len(jvms) == 1
        os.kill(killed, signal.SIGKILL)
        at = time.time()
        world.wait_for("a snapshot of the time after the kill", lambda: taken_at() > at, 180)
        assert pids() != [killed]
        left = processes_of_session(world.processes["a"].pid, "SparkSubmit")
        assert len(left) == 1, "the JVM of a killed stream ends too"
        assert (left == jvms) == (command == ["collect"])
