"""`trimtab plan bundles` and `trimtab plan show`, from outside."""

import datetime
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hand_written_tables import lake_with
from support.bundle_snapshots import small_snapshot
from support.bundle_views import key
from support.local_paths import local
from support.recordings import skewed, tick, written
from synthetic_bundles import SyntheticPulsar
from synthetic_telemetry import land
from trimtab.cli.app import main
from trimtab.files.bundles.plan import read_bundle_plan
from trimtab.files.bundles.snapshot import read_bundles_snapshot, write_bundles_snapshot
from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.plan.bundles.strategies import SHEDDERS

CASES = Path(__file__).parents[1] / "plan" / "bundles" / "cases"


def run(*arguments: object) -> int:
    """The command line in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    code = ended.value.code
    return code if isinstance(code, int) else 0


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A cluster of three brokers, one of them with nearly all."""
    path = tmp_path / "s.json"
    write_bundles_snapshot(small_snapshot([0, 0, 0, 0, 1, 2], [12] * 6, sessions=[1, 2, 3, 4, 5, 6]), path)
    return path


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Five minutes of a skewed cluster's load reports."""
    return written(tmp_path / "r.jsonl", [tick(minute, skewed()) for minute in range(5)])


def test_a_plan_is_printed_written_and_printed_again(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Load, cost, bound, every view before and after, and moves with their reasons."""
    out = tmp_path / "plan.json"
    assert run("plan", "bundles", "--snapshot", snapshot, "--out", out) == 0
    text = capsys.readouterr().out
    for said in (
        "small at 2026-11-21T05:00:00Z: 3 brokers, 6 bundles, 21 clients",
        "Plan by trim: balanced",
        "cost: 2 unloads that disconnect 3 clients",
        "bound: any plan disturbs",
        "window 0",
        "epsilon of CPU in window 0, broker b0:8080",
        "b0:8080 → b",
    ):
        assert said in text
    assert read_bundle_plan(out).cost.sessions == 3
    assert run("plan", "show", out, "--snapshot", snapshot) == 0
    assert "Plan by trim: balanced" in capsys.readouterr().out
    assert run("plan", "show", out, "--format", "json") == 0
    assert capsys.readouterr().out == out.read_text()
    assert run("plan", "show", out, "--format", "kafka") == 2
    assert "is a plan for Pulsar" in capsys.readouterr().err


def test_the_newest_snapshot_of_the_lake_is_planned_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lake also has an older snapshot, and one of another balancer."""
    folder = local(Lake(tmp_path, REPLICAS).snapshot_folder("small"))
    folder.mkdir(parents=True)
    write_bundles_snapshot(small_snapshot([0, 1], [10, 10]), folder / "20261121T050000Z")
    write_bundles_snapshot(small_snapshot([0, 0, 0, 1], [12] * 4), folder / "20261121T060000Z")
    (folder / "20261121T070000Z").mkdir()
    (folder / "20261121T070000Z" / "meta.json").write_text('{"format": "trimtab/replicas-snapshot/1"}')
    assert run("plan", "bundles", "--lake", tmp_path) == 0
    assert "2 brokers, 4 bundles" in capsys.readouterr().out


def test_json_is_the_plan_itself(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same as the file, but for how old its snapshot is by now."""
    out = tmp_path / "plan.json"
    assert run("plan", "bundles", "--snapshot", snapshot, "--json", "--out", out) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown.pop("x_snapshot_age_seconds") > 3600
    assert len(shown.pop("x_warnings")) == 1
    assert shown == json.loads(out.read_text())


def test_a_hard_limit_that_no_plan_meets_is_exit_code_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan is written all the same, with the proof."""
    path, out = tmp_path / "s.json", tmp_path / "plan.json"
    write_bundles_snapshot(small_snapshot([0, 1], [95, 95]), path)
    assert run("plan", "bundles", "--snapshot", path, "--out", out) == 3
    assert "infeasible" in capsys.readouterr().out
    assert read_bundle_plan(out).problems


def test_settings_are_taken_and_slips_refused(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on standard error, nothing written."""
    out = tmp_path / "plan.json"
    assert run("plan", "bundles", "--snapshot", snapshot, "--set", "bundles.max_unloads=0", "--out", out) == 3
    assert read_bundle_plan(out).moves == ()
    capsys.readouterr()
    for words, said in (
        (["--set", "bundles.epsilon=2", "--out", tmp_path / "no"], "bundles.epsilon is 2, expected"),
        (["--strategy", "all", "--out", tmp_path / "no"], "--out is for the plan of one strategy"),
        (["--strategy", "ThresholdShedder"], "a snapshot does not hold"),
        (["--strategy", "Treshold"], "did you mean ThresholdShedder"),
        (["--set", "loadBalancerX=1"], "is for Pulsar's strategies"),
        (["--reports", snapshot], "name one"),
        (["--cluster", "other"], "not of other"),
    ):
        assert run("plan", "bundles", "--snapshot", snapshot, *words) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    assert not (tmp_path / "no").exists()


def test_a_plan_from_load_reports(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest ticks are the views."""
    assert run("plan", "bundles", "--reports", reports, "--set", "bundles.epsilon=0.3") == 0
    assert "views: window 0, window -1, window -2" in capsys.readouterr().out


def test_one_of_pulsars_strategies_becomes_a_plan(
    reports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the placement's destinations and the numbers that decided; Pulsar's options by their names."""
    out = tmp_path / "plan.json"
    words = ["plan", "bundles", "--reports", reports, "--strategy", "ThresholdShedder"]
    assert run(*words, "--out", out) == 0
    plan = read_bundle_plan(out)
    assert plan.strategy == "ThresholdShedder"
    assert {move.target for move in plan.moves} == {"h2:8080"}
    assert "What decided:" in capsys.readouterr().out
    option = "loadBalancerBrokerThresholdShedderPercentage=90"
    assert run(*words, "--set", option, "--out", out) == 0
    assert read_bundle_plan(out).moves == ()


def test_pulsars_splits_are_printed_with_its_unloads(
    reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three bundles are above its limit of 30,000 messages/s, unless it splits none by itself."""
    arguments = ("plan", "bundles", "--reports", reports, "--strategy", "ThresholdShedder")
    run(*arguments)
    text = capsys.readouterr().out
    assert f"{key(1)} is above Pulsar's limit of MsgRate (3 topics, 3 clients, 314,573 messages/s" in text
    assert text.count("and would be split") == 3
    run(*arguments, "--set", "loadBalancerNamespaceMaximumBundles=4")
    assert "and stays whole: its namespace has as many bundles as it may" in capsys.readouterr().out
    run(*arguments, "--set", "loadBalancerAutoBundleSplitEnabled=false")
    assert "above Pulsar's limit" not in capsys.readouterr().out


def test_all_strategies_side_by_side(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Six rows, each with its moves, what decided, and whether shedder and placement agree."""
    assert run("plan", "bundles", "--reports", reports, "--strategy", "all") == 0
    text = capsys.readouterr().out
    assert all(f"\n{name} (" in text for name in SHEDDERS)
    assert run("plan", "bundles", "--reports", reports, "--strategy", "all", "--json") == 0
    document = json.loads(capsys.readouterr().out)["strategies"]
    assert [one["name"] for one in document] == [*sorted(set(SHEDDERS) - {"trim"}), "trim"]
    assert all(
        {"why", "unloads", "destinations", "disagreements", "clients"} <= one.keys() for one in document
    )


def test_strategies_read_reports_from_the_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Collected reports, without a recording in a file."""
    cluster = SyntheticPulsar()
    land(cluster.raw(5), Lake(tmp_path, BUNDLES).raw, "all")
    assert run("plan", "bundles", "--lake", tmp_path, "--strategy", "all", "--json") == 0
    document = json.loads(capsys.readouterr().out)["strategies"]
    assert len(document) == len(SHEDDERS)
    assert run("plan", "bundles", "--lake", tmp_path, "--strategy", "ThresholdShedder", "--ticks", 2) == 0
    assert "Plan by ThresholdShedder" in capsys.readouterr().out


def test_all_side_by_side_and_trim_alone_judge_the_same_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both go by the lake's snapshot, where usage may be declared; Pulsar's decide by raw reports."""
    cluster = SyntheticPulsar()
    lake = Lake(tmp_path, BUNDLES)
    land(cluster.raw(5), lake.raw, "all")
    folder = local(lake.snapshot_folder(cluster.name))
    folder.mkdir(parents=True)
    made = replace(small_snapshot([0, 0, 0, 0, 1, 2], [12] * 6), usage="declared")
    write_bundles_snapshot(made, folder / "20261121T050000Z")
    assert run("plan", "bundles", "--lake", tmp_path, "--json") == 0
    alone = {move["bundle"]: move["target"] for move in json.loads(capsys.readouterr().out)["moves"]}
    assert run("plan", "bundles", "--lake", tmp_path, "--strategy", "all", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["strategies"][-1]["destinations"] == alone != {}
    assert "by the snapshot of 2026-11-21T05:00:00Z: message traffic over declared" in document["grounds"]
    peaks = [one["peak_usage_after"]["cpu"] for one in document["strategies"][:-1]]
    assert peaks == pytest.approx([0.48] * len(peaks))


def test_a_resource_without_capacity_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Message rates far apart, which nothing limits: not balanced, and not passed over in silence."""
    found = small_snapshot([0, 0, 1], [20, 20, 20])
    capacity = found.brokers.capacity.copy()
    capacity[:, 3] = np.inf
    path = tmp_path / "s.json"
    write_bundles_snapshot(replace(found, brokers=replace(found.brokers, capacity=capacity)), path)
    assert run("plan", "bundles", "--snapshot", path) == 3
    assert "not limited, so not balanced: message rate (33% from the mean)" in capsys.readouterr().out
    write_bundles_snapshot(found, tmp_path / "t.json")
    assert run("plan", "bundles", "--snapshot", tmp_path / "t.json") == 3
    assert "not limited" not in capsys.readouterr().out


def test_a_shedder_and_a_placement_that_disagree_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Round robin knows nothing of load: what leaves the full broker goes to the nearly full one."""
    brokers = skewed()
    brokers["h2:8080"]["cpu"]["usage"] = 70.0
    brokers["h1:8080"]["cpu"]["usage"] = 99.0
    path = written(tmp_path / "r.jsonl", [tick(minute, brokers) for minute in range(3)])
    words = ["--strategy", "OverloadShedder", "--placement", "RoundRobinBrokerSelector"]
    assert run("plan", "bundles", "--reports", path, *words) == 0
    assert "shedder and placement disagree" in capsys.readouterr().out


def test_brokers_out_of_service_and_unowned_bundles_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So the reason for emptying a broker is visible."""
    found = small_snapshot([0, 1, 2, -1], [20, 20, 20, 5], in_service=[False, True, True], brokers=3)
    path = tmp_path / "s.json"
    write_bundles_snapshot(replace(found, brokers=replace(found.brokers, base=np.ones((3, 4)))), path)
    assert run("plan", "bundles", "--snapshot", path, "--all-moves") == 0
    text = capsys.readouterr().out
    assert "out of service" in text
    assert "(1 unowned)" in text
    assert "drain, broker b0:8080" in text


def test_a_policy_that_leaves_too_little_is_exit_code_3_with_the_policy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The text names the policy and the number of brokers; the JSON has the figures."""
    path = CASES / "isolated-to-one-broker.json"
    assert run("plan", "bundles", "--snapshot", path) == 3
    text = capsys.readouterr().out
    assert "infeasible: no plan can meet some hard limit" in text
    assert "by the isolation policy t/ns1 (primary b1.*)" in text
    assert "it takes 3 such brokers: name 2 more of 1e+08 in the policy" in text
    assert run("plan", "bundles", "--snapshot", path, "--json") == 3
    plan = json.loads(capsys.readouterr().out)
    assert plan["verdict"] == "infeasible"
    assert {one["proof"].get("total") for one in plan["problems"]} >= {1.92e8, 9.6e7}


def test_bundles_on_forbidden_brokers_fail_only_a_plan_that_should_move_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Named without exit code 3 where every goal holds; moved on request; exit code 3 if one cannot go."""
    words = ["plan", "bundles", "--snapshot", CASES / "on-forbidden-brokers.json"]
    words += ["--set", "bundles.epsilon=0.3"]
    assert run(*words) == 0
    assert "t/ns1/0x40000000_0x60000000 on b3:8080" in capsys.readouterr().out
    assert run(*words, "--set", "bundles.policy_violations=move") == 0
    assert "policy, broker b3:8080: 2 moves" in capsys.readouterr().out
    moved = ["--set", "bundles.policy_violations=move", "--set", "bundles.max_unloads=1"]
    assert run(*words, *moved) == 3
    assert run(*words, "--set", "bundles.policy_violations=mov") == 2


def test_a_bundle_at_two_brokers_is_named_in_plans_from_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By trim and by Pulsar's strategies alike: both brokers are named, whatever is decided."""
    brokers = skewed()
    brokers["h2:8080"]["bundles"] = [*brokers["h2:8080"]["bundles"], key(1)]
    path = written(tmp_path / "r.jsonl", [tick(minute, brokers) for minute in range(6)])
    for words in ([], ["--strategy", "ThresholdShedder"]):
        run("plan", "bundles", "--reports", path, *words)
        assert f"{key(1)} reported by h1:8080 and h2:8080" in capsys.readouterr().out


def test_status_prints_findings_of_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bundles outside their policy, with the policy, in text and JSON."""
    at = datetime.datetime(2026, 11, 26, 5, 0, tzinfo=datetime.UTC)
    rows = [
        {"cluster": "c", "tick": at, "broker": name, "broker_state": "alive", "cpu": 1.0, "cpu_capacity": 8.0}
        for name in ("b1:8080", "b2:8080", "b3:8080")
    ]
    even = {"cluster": "c", "tick": at, "brokers": 3, "complete": True, "mean": 0.1, "by_broker": []}
    measured = [{**even, "resource": name} for name in RESOURCES]
    lake = lake_with(tmp_path, {"brokers": rows, "imbalance": measured}, BUNDLES)
    folder = local(lake.snapshot_folder("c"))
    folder.mkdir(parents=True)
    found = read_bundles_snapshot(CASES / "on-forbidden-brokers.json")
    write_bundles_snapshot(found, folder / "20261126T050000Z")
    assert run("status", "--lake", tmp_path) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "t/ns1/0x40000000_0x60000000 on b3:8080" in text
    assert "the isolation policy t/.* (primary b1 b2) does not allow that" in text
    assert run("status", "--lake", tmp_path, "--json") == 0
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["kind"], len(finding["proof"]["bundles"])) == ("policy_violations", 2)


def test_the_extensible_managers_splits_and_placement_are_in_plans(
    reports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Owners split after four reports in a row; what TransferShedder leaves open gets a destination."""
    words = ["plan", "bundles", "--reports", reports, "--strategy", "TransferShedder"]
    run(*words)
    assert "and would be split" in capsys.readouterr().out
    run(*words, "--ticks", 3)
    text = capsys.readouterr().out
    assert "stays whole: not above a limit in enough cycles in a row" in text
    assert "and would be split" not in text
    open_ = ["--set", "loadBalancerTransferEnabled=false"]
    open_ += ["--set", "loadBalancerSheddingConditionHitCountThreshold=0"]
    out = tmp_path / "plan.json"
    run(*words, "--ticks", 1, *open_, "--out", out)
    assert read_bundle_plan(out).moves == ()
    placed = ["--placement", "extensions.LeastResourceUsageWithWeight"]
    run(*words, "--ticks", 1, *open_, *placed, "--out", out)
    moves = read_bundle_plan(out).moves
    assert moves
    assert all(move.target not in (None, move.source) for move in moves)
    assert "placed by extensions.LeastResourceUsageWithWeight" in moves[0].reason.text
