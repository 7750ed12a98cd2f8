"""The newest tables to snapshots of the balancer `queues`, by pyarrow alone."""

from __future__ import annotations

import json
from math import fsum
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from trimtab.files.queues.formats import SNAPSHOT_FORMAT
from trimtab.model.documents import Quality
from trimtab.model.queues.snapshot import ClassLoad, QueueLoad, QueuesSnapshot
from trimtab.observe.lake.columns import SECOND, Row
from trimtab.observe.lake.lake import microseconds
from trimtab.observe.lake.snapshots import SnapshotInputs, write_snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.files.store import Location
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import Manifest
    from trimtab.observe.queues.pipeline import QueuesPipelineSettings


def write_newest_snapshots(
    lake: Lake, manifest: Manifest, settings: QueuesPipelineSettings
) -> list[Location]:
    """A snapshot of every set of queues at its newest tick; returns a folder per cluster."""

    def write(inputs: SnapshotInputs[QueuesPipelineSettings], path: Path) -> None:
        SNAPSHOT_FORMAT.write(snapshot_at(inputs), path)

    return write_snapshots(lake, manifest, settings, "brokers", write)


def snapshot_at(inputs: SnapshotInputs[QueuesPipelineSettings]) -> QueuesSnapshot:
    """The snapshot of one set of queues at one tick, with how far it can be trusted in `quality`."""
    tick = inputs.tick
    queues = inputs.rows("brokers", tick).sort_by("queue").to_pylist()
    told = inputs.rows("cleaned", tick, context=pc.field("kind").isin(["queue_process", "queue_server"]))
    processes = [row for row in told.to_pylist() if row["kind"] == "queue_process"]
    server: Row = next((row for row in told.to_pylist() if row["kind"] == "queue_server"), {})
    newest: Row = max(processes, key=lambda row: (row["sampled_at"], row["process"]), default={})
    version = server.get("version") or 0
    published = json.loads(server.get("published") or "{}")
    speeds = {row["queue"]: row for row in _of_newest_window(inputs, "speeds")}
    learned = {row["message_class"]: row for row in _of_newest_window(inputs, "weights")}
    latest = {
        row["message_class"]: row for row in _of_newest_window(inputs, "windows") if row["queue"] is None
    }
    extra: list[tuple[str, object]] = [
        ("x_window_seconds", inputs.settings.window_seconds),
        ("x_processes", len(processes)),
        ("x_processes_of_version", sum(row["version"] == version for row in processes)),
    ]
    if error := _forecast_error(inputs):
        extra.append(("x_forecast_error", error))
    ages = [(tick - microseconds(row["sampled_at"])) / SECOND for row in processes]
    return QueuesSnapshot(
        reference=inputs.reference,
        quality=Quality(
            valid_share=sum(row["elapsed_us"] is not None for row in queues) / max(1, len(queues)),
            oldest_sample_seconds=max(0.0, *ages, 0.0),
            cpu="absent",
            extra=tuple(extra),
        ),
        version=version,
        default_weight=newest.get("default_weight") or 1.0,
        policy=newest.get("policy") or "",
        scheduling=json.loads(newest.get("scheduling") or "{}"),
        queues=tuple(_queue(row, speeds.get(row["queue"], {})) for row in queues),
        classes=tuple(
            _class(name, latest.get(name, {}), learned.get(name, {}), published.get(name))
            for name in sorted({*learned, *latest, *published})
        ),
    )


def _queue(row: Row, speed: Row) -> QueueLoad:
    return QueueLoad(
        queue=row["queue"],
        capacity=row["capacity"],
        messages=row["messages"] or 0,
        work_seconds=row["work_load"] or 0.0,
        held_messages=row["held_messages"] or 0,
        held_work_seconds=row["held_work_seconds"] or 0.0,
        arrived_seconds_per_second=row["arrived_seconds_per_second"],
        served_seconds_per_second=row["served_seconds_per_second"],
        paused=bool(row["paused"]),
        alive=bool(row["alive"]),
        speed=speed.get("speed"),
        speed_error=speed.get("standard_error"),
    )


def _class(name: str, latest: Row, learned: Row, published: float | None) -> ClassLoad:
    return ClassLoad(
        message_class=name,
        weight=latest.get("weight") or learned.get("weight"),
        published=published,
        samples=learned.get("samples") or 0,
        mean_seconds=learned.get("mean_seconds"),
        standard_error_seconds=learned.get("standard_error_seconds"),
        sent_per_second=latest.get("sent_per_second") or 0.0,
        processed_per_second=latest.get("processed_per_second") or 0.0,
        refused_per_second=latest.get("refused_per_second") or 0.0,
        wait_seconds=latest.get("wait_seconds"),
        wait_p99_seconds=latest.get("wait_p99_seconds"),
    )


def _of_newest_window(inputs: SnapshotInputs[QueuesPipelineSettings], table: str) -> list[Row]:
    """The rows of a table of the newest window that there is, open or not."""
    rows, ends = inputs.windows(table, 1)
    if not rows.num_rows:
        return []
    newest = int(ends.max())
    return [row for row in rows.to_pylist() if microseconds(row["window_end"]) == newest]


def _forecast_error(inputs: SnapshotInputs[QueuesPipelineSettings]) -> dict[str, float]:
    """Σ|forecast - actual| / Σ actual over queues and the last window, beside that of no change at all."""
    rows = inputs.rows("forecast_errors", inputs.tick - inputs.settings.window).to_pylist()
    # Rounded once, so the same in any order of the rows.
    total = fsum(row["actual"] for row in rows)
    if total <= 0:
        return {}
    columns = {"forecast": "error", "latest": "error_of_latest"}
    return {name: fsum(abs(row[column]) for row in rows) / total for name, column in columns.items()}
