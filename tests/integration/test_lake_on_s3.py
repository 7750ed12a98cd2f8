"""A cluster of Spark that shares nothing but a lake in an object store, with everything dying on the way."""

from __future__ import annotations

import datetime
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import trimtab as trimtab_package
from support.clocks import clock_off_by
from support.object_store import ObjectStore
from support.spark_cluster import FAST_START, spark_cluster
from synthetic_telemetry import SyntheticCluster, dirtied, land
from trimtab.files.store import make_folder
from trimtab.files.versioned_documents import VersionedDocuments
from trimtab.lab.sandbox.kafka.topics import delete_topics
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.steps.batch import run_batch
from trimtab.systems.kafka.client import admin_client
from trimtab.systems.kafka.settings import KafkaConnection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trimtab.lab.sandbox.kafka import KafkaSandbox

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(1500)]

PATIENCE_SECONDS = 400.0
WINDOWS = {"window_seconds": 20, "slide_seconds": 10, "lateness_seconds": 60, "gap_seconds": 25}
SETTINGS = ReplicasPipelineSettings(**WINDOWS)  # type: ignore[arg-type]
CLOCK_OFF_SECONDS = 5 * 3600
TOPIC = f"lake-{os.getpid()}"
BAD_DAY, REAL = "test", "real"
"""The clusters whose samples lie in the lake."""


def content(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, in an order of its own; equal only if every bit is."""
    return {name: sorted(lake.table(name).to_pylist(), key=repr) for name in REPLICAS.tables}


def assert_same(lake: Lake, other: Lake) -> None:
    """The same rows in every table, and the same newest snapshot of each cluster."""
    found, wanted = content(lake), content(other)
    assert {name: len(rows) for name, rows in found.items()} == {
        name: len(rows) for name, rows in wanted.items()
    }
    for name in REPLICAS.tables:
        assert repr(found[name]) == repr(wanted[name]), name
    for cluster in (BAD_DAY, REAL):
        assert snapshot(lake, cluster) == snapshot(other, cluster), cluster


def snapshot(lake: Lake, cluster: str) -> dict[str, Any]:
    """The files of a cluster's newest snapshot, what is told of the quality of its samples included."""
    files = {path.name: path.read_bytes() for path in lake.newest_snapshot(cluster).iterdir()}
    return {**files, "meta.json": json.loads(files["meta.json"])}


def worked_in(lake: Lake) -> int:
    """The last micro-batch in the tables; -1 before the first."""
    return max(lake.manifest().streams.values(), default=-1)


def written(lake: Lake) -> int:
    """How many times the first table of a step was written."""
    return len(list((lake.tables / "cleaned").iterdir()))


def writer(lake: Lake) -> int:
    """The process that has the seat."""
    newest = VersionedDocuments(lake.tables / "writer-lock", retained=4).newest()
    assert newest is not None
    return int(json.loads(newest[1])["pid"])


def settings_file(folder: Path, master: str) -> Path:
    """Settings of a user of a Spark cluster; JVMs start as short as they can."""
    path = folder / "trimtab.toml"
    path.write_text(
        f'[spark]\nmaster = "{master}"\nmemory = "1g"\nexecutor_memory = "512m"\n'
        f'[spark.conf]\n"spark.driver.extraJavaOptions" = "{FAST_START}"\n'
        f'"spark.executor.extraJavaOptions" = "{FAST_START}"\n"spark.sql.shuffle.partitions" = 2\n'
        '"spark.sql.codegen.wholeStage" = false\n"spark.sql.codegen.factoryMode" = "NO_CODEGEN"\n'
        f'[collect]\ncluster = "{REAL}"\n[pipeline]\n'
        + "".join(f"{name} = {value}\n" for name, value in WINDOWS.items())
    )
    return path


def trimtab(*words: object) -> subprocess.Popen[str]:
    """A command of trimtab's, in a process group of its own; lake and settings are in the environment."""
    program = "from trimtab.cli.app import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def submitted(master: str, folder: Path, *words: str) -> subprocess.Popen[str]:
    """The same by `spark-submit`, whose command line says what the settings leave open."""
    import pyspark

    home = Path(pyspark.__file__).parent
    file = folder / "submitted.toml"
    file.write_text("[pipeline]" + (folder / "trimtab.toml").read_text().partition("[pipeline]")[2])
    conf = {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": FAST_START,
        "spark.sql.shuffle.partitions": 2,
    }
    return subprocess.Popen(
        [
            home / "bin" / "spark-submit", "--master", master, "--driver-memory", "1g",
            "--driver-java-options", FAST_START,
            *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
            Path(trimtab_package.__file__).with_name("__main__.py"), *words, f"--settings={file}",
        ],
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def told(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    """What a command that ends with a code says on its two streams."""
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code, err
    return out, err


def kill(process: subprocess.Popen[str]) -> None:
    """End a command and its Java with -9."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def wait_until(done: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until something is so, while a command runs."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the command does not get there"
        time.sleep(0.1)


def test_a_spark_cluster_over_s3_makes_the_tables_of_a_folder_despite_kills(
    s3: ObjectStore,
    six_brokers: KafkaSandbox,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Collected from brokers, streamed by two workers that have no folder in common, killed twice, streamed
    on; batch over history with a worker killed in the middle; then `status`, `plan` and `compact`, which
    start no JVM. One worker's clock is five hours off all the time.
    """
    folder, bucket = Lake(tmp_path / "lake", REPLICAS), Lake(f"{s3.bucket()}/lake", REPLICAS)
    monkeypatch.setenv("TRIMTAB_LAKE", str(bucket.path))
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    # Not long ago: a cluster that is days behind the others gets no snapshot any more.
    start = datetime.datetime.now(datetime.UTC).replace(minute=0, second=0, microsecond=0)
    cluster = SyntheticCluster(
        brokers=4,
        partitions=10,
        seconds_per_tick=10.0,
        name=BAD_DAY,
        start=start - datetime.timedelta(hours=2),
    )
    for number, rows in enumerate(dirtied(cluster.raw(9), 10.0, SETTINGS.lateness_seconds)):
        land(rows, bucket.raw, f"file-{number:03d}")
    connection = KafkaConnection(tuple(six_brokers.bootstrap.split(",")))
    with closing(admin_client(connection)) as admin:
        admin.create_topics({TOPIC: {"num_partitions": 3, "replication_factor": 2}})
        admin.wait_for_topics([TOPIC], timeout_ms=120_000)
    request.addfinalizer(lambda: delete_topics(connection, [TOPIC]))
    wrong = clock_off_by(CLOCK_OFF_SECONDS, tmp_path)
    with spark_cluster(tmp_path / "cluster", ({}, wrong)) as there:
        monkeypatch.setenv("TRIMTAB_SETTINGS", str(settings_file(tmp_path, there.master)))
        collector = trimtab(
            "collect", "--cluster", f"kafka://{six_brokers.bootstrap}", "--interval", 3, "--ticks", 3
        )
        stream = ("pipeline", "stream", "--trigger=1s", "--max-per-batch=9")
        killed = trimtab(*stream)
        # Once it has published, so that the kill falls into its work, not into its start.
        wait_until(lambda: worked_in(bucket) >= 0, killed)
        time.sleep(random.Random(7).uniform(0, 2))
        kill(killed)
        told(collector)
        # And once between its first table and the last.
        begun = written(bucket)
        second = trimtab(*stream)
        wait_until(lambda: written(bucket) > begun and writer(bucket) == second.pid, second)
        # While it writes, nobody else does.
        refused = told(trimtab("pipeline", "compact"), code=1)[1]
        assert "are being written by another `trimtab pipeline` (process" in refused
        kill(second)
        for path in bucket.raw_files():
            make_folder(copy := folder.raw / path.parent.name)
            (copy / path.name).write_bytes(path.read_bytes())
        run_batch(spark, folder, SETTINGS)
        told(trimtab(*stream, "--once"))
        assert_same(bucket, folder)
        begun = written(bucket)
        batch = submitted(there.master, tmp_path, "pipeline", "run")
        wait_until(lambda: written(bucket) > begun, batch)
        there.workers[0].kill()
        told(batch)
        assert_same(bucket, folder)
        if wrong:
            assert abs(minutes_off(there.workers[1].folder) - CLOCK_OFF_SECONDS / 60) < 30
    assert json.loads(told(trimtab("status", "--json", "--cluster", REAL))[0])["cluster"] == REAL
    plan = tmp_path / "plan.json"
    told(trimtab("plan", "replicas", "--cluster", BAD_DAY, f"--out={plan}"))
    assert json.loads(plan.read_text())["moves"]
    told(trimtab("pipeline", "compact"))
    assert_same(bucket, folder)


def minutes_off(worker: Path) -> int:
    """By how much the clock of a worker's newest executor goes ahead of ours, by its log."""
    log = max(worker.glob("work/*/*/stderr"), key=lambda path: path.stat().st_mtime)
    *_, (hour, minute) = re.findall(r"^\d\d/\d\d/\d\d (\d\d):(\d\d):", log.read_text(), re.MULTILINE)
    ours = time.localtime(log.stat().st_mtime)
    return (60 * (int(hour) - ours.tm_hour) + int(minute) - ours.tm_min) % (24 * 60)
