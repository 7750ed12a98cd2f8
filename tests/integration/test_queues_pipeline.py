"""Samples of queues to tables: micro-batches of a stream end where one batch does."""

from __future__ import annotations

import datetime
import os
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from hand_written_tables import arrow_type
from support.local_paths import local
from synthetic_telemetry import land
from trimtab.files.queues import SNAPSHOT_FORMAT
from trimtab.observe.lake.lake import Lake
from trimtab.observe.queues.pipeline import FORM, PIPELINE, QueuesPipelineSettings
from trimtab.observe.steps.batch import run_batch
from trimtab.observe.steps.stream import StreamSource, run_stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TICKS, SEED = 6, 20261123
START = datetime.datetime(2026, 11, 21, 5, 0, tzinfo=datetime.UTC)
SETTINGS = QueuesPipelineSettings(
    window_seconds=20, slide_seconds=20, gap_seconds=25, lateness_seconds=60, horizon_seconds=10,
    weight_windows=3, weight_samples=50,
)  # fmt: skip


def samples() -> list[pa.Table]:
    """A file a tick, in order of arrival: one comes late, one twice, one too late; a process begins anew."""
    chance, totals = random.Random(SEED), {"p": [0, 0.0, 0.0], "q": [0, 0.0, 0.0]}
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in FORM.columns])
    files = []
    for tick in range(TICKS):
        at = START + datetime.timedelta(seconds=10 * tick)
        common = {"cluster": "c", "tick": at, "sampled_at": at, "received_at": at}
        rows: list[dict[str, Any]] = [
            {**common, "kind": "queue_server", "version": 0, "memory_bytes": 1_000_000}
        ]
        for queue in range(3):
            rows.append(
                {
                    **common, "kind": "queue", "queue": queue, "capacity": 100,
                    "messages": chance.randrange(9), "work_seconds": chance.uniform(0.0, 9.0),
                    "held_messages": 1, "held_work_seconds": 0.1, "arrived_seconds_total": 7.1 * tick,
                    "served_seconds_total": 6.9 * tick, "paused": False, "alive": queue < 2,
                }
            )  # fmt: skip
        for process, counted in totals.items():
            if process == "p" and tick == 3:
                counted[:] = [0, 0.0, 0.0]
            for _ in range(chance.randrange(30)):
                seconds = chance.uniform(0.01, 0.3)
                counted[0] += 1
                counted[1] += seconds
                counted[2] += seconds**2
            head = {**common, "process": process, "queue": "pq".index(process), "default_weight": 1.0}
            rows.append({**head, "kind": "queue_process", "version": 0, "policy": "least_work_left"})
            rows.append(
                {
                    **head, "kind": "queue_class", "message_class": "vote", "weight": 1.0,
                    "processed_total": counted[0], "busy_seconds_total": counted[1],
                    "busy_squares_total": counted[2], "waited_seconds_total": 0.01 * counted[0],
                    "waits": [counted[0]], "accepted_total": counted[0], "refused_total": 0,
                }
            )  # fmt: skip
        rows = [{name: one for name, one in row.items() if name in schema.names} for row in rows]
        for row in rows if tick == 1 else []:
            row["received_at"] = at + datetime.timedelta(seconds=SETTINGS.lateness_seconds + 1)
        files.append(pa.Table.from_pylist(rows, schema=schema))
    return [*files[:3], files[4], files[2], files[3], *files[5:]]


@pytest.mark.long
def test_stream_and_batch_agree_to_the_bit(spark: SparkSession, tmp_path: Path) -> None:
    """Every table, row by row, and the snapshot of the newest tick."""
    lakes = {name: Lake(tmp_path / name, PIPELINE) for name in ("batch", "stream")}
    for lake in lakes.values():
        for number, file in enumerate(samples()):
            land(file, lake.raw, f"file-{number:03d}")
            (file,) = local(lake.raw).glob(f"*/file-{number:03d}.parquet")
            os.utime(file, (number, number))
    run_batch(spark, lakes["batch"], SETTINGS)
    told: list[str] = []
    run_stream(
        spark, lakes["stream"], SETTINGS, StreamSource(max_per_batch=3), once=True, print_progress=told.append
    )
    assert sum(line.startswith("batch") for line in told) >= 2
    for name in PIPELINE.tables:
        batch, stream = (sorted(map(repr, lake.table(name).to_pylist())) for lake in lakes.values())
        assert batch == stream, name
        assert batch, name
    read = [SNAPSHOT_FORMAT.read(lake.newest_snapshot("c")) for lake in lakes.values()]
    assert read[0].classes == read[1].classes
    assert [one.message_class for one in read[0].classes] == ["vote"]
