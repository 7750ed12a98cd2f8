"""One look at a cluster without a lake: who holds how much, from a single tick."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.observe.collect.collector import TickSample
from trimtab.observe.status import BrokerState

FIGURES = ("disk bytes", "replicas", "leaders")


@dataclass(frozen=True, eq=False)
class Glance:
    """Placement of one cluster.

    Attributes
    ----------
    brokers
        By id.
    values
        `FIGURES`, shape (brokers, 3); NaN for what a broker did not tell.
    deviation
        Signed, of the mean over the brokers that told, shape (brokers, 3).
    partitions, leaderless, under_replicated
        How many there are, have no leader, have a replica that is not in sync.
    problems
        As `TickSample.problems`.
    """

    cluster: str
    brokers: tuple[BrokerState, ...]
    values: FloatArray
    deviation: FloatArray
    partitions: int
    leaderless: int
    under_replicated: int
    problems: tuple[str, ...]


def glance(sample: TickSample) -> Glance:
    """What one tick's samples tell of placement."""
    brokers = tuple(
        BrokerState(row["broker"], row.get("host"), row.get("rack"), row["broker_state"])
        for row in sorted(_rows(sample, "broker"), key=lambda row: row["broker"])
    )
    place = {broker.id: row for row, broker in enumerate(brokers)}
    values = np.zeros((len(brokers), len(FIGURES)))
    told = {row["broker"] for row in _rows(sample, "log_dir")}
    values[[row for row, broker in enumerate(brokers) if broker.id not in told], 0] = np.nan
    for row in _rows(sample, "replica"):
        values[place[row["broker"]], 0] += row["size_bytes"]
    partitions = leaderless = under_replicated = 0
    for row in _rows(sample, "partition"):
        partitions += 1
        leaderless += "leader" not in row
        under_replicated += len(row["in_sync"]) < len(row["replicas"])
        for broker in row["replicas"]:
            values[place[broker], 1] += 1
        if "leader" in row:
            values[place[row["leader"]], 2] += 1
    mean = np.nanmean(values, axis=0) if len(brokers) else np.zeros(len(FIGURES))
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = np.where(mean > 0, (values - mean) / mean, 0.0 * values)
    return Glance(
        sample.cluster, brokers, values, deviation, partitions, leaderless, under_replicated, sample.problems
    )


def _rows(sample: TickSample, kind: str) -> Iterator[dict[str, Any]]:
    return (row for batch in sample.batches if batch.kind == kind for row in batch.rows())
