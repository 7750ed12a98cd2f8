"""The demo's picture: waits of votes and reports before and after, and weights as they were learned."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from trimtab.observe.lake import microseconds
from trimtab.report.pictures import FAINT, INK, plain_axes, save_figure
from trimtab.report.replay_panels import BASELINE, LINE, OVERLOADED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from trimtab.observe.lake import Lake

Period = tuple[float, float]
"""Begin and end, seconds since 1970."""
COLOURS = {"vote": LINE, "report": OVERLOADED}


def draw(
    lake: Lake,
    out: Path,
    periods: Mapping[str, Period],
    weights: Sequence[tuple[float, Mapping[str, float]]],
    changed_at: float,
) -> tuple[Path, Path]:
    """Draw waits of each class in each period, and weights over all of the time.

    Parameters
    ----------
    lake
        Its tables, as the pipeline has made them.
    periods
        `before` and `after`.
    weights
        From when which weights were in force, by class; seconds since 1970, the oldest first.
    changed_at
        When a vote began to take longer.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 3.6), layout="constrained", facecolor="white")
    panels = figure.subplots(1, 3, width_ratios=[1, 1, 1.5])
    for axes, name in zip(panels, COLOURS, strict=False):
        for (when, period), colour in zip(periods.items(), (BASELINE, COLOURS[name]), strict=True):
            counts = wait_counts(lake, name, *period)
            total = max(sum(counts), 1)
            limits = [0.001 * 2 ** (bucket / 2) for bucket in range(len(counts))]
            shares = [count / total for count in accumulate(counts)]
            axes.step(limits, shares, where="post", color=colour, linewidth=1.8, label=when)
        plain_axes(axes)
        axes.set_xscale("log")
        axes.set_xlim(0.001, 10)
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_title(f"{name}s that waited no longer", loc="left", fontsize=9.5, color=INK)
        axes.set_xlabel("seconds", fontsize=8, color=FAINT)
        axes.legend(fontsize=8, frameon=False, loc="upper left")
    begun = min(begun for begun, _ in periods.values())
    _weights(panels[2], lake, begun, weights)
    for text, event in {"published": weights[1][0], "a vote takes thrice as long": changed_at}.items():
        panels[2].axvline(event - begun, color=FAINT, linewidth=0.8, linestyle=(0, (2, 2)))
        panels[2].text(event - begun, 0.97, f"{text} ", transform=panels[2].get_xaxis_transform(),
                       fontsize=7.5, color=FAINT, va="top", ha="right", rotation=90)  # fmt: skip
    return save_figure(figure, out, "demo-queues")


def wait_counts(lake: Lake, name: str, started: float, ended: float) -> list[int]:
    """Waits of a class that ended in a period, by their length, as `WAIT_BUCKETS` tells."""
    rows = _rows(lake, "classes", ["message_class", "waits"], started, ended + 1e-3)
    ours = [row["waits"] for row in rows if row["message_class"] == name and row["waits"]]
    return [sum(one) for one in zip(*ours, strict=True)]


def _weights(
    axes: Axes, lake: Lake, started: float, weights: Sequence[tuple[float, Mapping[str, float]]]
) -> None:
    """Weights in force as lines, what windows have measured as dots."""
    measured = _rows(lake, "windows", ["window_end", "message_class", "queue", "mean_seconds"], started)
    last = max(microseconds(row["window_end"]) / 1e6 for row in measured) - started
    for name, colour in COLOURS.items():
        at = [max(one - started, 0.0) for one, _ in weights]
        force = [of[name] for _, of in weights]
        axes.step([*at, max(last, 1.05 * at[-1])], [*force, force[-1]], where="post", color=colour,
                  linewidth=1.8, label=f"{name}: in force")  # fmt: skip
        dots = [
            (microseconds(row["window_end"]) / 1e6 - started, row["mean_seconds"])
            for row in measured
            if row["message_class"] == name and row["queue"] is None and row["mean_seconds"]
        ]
        axes.plot([one for one, _ in dots], [one for _, one in dots], "o", color=colour, markersize=3.5,
                  markerfacecolor="white", label=f"{name}: measured")  # fmt: skip
    plain_axes(axes)
    axes.set_yscale("log")
    axes.set_ylim(0.005, 1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{1000 * value:g} ms")
    axes.set_title("what a message takes", loc="left", fontsize=9.5, color=INK)
    axes.set_xlabel("seconds of the demo", fontsize=8, color=FAINT)
    axes.legend(fontsize=7.5, frameon=False, loc="center left", bbox_to_anchor=(0.0, 0.73))


def _rows(
    lake: Lake, table: str, columns: list[str], started: float, ended: float | None = None
) -> list[dict[str, Any]]:
    until = None if ended is None else datetime.fromtimestamp(ended, UTC)
    found: list[dict[str, Any]] = lake.table(
        table, columns, since=datetime.fromtimestamp(started, UTC), until=until
    ).to_pylist()
    return found
