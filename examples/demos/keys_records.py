"""Figures and picture of the demo of keys, from the times and the partition of every record."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.history.keys.simulation import waiting
from trimtab.model.load import FloatArray
from trimtab.report.charts import BASELINE, FAINT, INK, LINE, OVERLOADED, save_figure, style_axes
from trimtab_keys.format import heartbeat_record_key as beat_key
from trimtab_keys.format import read_heartbeat, version_and_base
from trimtab_keys.format import table_record_key as table_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes


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


KEYS: Final = (OVERLOADED, "#009e73", "#cc79a7")
"""Colours of the most frequent keys."""
LINES: Final = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))
STEP_SECONDS: Final = 1.0


def draw_records(
    records: AppliedRecords,
    out: Path,
    periods: Mapping[str, Period],
    events: Mapping[str, float],
    capacity: float,
    hot: int,
) -> tuple[Path, Path]:
    """Draw load by partition and key, what waits, and delays.

    Parameters
    ----------
    periods
        `before` and `after`.
    events
        What happened when, seconds since 1970.
    capacity
        Records a second that a consumer can do.
    hot
        The partition that was too full.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 3.9), layout="constrained", facecolor="white")
    load, lag, delay = figure.subplots(1, 3, width_ratios=[1.15, 1.3, 1.15])
    _load(load, records, periods, capacity)
    begun, ended = periods["before"][0] - 5, periods["after"][1]
    moments = np.arange(begun, ended + STEP_SECONDS, STEP_SECONDS)
    waiting = records.waiting(moments)
    for part in range(records.partitions):
        colour = OVERLOADED if part == hot else LINE
        style = LINES[0] if part == hot else LINES[1 + (part - (part > hot)) % 3]
        lag.plot(moments - begun, waiting[:, part], color=colour, linewidth=2 if part == hot else 1.3,
                 linestyle=style, label=f"partition {part}")  # fmt: skip
    lag.set_ylim(0, 1.15 * max(waiting.max(), 1))
    _titled(lag, "records sent and not yet in effect")
    lag.legend(fontsize=7.5, frameon=False, loc="upper left")
    _delays(delay, records, moments, begun)
    for axes in (lag, delay):
        axes.set_xlim(0, ended - begun)
        axes.set_xlabel("seconds", fontsize=8, color=FAINT)
        for text, at in events.items():
            axes.axvline(at - begun, color=FAINT, linewidth=0.8, linestyle=(0, (2, 2)))
            if axes is delay:
                continue
            axes.text(at - begun, 0.98, f"{text} ", transform=axes.get_xaxis_transform(), fontsize=7.5,
                      color=FAINT, va="top", ha="right", rotation=90)  # fmt: skip
    return save_figure(figure, out, "demo-keys")


def _load(axes: Axes, records: AppliedRecords, periods: Mapping[str, Period], capacity: float) -> None:
    """Two bars for each partition, of the most frequent keys and the rest."""
    for (when, period), shift in zip(periods.items(), (-0.21, 0.21), strict=True):
        rates = records.per_second(period, len(KEYS))
        places, floor = np.arange(records.partitions) + shift, np.zeros(records.partitions)
        for column, colour in enumerate((*KEYS, BASELINE)):
            name = "other keys" if column == len(KEYS) else f"key “{records.keys[column]}”"
            axes.bar(places, rates[:, column], 0.36, bottom=floor, color=colour,
                     label=name if shift < 0 else None)  # fmt: skip
            floor = floor + rates[:, column]
        for place, top in zip(places, floor, strict=True):
            axes.text(place, top + 1, when, fontsize=7, color=FAINT, ha="center", va="bottom", rotation=90)
    axes.axhline(capacity, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
    axes.text(-0.45, capacity + 1, "what a consumer can do", fontsize=7.5, color=INK, va="bottom")
    _titled(axes, "records a second, by partition and key")
    axes.set_ylim(0, 1.75 * capacity)
    axes.set_xticks(range(records.partitions), [f"partition {one}" for one in range(records.partitions)])
    axes.legend(fontsize=7.5, frameon=False, loc="upper left", ncols=2)


def _delays(axes: Axes, records: AppliedRecords, moments: np.ndarray, started: float) -> None:
    """Half and 99 % of the records sent in each second, and all with the hottest key."""
    edges = np.searchsorted(records.sent, moments)
    spans = [(a, b, at) for a, b, at in zip(edges, edges[1:], moments, strict=False) if b > a]
    delays = records.done - records.sent
    at = [one - started for *_, one in spans]
    for share, colour, name in (
        (0.99, OVERLOADED, "99 % took no longer"),
        (0.5, LINE, "half took no longer"),
    ):
        axes.plot(at, [max(0.01, float(np.quantile(delays[a:b], share))) for a, b, _ in spans],
                  color=colour, linewidth=1.8, label=name)  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(0.01, 300)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} s")
    _titled(axes, "from sent to its effect, by when it was sent")
    axes.legend(fontsize=7.5, frameon=False, loc="upper right")


def _titled(axes: Axes, title: str) -> None:
    style_axes(axes)
    axes.set_title(title, loc="left", fontsize=9.5, color=INK)
