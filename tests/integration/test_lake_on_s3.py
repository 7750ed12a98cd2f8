"""A lake in an object store: the same tables as in a folder, also after kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.object_store import ObjectStore
from synthetic_telemetry import SyntheticCluster, dirtied, land
from trimtab.observe.lake import Lake
from trimtab.observe.pipeline import run_batch
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.replicas.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PATIENCE_SECONDS = 400.0
SETTINGS = ReplicasPipelineSettings(window_seconds=20, slide_seconds=10, lateness_seconds=60, gap_seconds=25)
OVERRIDES = [
    f"--set=pipeline.{name}={value}"
    for name, value in SETTINGS.of_tables().items()
    if name in ("window_seconds", "slide_seconds", "lateness_seconds", "gap_seconds")
]


def content(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, in an order of its own; equal only if every bit is."""
    return {name: sorted(lake.table(name).to_pylist(), key=repr) for name in TABLES}


def landed(*lakes: Lake) -> None:
    """Nine ticks of a bad day, in each lake."""
    cluster = SyntheticCluster(brokers=4, partitions=10, seconds_per_tick=10.0)
    for number, rows in enumerate(dirtied(cluster.raw(9), 10.0, SETTINGS.lateness_seconds)):
        for lake in lakes:
            land(rows, lake.raw, f"file-{number:03d}")


def trimtab(*words: str, lake: Lake) -> subprocess.Popen[str]:
    """A command of trimtab's, in a process group of its own."""
    program = "from trimtab.cli.app import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", program, *words, f"--lake={lake.path}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def told(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    """What a command that ends with a code says on its two streams."""
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code, err
    return out, err


def test_a_stream_into_s3_killed_in_the_middle_ends_in_the_tables_of_a_folder(
    s3: ObjectStore, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collected, streamed, killed, streamed on; then `status`, `plan` and `compact`, which start no JVM."""
    folder, bucket = Lake(tmp_path / "lake", REPLICAS), Lake(f"{s3.bucket()}/lake", REPLICAS)
    landed(folder, bucket)
    run_batch(spark, folder, SETTINGS)
    words = ("pipeline", "stream", "--once", "--most=6", "--master=local[2]", *OVERRIDES)
    killed = trimtab(*words, lake=bucket)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not bucket.manifest().version:
        assert killed.poll() is None, killed.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    # While it writes, nobody else does.
    _, refused = told(trimtab("pipeline", "compact", lake=bucket), code=1)
    assert "are being written by another `trimtab pipeline` (process" in refused
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert content(bucket) != content(folder)
    _, err = told(trimtab(*words, lake=bucket))
    assert "was writing" not in err
    assert content(bucket) == content(folder)
    # Copies of snapshots go to a cache of their own.
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    here, there = (json.loads(told(trimtab("status", "--json", lake=one))[0]) for one in (folder, bucket))
    assert without_ages(there) == without_ages(here)
    plans = []
    for one in (folder, bucket):
        out = tmp_path / f"plan-{len(plans)}.json"
        told(trimtab("plan", "replicas", f"--out={out}", lake=one))
        plans.append({**json.loads(out.read_text()), "made_at": None})
    assert plans[0]["moves"] == plans[1]["moves"]
    told(trimtab("pipeline", "compact", lake=bucket))
    assert content(bucket) == content(folder)


def without_ages(value: Any) -> Any:
    """JSON without the numbers that depend on the time of day."""
    if isinstance(value, dict):
        return {key: without_ages(inner) for key, inner in value.items() if "age" not in key}
    return [without_ages(inner) for inner in value] if isinstance(value, list) else value
