"""One point of the pipeline's curves: Spark in processes of its own, one in batch and one live.

A run by hand prints the figures of one point as JSON. Live means: a micro-batch for every tick, from samples
landed to the snapshot written, with the heap and the settings that `trimtab pipeline stream` takes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyspark

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from synthetic_telemetry import SyntheticCluster, land
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.spark.session import SessionSettings, spark_session, stream_settings
from trimtab.observe.steps.batch import run_batch
from trimtab.observe.steps.stream import StreamSource, run_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

SETTINGS = ReplicasPipelineSettings(window_seconds=60, slide_seconds=60)
PARTITION_TICKS = 60_000
"""Partitions times ticks of the batch: every point has as many raw rows, but for two ticks at least."""
BATCHES = 4
"""Of a point. A JVM compiles in the first ones, each worker's for itself; the last three count."""
LONGEST_SECONDS = 900
"""A point that takes longer is given up."""


def main() -> None:
    """Measure one point and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--batches", type=int, default=BATCHES, help="0: none")
    parser.add_argument("--live-ticks", type=int, default=12)
    parser.add_argument("--part", choices=PARTS, help="only this part, in this process")
    asked = parser.parse_args()
    if asked.part is None:
        print(json.dumps(measured(asked.partitions, asked.master, asked.batches, asked.live_ticks)))
    else:
        print(json.dumps(PARTS[asked.part](asked)))


def measured(partitions: int, master: str, batches: int, live_ticks: int) -> dict[str, Any]:
    """The figures of a point, each part by a process of its own; they print progress on standard error.

    Without batches there are none of them.

    Raises
    ------
    RuntimeError
        If one fails, or takes longer than `LONGEST_SECONDS`.
    """
    words = [f"--partitions={partitions}", f"--master={master}"]
    words += [f"--batches={batches}", f"--live-ticks={live_ticks}"]
    # Executors of a cluster on this machine are found there.
    environment = {**os.environ, "SPARK_HOME": os.path.dirname(pyspark.__file__)}
    found: dict[str, Any] = {"partitions": partitions, "master": master, "live_ticks": live_ticks}
    for part in PARTS if batches else ("live",):
        done = subprocess.run(
            [sys.executable, __file__, *words, f"--part={part}"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            env=environment,
            timeout=LONGEST_SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"{partitions} partitions on {master} ended with exit code {done.returncode}")
        found |= json.loads(done.stdout.splitlines()[-1])
    return found


def settings_on(master: str) -> SessionSettings:
    """Settings of Spark on this machine: two cores, of one process or of workers, without Comet."""
    if master.startswith("local["):
        return SessionSettings(master=master, accelerator="none")
    return SessionSettings(master=master, accelerator="none", cores=2, executor_memory="2g")


def batch_part(asked: argparse.Namespace) -> dict[str, Any]:
    """Seconds, rows per second, CPU seconds and memory of the last of some batches, medians of three."""
    settings = replace(settings_on(asked.master), memory="3g", large_job=True)
    ticks = max(PARTITION_TICKS // asked.partitions, 2)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        rows = _filled_apart(scratch / "batch", asked.partitions, ticks, min(ticks, 12))
        begun = time.perf_counter()
        session = spark_session(settings, scratch / "spark")
        started = time.perf_counter() - begun
        lake = Lake(scratch / "batch", REPLICAS)
        batch = []
        for turn in range(1, asked.batches + 1):
            what = f"batch {turn} of {asked.batches}, {rows:,} rows"
            batch.append(_told(what, lambda: _batch(session, lake)))
        memory = peak_mebibytes()
        session.stop()
    wall, cpu = _medians(batch[1:][-3:] or batch)
    return {
        "batches": asked.batches,
        "spark_start_seconds": round(started, 2),
        "batch_rows": rows,
        "batch_first_seconds": round(batch[0][0], 2),
        "batch_seconds": round(wall, 2),
        "batch_rows_per_second": round(rows / wall),
        "batch_cpu_microseconds_per_row": round(1e6 * cpu["all"] / rows, 1),
        "batch_cpu_seconds": _rounded(cpu),
        "batch_peak_mebibytes": memory,
    }


def live_part(asked: argparse.Namespace) -> dict[str, Any]:
    """Seconds, CPU seconds and memory of the later micro-batches, with the settings of `pipeline stream`."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        rows = _filled_apart(scratch / "live", asked.partitions, asked.live_ticks, asked.live_ticks)
        per_tick = rows // asked.live_ticks
        lake = Lake(scratch / "live", REPLICAS)
        begun = time.perf_counter()
        settings = stream_settings(replace(settings_on(asked.master), accelerator="auto"), per_tick)
        session = spark_session(settings, scratch / "spark")
        micro = _live(session, lake, begun)
        memory = peak_mebibytes()
        session.stop()
    tick, used = _medians(micro[len(micro) // 2 :])
    return {
        "tick_rows": per_tick,
        "tick_first_seconds": round(micro[0][0], 2),
        "tick_seconds": round(tick, 2),
        "tick_rows_per_second": round(per_tick / tick),
        "tick_cpu_seconds": _rounded(used),
        "live_peak_mebibytes": memory,
    }


PARTS: Final = {"batch": batch_part, "live": live_part}


def _medians(runs: Sequence[tuple[float, dict[str, float]]]) -> tuple[float, dict[str, float]]:
    """Of seconds by the clock and of processors, each apart."""
    parts = {part: statistics.median(cpu[part] for _, cpu in runs) for part in runs[0][1]}
    return statistics.median(seconds for seconds, _ in runs), parts


def _filled_apart(folder: Path, partitions: int, ticks: int, files: int) -> int:
    """`fill` in a process of its own, whose memory is not that of the pipeline."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
        return other.submit(_fill_folder, folder, partitions, ticks, files).result()


def _fill_folder(folder: Path, partitions: int, ticks: int, files: int) -> int:
    return fill(Lake(folder, REPLICAS), partitions, ticks, files)


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


def _live(session: SparkSession, lake: Lake, begun: float) -> list[tuple[float, dict[str, float]]]:
    """Seconds and CPU from one snapshot to the next, with all samples there: what a micro-batch takes.

    The first one includes the start of Spark at `begun`.
    """
    told = [(begun, dict.fromkeys(cpu_seconds(), 0.0))]

    def say(line: str) -> None:
        if line.startswith("batch "):
            told.append((time.perf_counter(), cpu_seconds()))
            print(f"    {line}", file=sys.stderr, flush=True)

    run_stream(session, lake, SETTINGS, StreamSource(max_per_batch=1), once=True, print_progress=say)
    return [(later[0] - before[0], _less(later[1], before[1])) for before, later in pairwise(told)]


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock, and of all processors for this process and those below it."""
    begun, before = time.perf_counter(), cpu_seconds()
    call()
    return time.perf_counter() - begun, cpu_seconds()["all"] - before["all"]


def _told(what: str, call: Callable[[], object]) -> tuple[float, dict[str, float]]:
    begun, before = time.perf_counter(), cpu_seconds()
    call()
    took, used = time.perf_counter() - begun, _less(cpu_seconds(), before)
    print(f"    {what}: {took:.2f} s, CPU {_rounded(used)}", file=sys.stderr, flush=True)
    return took, used


def _less(later: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {name: later[name] - before[name] for name in later}


def _rounded(seconds: dict[str, float]) -> dict[str, float]:
    return {name: round(one, 2) for name, one in seconds.items()}


def _family(process: int | None = None) -> list[int]:
    """Process ids: of Python and of all below it, which are Spark's JVM and its executors."""
    own = os.getpid() if process is None else process
    found = [own]
    for thread in Path(f"/proc/{own}/task").iterdir():
        with contextlib.suppress(OSError):
            for child in (thread / "children").read_text().split():
                found += _family(int(child))
    return found


def cpu_seconds() -> dict[str, float]:
    """Seconds of processors so far: `all`, and of it `tasks` (Spark's) and `compiling` (the JVM's).

    Threads that have ended count in `all` alone; those that carry out tasks or compile stay while there is
    work.
    """
    ticks = {"all": 0, "tasks": 0, "compiling": 0}
    for process in _family():
        ticks["all"] += _ticks(Path(f"/proc/{process}/stat"))[1]
        for thread in Path(f"/proc/{process}/task").glob("*/stat"):
            with contextlib.suppress(OSError):
                name, used = _ticks(thread)
                if name.startswith("Executor task"):
                    ticks["tasks"] += used
                elif "CompilerThre" in name:
                    ticks["compiling"] += used
    return {name: count / os.sysconf("SC_CLK_TCK") for name, count in ticks.items()}


def _ticks(stat: Path) -> tuple[str, int]:
    """Name and processor ticks of a process or thread."""
    head, tail = stat.read_text().rsplit(")", 1)
    fields = tail.split()
    return head.split("(", 1)[1], int(fields[11]) + int(fields[12])


def peak_mebibytes() -> int:
    """Largest resident memory of this process and those below it together, had they had it at once."""
    # `getrusage` would also count what the parent had in memory when it started this process.
    peaks = [
        int(line.split()[1])
        for process in _family()
        for line in Path(f"/proc/{process}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    ]
    return round(sum(peaks) / 1024)


if __name__ == "__main__":
    main()
