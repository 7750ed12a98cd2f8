"""How well the pipeline attributes load on a real loaded cluster, with and without the brokers' metrics.

Six sandbox brokers under a skewed load whose truth is known; both runs read the same samples, the second
without what a metrics endpoint told. Writes the figures; `benchmarks/page.py` draws them.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import pyarrow as pa
import pyarrow.parquet
from results import write_result

from demos.accuracy import bytes_by_partition, compare_measures, ticks_between
from demos.replicas import CLUSTER, LIVE_BYTES, balanced_capacity, watched
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.kafka.runtime import LOAD_DRIVEN_CPU
from trimtab.lab.sandbox.kafka.topics import PROMPT_RETENTION, preload_topics, with_flat_disk
from trimtab.lab.sandbox.kafka.workload import skewed
from trimtab.lab.sandbox.load import SandboxLoad
from trimtab.lab.sandbox.truth import read_truth
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.spark.session import SessionSettings, spark_session
from trimtab.observe.steps.batch import run_batch

INTERVAL_SECONDS = 5.0
COUNTERS = (
    "cpu_time_ns", "processors", "bytes_in_total", "bytes_out_total", "replication_bytes_in_total",
    "replication_bytes_out_total", "messages_in_total", "produce_requests_total", "fetch_requests_total",
)  # fmt: skip


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=16)
    parser.add_argument("--seed", type=int, default=5)
    asked = parser.parse_args()
    rows: dict[str, Any] = {"interval_seconds": INTERVAL_SECONDS, "ticks": asked.ticks, "seed": asked.seed}
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        lake, truth = Lake(Path(scratch) / "with", REPLICAS), Path(scratch) / "load"
        workload = with_flat_disk(skewed(asked.seed, 8e6), LIVE_BYTES)
        measure(lake, truth, workload, asked.ticks)
        bare = Lake(Path(scratch) / "without", REPLICAS)
        without_metrics(lake, bare)
        session = spark_session(SessionSettings())
        stack.callback(session.stop)
        settings = ReplicasPipelineSettings(
            window_seconds=2 * INTERVAL_SECONDS,
            slide_seconds=2 * INTERVAL_SECONDS,
            record_size_window_seconds=120,
        )
        for name, where in (("with_metrics", lake), ("without_metrics", bare)):
            run_batch(session, where, settings)
            known = ticks_between(where, CLUSTER, time.time() - 3600, time.time())[1:]
            produced, consumed = bytes_by_partition(list(read_truth(truth)), known[0], known[-1])
            compared = compare_measures(where, CLUSTER, produced, consumed, known[0], known[-1])
            rows[name] = [one.summary() for one in compared]
            tell(name, rows[name])
    write_result("pipeline_accuracy", rows)


def measure(lake: Lake, truth: Path, workload: Any, ticks: int) -> None:
    """Sample a loaded cluster of our own; it is gone afterwards."""
    with contextlib.ExitStack() as stack:
        properties = {**LOAD_DRIVEN_CPU, **PROMPT_RETENTION}
        sandbox = stack.enter_context(KafkaSandbox.start(6, properties=properties, print_progress=say))
        preload_topics(sandbox.connection, workload, None, say)
        load = stack.enter_context(SandboxLoad.start(sandbox.connection, workload, truth))
        time.sleep(20.0)  # fresh brokers spend CPU on compiling themselves
        capacity = balanced_capacity(workload, 6, 0.25)
        world = stack.enter_context(watched(sandbox, load, lake, INTERVAL_SECONDS, capacity, truth))
        world.sample(ticks)


def without_metrics(lake: Lake, bare: Lake) -> None:
    """The same samples as the admin API alone would have given them."""
    for path in lake.raw_files():
        table = pyarrow.parquet.read_table(path, partitioning=None)
        table = table.filter(pa.compute.not_equal(table["kind"], "topic_broker"))
        of_broker = pa.compute.equal(table["kind"], "broker")
        for name in COUNTERS:
            place = table.column_names.index(name)
            column = table[name]
            blank = pa.compute.if_else(of_broker, pa.scalar(None, column.type), column)
            table = table.set_column(place, name, blank)
        target = bare.raw / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(table, target)


def tell(name: str, summaries: list[dict[str, Any]]) -> None:
    """One line per measure."""
    print(name)
    for row in summaries:
        figures = "  ".join(
            f"{key} {'-' if row[key] is None else f'{100 * row[key]:.2f} %'}"
            for key in ("bias", "weighted_error", "median_error", "share_error")
        )
        print(f"  {row['measure']:<10} per {row['scope']:<10} {row['entities']:>4}  {figures}")


def say(line: str) -> None:
    """Progress."""
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
