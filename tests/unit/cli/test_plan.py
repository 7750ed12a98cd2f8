"""`trimtab plan`: what it prints, writes and returns."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.plan_checker import check_files
from support.random_snapshots import random_snapshot
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.replicas.machine import new_execution
from trimtab.act.replicas.state import ReplicasExecutionSettings
from trimtab.cli.app import main
from trimtab.executions import open_store
from trimtab.files.machine import state_folder

SKEWED = 0
"""Seed of a plain cluster, uneven, that can be balanced."""


def run(*arguments: object) -> int:
    """The command line in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["plan", *(str(argument) for argument in arguments)])
    return ended.value.code if isinstance(ended.value.code, int) else 0


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A snapshot file of a skewed cluster."""
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(random_snapshot(SKEWED)))
    return path


def test_a_skewed_cluster_gets_a_plan(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan goes to the file, the story to standard output, and an independent checker is content."""
    out = tmp_path / "plan.json"
    assert run("replicas", "--snapshot", snapshot, "--out", out) == 0
    said = capsys.readouterr()
    assert check_files(snapshot, out) == []
    plan = json.loads(out.read_text())
    assert plan["verdict"] == "balanced"
    for told in (
        "Load of the brokers",
        "Plan by trim: balanced",
        "Predicted:",
        "bound",
        "grouped by goal",
    ):
        assert told in said.out
    assert f"plan written to {out}" in said.err


def test_brokers_are_drained_and_demoted_by_options(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options win over --set, may name several brokers or be given again, and stand in the plan."""
    first, second, third = (one["id"] for one in json.loads(snapshot.read_text())["brokers"][:3])
    out = tmp_path / "plan.json"
    asked = (
        "--drain",
        first,
        "--demote",
        f"{second},{third}",
        "--fix-offline-replicas",
        "--set",
        "replicas.drain=[]",
    )
    run("replicas", "--snapshot", snapshot, "--out", out, *asked)
    assert "draining" in capsys.readouterr().out
    assert check_files(snapshot, out) == []
    plan = json.loads(out.read_text())
    told = {name: plan["settings"][name] for name in ("drain", "demote", "add", "fix_offline_replicas")}
    assert told == {"drain": [first], "demote": [second, third], "add": [], "fix_offline_replicas": True}
    assert {"drain", "demote"} <= {move["reason"]["goal"] for move in plan["moves"]}
    assert run("replicas", "--snapshot", snapshot, "--add", 99, "--add", 98) == 2
    assert "add: broker 99 is not in the snapshot" in capsys.readouterr().err


def test_the_same_input_gives_the_same_bytes(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second run writes the file again, byte for byte; --format json prints it with how old it is."""
    assert run("replicas", "--snapshot", snapshot, "--out", tmp_path / "one.json") == 0
    capsys.readouterr()
    assert run("replicas", "--snapshot", snapshot, "--format", "json", "--out", tmp_path / "two.json") == 0
    printed = capsys.readouterr().out
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    shown = json.loads(printed)
    assert shown.pop("x_snapshot_age_seconds") > 3600
    assert "h old: load may have moved since" in shown.pop("x_warnings")[0]
    assert shown == json.loads((tmp_path / "one.json").read_text())


def test_processes_and_threads_do_not_matter(snapshot: Path, tmp_path: Path) -> None:
    """Another process, with other numbers of threads and other hashes of texts: the same bytes."""
    written = []
    for number in ("1", "3"):
        out = tmp_path / f"threads-{number}.json"
        counts = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), number)
        subprocess.run(
            [sys.executable, "-m", "trimtab", "plan", "replicas", "--snapshot", snapshot, "--out", out],
            env={**os.environ, **counts, "PYTHONHASHSEED": number},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        written.append(out.read_bytes())
    assert written[0] == written[1]


def test_kafkas_own_form(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--format kafka prints the final lists of the plan, and notes that leaders need an election."""
    out = tmp_path / "plan.json"
    assert run("replicas", "--snapshot", snapshot, "--format", "kafka", "--out", out) == 0
    said = capsys.readouterr()
    document, plan = json.loads(said.out), json.loads(out.read_text())
    assert document["version"] == 1
    assert [row["replicas"] for row in document["partitions"]] == [
        row["after"] for row in plan["assignments"]
    ]
    assert ("kafka-leader-election" in said.err) == bool(plan["cost"]["leader_moves"])


def test_a_balanced_cluster_needs_no_moves(snapshot: Path, tmp_path: Path) -> None:
    """Where the limits are wide enough, the verdict is balanced, without a move, and the exit code 0."""
    document = random_snapshot(SKEWED)
    for partition in document["partitions"]:
        for role in ("leader_load", "follower_load"):
            partition[role] = dict.fromkeys(partition[role], 0.0)
    snapshot.write_text(json.dumps(document))
    out = tmp_path / "plan.json"
    assert run("replicas", "--snapshot", snapshot, "--out", out) == 0
    plan = json.loads(out.read_text())
    assert (plan["verdict"], plan["moves"], plan["assignments"]) == ("balanced", [], [])


def test_too_much_load_is_infeasible_with_a_count(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More than the brokers can hold: exit code 3, the plan is written, and states how many
    brokers to add.
    """
    document = random_snapshot(SKEWED)
    for partition in document["partitions"]:
        for role in ("leader_load", "follower_load"):
            partition[role]["disk"] *= 4
    total = sum(
        row["leader_load"]["disk"] + row["follower_load"]["disk"] * (len(row["replicas"]) - 1)
        for row in document["partitions"]
    )
    room = [broker["capacity"]["disk"] for broker in document["brokers"]]
    assert total > 0.8 * sum(room)
    snapshot.write_text(json.dumps(document))
    out = tmp_path / "plan.json"
    assert run("replicas", "--snapshot", snapshot, "--out", out) == 3
    plan = json.loads(out.read_text())
    assert plan["verdict"] == "infeasible"
    asked = [
        row for row in plan["problems"] if row["kind"] == "add_brokers" and row.get("resource") == "disk"
    ]
    assert len(asked) == 1
    assert asked[0]["count"] == -(-total // (0.8 * max(room))) - len(room)
    assert "Problems:" in capsys.readouterr().out


def test_show_and_diff(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plan can be printed later, also with its snapshot, and compared; show checks it first."""
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    assert run("replicas", "--snapshot", snapshot, "--out", one) == 0
    assert run("replicas", "--snapshot", snapshot, "--out", two, "--set", "replicas.epsilon=0.3") == 0
    capsys.readouterr()
    assert run("show", one, "--snapshot", snapshot, "--all-moves") == 0
    told = capsys.readouterr().out
    for move in json.loads(one.read_text())["moves"]:
        assert f"{move['topic']}-{move['partition']}" in told
    assert run("diff", one, one) == 0
    assert capsys.readouterr().out == "the plans do the same\n"
    assert run("diff", one, two) == 1
    assert "- settings:" in capsys.readouterr().out
    document = json.loads(one.read_text())
    document["moves"].pop()
    one.write_text(json.dumps(document))
    assert run("show", one) == 2
    assert "one.json: $." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--cluster", "billing"], "not of billing"),
        (["--out", "/nowhere/plan.json"], "folder /nowhere does not exist"),
        (["--strategy", "greedy"], "greedy"),
    ],
)
def test_unusable_arguments_are_reported(
    arguments: list[str], told: str, snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The wrong cluster, no place to write to, no such strategy: exit code 2 and one line."""
    assert run("replicas", "--snapshot", snapshot, *arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert told in said.err


def test_an_empty_lake_names_the_commands_that_fill_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a snapshot to plan from, the operator learns which commands make one."""
    assert run("replicas", "--lake", tmp_path / "lake") != 0
    assert "trimtab collect" in capsys.readouterr().err


def test_a_plan_states_the_age_of_its_snapshot_and_later_executions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In text and in JSON; by the executions of the same cluster that had not ended when it was taken."""
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "state"))
    document = random_snapshot(SKEWED)
    document["taken_at"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(document))
    assert run("replicas", "--snapshot", path) == 0
    said = capsys.readouterr()
    assert f"from the snapshot of {document['taken_at']}, " in said.err
    assert " s old" in said.err
    assert "warning" not in said.err
    assert not (tmp_path / "state").exists()
    with open_store(state_folder()) as store:
        for cluster, at, ended in (
            (document["cluster"], -60, True),
            (document["cluster"], 1, False),
            ("b", 1, False),
        ):
            state = new_execution("id", (), ReplicasExecutionSettings(), time.time() + at)
            execution = store.journal.create(state, cluster, "{}", "ada@ops1, process 7", {})
            if ended:
                after = replace(state, status=ExecutionStatus.FINISHED, now=time.time() - 30)
                store.journal.write(execution, state, after, "", "")
    warning = (
        f"execution 2 (running, by ada@ops1, process 7) has changed the cluster since the snapshot of "
        f"{document['taken_at']}; make a new snapshot and a new plan unless you know better"
    )
    assert run("replicas", "--snapshot", path) == 0
    assert [line for line in capsys.readouterr().err.splitlines() if "warning" in line] == [
        f"trimtab: warning: {warning}"
    ]
    assert run("replicas", "--snapshot", path, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert 0 <= shown["x_snapshot_age_seconds"] < 600
    assert shown["x_warnings"] == [warning]
    (tmp_path / "shown.json").write_text(json.dumps(shown))
    assert run("show", tmp_path / "shown.json") == 0
