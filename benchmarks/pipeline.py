"""Rows per second of the pipeline: Spark in batch and as a stream, beside DuckDB, Polars and a bare scan.

All engines read the same Parquet files, do the same job (clean, rates, growth, traffic, brokers, windows,
imbalance), and write the same tables; the part fails if any result differs. Spark's own run is given twice:
those tables only, and all that the product makes; and each of them without and with Comet, in two JVMs.
Start-up of a JVM is timed apart. Turns alternate, so that a busy moment meets all alike. The part `command`
is `trimtab pipeline run` over the same rows as its user waits for it, start included. Curves over
partitions, cores and workers come after it, each point in a process of its own (`pipeline_points.py`).

Parts are kept as soon as they are measured, and one that fails does not lose the others; parts that are not
asked for stay as they were. All of it takes some twenty minutes on two quiet cores; `--resume` goes on where
a run was ended, as long as the code is the same.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset
import pyarrow.parquet

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import month_lake
import pipeline_duckdb
import pipeline_polars
from pipeline_points import fill, measured, timed
from results import read_result, write_result
from same_result import KEYS, difference

from trimtab.jars import spark_comet_jars
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas import stages
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.spark.session import SessionSettings, spark_session
from trimtab.observe.steps.batch import run_batch
from trimtab.observe.steps.stream import StreamSource, run_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from pyspark.sql import SparkSession

SAME_JOB = ("rates", "growth", "traffic", "brokers", "clients", "windows", "imbalance")
WHOLE = stages.STAGES
ENGINES, COMMAND = "engines", "command"
STREAM = "spark, stream"
TWO_WORKERS = "local-cluster[2,1,2560]"
"""A master of Spark's own and two workers, each with a process for an executor of one core."""
POINTS: dict[str, tuple[int, str, int, int]] = {
    "200": (200, "local[2]", 4, 26),
    "2000": (2_000, "local[2]", 14, 26),
    "20000": (20_000, "local[2]", 4, 26),
    "100000": (100_000, "local[2]", 4, 6),
    "334000": (334_000, "local[2]", 0, 6),
    "2000-one-core": (2_000, "local[1]", 6, 6),
    "2000-two-workers": (2_000, TWO_WORKERS, 14, 6),
}
"""Partitions, master, batches, and ticks that come live: as few as show what a tick takes, so that all points
end within half an hour. One process and two workers are compared once little is compiled any more."""
OUTSIDE_POINTS = {ENGINES: "compared", COMMAND: "command"}
"""Where the results of the other parts are kept."""
PARTS = (ENGINES, COMMAND, *POINTS)


def main() -> None:
    """Measure the parts asked for, one after the other; exit code 1 if some failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"which: {', '.join(PARTS)}; all of them")
    parser.add_argument("--partitions", type=int, default=2000, help=f"of {ENGINES}")
    parser.add_argument("--ticks", type=int, default=120, help=f"of {ENGINES}")
    parser.add_argument("--files", type=int, default=12, help=f"of {ENGINES}; each a micro-batch")
    parser.add_argument("--runs", type=int, default=3, help=f"counted turns of {ENGINES} and {COMMAND}")
    parser.add_argument(
        "--quick", action="store_true", help="a first look: a quarter of the rows, two points"
    )
    parser.add_argument(
        "--resume", action="store_true", help="leave out parts that this very code was measured by already"
    )
    asked = parser.parse_args()
    if asked.quick:
        asked.ticks, asked.files, asked.runs = min(asked.ticks, 30), 3, 1
    parts = asked.parts or ([ENGINES, "200", "2000"] if asked.quick else PARTS)
    for name in parts:
        if name not in PARTS:
            parser.error(f"there is no part {name!r}; choose from {', '.join(PARTS)}")
    if asked.resume:
        parts = [name for name in parts if kept_part(name).get("code") != fingerprint()]
    begun, failed = time.monotonic(), []
    for number, name in enumerate(parts, start=1):
        told(f"[{number}/{len(parts)}] {name}, {time.monotonic() - begun:.0f} s so far")
        try:
            if name in POINTS:
                found = _point(name, asked.quick)
            else:
                found = compared(asked) if name == ENGINES else commanded(asked)
            keep(name, found | {"code": None if asked.quick else fingerprint()})
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            failed.append(f"{name}: {error}")
    for line in failed:
        told(f"failed: {line}")
    told(f"{time.monotonic() - begun:.0f} s in all")
    sys.exit(1 if failed else 0)


def told(line: str) -> None:
    """Progress, at once."""
    print(f"  {line}", file=sys.stderr, flush=True)


def fingerprint() -> str:
    """Twelve digits that stand for the code of the pipeline and of this benchmark."""
    here = Path(__file__).parent
    files = [*here.glob("pipeline*.py"), *(here.parent / "src" / "trimtab" / "observe").rglob("*.py")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()[:12]


def kept_rows() -> dict[str, Any]:
    """What all parts found before."""
    before = read_result("pipeline")
    return before["rows"] if before and "compared" in before["rows"] else {"compared": None, "points": {}}


def kept_part(part: str) -> dict[str, Any]:
    """What a part found before; empty where it was not measured."""
    rows = kept_rows()
    return (rows["points"].get(part) if part in POINTS else rows.get(OUTSIDE_POINTS[part])) or {}


def keep(part: str, found: dict[str, Any]) -> None:
    """Put what a part found beside what others found before."""
    found["load_average"] = round(os.getloadavg()[0], 2)
    rows = kept_rows()
    if part in POINTS:
        rows["points"][part] = found
    else:
        rows[OUTSIDE_POINTS[part]] = found
    rows["points"] = {name: rows["points"][name] for name in POINTS if name in rows["points"]}
    write_result("pipeline", rows)


def compared(asked: argparse.Namespace) -> dict[str, Any]:
    """All engines on the same rows, in turns."""
    settings = ReplicasPipelineSettings(window_seconds=60, slide_seconds=60)
    with tempfile.TemporaryDirectory() as name, ExitStack() as ending:
        scratch = Path(name)
        lake = Lake(scratch / "lake", REPLICAS)
        rows = fill(lake, asked.partitions, asked.ticks, asked.files)
        told(f"{rows:,} raw rows: {asked.partitions} partitions x 3 replicas x {asked.ticks} ticks")
        contenders = engines_without_jvm(lake, scratch, settings)
        if spark_comet_jars():
            contenders |= ending.enter_context(comet_batches(lake, scratch / "comet", settings))
        begun = time.perf_counter()
        session = spark_session(_settings("none"), scratch / "spark")
        start_seconds = time.perf_counter() - begun
        ending.callback(session.stop)
        contenders |= spark_runs(session, lake, scratch, settings)
        seconds, cpu = alternate(contenders, asked.runs)
        check(lake, scratch)
    counted = {name: took[1:] or took for name, took in seconds.items()}
    scan = statistics.median(counted["scan"])
    figures = {
        engine: {
            "first_seconds": round(seconds[engine][0], 3),
            "seconds": [round(one, 3) for one in took],
            "median_seconds": round(statistics.median(took), 3),
            "rows_per_second": round(rows / statistics.median(took)),
            "cpu_seconds": round(statistics.median(cpu[engine][1:] or cpu[engine]), 2),
            "times_the_scan": round(statistics.median(took) / scan, 1),
        }
        for engine, took in counted.items()
    }
    for engine, row in figures.items():
        told(f"{engine:24} {row['median_seconds']:8.2f} s {row['rows_per_second']:>12,} rows/s")
    return {
        "raw_rows": rows,
        "partitions": asked.partitions,
        "ticks": asked.ticks,
        "files": asked.files,
        "runs": asked.runs,
        "spark_start_seconds": round(start_seconds, 2),
        # Spark's memory is that of its points: here it shares the process with the other engines.
        "peak_memory_mib_of_python": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "same_results": sorted(KEYS),
        "engines": figures,
    }


def commanded(asked: argparse.Namespace) -> dict[str, Any]:
    """`trimtab pipeline run` with the default settings, each time on a lake without tables."""
    with tempfile.TemporaryDirectory() as name:
        lake = Lake(Path(name) / "lake", REPLICAS)
        rows, turns = fill(lake, asked.partitions, asked.ticks, asked.files), []
        for turn in range(asked.runs):
            for folder in (lake.tables, lake.snapshots):
                shutil.rmtree(str(folder), ignore_errors=True)
            turns.append(month_lake.measured(month_lake.trimtab("pipeline", "run", lake=lake)))
            told(f"turn {turn + 1} of {asked.runs}: {turns[-1]}")
    return {
        "raw_rows": rows,
        **{name: [turn[name] for turn in turns] for name in turns[0]},
    }


def _point(name: str, quick: bool) -> dict[str, Any]:
    partitions, master, batches, ticks = POINTS[name]
    if quick:
        batches, ticks = min(batches, 2), 6
    found = measured(partitions, master, batches, ticks)
    told(str(found))
    return found


def _settings(accelerator: str) -> SessionSettings:
    return SessionSettings(master="local[2]", memory="3g", large_job=True, accelerator=accelerator)


def spark_batch(
    session: SparkSession, lake: Lake, settings: ReplicasPipelineSettings, same_job: bool
) -> None:
    """All tables anew, or those alone that other engines make too."""
    shutil.rmtree(lake.tables, ignore_errors=True)
    chosen = [stage for stage in WHOLE if not same_job or stage.table in SAME_JOB]
    stages.STAGES = tuple(chosen)
    try:
        run_batch(session, lake, settings)
    finally:
        stages.STAGES = WHOLE


def engines_without_jvm(
    lake: Lake, scratch: Path, settings: ReplicasPipelineSettings
) -> dict[str, Callable[[], object]]:
    """What is timed, by name; each begins with nothing but the raw files."""
    files = lake.raw_files()

    def outputs(name: str) -> Path:
        folder = scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    return {
        "scan": lambda: pyarrow.dataset.dataset(files).to_table(),
        "duckdb": lambda: pipeline_duckdb.run(files, outputs("duckdb"), settings),
        "polars": lambda: pipeline_polars.run(files, outputs("polars"), settings),
    }


def spark_runs(
    session: SparkSession, lake: Lake, scratch: Path, settings: ReplicasPipelineSettings
) -> dict[str, Callable[[], object]]:
    """What is timed of Spark without Comet."""

    def spark_stream() -> None:
        other = Lake(scratch / "stream", REPLICAS)
        shutil.rmtree(other.path, ignore_errors=True)
        shutil.copytree(lake.raw, other.raw)
        run_stream(session, other, settings, StreamSource(max_per_batch=1), once=True)

    return {
        "spark, same job": lambda: spark_batch(session, lake, settings, same_job=True),
        "spark, all tables": lambda: spark_batch(session, lake, settings, same_job=False),
        STREAM: spark_stream,
    }


@contextmanager
def comet_batches(
    lake: Lake, path: Path, settings: ReplicasPipelineSettings
) -> Iterator[dict[str, Callable[[], object]]]:
    """What is timed of Spark with Comet, which has to be there when a JVM starts: in a process of its own."""
    shutil.copytree(lake.raw, Lake(path, REPLICAS).raw)
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_run_comet, args=(there, path, settings))
    process.start()
    there.close()

    def batch(same_job: bool) -> None:
        here.send(same_job)
        error = here.recv()
        if error is not None:
            raise SystemExit(f"Spark with Comet: {error}")

    try:
        if here.recv() is not None:
            raise SystemExit("Spark with Comet did not start")
        yield {
            f"spark with Comet, {name}": partial(batch, same_job)
            for name, same_job in (("same job", True), ("all tables", False))
        }
    finally:
        here.close()
        process.join(60)


def _run_comet(asked: Connection, path: Path, settings: ReplicasPipelineSettings) -> None:
    session = spark_session(_settings("comet"), path / "spark")
    asked.send(None)
    lake = Lake(path, REPLICAS)
    with suppress(EOFError):
        while True:
            same_job = asked.recv()
            try:
                spark_batch(session, lake, settings, same_job)
            except Exception as error:
                asked.send(str(error))
            else:
                asked.send(None)
    session.stop()


def alternate(
    contenders: dict[str, Callable[[], object]], runs: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds of each turn, of the clock and of processors; the first turn is for warming up.

    The stream has but one turn, the last: it is long.
    """
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(runs + 1):
        for name, call in contenders.items():
            if name == STREAM and turn != runs:
                continue
            took, used = timed(call)
            told(f"turn {turn} of {runs}, {name}: {took:.2f} s, {used:.1f} s of CPU")
            wall[name].append(took)
            cpu[name].append(used)
    return wall, cpu


def tables_of(lake: Lake, scratch: Path) -> dict[str, dict[str, pyarrow.Table]]:
    """The tables that each engine of a batch made in its last turn, by the name of the engine."""
    return {
        "spark": {name: lake.table(name) for name in KEYS},
        **{
            engine: {name: pyarrow.parquet.read_table(scratch / engine / f"{name}.parquet") for name in KEYS}
            for engine in ("duckdb", "polars")
        },
    }


def check(lake: Lake, scratch: Path) -> None:
    """Fail unless all engines, and the stream, made the same tables."""
    tables = tables_of(lake, scratch)
    stream = Lake(scratch / "stream", REPLICAS)
    tables["stream"] = {name: stream.table(name) for name in KEYS}
    if (scratch / "comet").exists():
        tables["comet"] = {name: Lake(scratch / "comet", REPLICAS).table(name) for name in KEYS}
    spark = tables.pop("spark")
    for engine, made in tables.items():
        found = difference(spark, made)
        if found is not None:
            raise SystemExit(f"{engine} differs from spark: {found}")
    told(f"all engines and the stream made the same {', '.join(KEYS)}")


if __name__ == "__main__":
    main()
