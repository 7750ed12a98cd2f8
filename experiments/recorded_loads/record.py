"""Public recordings of loads as recordings that `trimtab replay replicas` reads.

    python experiments/recorded_loads/record.py jumpstarter services_hourly.parquet --out services
    python experiments/recorded_loads/record.py google2011 load_logical_job_hourly.parquet --out jobs

Every entity becomes a topic of a made-up cluster, with the course of its load; sizes of topics, partitions
and their placement are drawn as `trimtab simulate weeks` draws them.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from simulated_clusters.weeks import SimulatedWeeks
from trimtab.model.load import FloatArray

HOUR_SECONDS = 3600.0
READ_TWICE = 1.5
"""Bytes out of a byte in, where the recording has one figure only."""


@dataclass(frozen=True, eq=False)
class Recorded(SimulatedWeeks):
    """Weeks whose traffic was recorded.

    Attributes
    ----------
    into, out
        Shape (topics, hours): relative to the mean of the topic.
    """

    into: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    out: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))

    def traffic(self) -> tuple[FloatArray, FloatArray]:
        """As recorded; the first hours only fill the disks."""
        mean = self.mean_bytes_per_second
        return mean * self.into, mean * READ_TWICE * self.out


def jumpstarter(file: Path, most: int) -> tuple[FloatArray, FloatArray]:
    """Services of JumpStarter's recording: its unnamed metrics m18 and m10, hour by hour over 45 days."""
    rows = pq.read_table(file, columns=["service", "hour", "m18", "m10"])
    return _side_by_side(rows, "service", "m18", "m10", most)


def google2011(file: Path, most: int) -> tuple[FloatArray, FloatArray]:
    """Logical jobs of Google's cluster of 2011: submitted in an hour, and seconds run in it, over 29 days."""
    rows = pq.read_table(file, columns=["entity", "hour", "jobs", "run_s"])
    return _side_by_side(rows, "entity", "jobs", "run_s", most)


FORMS = {"jumpstarter": jumpstarter, "google2011": google2011}


def _side_by_side(
    rows: pa.Table, entity: str, into: str, out: str, most: int
) -> tuple[FloatArray, FloatArray]:
    """The `most` entities seen in most hours, each relative to its own mean; hours without it are 0."""
    who, hour, *loads = (rows[name].to_numpy().astype(np.float64) for name in (entity, "hour", into, out))
    names, at = np.unique(who, return_inverse=True)
    course = np.zeros((2, len(names), int(hour.max()) + 1))
    for one, load in zip(course, loads, strict=True):
        one[at, hour.astype(int)] = np.maximum(load, 0.0)
    seen = (course[0] > 0).sum(axis=1)
    best = np.sort(np.argsort(-seen, kind="stable")[:most])
    mean = course[:, best].mean(axis=2, keepdims=True)
    found = course[:, best] / np.where(mean > 0, mean, 1.0)
    return found[0], found[1]


def main() -> None:
    """Write a recording."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("form", choices=sorted(FORMS), help="whose recording the file is")
    parser.add_argument("file", type=Path, help="Parquet file of its hourly loads")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--brokers", type=int, default=12)
    parser.add_argument("--topics", type=int, default=60, help="entities taken, those seen in most hours")
    parser.add_argument("--seed", type=int, default=1, help="of sizes, partitions and placement")
    given = parser.parse_args()
    into, out = FORMS[given.form](given.file, given.topics)
    made = Recorded(
        step_seconds=HOUR_SECONDS,
        brokers=given.brokers,
        topics=len(into),
        seed=given.seed,
        into=into,
        out=out,
    )
    print(f"wrote {made.write(given.out)} hours of {len(into)} topics into {given.out}")


if __name__ == "__main__":
    main()
