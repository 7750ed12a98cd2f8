"""Figures of the demo, from every record: when it was sent, where it went, when it took effect."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.files.keys.heartbeat import read_heartbeat
from trimtab.files.keys.heartbeat import record_key as beat_key
from trimtab.files.keys.table import record_key as table_key
from trimtab.files.keys.table import version_and_base
from trimtab.history.keys.simulation import waiting
from trimtab.model.load import FloatArray

Period = tuple[float, float]
"""Begin and end, seconds since 1970."""


@dataclass(frozen=True)
class AppliedRecords:
    """All records that took effect, in the order in which they were sent.

    Attributes
    ----------
    keys
        Their texts, the most frequent first.
    key, partition
        Shape (records,): index of its key, and where it went.
    sent, done
        Shape (records,): seconds since 1970.
    partitions
        That the topic has.
    """

    keys: tuple[str, ...]
    key: np.ndarray[tuple[int], np.dtype[np.int64]]
    partition: np.ndarray[tuple[int], np.dtype[np.int64]]
    sent: FloatArray
    done: FloatArray
    partitions: int

    def per_second(self, period: Period, most: int) -> FloatArray:
        """Records a second sent in a period, shape (partitions, most + 1): so many keys, and all others."""
        within = (self.sent >= period[0]) & (self.sent < period[1])
        found = np.zeros((self.partitions, most + 1))
        np.add.at(found, (self.partition[within], np.minimum(self.key[within], most)), 1.0)
        return found / (period[1] - period[0])

    def waiting(self, at: FloatArray) -> FloatArray:
        """Records sent and not yet in effect, shape (moments, partitions)."""
        return waiting(self.partition, self.sent, self.done, self.partitions, at)

    def delay_seconds(self, period: Period, share: float) -> float:
        """From sent to done, of records sent in a period: what this share of them does not exceed."""
        within = (self.sent >= period[0]) & (self.sent < period[1])
        return float(np.quantile((self.done - self.sent)[within], share, method="inverted_cdf"))

    def figures(self, period: Period) -> dict[str, Any]:
        """The figures of a period, as a result keeps them."""
        rates = self.per_second(period, 0).sum(axis=1)
        waiting = self.waiting(np.array(period))
        return {
            "records_per_second": rates.tolist(),
            "max_over_mean": float(rates.max() / rates.mean()),
            "waiting_at_begin": waiting[0].tolist(),
            "waiting_at_end": waiting[1].tolist(),
            "p50_seconds": self.delay_seconds(period, 0.5),
            "p99_seconds": self.delay_seconds(period, 0.99),
        }


def following(
    records: Iterable[tuple[bytes, bytes | None, float]], topic: str, version: int
) -> tuple[float, dict[str, float]] | None:
    """When a table was published and when each process followed it, by the times of the records themselves.

    A process sends a heartbeat as soon as it follows another table, so no interval of looking is in these
    figures.

    Parameters
    ----------
    records
        Of the topic of tables, in order: key, value and time in seconds since 1970.
    topic
        The topic that the table is of.
    version
        Of the table.

    Returns
    -------
    tuple or None
        The time of the table's record, and by process the time of its first heartbeat with this version or a
        higher one. None if the table is not there, or if a living process has not followed it.
    """
    published_at: float | None = None
    followed_at: dict[bytes, float | None] = {}
    for key, value, at in records:
        if key == table_key(topic) and value is not None:
            if published_at is None and version_and_base(value)[0] == version:
                published_at = at
        elif key.startswith(beat_key(topic, "")):
            beat = None if value is None else read_heartbeat(value)
            if beat is None:
                followed_at.pop(key, None)
            elif followed_at.get(key) is None:
                followed_at[key] = at if beat.version >= version else None
    known = {key.decode(): at for key, at in followed_at.items() if at is not None}
    if published_at is None or not known or len(known) < len(followed_at):
        return None
    return published_at, known


def records_in(path: Path, partitions: int) -> AppliedRecords:
    """The effects in a file, as `trimtab.lab.sandbox.keys.worker` leaves them."""
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT key, value, partition, at FROM effects").fetchall()
    sent = np.array([float(value.decode().split(" ")[2]) for _, value, _, _ in rows])
    names, key, counts = np.unique(
        np.array([one.decode() for one, *_ in rows]), return_inverse=True, return_counts=True
    )
    ranked = np.argsort(-counts, kind="stable")
    rank = np.empty(len(names), dtype=np.int64)
    rank[ranked] = np.arange(len(names))
    order = np.argsort(sent, kind="stable")
    return AppliedRecords(
        tuple(str(names[one]) for one in ranked),
        rank[key][order],
        np.array([one for _, _, one, _ in rows], dtype=np.int64)[order],
        sent[order],
        np.array([one for *_, one in rows], dtype=np.float64)[order],
        partitions,
    )
