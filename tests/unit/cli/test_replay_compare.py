"""`trimtab replay bundles` with several strategies, from outside."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from support.bundle_views import key
from support.recordings import replay, skewed, tick, written
from trimtab.observe.spark.session import SessionSettings

THREE = (
    *("--strategy", "ThresholdShedder", "--strategy", "calm=ThresholdShedder", "--strategy", "AvgShedder"),
    *("--placement", "LeastLongTermMessageRate", "--placement", "AvgShedder=AvgShedder"),
    *("--set", "calm.loadBalancerBrokerThresholdShedderPercentage=40"),
)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Four minutes of a hot broker beside a cold one."""
    return written(tmp_path / "reports.jsonl", [tick(minute, skewed()) for minute in range(4)])


def test_strategies_are_compared_in_one_table(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row each below the recording; decisions with their strategy, and a chart, if requested."""
    out, chart = tmp_path / "decisions.jsonl", tmp_path / "chart.svg"
    assert replay("--reports", recording, *THREE, "--mode", "simulated", "--out", out, "--chart", chart) == 0
    shown = capsys.readouterr()
    rows = [line.split() for line in shown.out.splitlines()]
    heads = ("nothing", "ThresholdShedder", "calm", "AvgShedder")
    assert [row[0] for row in rows if row[0] in heads] == list(heads)
    unloads = {row[0]: row[-5] for row in rows if row[0] in heads}
    assert unloads == {"nothing": "–", "ThresholdShedder": "1", "calm": "0", "AvgShedder": "1"}
    assert "drew" in shown.err
    assert chart.exists()
    assert chart.with_suffix(".png").exists()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["strategy"] for line in lines] == ["ThresholdShedder", "calm", "AvgShedder"] * 4
    assert lines[0]["destinations"] == {key(1): "h2:8080"}


def test_json_contains_the_options_of_each_run(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One strategy suffices if the document is requested; the user sets the pause."""
    arguments = ("--set", "loadBalancerBrokerOverloadedThresholdPercentage=80", "--pause", 2, "--json")
    placed = ("--placement", "LeastLongTermMessageRate")
    assert replay("--reports", recording, *placed, *arguments, "--mode", "simulated") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["overload_usage"], document["pause_seconds"]) == (0.8, 2.0)
    assert document["unmoved"]["overload_seconds"] == 180
    (one,) = document["strategies"]
    assert (one["name"], one["strategy"]) == ("ThresholdShedder", "ThresholdShedder")
    assert one["placement"] == "LeastLongTermMessageRate"
    assert one["options"] == {"loadBalancerBrokerOverloadedThresholdPercentage": "80"}
    assert (one["variant"], one["seed"]) == ("pulsar-4.2", 0)
    assert (one["unloads"], one["clients_disturbed"]) == (1, 3)
    assert one["interrupted_bytes"] == 2 * 300 * 1024 * 1024
    assert one["over_time"]["sigma"][0] == document["unmoved"]["over_time"]["sigma"][0]
    assert one["sigma_mean"] < document["unmoved"]["sigma_mean"]


def test_over_the_recording_as_it_is_only_decisions_can_differ(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No table is made of a world that does not answer: the decisions follow each other, tick by tick."""
    assert replay("--reports", recording, *THREE) == 0
    shown = capsys.readouterr()
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert [line["strategy"] for line in lines[:3]] == ["ThresholdShedder", "calm", "AvgShedder"]
    assert len(lines) == 12
    assert "trimtab: 0 unloads by calm, 3 bundles to be split\n" in shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--json",), "add --mode simulated"),
        (("--chart", "x.svg"), "add --mode simulated"),
        (("--pause", "1"), "add --mode simulated"),
        (("--strategy", "A", "--strategy", "A"), "there is another by the name A"),
        (("--strategy", "AvgShedder", "--strategy", "OverloadShedder", "--state-file", "s"), "leave it out"),
        (("--set", "ThresholdShedder.loadBalancerX=1"), "option loadBalancerX is not one"),
        (("--scenarios", "absent.toml"), "absent.toml: no such file"),
    ],
)
def test_an_error_is_one_line_with_exit_code_2(
    recording: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    """And nothing is left behind."""
    assert replay("--reports", recording, "--out", tmp_path / "out", *arguments) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["reports.jsonl"]


def test_a_chart_that_cannot_be_written_is_one_line(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file stands where its folder would be."""
    chart = tmp_path / "reports.jsonl" / "chart"
    placed = ("--placement", "LeastLongTermMessageRate", "--mode", "simulated")
    assert replay("--reports", recording, *placed, "--chart", chart) == 2
    shown = capsys.readouterr()
    assert "cannot be written" in shown.err
    assert shown.out == ""


def test_scenarios_come_from_a_file_and_from_the_command_line(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options of one scenario precede options of all, and the command line precedes the file."""
    listed = tmp_path / "scenarios.toml"
    listed.write_text(
        """
        placement = "RoundRobinBrokerSelector"
        variant = "article"
        seed = 5
        [options]
        loadBalancerSheddingGracePeriodMinutes = 7
        loadBalancerHistoryResourcePercentage = 0.8
        [strategies.ThresholdShedder]
        [strategies.calm]
        strategy = "ThresholdShedder"
        placement = "LeastLongTermMessageRate"
        variant = "pulsar-4.0"
        seed = 1
        options = { loadBalancerBrokerThresholdShedderPercentage = 40, lowerBoundarySheddingEnabled = false }
        """
    )
    more: tuple[object, ...] = (
        "--strategy",
        "AvgShedder",
        "--placement",
        "AvgShedder=AvgShedder",
        "--seed",
        9,
    )
    more = (*more, "--set", "loadBalancerHistoryResourcePercentage=0.7", "--mode", "simulated", "--json")
    assert replay("--reports", recording, "--scenarios", listed, *more) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["strategies"]}
    common = {
        "loadBalancerSheddingGracePeriodMinutes": "7",
        "loadBalancerHistoryResourcePercentage": "0.7",
    }
    own = {"loadBalancerBrokerThresholdShedderPercentage": "40", "lowerBoundarySheddingEnabled": "false"}
    told = ("strategy", "placement", "variant", "seed", "options")
    assert {name: tuple(row[one] for one in told) for name, row in rows.items()} == {
        "ThresholdShedder": ("ThresholdShedder", "RoundRobinBrokerSelector", "article", 9, common),
        "calm": ("ThresholdShedder", "LeastLongTermMessageRate", "pulsar-4.0", 1, {**common, **own}),
        "AvgShedder": ("AvgShedder", "AvgShedder", "article", 9, common),
    }
    assert rows["ThresholdShedder"]["unloads"] > rows["calm"]["unloads"] == 0


@pytest.mark.spark
def test_spark_prints_the_same_and_writes_decisions_into_a_folder(
    recording: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The document is the local replay's, letter by letter; the session is ended."""
    ended = []
    session = SimpleNamespace(range=spark.range, stop=lambda: ended.append(True))

    file = tmp_path / "spark.toml"
    file.write_text('[spark]\nmemory = "3g"\n', encoding="utf-8")
    monkeypatch.setenv("TRIMTAB_SETTINGS", str(file))

    def started(settings: SessionSettings, print_progress: Callable[[str], None]) -> SimpleNamespace:
        assert (settings.memory, settings.master, settings.large_job) == ("3g", None, None)
        print_progress("starting Spark")
        return session

    monkeypatch.setattr("trimtab.observe.spark.session.spark_session", started)
    shown = ("--reports", recording, *THREE, "--mode", "simulated", "--json")
    assert replay(*shown) == 0
    local = capsys.readouterr().out
    assert replay(*shown, "--spark", "--out", tmp_path / "decisions") == 0
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[0]) == (local, "trimtab: starting Spark")
    assert ended
    found = sorted(path.name for path in (tmp_path / "decisions").iterdir())
    assert found == ["AvgShedder.jsonl", "ThresholdShedder.jsonl", "calm.jsonl"]
    as_recorded = tmp_path / "as-recorded"
    assert replay("--reports", recording, *THREE, "--spark", "--out", as_recorded) == 0
    assert "trimtab: 0 unloads by calm, 3 bundles to be split\n" in capsys.readouterr().err
    assert len((as_recorded / "calm.jsonl").read_text().splitlines()) == 4
