"""Rows per second of the pipeline: Spark in batch and as a stream, beside DuckDB, Polars and a bare scan.

All engines read the same Parquet files, do the same job (clean, rates, growth, traffic, brokers, windows,
imbalance), and write the same tables; the run fails if any result differs. Spark's own run is given twice:
those tables only, and all that the product makes. Start-up of the JVM is timed apart. Turns alternate, so
that a busy moment meets all alike. Curves over partitions and cores come after it, each point in a process of
its own (`pipeline_points.py`).
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset
import pyarrow.parquet

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import pipeline_duckdb
import pipeline_polars
from pipeline_points import fill, measured, timed
from results import write_result
from same_result import KEYS, difference

from trimtab.observe.lake import Lake
from trimtab.observe.pipeline import run_batch
from trimtab.observe.replicas import stages
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.session import SessionSettings, spark_session
from trimtab.observe.stream import Source, run_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

SAME_JOB = ("rates", "growth", "traffic", "brokers", "clients", "windows", "imbalance")
WHOLE = stages.STAGES
POINTS = ((200, 2), (2_000, 2), (20_000, 2), (2_000, 1))
"""Partitions and cores."""


def main() -> None:
    """Measure, compare, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--ticks", type=int, default=120)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-points", action="store_true", help="leave the curves out")
    asked = parser.parse_args()
    settings = ReplicasPipelineSettings(window_seconds=60, slide_seconds=60)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        lake = Lake(scratch / "lake", REPLICAS)
        rows = fill(lake, asked.partitions, asked.ticks, asked.files)
        print(
            f"{rows:,} raw rows: {asked.partitions} partitions x 3 replicas x {asked.ticks} ticks", flush=True
        )
        begun = time.perf_counter()
        session = spark_session(
            SessionSettings(master="local[2]", memory="3g", heavy=True), scratch / "spark"
        )
        start_seconds = time.perf_counter() - begun
        contenders = engines(session, lake, scratch, settings)
        seconds, cpu = alternate(contenders, asked.runs)
        check(lake, scratch)
        session.stop()
    # Spark's memory is that of its points: here it shares the process with the other engines.
    points = [] if asked.no_points else [_told(*one) for one in POINTS]
    scan = statistics.median(seconds["scan"])
    figures = {
        engine: {
            "seconds": [round(one, 3) for one in took],
            "median_seconds": round(statistics.median(took), 3),
            "rows_per_second": round(rows / statistics.median(took)),
            "cpu_seconds": round(statistics.median(cpu[engine]), 2),
            "times_the_scan": round(statistics.median(took) / scan, 1),
        }
        for engine, took in seconds.items()
    }
    write_result(
        "pipeline",
        {
            "raw_rows": rows,
            "partitions": asked.partitions,
            "ticks": asked.ticks,
            "files": asked.files,
            "spark_start_seconds": round(start_seconds, 2),
            "peak_memory_mib_of_python": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "same_results": sorted(KEYS),
            "engines": figures,
            "points": points,
        },
    )
    for engine, row in figures.items():
        speed = f"{row['median_seconds']:8.2f} s {row['rows_per_second']:>12,} rows/s"
        print(f"{engine:24} {speed} {row['times_the_scan']:>8} scans")


def engines(
    session: SparkSession, lake: Lake, scratch: Path, settings: ReplicasPipelineSettings
) -> dict[str, Callable[[], object]]:
    """What is timed, by name; each begins with nothing but the raw files."""
    files = lake.raw_files()

    def outputs(name: str) -> Path:
        folder = scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def spark_batch(same_job: bool) -> None:
        shutil.rmtree(lake.tables, ignore_errors=True)
        chosen = [stage for stage in WHOLE if not same_job or stage.table in SAME_JOB]
        stages.STAGES = tuple(chosen)
        try:
            run_batch(session, lake, settings)
        finally:
            stages.STAGES = WHOLE
        if same_job:
            kept = {name: lake.table(name) for name in KEYS}
            for name, table in kept.items():
                pyarrow.parquet.write_table(table, scratch / f"spark-{name}.parquet")

    def spark_stream() -> None:
        other = Lake(scratch / "stream", REPLICAS)
        shutil.rmtree(other.path, ignore_errors=True)
        shutil.copytree(lake.raw, other.raw)
        run_stream(session, other, settings, Source(most_per_batch=1), once=True)

    return {
        "scan": lambda: pyarrow.dataset.dataset(files).to_table(),
        "duckdb": lambda: pipeline_duckdb.run(files, outputs("duckdb"), settings),
        "polars": lambda: pipeline_polars.run(files, outputs("polars"), settings),
        "spark, same job": lambda: spark_batch(same_job=True),
        "spark, all tables": lambda: spark_batch(same_job=False),
        "spark, stream": spark_stream,
    }


def alternate(
    contenders: dict[str, Callable[[], object]], runs: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds of each, of the clock and of processors, in turns; one uncounted turn goes first, but for the
    stream, which is long.
    """
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(runs + 1):
        for name, call in contenders.items():
            if name == "spark, stream" and turn != runs:
                continue
            took, used = timed(call)
            print(
                f"  turn {turn} of {runs}, {name}: {took:.2f} s, {used:.1f} s of CPU",
                file=sys.stderr,
                flush=True,
            )
            if turn:
                wall[name].append(took)
                cpu[name].append(used)
    return wall, cpu


def _told(partitions: int, cores: int) -> dict[str, object]:
    found = measured(partitions, cores)
    print(f"  {partitions:,} partitions on {cores} cores: {found}", file=sys.stderr, flush=True)
    return found


def check(lake: Lake, scratch: Path) -> None:
    """Fail unless all engines, and the stream, made the same tables."""
    spark = {name: pyarrow.parquet.read_table(scratch / f"spark-{name}.parquet") for name in KEYS}
    stream = Lake(scratch / "stream", REPLICAS)
    others = {
        "duckdb": {name: pyarrow.parquet.read_table(scratch / "duckdb" / f"{name}.parquet") for name in KEYS},
        "polars": {name: pyarrow.parquet.read_table(scratch / "polars" / f"{name}.parquet") for name in KEYS},
        "stream": {name: stream.table(name) for name in KEYS},
    }
    for engine, tables in others.items():
        found = difference(spark, tables)
        if found is not None:
            raise SystemExit(f"{engine} differs from spark: {found}")
    print("all engines and the stream made the same traffic, windows and imbalance")


if __name__ == "__main__":
    main()
