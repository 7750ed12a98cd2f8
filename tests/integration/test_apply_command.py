"""`trimtab apply` and `trimtab execution` on real brokers, as an operator types them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import trimtab
from support.plans import plan_of
from trimtab.act.replicas.port import ThrottleConfig, TopicPartition
from trimtab.files.replicas.plan import write_plan
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.systems.kafka.client import admin_client, producer
from trimtab.systems.kafka.port import KafkaAdminPort

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

TOPIC = "parcels"
RECORD = 50_000
RECORDS = 200
BEFORE = (1, 2)
PATIENCE_SECONDS = 180.0


class Operator:
    """Somebody at a terminal, with a state folder of their own."""

    def __init__(self, sandbox: KafkaSandbox, folder: Path) -> None:
        self.sandbox = sandbox
        self.folder = folder
        self.environment = dict(os.environ, TRIMTAB_STATE=str(folder / "state"), TRIMTAB_LAKE=str(folder))
        self.admin = admin_client(sandbox.connection)
        self.port = KafkaAdminPort(self.admin, time.time)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start a command that acts on the sandbox."""
        return subprocess.Popen(
            [sys.executable, "-c", "from trimtab.cli.app import main; main()", *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def type(self, *words: str) -> tuple[int, str, str]:
        """Run a command to its end: exit code, standard output, standard error."""
        process = self.begin(*words)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, out, err

    def on_cluster(self, *words: str) -> tuple[str, ...]:
        """The command with the address of the sandbox."""
        return (*words, "--cluster", f"kafka://{self.sandbox.bootstrap}")

    def plan(
        self,
        name: str,
        changes: Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]],
        drain: tuple[int, ...] = (),
    ) -> str:
        """A plan file."""
        path = self.folder / name
        plan = plan_of(*[(TOPIC, n, b, a) for n, (b, a) in changes.items()], size=RECORD * RECORDS)
        write_plan(replace(plan, settings={"drain": list(drain)} if drain else {}), path)
        return str(path)

    def placement(self) -> dict[int, tuple[tuple[int, ...], int | None]]:
        """Replica list and leader of each partition."""
        seen = self.port.observe([TopicPartition(TOPIC, n) for n in range(3)], [], wide=False)
        return {p.partition: (where.replicas, where.leader) for p, where in seen.placements.items()}

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for something to be so in the cluster."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def reassigning(self) -> bool:
        """Whether anything is in flight."""
        return bool(self.admin.list_partition_reassignments())

    def assert_clean(self) -> None:
        """No reassignment, no throttle, no claim; brokers hear of the last two a moment later."""
        nothing = ThrottleConfig(leader_replicas={TOPIC: None}, follower_replicas={TOPIC: None})
        assert not self.reassigning()
        self.wait_until(lambda: self.port.read_throttle([TOPIC]) == nothing)
        self.wait_until(lambda: not self.port.read_claims())

    def assert_replicas(self, *replicas: tuple[int, ...]) -> None:
        """The lists of the partitions, nothing in flight; brokers hear of them a moment later."""
        assert not self.reassigning()
        wanted = dict(enumerate(replicas))
        self.wait_until(lambda: {n: where[0] for n, where in self.placement().items()} == wanted)


@pytest.fixture
def operator(three_brokers: KafkaSandbox, tmp_path: Path) -> Iterator[Operator]:
    """An operator, and a topic of three partitions of 10 MB on brokers 1 and 2."""
    someone = Operator(three_brokers, tmp_path)
    someone.admin.create_topics({TOPIC: {"assignments": {n: list(BEFORE) for n in range(3)}}})
    someone.wait_until(lambda: someone.placement() == dict.fromkeys(range(3), (BEFORE, 1)))
    writer = producer(three_brokers.connection)
    for number in range(3):
        for _ in range(RECORDS):
            writer.send(TOPIC, value=b"x" * RECORD, partition=number)
    writer.flush()
    writer.close()
    yield someone
    someone.admin.delete_topics([TOPIC])
    someone.wait_until(lambda: TOPIC not in someone.admin.list_topics())
    someone.admin.close()


def test_a_plan_is_printed_applied_and_then_complete(operator: Operator) -> None:
    """A dry run changes nothing; the plan is carried out; a second time there is nothing left to do."""
    plan = operator.plan("plan.json", {0: (BEFORE, (3, 2)), 1: (BEFORE, (2, 1)), 2: (BEFORE, (2, 3))})
    before = operator.placement()
    code, _, shown = operator.type(*operator.on_cluster("apply", plan, "--dry-run"))
    assert (code, operator.placement()) == (0, before)
    assert "batch 1: 2 leader moves" in shown
    assert "batch 2: 2 copies, 20" in shown
    code, out, err = operator.type(*operator.on_cluster("apply", plan, "--yes", "--json"))
    assert code == 0, err
    receipt = json.loads(out)
    assert receipt["status"] == "finished"
    operator.assert_replicas((3, 2), (2, 1), (2, 3))
    operator.wait_until(lambda: [where[1] for where in operator.placement().values()] == [3, 2, 2])
    operator.assert_clean()
    code, _, shown = operator.type(*operator.on_cluster("apply", plan, "--yes"))
    assert code == 0
    assert "3 of 3 partitions are already as planned" in shown


def test_public_functions_apply_stop_and_resume(operator: Operator) -> None:
    """By the public functions: a thread stops the first copy, which finishes; `resume` does the others."""
    plan = trimtab.read_plan(operator.plan("plan.json", {n: (BEFORE, (1, 3)) for n in range(3)}))
    state, lake, address = (
        operator.folder / "program",
        operator.folder,
        f"kafka://{operator.sandbox.bootstrap}",
    )
    control = trimtab.ExecutionControl()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            trimtab.apply,
            plan,
            address,
            state=state,
            lake=lake,
            control=control,
            throttle=4_000_000,
            initial_copies_per_broker=1,
        )
        operator.wait_until(operator.reassigning)
        busy = trimtab.apply(plan, address, state=operator.folder / "other", lake=lake)
        assert isinstance(busy, trimtab.Refused)
        assert busy.kind == "busy"
        control.stop()
        outcome = running.result(PATIENCE_SECONDS)
    assert isinstance(outcome, trimtab.Stopped)
    assert outcome.receipt.status == "stopped"
    operator.assert_clean()
    operator.assert_replicas((1, 3), BEFORE, BEFORE)
    resumed = trimtab.resume(None, address, state=state, lake=lake, throttle="none")
    assert isinstance(resumed, trimtab.Done)
    operator.assert_clean()
    operator.assert_replicas((1, 3), (1, 3), (1, 3))


def test_without_a_terminal_confirmation_fails(operator: Operator) -> None:
    """Without a terminal and without --yes nothing is done."""
    plan = operator.plan("plan.json", {0: (BEFORE, (3, 2))})
    code, _, err = operator.type(*operator.on_cluster("apply", plan))
    assert code == 2
    assert "add --yes" in err
    assert operator.placement()[0] == (BEFORE, 1)


def test_an_old_plan_is_refused_and_rebased(operator: Operator) -> None:
    """One partition has moved since: named and refused; with --skip-changed the other goes ahead."""
    plan = operator.plan("plan.json", {0: ((1, 3), (2, 3)), 1: (BEFORE, (2, 1))})
    code, _, err = operator.type(*operator.on_cluster("apply", plan, "--yes"))
    assert code == 1
    assert f"{TOPIC}-0: moved, the plan was made for [1, 3], found [1, 2]" in err
    code, _, err = operator.type(*operator.on_cluster("apply", plan, "--yes", "--skip-changed"))
    assert code == 0, err
    operator.assert_replicas(BEFORE, (2, 1), BEFORE)
    operator.wait_until(lambda: operator.placement()[1] == ((2, 1), 2))


def test_ctrl_c_lets_moves_in_flight_finish(operator: Operator) -> None:
    """One copy at a time, the first in flight: it arrives, the others wait to be resumed, and are."""
    plan = operator.plan("plan.json", {n: (BEFORE, (1, 3)) for n in range(3)})
    slow = ("--yes", "--throttle", "4000000", "--set", "execution.initial_copies_per_broker=1")
    running = operator.begin(*operator.on_cluster("apply", plan, *slow))
    operator.wait_until(operator.reassigning)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 1
    assert "stopping: what is in flight will finish" in err
    assert ": stopped (stopped on request)" in out
    operator.assert_clean()
    operator.assert_replicas((1, 3), BEFORE, BEFORE)
    code, out, err = operator.type(*operator.on_cluster("execution", "resume"))
    assert code == 0, err
    operator.assert_replicas((1, 3), (1, 3), (1, 3))
    operator.assert_clean()


def test_ctrl_c_twice_rolls_back_moves_in_flight(operator: Operator) -> None:
    """The copy in flight is rolled back, and the throttle is removed."""
    plan = operator.plan("plan.json", {n: (BEFORE, (1, 3)) for n in range(3)})
    running = operator.begin(*operator.on_cluster("apply", plan, "--yes", "--throttle", "500000"))
    operator.wait_until(operator.reassigning)
    running.send_signal(signal.SIGINT)
    assert running.stderr is not None
    assert any("stopping: what is in flight will finish" in line for line in running.stderr)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE_SECONDS)
    assert "cancelling: rolling back" in err
    assert ": cancelled (cancelled on request)" in out
    operator.assert_clean()
    operator.assert_replicas(BEFORE, BEFORE, BEFORE)


def test_a_drained_broker_gets_no_new_topics_and_a_cancel_takes_that_back(operator: Operator) -> None:
    """After a cancel the broker's settings are restored; after the drain it is cordoned, as the
    text states.
    """
    plan = operator.plan("plan.json", {n: (BEFORE, (1, 3)) for n in range(3)}, drain=(2,))
    running = operator.begin(*operator.on_cluster("apply", plan, "--yes", "--throttle", "500000"))
    operator.wait_until(operator.reassigning)
    assert operator.port.read_cordons([2]) == {2: "*"}
    code, _, err = operator.type(*operator.on_cluster("execution", "cancel"))
    assert code == 0, err
    running.communicate(timeout=PATIENCE_SECONDS)
    operator.assert_clean()
    operator.assert_replicas(BEFORE, BEFORE, BEFORE)
    operator.wait_until(lambda: operator.port.read_cordons([2]) == {2: None})
    try:
        code, out, err = operator.type(*operator.on_cluster("apply", plan, "--yes"))
        assert code == 0, err
        assert "first: broker 2 cordoned (cordoned.log.dirs = *)" in err
        assert "broker 2 stays cordoned" in out
        assert operator.port.read_cordons([1, 2, 3]) == {1: None, 2: "*", 3: None}
        operator.admin.create_topics({"later": {"num_partitions": 6, "replication_factor": 2}})
        names = [TopicPartition("later", n) for n in range(6)]
        operator.wait_until(lambda: len(operator.port.observe(names, [], wide=False).placements) == 6)
        placements = operator.port.observe(names, [], wide=False).placements.values()
        assert {frozenset(placement.replicas) for placement in placements} == {frozenset({1, 3})}
        operator.admin.delete_topics(["later"])
    finally:
        operator.port.write_cordons({2: None})
        operator.wait_until(lambda: operator.port.read_cordons([2]) == {2: None})


def test_the_second_trimtab_is_refused_by_name(operator: Operator, tmp_path: Path) -> None:
    """With any state folder; the first execution is stopped from another terminal and leaves
    nothing behind.
    """
    plan = operator.plan("plan.json", {n: (BEFORE, (1, 3)) for n in range(2)})
    running = operator.begin(*operator.on_cluster("apply", plan, "--yes", "--throttle", "500000"))
    operator.wait_until(operator.reassigning)
    stranger = Operator(operator.sandbox, tmp_path / "elsewhere")
    stranger.folder.mkdir()
    for someone in (operator, stranger):
        other = someone.plan("other.json", {2: (BEFORE, (2, 1))})
        code, _, err = someone.type(*someone.on_cluster("apply", other, "--yes"))
        assert code == 1
        assert f"(process {running.pid}, since " in err
        assert "is acting on cluster" in err
    assert operator.placement()[2] == (BEFORE, 1)
    listed = operator.type("execution", "list")[1]
    assert "running" in listed
    code, _, err = operator.type(*operator.on_cluster("execution", "resume"))
    assert code == 1
    assert f"(process {running.pid}, since " in err
    code, _, err = operator.type(*operator.on_cluster("execution", "cancel"))
    assert code == 0
    assert "asked" in err
    out, _ = running.communicate(timeout=PATIENCE_SECONDS)
    assert "cancelled (cancel asked by" in out
    operator.assert_clean()
    stranger.admin.close()
