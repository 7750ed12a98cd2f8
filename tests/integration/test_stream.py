"""The live stream against batch over the same samples, and against kill -9."""

from __future__ import annotations

import datetime
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest

from support.local_paths import local
from support.telemetry_stories import Story, drawn_faults
from synthetic_telemetry import SyntheticCluster, dirtied, land, land_by_tick
from trimtab.lab.sandbox.kafka.topics import delete_topics
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.steps.batch import run_batch
from trimtab.observe.steps.stream import StreamSource, run_stream
from trimtab.systems.kafka.client import admin_client, producer
from trimtab.systems.kafka.settings import KafkaConnection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trimtab.lab.sandbox.kafka import KafkaSandbox

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TICKS = 9
SECONDS = 10.0
PATIENCE_SECONDS = 240.0
SETTINGS = ReplicasPipelineSettings(
    window_seconds=20,
    slide_seconds=10,
    lateness_seconds=60,
    gap_seconds=25,
    record_size_window_seconds=40,
    cpu_fit_windows=3,
    traffic_baseline_seconds=30,
    profile_weeks=1,
)
OVERRIDES = [
    f"--set=pipeline.{name}={value}"
    for name, value in SETTINGS.of_tables().items()
    if name.endswith(("_seconds", "_windows", "_weeks"))
]


def bad_day() -> list[pyarrow.Table]:
    """Files of nine ticks of a small cluster, with everything that goes wrong, in order of arrival."""
    cluster = SyntheticCluster(brokers=4, partitions=10, seconds_per_tick=SECONDS)
    return dirtied(cluster.raw(TICKS), SECONDS, SETTINGS.lateness_seconds)


def content(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, in an order of its own; equal only if every bit is."""
    tables = {}
    for name in REPLICAS.tables:
        rows = lake.table(name).to_pylist()
        tables[name] = sorted(rows, key=repr)
    return tables


def assert_same(stream: Lake, batch: Lake) -> None:
    """Compare table by table, so that a failure names the first row that differs."""
    live, history = content(stream), content(batch)
    for name in REPLICAS.tables:
        assert len(live[name]) == len(history[name]), name
        for one, other in zip(live[name], history[name], strict=True):
            assert repr(one) == repr(other), name


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Tables of the bad day by one batch over all its files."""
    lake = Lake(tmp_path_factory.mktemp("batch"), REPLICAS)
    for number, file in enumerate(bad_day()):
        land(file, lake.raw, f"file-{number:03d}")
    run_batch(spark, lake, SETTINGS)
    return lake


def test_the_bad_day_contains_every_kind_of_fault(history: Lake) -> None:
    """A comparison proves little unless every kind of dirt is there and was counted."""
    import pyarrow.compute as pc

    counts = history.table("quality")
    flags = [name for name in counts.column_names if name not in ("cluster", "tick", "kind")]
    totals = {name: pc.sum(counts[name]).as_py() for name in flags}
    absent = {"copying", "leader_changed"}
    assert {name for name, count in totals.items() if not count} == absent
    assert totals["accepted"] < totals["entities"]
    assert history.table("hours").num_rows, "hours, from which profiles are made, are compared too"


def test_stream_and_batch_agree_to_the_bit(spark: SparkSession, history: Lake, tmp_path: Path) -> None:
    """Micro-batches of a few files, with late, double and out-of-order samples, end in the tables of one
    batch.
    """
    lake = Lake(tmp_path / "stream", REPLICAS)
    for number, file in enumerate(bad_day()):
        land(file, lake.raw, f"file-{number:03d}")
        (file,) = local(lake.raw).glob(f"*/file-{number:03d}.parquet")
        os.utime(file, (number, number))
    sound = next(local(lake.raw).glob("*/file-001.parquet"))
    broken = sound.with_name("broken.parquet")
    broken.write_bytes(sound.read_bytes()[:1000])
    damaged = sound.with_name("damaged.parquet")
    damaged.write_bytes(sound.read_bytes()[:4] + bytes(2000) + sound.read_bytes()[2004:])
    told: list[str] = []
    run_stream(spark, lake, SETTINGS, StreamSource(max_per_batch=3), once=True, print_progress=told.append)
    assert sum(line.startswith("batch") for line in told) >= 4
    assert any(str(broken) in line for line in told), "a file cut short is named, and does not end the stream"
    assert sum(f"left out {damaged}: its rows cannot be read" in line for line in told) == 1
    assert_same(lake, history)


@pytest.mark.long
@pytest.mark.parametrize("turn", [0, 1])
def test_stream_and_batch_agree_on_gaps_and_executions(
    spark: SparkSession, tmp_path: Path, turn: int
) -> None:
    """Scrapes and commits that are missed, brokers that do not answer, leaderships that move: tick after tick
    the same tables as at once. First a micro-batch holds one tick, later six.
    """
    stream, batch = (Lake(tmp_path / name, REPLICAS) for name in ("stream", "batch"))
    settings = ReplicasPipelineSettings(record_size_window_seconds=600, cpu_fit_windows=5)
    seeds = [seed for seed in range(40) if drawn_faults(seed).transfers and drawn_faults(seed).unread]
    story = Story("story", seeds[turn], drawn_faults(seeds[turn]))
    land_by_tick(story.table(), batch.raw)
    run_batch(spark, batch, settings)
    files = sorted(local(batch.raw).glob("*/*.parquet"), key=lambda path: path.stem)
    for most, landed in ((1, files[:3]), (6, files[3:])):
        for file in landed:
            target = local(stream.raw) / file.relative_to(local(batch.raw))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
            number = files.index(file) + 1
            os.utime(target, (number, number))
        told: list[str] = []
        run_stream(
            spark, stream, settings, StreamSource(max_per_batch=most), once=True, print_progress=told.append
        )
        assert sum(line.startswith("batch") for line in told) >= len(landed) / most
    assert_same(stream, batch)


def test_killed_stream_loses_and_doubles_nothing(history: Lake, tmp_path: Path) -> None:
    """Python and its JVM are killed with -9 at a random moment while samples arrive; a restart picks up
    exactly. On a cluster, and twice: `test_lake_on_s3.py`.
    """
    lake = Lake(tmp_path / "killed", REPLICAS)
    files = bad_day()
    landed = 6
    for number in range(landed):
        land(files[number], lake.raw, f"file-{number:03d}")
    process = start_stream(lake, "--trigger=1s", "--max-per-batch=2")
    try:
        wait_for_publication(lake, process)
        time.sleep(random.Random(11).uniform(0.0, 4.0))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for number in range(landed, len(files)):
        land(files[number], lake.raw, f"file-{number:03d}")
    last = start_stream(lake, "--once")
    assert last.wait(PATIENCE_SECONDS) == 0
    assert_same(lake, history)


@pytest.mark.kafka
@pytest.mark.long
def test_stream_from_a_topic_makes_the_same_tables(
    history: Lake, six_brokers: KafkaSandbox, tmp_path: Path
) -> None:
    """Samples as JSON in a topic make the tables of the files, and land as raw files themselves."""
    lake = Lake(tmp_path / "topic", REPLICAS)
    topic = f"samples-{os.getpid()}"
    connection = KafkaConnection(tuple(six_brokers.bootstrap.split(",")))
    files = bad_day()
    with closing(admin_client(connection)) as admin:
        admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}})
        admin.wait_for_topics([topic], timeout_ms=120_000)
    try:
        with closing(producer(connection)) as sender:
            for file in files:
                for row in file.to_pylist():
                    sender.send(topic, value=as_json(row))
            sender.flush()
        options = (
            f"--source=kafka:{topic}",
            f"--cluster=kafka://{six_brokers.bootstrap}",
            "--once",
            "--max-per-batch=200",
        )
        process = start_stream(lake, *options)
        assert process.wait(PATIENCE_SECONDS) == 0, (lake.path / "stream.log").read_text()
    finally:
        delete_topics(connection, [topic])
    assert_same(lake, history)
    landed = sum(pyarrow.parquet.read_metadata(path).num_rows for path in lake.raw_files())
    assert landed == sum(file.num_rows for file in files), "history can be built anew without the topic"


def as_json(row: dict[str, Any]) -> bytes:
    """A sample as collectors write it to a topic: nulls left out, instants as text."""
    told = {
        name: value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(value, datetime.datetime) else value
        for name, value in row.items()
        if value is not None
    }
    return json.dumps(told).encode()


def start_stream(lake: Lake, *options: str) -> subprocess.Popen[bytes]:
    """`trimtab pipeline stream` in a process group of its own."""
    program = "from trimtab.cli.app import main; main()"
    command = [
        sys.executable,
        "-c",
        program,
        "pipeline",
        "stream",
        f"--lake={lake.path}",
        "--master=local[2]",
    ]
    local(lake.path).mkdir(exist_ok=True)
    with (local(lake.path) / "stream.log").open("ab") as log:
        return subprocess.Popen(
            [*command, *options, *OVERRIDES], start_new_session=True, stderr=log, stdout=log
        )


def wait_for_publication(lake: Lake, process: subprocess.Popen[bytes]) -> None:
    """Until the stream has published, so that the kill falls into its work, not into its start."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not lake.manifest().streams:
        assert process.poll() is None, (lake.path / "stream.log").read_text()
        assert time.monotonic() < deadline, (lake.path / "stream.log").read_text()
        time.sleep(0.05)
