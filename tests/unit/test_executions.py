"""Executions without a terminal, by the public functions, on simulated Kafka clusters behind real sockets."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import trimtab
from simulate.kafka.cluster import SimulatedKafka, cluster_of
from simulate.kafka.port import SimulatedPort
from simulate.kafka.server import SimulatedKafkaServer
from support import replica_clusters
from support.plans import plan_of
from trimtab.act.control import begin, prepare
from trimtab.act.replicas.executor import EXECUTOR
from trimtab.act.replicas.state import ReplicasExecutionSettings
from trimtab.cli.app import main
from trimtab.executions import (
    AnyPlan,
    ExecutionProgress,
    ExecutionStarted,
    Message,
    PreparedExecution,
    open_store,
    plan_undo,
    request_end,
)
from trimtab.files.replicas.plan import plan_bytes
from trimtab.model.replicas.plan import Plan

PLAN = plan_of(("t", 0, (1, 2), (1, 3)), ("t", 1, (1, 2), (4, 2)), size=60_000_000)


def kafka(cluster_id: str = "", copy_bytes_per_second: float = 50e6) -> SimulatedKafka:
    """Four brokers, and a topic of two partitions on brokers 1 and 2."""
    made = cluster_of(4, copy_bytes_per_second=copy_bytes_per_second)
    made.cluster_id = cluster_id or made.cluster_id
    made.controller.create_topic("t", {0: [1, 2], 1: [1, 2]}, size_bytes=60e6)
    return made


def address(server: SimulatedKafkaServer) -> str:
    """The address of a served cluster."""
    return "kafka://" + ",".join(server.bootstrap)


def placement(server: SimulatedKafkaServer) -> list[list[int]]:
    """The replicas of both partitions."""
    return server.do(lambda cluster: [part.replicas for _, part in sorted(cluster.partitions.items())])


class Caller:
    """A program that calls the public functions, with folders and a list of events of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[trimtab.ExecutionEvent] = []

    def apply(self, plan: AnyPlan, cluster: str, **arguments: object) -> trimtab.ExecutionOutcome:
        """`trimtab.apply`."""
        return trimtab.apply(plan, cluster, **self._places(), **arguments)  # type: ignore[arg-type]

    def resume(self, execution: int | None, cluster: str, **arguments: object) -> trimtab.ExecutionOutcome:
        """`trimtab.resume`."""
        return trimtab.resume(execution, cluster, **self._places(), **arguments)  # type: ignore[arg-type]

    def _places(self) -> dict[str, object]:
        return {"state": self.folder / "state", "lake": self.folder / "lake", "notify": self.events.append}


@pytest.fixture
def caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caller:
    """A caller in an empty working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIMTAB_STATE", raising=False)
    return Caller(tmp_path)


@pytest.fixture
def server() -> Iterator[SimulatedKafkaServer]:
    """A cluster whose time passes twenty times as fast as ours."""
    with SimulatedKafkaServer(kafka(), speed=20.0) as running:
        yield running


def test_apply_prints_nothing_and_sends_events(
    server: SimulatedKafkaServer, caller: Caller, capfd: pytest.CaptureFixture[str]
) -> None:
    """The events come in order, the receipt is the outcome, and a second call finds nothing to do."""
    outcome = caller.apply(PLAN, address(server))
    assert isinstance(outcome, trimtab.Done)
    assert outcome.receipt is not None
    assert (outcome.receipt.status, outcome.receipt.left) == ("finished", ())
    assert placement(server) == [[1, 3], [4, 2]]
    prepared, started, *rest = (one for one in caller.events if not isinstance(one, Message))
    assert isinstance(prepared, PreparedExecution)
    assert {one.partition.partition for one in prepared.prepared.steps} == {0, 1}
    assert started == ExecutionStarted(1, "replicas")
    assert rest
    assert all(isinstance(one, ExecutionProgress) and one.execution == 1 for one in rest)
    assert caller.apply(PLAN, address(server)) == trimtab.Done(None)
    assert capfd.readouterr() == ("", "")


def test_apply_names_each_difference_of_a_changed_cluster(
    server: SimulatedKafkaServer, caller: Caller
) -> None:
    """Each difference is a reason; with `skip_changed` the rest of the plan is executed."""
    plan = plan_of(("t", 0, (2, 3), (2, 4)), ("t", 1, (1, 2), (4, 2)))
    outcome = caller.apply(plan, address(server))
    assert isinstance(outcome, trimtab.Refused)
    assert outcome.kind == "changed"
    (reason,) = outcome.reasons
    assert reason.startswith("t-0: moved, the plan was made for [2, 3]")
    assert placement(server) == [[1, 2], [1, 2]]
    assert isinstance(caller.apply(plan, address(server), skip_changed=True), trimtab.Done)
    assert placement(server) == [[1, 2], [4, 2]]


def test_confirm_and_control_decline_before_the_start(server: SimulatedKafkaServer, caller: Caller) -> None:
    """The callback sees the steps; a control that was stopped before the start is a no, too."""
    asked: list[PreparedExecution] = []
    outcome = caller.apply(PLAN, address(server), confirm=asked.append)
    assert isinstance(outcome, trimtab.Refused)
    assert (outcome.kind, len(asked)) == ("declined", 1)
    control = trimtab.ExecutionControl()
    control.stop()
    outcome = caller.apply(PLAN, address(server), control=control)
    assert isinstance(outcome, trimtab.Refused)
    assert placement(server) == [[1, 2], [1, 2]]
    with open_store(caller.folder / "state") as store:
        assert store.journal.entries() == []


@pytest.mark.parametrize(("end", "status"), [("stop", "stopped"), ("cancel", "cancelled")])
def test_control_ends_an_execution_and_resume_finishes_it(caller: Caller, end: str, status: str) -> None:
    """The copies take minutes; the request comes after the first progress."""
    with SimulatedKafkaServer(kafka(copy_bytes_per_second=4e6), speed=20.0) as server:
        control = trimtab.ExecutionControl()
        moving = threading.Event()

        def notify(event: trimtab.ExecutionEvent) -> None:
            if isinstance(event, ExecutionProgress) and event.state.active:
                moving.set()

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(
                trimtab.apply,
                PLAN,
                address(server),
                state=caller.folder / "state",
                lake=caller.folder / "lake",
                control=control,
                notify=notify,
                initial_copies_per_broker=1,
            )
            assert moving.wait(60.0)
            getattr(control, end)()
            outcome = running.result(120.0)
        assert isinstance(outcome, trimtab.Stopped)
        assert outcome.receipt.status == status
        assert server.do(lambda cluster: cluster.controller.reassignments()) == {}
        resumed = caller.resume(None, address(server))
        assert isinstance(resumed, trimtab.Done)
        assert placement(server) == [[1, 3], [4, 2]]
        again = caller.resume(1, address(server))
        assert isinstance(again, trimtab.Refused)
        assert "execution 1 has ended (finished)" in again.reasons[0]


def test_one_process_executes_plans_of_several_clusters(caller: Caller) -> None:
    """Two executions overlap; each ends on its own cluster, and the journal has both."""
    both = threading.Barrier(2)

    def confirm(prepared: PreparedExecution) -> bool:
        both.wait(60.0)
        return True

    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        servers = [
            stack.enter_context(SimulatedKafkaServer(kafka(f"cluster-{number}-of-this-test"), speed=20.0))
            for number in range(2)
        ]
        running = [
            pool.submit(
                Caller(caller.folder).apply,
                replace(PLAN, snapshot=replace(PLAN.snapshot, cluster=f"c{number}")),
                address(server),
                confirm=confirm,
            )
            for number, server in enumerate(servers)
        ]
        assert all(isinstance(one.result(120.0), trimtab.Done) for one in running)
        assert [placement(server) for server in servers] == [[[1, 3], [4, 2]]] * 2
    with open_store(caller.folder / "state") as store:
        assert {one.cluster for one in store.journal.entries()} == {"c0", "c1"}


def test_threads_open_a_new_journal_at_once(tmp_path: Path) -> None:
    """The first opening changes the mode of the file; the others wait for it."""
    for number in range(30):
        barrier = threading.Barrier(4)

        def opened(folder: Path = tmp_path / str(number), barrier: threading.Barrier = barrier) -> int:
            barrier.wait(60.0)
            with open_store(folder) as store:
                return len(store.journal.entries())

        with ThreadPoolExecutor(4) as pool:
            assert [one.result(60.0) for one in [pool.submit(opened) for _ in range(4)]] == [0] * 4


def test_a_second_execution_of_a_cluster_is_rejected(server: SimulatedKafkaServer, caller: Caller) -> None:
    """Whatever its state folder; the reason names the first."""
    second = Caller(caller.folder / "elsewhere")
    outcomes: list[trimtab.ExecutionOutcome] = []

    def notify(event: trimtab.ExecutionEvent) -> None:
        if isinstance(event, ExecutionProgress) and event.state.active and not outcomes:
            outcomes.append(second.apply(PLAN, address(server)))

    first = trimtab.apply(
        PLAN,
        address(server),
        notify=notify,
        state=caller.folder / "state",
        lake=caller.folder / "lake",
    )
    assert isinstance(first, trimtab.Done)
    (refused,) = outcomes
    assert isinstance(refused, trimtab.Refused)
    assert refused.kind == "busy"
    assert f"TRIMTAB_STATE={caller.folder / 'state'}) is acting on cluster" in refused.reasons[0]


def test_apply_rejects_an_unreachable_cluster(caller: Caller) -> None:
    """Nothing was started, so there is nothing to resume."""
    outcome = caller.apply(PLAN, "kafka://127.0.0.1:1")
    assert isinstance(outcome, trimtab.Refused)
    assert outcome.kind == "unreachable"


def test_an_interrupted_execution_names_its_id(caller: Caller) -> None:
    """The cluster goes away for longer than the execution waits; `resume` finishes it later."""
    with SimulatedKafkaServer(kafka(copy_bytes_per_second=4e6), speed=5.0) as server:

        def notify(event: trimtab.ExecutionEvent) -> None:
            if isinstance(event, ExecutionProgress) and event.state.active:
                server.do(lambda cluster: [cluster.kill_broker(number) for number in (1, 2, 3, 4)])

        outcome = trimtab.apply(
            PLAN,
            address(server),
            state=caller.folder / "state",
            lake=caller.folder / "lake",
            notify=notify,
            unreachable_timeout_seconds=1,
        )
    assert isinstance(outcome, trimtab.Interrupted)
    assert outcome.execution == 1
    assert "execution 1 is interrupted" in str(outcome.error)


def test_resume_cancels_an_execution_that_no_process_runs(caller: Caller) -> None:
    """The answer is None, and the caller ends it by `resume`."""
    with SimulatedKafkaServer(kafka(), speed=20.0) as server:
        with open_store(caller.folder / "state") as store:
            prepared = server.do(lambda cluster: prepare(EXECUTOR, SimulatedPort(cluster), PLAN))
            begin(EXECUTOR, store, prepared, ReplicasExecutionSettings(), plan_bytes(PLAN).decode())
        assert request_end(1, caller.folder / "state", "cancel") is None
        outcome = caller.resume(1, address(server), request="cancel")
        assert isinstance(outcome, trimtab.Stopped)
        assert outcome.receipt.status == "cancelled"
        assert placement(server) == [[1, 2], [1, 2]]


def snapshot_of(server: SimulatedKafkaServer, taken_at: str, path: Path) -> Path:
    """A snapshot file of the placement now."""
    brokers = [replica_clusters.broker(one) for one in (1, 2, 3, 4)]
    partitions = [
        replica_clusters.partition("t", number, replicas, load=(1.0, 60e6, 1.0, 1.0))
        for number, replicas in enumerate(placement(server))
    ]
    made = replica_clusters.snapshot(brokers, partitions)
    reference = replace(made.reference, cluster="fake", taken_at=taken_at)
    trimtab.write_snapshot(replace(made, reference=reference), path)
    return path


def test_an_executed_plan_is_undone(server: SimulatedKafkaServer, caller: Caller) -> None:
    """The undo plan restores the previous placement; its own execution can be undone as well."""
    state, lake = caller.folder / "state", caller.folder / "lake"
    with pytest.raises(trimtab.TrimtabError, match="there are no executions"):
        plan_undo(None, state, lake)
    assert isinstance(caller.apply(PLAN, address(server)), trimtab.Done)
    assert placement(server) == [[1, 3], [4, 2]]
    old = snapshot_of(server, "2026-01-02T00:00:00Z", caller.folder / "old.json")
    with pytest.raises(trimtab.TrimtabError, match="is from before the end of execution 1"):
        plan_undo(1, state, lake, old)
    now = snapshot_of(server, "2096-01-01T00:00:00Z", caller.folder / "now.json")
    plan, _ = plan_undo(1, state, lake, now)
    assert (plan.strategy, plan.problems) == ("undo", ())
    assert isinstance(caller.apply(plan, address(server)), trimtab.Done)
    assert placement(server) == [[1, 2], [1, 2]]
    again, _ = plan_undo(1, state, lake, snapshot_of(server, "2096-01-01T00:00:00Z", now))
    assert again.moves == ()
    redone, _ = plan_undo(2, state, lake, now)
    assert isinstance(caller.apply(redone, address(server)), trimtab.Done)
    assert placement(server) == [[1, 3], [4, 2]]


def test_plan_undo_reports_partitions_that_it_cannot_undo(
    server: SimulatedKafkaServer,
    caller: Caller,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another tool has moved one partition since: exit code 3, and a plan for the other."""
    monkeypatch.setenv("TRIMTAB_STATE", str(caller.folder / "state"))
    assert isinstance(caller.apply(PLAN, address(server)), trimtab.Done)
    server.do(lambda cluster: cluster.controller.reassign("t", 1, [3, 2]))
    server.advance(600.0)
    now = snapshot_of(server, "2096-01-01T00:00:00Z", caller.folder / "now.json")
    with pytest.raises(SystemExit) as ended:
        main(["plan", "undo", "1", "--snapshot", str(now), "--out", "undo.json"])
    assert ended.value.code == 3
    told = capsys.readouterr()
    assert "Plan by undo" in told.out
    assert "t-1 stays: the execution left it on [4, 2], and it is on [3, 2] now" in told.out
    assert "has changed the cluster since" not in told.err
    plan = trimtab.read_plan("undo.json")
    assert isinstance(plan, Plan)
    assert [(move.partition, move.source, move.target) for move in plan.moves] == [(0, 3, 2)]
