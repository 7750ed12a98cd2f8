"""What `trimtab pipeline` says before any JVM is started."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql import SparkSession

from support.small_lake import NOON, STEP, publish
from synthetic_telemetry import SyntheticCluster, land
from trimtab.cli import pipeline
from trimtab.cli.app import main
from trimtab.cli.pipeline import _faults
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.parquet import write_rows
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.spark.session import SessionSettings


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and standard error of a command."""
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", *arguments])
    return int(ended.value.code or 0), capsys.readouterr().err


def test_empty_lake_is_reported_immediately(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message is printed without starting Spark."""
    code, told = said(capsys, "run", f"--lake={tmp_path}")
    assert code == 1
    assert told.startswith(f"trimtab: lake {tmp_path} holds no raw samples: run `trimtab collect` first")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "--since=yesterday"), "--since is 'yesterday': write a time as 2026-11-21T05:00"),
        (("run", "--window=0"), "pipeline.window_seconds is 0.0, expected a number, 0.001 or more"),
        (
            ("run", "--set=pipeline.slide_seconds=7"),
            "pipeline.window_seconds is 60.0, not a multiple of slide",
        ),
        (
            ("run", "--set=pipeline.load_value=median"),
            'pipeline.load_value is "median", expected one of repaired, literal',
        ),
        (("run", "--set=pipeline.theta=[0.5, 0.5, 0.5, 0.5]"), "pipeline.theta is not a setting"),
        (
            ("run", "--set=pipeline.bundles.theta=0.5"),
            "pipeline.bundles.theta is not a setting",
        ),
        (
            ("run", "--set=pipeline.bundles.profile_weeks=99"),
            "pipeline.bundles.profile_weeks is 99, expected a whole number, 0 or more, at most 52",
        ),
        (("run", "--set=pipeline.wimdow_seconds=7"), "wimdow_seconds"),
        (("stream", "--balancer=shards"), "--balancer is 'shards': write replicas or bundles or queues"),
        (("stream", "--source=pulsar:x"), "--source is 'pulsar:x': write lake, kafka:TOPIC or"),
        (("stream", "--source=kafka:"), "--source is 'kafka:': write lake, kafka:TOPIC or"),
        (("stream", "--trigger=soon"), "--trigger is 'soon': write seconds, as 10s"),
        (("stream", "--trigger=0s"), "write more than 0 seconds"),
    ],
)
def test_wrong_options_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    """Bad input ends with exit code 2, names what was given and what is expected, and starts nothing."""
    code, told = said(capsys, *arguments, f"--lake={tmp_path}")
    assert code == 2
    assert sentence in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_lists_files_and_the_run_merges_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run changes nothing; ages that cannot be are refused."""
    for day, ticks in (("2026-11-20", 9), ("2026-11-21", 1)):
        for number in range(ticks):
            table = pyarrow.table({"cluster": ["c"], "kind": ["broker"]})
            write_rows(tmp_path / "raw" / f"date={day}" / f"{number}.parquet", table)
    before = sorted(tmp_path.rglob("*"))
    code, told = said(capsys, "compact", "--dry-run", f"--lake={tmp_path}")
    assert (code, "would join 9 files of raw samples of 2026-11-20" in told) == (0, True)
    assert "nothing was changed" in told
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(SystemExit):
        main(["pipeline", "compact", "--dry-run", "--json", f"--lake={tmp_path}"])
    document = json.loads(capsys.readouterr().out)
    assert document["dry_run"] is True
    (joined,) = document["balancers"]["replicas"]["joined"]
    assert (joined["day"], joined["files"]) == ("2026-11-20", 9)
    code, told = said(capsys, "compact", f"--lake={tmp_path}")
    assert (code, "joined 9 files of raw samples of 2026-11-20" in told) == (0, True)
    assert len(list((tmp_path / "joined").glob("date=*/*.parquet"))) == 1
    code, told = said(capsys, "compact", f"--lake={tmp_path}", "--set=lake.raw_retention_days=0.5")
    assert (code, "lake.raw_retention_days is 0.5: give 0 (kept for ever)" in told) == (2, True)


def test_compacting_an_empty_lake_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Housekeeping from a timer must not fail where there is nothing yet."""
    main_without_exit(["pipeline", "compact", f"--lake={tmp_path}"])
    assert "0 tables compacted, 0 old files and folders removed" in capsys.readouterr().err
    assert not (tmp_path / "tables" / "manifests").exists()


def test_truth_needs_a_loads_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong folder is named."""
    code, told = said(capsys, "accuracy", str(tmp_path), f"--lake={tmp_path}")
    assert code == 2
    assert "holds no *.truth.jsonl" in told


def main_without_exit(arguments: list[str]) -> None:
    """Run a command that succeeds; typer may end with exit code 0."""
    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code


def test_a_missing_lake_is_reported_and_not_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slip of the pen in its name is bad input."""
    code, told = said(capsys, "compact", f"--lake={tmp_path / 'typo'}")
    assert code == 2
    assert told == (
        f"trimtab: lake {tmp_path / 'typo'} is not there: name one with --lake; `trimtab collect` makes one\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_spark_is_announced_before_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds pass until the first table is written: an operator knows what for."""

    def refuse(_: object) -> None:
        raise RuntimeError("no machine for Java here")

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refuse)
    code, told = said(capsys, "stream", "--once", f"--lake={tmp_path}")
    assert code == 1
    assert told.splitlines()[0] == "trimtab: starting Spark"
    assert "did not start: no machine for Java here" in told.splitlines()[1]


def test_spark_starts_with_the_first_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream of an empty lake waits for samples: its heap and compiler depend on how many a tick has."""
    chosen: list[SessionSettings] = []

    def refuse(settings: SessionSettings, *_: object) -> None:
        chosen.append(settings)
        raise ObserveError("no Spark here")

    raw = SyntheticCluster(partitions=5000).raw(1)

    def arrive(_: object, seconds: float) -> bool:
        land(raw, Lake(tmp_path, REPLICAS).raw, "first")
        return False

    monkeypatch.setattr(pipeline, "lake_session", refuse)
    monkeypatch.setattr(threading.Event, "wait", arrive)
    code, told = said(capsys, "stream", f"--lake={tmp_path}")
    assert code == 1
    assert told.splitlines() == [
        f"trimtab: lake {tmp_path} holds no samples yet: Spark starts with the first ones",
        "trimtab: no Spark here",
    ]
    (settings,) = chosen
    assert raw.num_rows > 20_000
    assert settings.memory == "1200m"


@pytest.mark.parametrize(("ticks", "is_large"), [(1, False), (3, True)])
def test_a_run_over_many_samples_is_a_large_job(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    ticks: int,
    is_large: bool,
) -> None:
    """Without an option: Spark that starts fast takes four times as long for an hour of 2,000 partitions."""
    chosen: list[SessionSettings] = []

    def refuse(settings: SessionSettings, *_: object) -> None:
        chosen.append(settings)
        raise ObserveError("no Spark here")

    raw = SyntheticCluster(partitions=5000).raw(ticks)
    land(raw, Lake(tmp_path, REPLICAS).raw, "ticks")
    monkeypatch.setattr(pipeline, "lake_session", refuse)
    assert said(capsys, "run", f"--lake={tmp_path}") == (1, "trimtab: no Spark here\n")
    assert [settings.large_job for settings in chosen] == [is_large]


def test_a_stream_that_waits_for_samples_can_be_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was started, and nothing is left behind."""

    def stop(event: threading.Event, seconds: float) -> bool:
        event.set()
        return True

    monkeypatch.setattr(threading.Event, "wait", stop)
    code, told = said(capsys, "stream", f"--lake={tmp_path}")
    assert code == 0
    assert told == f"trimtab: lake {tmp_path} holds no samples yet: Spark starts with the first ones\n"


def test_flags_of_the_requested_hours_are_reported(tmp_path: Path) -> None:
    """A lake holds flags of months: they do not concern this run."""
    rows: list[dict[str, object]] = [
        {"cluster": "orders", "tick": NOON + number * STEP, "entities": 9, "gap": gap, "reset": 0}
        for number, gap in enumerate((7000, 9, 3, 0))
    ]
    lake = publish(tmp_path, {"quality": [rows]})
    assert _faults(lake, None, None) == {"gap": 7012}
    assert _faults(lake, NOON + STEP, None) == {"gap": 12}
    assert _faults(lake, NOON + STEP, NOON + 2 * STEP) == {"gap": 9}
    assert _faults(lake, NOON + 3 * STEP, None) == {}
