"""The demo's picture: which keys go where and what waits, before a table is published and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trimtab.report.pictures import FAINT, INK, plain_axes, save_figure
from trimtab.report.replay_panels import BASELINE, LINE, OVERLOADED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.axes import Axes

    from trimtab.lab.demo.keys.measuring import AppliedRecords, Period

KEYS: Final = (OVERLOADED, "#009e73", "#cc79a7")
"""Colours of the most frequent keys."""
LINES: Final = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))
STEP_SECONDS: Final = 1.0


def draw(
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
    plain_axes(axes)
    axes.set_title(title, loc="left", fontsize=9.5, color=INK)
