"""History in parts, joined and aged files: the same tables to the bit as from files as they were landed."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.local_paths import local
from synthetic_telemetry import SyntheticCluster, land, land_by_tick
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.bundles.pipeline import BundlesPipelineSettings
from trimtab.observe.lake import rebuild
from trimtab.observe.lake.balancer_pipeline import LakeSettings, PipelineSettings
from trimtab.observe.lake.compaction import remove_unnamed_folders
from trimtab.observe.lake.housekeeping import preview_housekeeping, run_housekeeping
from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.manifest import merged
from trimtab.observe.queues.pipeline import PIPELINE as QUEUES
from trimtab.observe.queues.pipeline import QueuesPipelineSettings
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.steps.batch import run_batch
from trimtab.observe.steps.step import backward
from trimtab.observe.steps.stream import StreamSource, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trimtab.observe.lake.balancer_pipeline import BalancerPipeline

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PATIENCE_SECONDS = 400.0
SECONDS = {"window_seconds": 40.0, "slide_seconds": 20.0, "lateness_seconds": 60.0, "gap_seconds": 25.0}
SETTINGS = ReplicasPipelineSettings(**SECONDS)  # type: ignore[arg-type]
EVENING = datetime.datetime(2026, 11, 20, 23, 58, 20, tzinfo=datetime.UTC)
TICKS = 20
"""Ten of an evening, ten after midnight."""
BY_THE_DAY = """
from trimtab.cli.app import main
from trimtab.observe.lake import rebuild
rebuild.MAX_ROWS = 1
main()
"""


def content(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, in an order of its own; equal only if every bit is."""
    return {name: sorted(lake.table(name).to_pylist(), key=repr) for name in REPLICAS.tables}


def landed(path: Path) -> Lake:
    """A file a tick."""
    lake = Lake(path, REPLICAS)
    land_by_tick(SyntheticCluster(brokers=3, partitions=6, start=EVENING).raw(TICKS), lake.raw)
    return lake


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The tables, made in one go from the files as they were landed."""
    lake = landed(tmp_path_factory.mktemp("whole") / "lake")
    run_batch(spark, lake, SETTINGS)
    return content(lake)


@pytest.mark.long
def test_history_by_the_day_resumes_after_kill_9_with_the_same_tables(
    whole: dict[str, list[dict[str, Any]]],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command killed in the second day: readers still see nothing, and the first day is not made again."""
    lake, said = landed(tmp_path / "lake"), list[str]()
    cleaned = Path(str(lake.tables)) / "cleaned"
    process = subprocess.Popen(
        [sys.executable, "-c", BY_THE_DAY, "pipeline", "run", f"--lake={lake.path}"]
        + [f"--set=pipeline.{name}={value}" for name, value in SECONDS.items()],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not cleaned.is_dir() or len(list(cleaned.iterdir())) < 2:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "the command does not get to the second day"
            time.sleep(0.02)
    finally:
        # Its Java too.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert not lake.manifest().tables, "nothing is published by halves"
    remove_unnamed_folders(lake, lake.manifest(), grace_seconds=-60)
    (first_day,) = cleaned.iterdir()
    monkeypatch.setattr(rebuild, "MAX_ROWS", 1)
    done = run_batch(spark, lake, SETTINGS, print_progress=said.append)
    assert "going on after 1 of 2 parts of history, which are done" in said
    assert len(list(cleaned.iterdir())) == 2
    assert first_day.is_dir()
    assert content(lake) == whole
    assert (done.files, done.ticks) == (TICKS, TICKS)
    assert not (lake.tables / rebuild.FOLDER).exists()


@pytest.mark.long
def test_hours_of_a_large_day_make_the_tables_of_the_whole_day(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Joined files hold a day, so every piece reads the same ones; windows lie across the ends of pieces."""
    raw = SyntheticCluster(brokers=3, partitions=6, start=EVENING, seconds_per_tick=600.0).raw(TICKS)
    settings = ReplicasPipelineSettings(window_seconds=2400.0, slide_seconds=1200.0, gap_seconds=1500.0)
    made, said = [], list[str]()
    for name, most in (("whole", 10**6), ("hours", 1)):
        lake = Lake(tmp_path / name, REPLICAS)
        land(raw, lake.raw, "day")
        monkeypatch.setattr(rebuild, "MAX_ROWS", most)
        run_batch(spark, lake, settings, print_progress=said.append)
        made.append(content(lake))
    assert made[0] == made[1]
    assert made[0]["windows"]
    assert any(line.startswith("part 5 of 5") for line in said), said


@pytest.mark.long
def test_a_stream_before_and_after_files_are_joined_makes_the_same_tables(
    whole: dict[str, list[dict[str, Any]]], spark: SparkSession, tmp_path: Path
) -> None:
    """A continued stream reads no sample twice; a restarted one misses no merged file; nor does a batch."""
    lake = landed(tmp_path / "lake")
    newest = sorted((local(lake.raw) / "date=2026-11-21").iterdir())[-4:]
    for path in newest:
        path.rename(tmp_path / path.name)
    source = StreamSource(max_per_batch=10)
    run_stream(spark, lake, SETTINGS, source, once=True)
    for path in newest:
        (tmp_path / path.name).rename(path)

    def kept(now: float) -> None:
        with lake.writing() as seat:
            run_housekeeping(lake, seat, LakeSettings(), SETTINGS, now)

    now = time.time()
    (joined,) = preview_housekeeping(lake, LakeSettings(), SETTINGS, now).joined
    assert (joined.day, joined.files) == ("date=2026-11-20", 10)
    kept(now)
    run_stream(spark, lake, SETTINGS, source, once=True)
    kept(now + 7200)
    assert not list((lake.raw / "date=2026-11-20").glob("*.parquet"))
    assert content(lake) == whole
    run_batch(spark, lake, SETTINGS)
    assert content(lake) == whole
    said: list[str] = []
    run_stream(spark, lake, SETTINGS, StreamSource(), once=True, print_progress=said.append)
    assert said[0] == "history of which the files were joined is built first"
    assert content(lake) == whole
    # The first day is too old at last: what was made of it stays, and later rows still look back on it.
    with lake.writing() as seat:
        in_a_day = replace(lake.manifest(), watermark=lake.manifest().watermark + 86400 * 10**6)
        seat.publish(in_a_day)
        run_housekeeping(lake, seat, LakeSettings(raw_retention_days=1), SETTINGS)
    assert {path.parent.name for path in lake.raw_files()} == {"date=2026-11-21"}
    run_batch(spark, lake, SETTINGS)
    assert content(lake) == whole


@pytest.mark.parametrize(
    ("balancer", "settings"),
    [
        (REPLICAS, ReplicasPipelineSettings()),
        (REPLICAS, ReplicasPipelineSettings(profile_weeks=6)),
        (
            REPLICAS,
            ReplicasPipelineSettings(record_size_window_seconds=86400.0 * 3, traffic_baseline_seconds=7200.0),
        ),
        (BUNDLES, BundlesPipelineSettings()),
        (BUNDLES, BundlesPipelineSettings(profile_weeks=9, departure_retention_seconds=86400.0 * 3)),
        (QUEUES, QueuesPipelineSettings(weight_windows=3000, horizon_seconds=86400.0 * 3)),
    ],
)
def test_no_row_is_removed_for_its_age_that_a_later_one_is_made_of(
    balancer: BalancerPipeline, settings: PipelineSettings
) -> None:
    """Each table is retained as long as any stage reads it, from the oldest sample that counts."""
    newest = 10**15
    for stage in balancer.stages:
        for table, reach in stage.reach.items():
            changed = merged([(newest - settings.lateness, newest)])
            oldest = backward(changed, reach(settings))[0][0] if stage.is_enabled(settings) else newest
            assert newest - oldest <= settings.needed(table) + 86400 * 10**6, (stage.table, table)
