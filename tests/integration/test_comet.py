"""Apache DataFusion Comet: native queries give the tables of plain Spark, in batch and as a stream."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.spark_cluster import spark_cluster
from synthetic_telemetry import SyntheticCluster, dirtied, land
from trimtab.files.store import place_of
from trimtab.jars import spark_comet_jars
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.steps.batch import run_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.object_store import ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

SETTINGS = ReplicasPipelineSettings(window_seconds=60, slide_seconds=30, profile_weeks=2)
ACCELERATED = """
import sys
from trimtab.files.store import place_of
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE, ReplicasPipelineSettings
from trimtab.observe.spark.session import SessionSettings, lake_session, spark_address
from trimtab.observe.steps.batch import run_batch
from trimtab.observe.steps.stream import StreamSource, run_stream

master, batch, *stream = sys.argv[1:]
settings = ReplicasPipelineSettings(window_seconds=60, slide_seconds=30, profile_weeks=2)
spark = SessionSettings(
    master=master, memory="1g", executor_memory="512m", large_job=True, accelerator="comet",
    off_heap_memory="512m",
)
session = lake_session(spark, place_of(batch), print)
raw = session.read.parquet(*(spark_address(path) for path in Lake(place_of(batch), PIPELINE).raw_files()))
plan = raw.groupBy("kind").count()._jdf.queryExecution().executedPlan().toString()
assert "CometHashAggregate" in plan, plan
run_batch(session, Lake(place_of(batch), PIPELINE), settings)
for path in stream:
    run_stream(session, Lake(place_of(path), PIPELINE), settings, StreamSource(max_per_batch=18), once=True)
session.stop()
"""


@pytest.fixture
def plain(spark: SparkSession, tmp_path: Path) -> Lake:
    """A lake of dirty samples, whose tables plain Spark has made."""
    if not spark_comet_jars():
        pytest.skip("Comet has no build for this version of Spark")
    lake = Lake(tmp_path / "plain", REPLICAS)
    raw = SyntheticCluster(brokers=4, partitions=12, replication=3).raw(30)
    for number, part in enumerate(dirtied(raw, 10.0, lateness_seconds=60.0)):
        land(part, lake.raw, f"part-{number}")
    run_batch(spark, lake, SETTINGS)
    return lake


def accelerated(master: str, *places: object) -> None:
    """Run batch in the first lake and streams in the others, in a process of its own with Comet."""
    import pyspark

    done = subprocess.run(
        [sys.executable, "-c", ACCELERATED, master, *map(str, places)],
        env={**os.environ, "SPARK_HOME": str(Path(pyspark.__file__).parent)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def assert_same(lake: Lake, other: Lake) -> None:
    """The same rows in every table, to the bit."""
    for name in REPLICAS.tables:
        one, two = (sorted(map(repr, found.table(name).to_pylist())) for found in (lake, other))
        assert one == two, name
    assert lake.table("windows").num_rows > 100


def test_batch_and_stream_with_comet_equal_plain_spark(plain: Lake, tmp_path: Path) -> None:
    """Every column of every table, with late, doubled and unordered samples."""
    lakes = [Lake(tmp_path / name, REPLICAS) for name in ("batch", "stream")]
    for lake in lakes:
        shutil.copytree(plain.raw, lake.raw)
    accelerated("local[2]", *(lake.path for lake in lakes))
    for lake in lakes:
        assert_same(plain, lake)


def test_a_cluster_with_comet_reads_and_writes_an_object_store(
    plain: Lake, tmp_path: Path, s3: ObjectStore
) -> None:
    """Executors of a standalone cluster load Comet from their class path, and share nothing but the store."""
    address = f"{s3.bucket()}/lake"
    lake = Lake(place_of(address), REPLICAS)
    for path in Path(str(plain.raw)).rglob("*.parquet"):
        (lake.raw / path.parent.name / path.name).write_bytes(path.read_bytes())
    with spark_cluster(tmp_path / "cluster") as there:
        accelerated(there.master, address)
    assert_same(plain, lake)
