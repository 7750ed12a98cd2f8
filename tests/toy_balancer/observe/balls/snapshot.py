"""The newest tables to snapshots of the balancer `balls`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trimtab.files.balls.snapshot import FORMAT
from trimtab.model.balls.snapshot import BallsSnapshot
from trimtab.model.documents import Quality
from trimtab.observe.lake.lake import instant
from trimtab.observe.lake.snapshots import SnapshotInputs, write_snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.observe.balls.pipeline import BallsPipelineSettings
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import Manifest


def write_newest_snapshots(lake: Lake, manifest: Manifest, settings: BallsPipelineSettings) -> list[Path]:
    """Write a snapshot of every cluster's newest tick."""
    rows = lake.table("brokers", manifest=manifest).to_pylist()

    def write(moment: SnapshotInputs[BallsPipelineSettings], path: Path) -> None:
        at = instant(moment.tick)
        boxes = [row for row in rows if (row["cluster"], row["tick"]) == (moment.cluster, at)]
        boxes.sort(key=lambda row: row["broker"])
        balls = [(ball, number) for number, row in enumerate(boxes) for ball in row["balls"] or ()]
        snapshot = BallsSnapshot(
            moment.reference,
            Quality(cpu="absent"),
            tuple(row["broker"] for row in boxes),
            np.array([row["weight_capacity"] for row in boxes]),
            tuple(ball["name"] for ball, _ in balls),
            np.array([number for _, number in balls], dtype=np.int32),
            np.array([ball["weight"] for ball, _ in balls]),
        )
        FORMAT.write(snapshot, path)

    return write_snapshots(lake, manifest, settings, "brokers", write)
