"""One point of the pipeline's curves: Spark in a process of its own, in batch and live.

A run by hand prints the figures of one point as JSON. Live means: a micro-batch for every tick, from samples
landed to the snapshot written.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from synthetic_telemetry import SyntheticCluster, land
from trimtab.observe.lake import Lake
from trimtab.observe.pipeline import run_batch
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.session import SessionSettings, spark_session
from trimtab.observe.stream import Source, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = ReplicasPipelineSettings(window_seconds=60, slide_seconds=60)
PARTITION_TICKS = 60_000
"""Partitions times ticks of the batch: every point has as many raw rows."""


def main() -> None:
    """Measure one point and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--live-ticks", type=int, default=12)
    print(json.dumps(point(parser.parse_args())))


def measured(partitions: int, cores: int, *options: str) -> dict[str, object]:
    """The figures of a point, by a process of its own."""
    words = [f"--partitions={partitions}", f"--cores={cores}", *options]
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{partitions} partitions on {cores} cores: {done.stderr[-2000:]}")
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def point(asked: argparse.Namespace) -> dict[str, object]:
    """Seconds, rows per second, CPU seconds and memory of batches and micro-batches but the first."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        begun = time.perf_counter()
        session = spark_session(
            SessionSettings(master=f"local[{asked.cores}]", memory="3g", heavy=True), scratch / "spark"
        )
        started = time.perf_counter() - begun
        ticks = max(PARTITION_TICKS // asked.partitions, 2)
        lake = Lake(scratch / "batch", REPLICAS)
        rows = fill(lake, asked.partitions, ticks, min(ticks, 12))
        batch = [timed(lambda: _batch(session, lake)) for _ in range(asked.runs + 1)]
        shutil.rmtree(lake.path)
        live = Lake(scratch / "live", REPLICAS)
        per_tick = fill(live, asked.partitions, asked.live_ticks, asked.live_ticks) // asked.live_ticks
        seconds = _live(session, live)
        memory = peak_mebibytes()
        session.stop()
    later = seconds[len(seconds) // 2 :]
    wall, cpu = (statistics.median(one) for one in zip(*batch[1:], strict=True))
    tick = statistics.median(later)
    return {
        "partitions": asked.partitions,
        "cores": asked.cores,
        "spark_start_seconds": round(started, 2),
        "batch_rows": rows,
        "batch_first_seconds": round(batch[0][0], 2),
        "batch_seconds": round(wall, 2),
        "batch_rows_per_second": round(rows / wall),
        "batch_cpu_microseconds_per_row": round(1e6 * cpu / rows, 1),
        "tick_rows": per_tick,
        "tick_first_seconds": round(seconds[0], 2),
        "tick_seconds": round(tick, 2),
        "tick_rows_per_second": round(per_tick / tick),
        "peak_mebibytes": memory,
    }


def fill(lake: Lake, partitions: int, ticks: int, files: int) -> int:
    """Land the samples of a cluster in so many files; returns the rows."""
    cluster = SyntheticCluster(
        brokers=12, partitions=partitions, replication=3, partitions_per_topic=20, seconds_per_tick=30.0
    )
    raw = cluster.raw(ticks)
    instants = pa.compute.unique(raw["tick"]).sort()
    each = -(-len(instants) // files)
    for number in range(0, len(instants), each):
        part = pa.compute.is_in(raw["tick"], value_set=instants[number : number + each])
        land(raw.filter(part), lake.raw, f"part-{number // each:03d}")
    return int(raw.num_rows)


def _batch(session: SparkSession, lake: Lake) -> None:
    shutil.rmtree(lake.tables, ignore_errors=True)
    run_batch(session, lake, SETTINGS)


def _live(session: SparkSession, lake: Lake) -> list[float]:
    """Seconds from one snapshot to the next, with all samples there: what a micro-batch of a tick takes."""
    told: list[float] = [time.perf_counter()]

    def say(line: str) -> None:
        if line.startswith("batch "):
            told.append(time.perf_counter())

    run_stream(session, lake, SETTINGS, Source(most_per_batch=1), once=True, say=say)
    return [later - before for before, later in pairwise(told)]


def timed(call: object) -> tuple[float, float]:
    """Seconds of the clock, and of all processors for this process and its JVM."""
    begun, before = time.perf_counter(), _cpu_seconds()
    call()  # type: ignore[operator]
    return time.perf_counter() - begun, _cpu_seconds() - before


def _family() -> list[int]:
    """Process ids: of Python and of its children, which is Spark's JVM."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [os.getpid(), *map(int, listed)]


def _cpu_seconds() -> float:
    ticks = 0
    for process in _family():
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_mebibytes() -> int:
    """Largest resident memory of this process and its JVM together, had they had it at once."""
    mine = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peaks = [
        int(line.split()[1])
        for process in _family()[1:]
        for line in Path(f"/proc/{process}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    ]
    return round((mine + sum(peaks)) / 1024)


if __name__ == "__main__":
    main()
