"""`trimtab apply` where another trimtab acts, or has left an execution behind, on a simulated cluster."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from simulate.kafka.cluster import SimulatedKafka, cluster_of
from simulate.kafka.port import SimulatedPort
from simulate.kafka.server import SimulatedKafkaServer
from support.plans import plan_of
from trimtab.act.control import begin, prepare
from trimtab.act.lease import holder_text, this_process
from trimtab.act.replicas.executor import EXECUTOR
from trimtab.act.replicas.state import ReplicasExecutionSettings
from trimtab.cli.app import main
from trimtab.executions import open_store
from trimtab.files.machine import state_folder
from trimtab.files.replicas.plan import plan_bytes, write_plan
from trimtab.model.replicas.plan import Plan

PLAN = plan_of(("t", 0, (1, 2), (1, 3)), ("t", 1, (1, 2), (4, 2)))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedKafka:
    """Four brokers, two partitions; and a plan of a moment ago in `p.json`."""
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TRIMTAB_LAKE", str(tmp_path / "lake"))
    made = cluster_of(4)
    made.controller.create_topic("t", {0: [1, 2], 1: [1, 2]}, size_bytes=60e6)
    write_plan(fresh(PLAN), tmp_path / "p.json")
    return made


@pytest.fixture
def bootstrap(cluster: SimulatedKafka) -> Iterator[str]:
    """The address at which it listens."""
    with SimulatedKafkaServer(cluster) as server:
        yield ",".join(server.bootstrap)


def fresh(plan: Plan) -> Plan:
    """The plan, as if made from a snapshot of just now."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return replace(plan, snapshot=replace(plan.snapshot, taken_at=now))


def apply(folder: Path, bootstrap: str, *words: str) -> int:
    """`trimtab apply` of the plan; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["apply", str(folder / "p.json"), "--cluster", f"kafka://{bootstrap}", *words])
    return int(ended.value.code or 0)


@pytest.mark.parametrize("own", [True, False], ids=["same state folder", "another one"])
@pytest.mark.parametrize("words", [("--yes",), ("--yes", "--skip-changed"), ("--dry-run",)])
def test_while_an_execution_runs_a_second_one_names_it(
    cluster: SimulatedKafka,
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    own: bool,
    words: tuple[str, ...],
) -> None:
    """The first is copying, so the plan no longer fits; but the error names the first."""
    monkeypatch.setattr("trimtab.act.lease.RECHECK_SECONDS", 0.0)
    port = SimulatedPort(cluster)
    with (
        open_store(state_folder()) as store,
        store.lease(port, cluster.cluster_id, ReplicasExecutionSettings(), print) as lease,
    ):
        prepared = prepare(EXECUTOR, port, PLAN)
        execution = begin(EXECUTOR, store, prepared, ReplicasExecutionSettings(), plan_bytes(PLAN).decode())
        lease.set_execution(execution)
        lease.check()
        cluster.controller.reassign("t", 0, [1, 3])
        cluster.controller.reassign("t", 1, [4, 2])
        if not own:
            monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "elsewhere"))
        assert apply(tmp_path, bootstrap, *words) == 1
    told = capsys.readouterr().err
    assert f"(process {os.getpid()}, since " in told
    assert f", execution 1, TRIMTAB_STATE={tmp_path / 'state'}) is acting on cluster" in told
    assert "`trimtab execution stop 1`" in told
    assert "`trimtab execution resume 1`" in told
    assert "does not fit" not in told
    assert "nothing to do" not in told
    assert told.count("\n") == 1


def test_after_a_kill_resume_is_named(
    cluster: SimulatedKafka, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its own state folder: rejected, whatever happened to the partitions meanwhile."""
    with open_store(state_folder()) as store:
        prepared = prepare(EXECUTOR, SimulatedPort(cluster), PLAN)
        begin(EXECUTOR, store, prepared, ReplicasExecutionSettings(), plan_bytes(PLAN).decode())
    cluster.controller.reassign("t", 0, [1, 3])
    for words in (("--yes",), ("--yes", "--skip-changed"), ("--dry-run",)):
        assert apply(tmp_path, bootstrap, *words) == 1
        told = capsys.readouterr().err
        assert f"was interrupted ({this_process('', 0).user}@" in told
        assert ", begun 20" in told
        assert "`trimtab execution resume 1`" in told
        assert "does not fit" not in told


def test_leftovers_of_a_dead_execution_in_another_state_folder_are_reported(
    cluster: SimulatedKafka, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only its claim names it; the remedy precedes the changes that no longer fit, with exit code 1."""
    dead = replace(
        this_process("dead", 1e9), pid=2**22 + 1, process_started_at="1", folder="/srv/state", execution=3
    )
    SimulatedPort(cluster).write_claims([holder_text(dead)], [])
    for number, target in ((0, [1, 3]), (1, [4, 2])):
        cluster.controller.reassign("t", number, target)
    assert apply(tmp_path, bootstrap, "--yes", "--skip-changed") == 1
    told = capsys.readouterr().err
    assert "execution 3, TRIMTAB_STATE=/srv/state) is no longer alive" in told
    assert "`trimtab execution resume 3`" in told
    assert told.index("resume 3") < told.index("left out: t-0: being reassigned")


def test_a_dry_run_lists_the_partitions_of_each_batch(
    cluster: SimulatedKafka, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From where to where and how much, in a pipe a line each; nothing is changed."""
    topic = "orders." + "a-very-long-name." * 12
    cluster.controller.create_topic(topic, {0: [1, 2]}, size_bytes=60e6)
    write_plan(fresh(plan_of(("t", 0, (1, 2), (1, 3)), (topic, 0, (1, 2), (1, 4)))), tmp_path / "p.json")
    assert apply(tmp_path, bootstrap, "--dry-run") == 0
    told = capsys.readouterr().err
    assert "batch 1: 2 copies, 120 MB\n    copy    t-0 [1, 2] -> [1, 3], 60.0 MB\n" in told
    assert f"\n    copy    {topic}-0 [1, 2] -> [1, 4], 60.0 MB\n" in told
    assert cluster.controller.reassignments() == {}


def test_a_dry_run_as_json(
    cluster: SimulatedKafka, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every step with partition, lists and bytes; what is left out; what is warned of."""
    write_plan(PLAN, tmp_path / "p.json")  # its snapshot is from long ago
    cluster.controller.reassign("t", 1, [4, 2])
    assert apply(tmp_path, bootstrap, "--dry-run", "--json", "--skip-changed") == 0
    shown = json.loads(capsys.readouterr().out)
    ((step,),) = [batch["steps"] for batch in shown["forecast"]["batches"]]
    assert (step["partition"], step["before"], step["after"]) == (["t", 0], [1, 2], [1, 3])
    assert step["bytes"] == 60_000_000
    assert (shown["cluster"], shown["cluster_id"]) == ("fake", cluster.cluster_id)
    assert shown["left_out"][0].startswith("t-1: being reassigned")
    assert shown["warnings"][0].startswith("the snapshot of 2026-01-01T00:00:00Z is ")


def test_an_old_snapshot_is_warned_of_and_a_fresh_one_is_not(
    cluster: SimulatedKafka, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same rule as for bundles, with the same setting."""
    assert apply(tmp_path, bootstrap, "--dry-run") == 0
    assert "warning" not in capsys.readouterr().err
    write_plan(PLAN, tmp_path / "p.json")
    assert apply(tmp_path, bootstrap, "--dry-run") == 0
    told = capsys.readouterr().err
    assert "warning: the snapshot of 2026-01-01T00:00:00Z is " in told
    assert "h old: load may have moved since; make a new snapshot and a new plan" in told
    assert apply(tmp_path, bootstrap, "--dry-run", "--set", "execution.max_plan_age_seconds=1e12") == 0
    assert "warning" not in capsys.readouterr().err
