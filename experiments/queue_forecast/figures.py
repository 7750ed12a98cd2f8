"""The experiment's pictures: makespans over the bound, busy times, forecasts and states over time, losses."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from trimtab.report.charts import FAINT, INK, save_figure, style_axes

COLOURS = {
    "none": "#5b6675",
    "threshold": "#d98c2b",
    "forecast as printed": "#e3c16f",
    "forecast by count": "#8a63b0",
    "forecast by work": "#2f8f6b",
}
QUEUE_COLOURS = ("#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#08306b")
"""Light to dark: from the class of a tenth of a second to that of a second."""
LIMIT = "#b5341c"


def draw_figures(document: dict[str, Any], folder: Path) -> list[Path]:
    """All pictures of a `result.json`."""
    return [
        *_makespans(document["makespans"], folder),
        *_busy(document["schemes"], folder),
        *_courses(document["courses"], folder),
    ]


def _title(figure: Figure, text: str) -> None:
    figure.text(0.06, 0.95, text, fontsize=13, fontweight="bold", color=INK)


def _legend(figure: Figure, columns: int) -> None:
    figure.legend(
        ncols=columns,
        fontsize=8,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(0.05, 0.94),
        labelcolor=INK,
    )


def _makespans(rows: list[dict[str, Any]], folder: Path) -> tuple[Path, Path]:
    """How much longer than the bound each scheme takes at each size; at random the band of all draws too."""
    figure = Figure(figsize=(11, 4.8), facecolor="white")
    for place, kind in enumerate(dict.fromkeys(row["kind"] for row in rows)):
        axes = figure.add_axes((0.06 + 0.49 * place, 0.17, 0.43, 0.62))
        of_kind = [row for row in rows if row["kind"] == kind]
        at = range(len(of_kind))
        for name, colour in COLOURS.items():
            ratios = [
                [
                    made / bound
                    for made, bound in zip(row["makespan_seconds"][name], row["bound_seconds"], strict=True)
                ]
                for row in of_kind
            ]
            # The literal sign lies under the corrected one almost everywhere: dashed, it can be seen to.
            axes.plot(
                at, [statistics.median(one) for one in ratios], marker="o", markersize=3.5, color=colour,
                linewidth=1.5, label=name if place == 0 else None,
                linestyle="--" if name == "forecast as printed" else "-",
                zorder=4 if name == "forecast as printed" else 3,
            )  # fmt: skip
            if len(ratios[0]) > 1:
                axes.fill_between(
                    at, [min(one) for one in ratios], [max(one) for one in ratios], color=colour, alpha=0.12,
                    linewidth=0,
                )  # fmt: skip
        axes.axhline(1.0, color=LIMIT, linewidth=1, linestyle="--")
        axes.set_xticks(at, [f"{row['size']:,}" for row in of_kind], rotation=30)
        axes.set_ylim(bottom=0.95)
        axes.set_title(f"classes {kind}: makespan / bound", loc="left", fontsize=10, color=FAINT)
        axes.set_xlabel("messages", color=FAINT, fontsize=9)
        style_axes(axes)
    _legend(figure, 5)
    _title(figure, "Time until all is done, over the bound (dashed); median of the draws and their range")
    return save_figure(figure, folder, "makespan")


def _busy(rows: list[dict[str, Any]], folder: Path) -> tuple[Path, Path]:
    """A bar for each worker and scheme."""
    figure = Figure(figsize=(11, 6.6), facecolor="white")
    names = [name for name in COLOURS if name != "forecast as printed"]
    for place, (kind, size) in enumerate(dict.fromkeys((row["kind"], row["size"]) for row in rows)):
        line, column = divmod(place, 2)
        axes = figure.add_axes((0.07 + 0.49 * column, 0.52 - 0.45 * line, 0.42, 0.33))
        for turn, name in enumerate(names):
            row = next(one for one in rows if (one["kind"], one["size"], one["scheme"]) == (kind, size, name))
            at = [worker + (turn - 1.5) * 0.2 for worker in range(len(row["busy_seconds"]))]
            axes.bar(at, row["busy_seconds"], 0.18, color=COLOURS[name], label=name if place == 0 else None)
        axes.axhline(row["bound_seconds"], color=LIMIT, linewidth=1, linestyle="--")
        axes.set_xticks(range(5), [f"P{worker + 1}" for worker in range(5)])
        axes.set_title(
            f"{size:,} messages, classes {kind}: busy seconds", loc="left", fontsize=10, color=FAINT
        )
        style_axes(axes)
    _legend(figure, 4)
    _title(figure, "How long each worker is busy; dashed: all work over five")
    return save_figure(figure, folder, "busy")


def _courses(rows: list[dict[str, Any]], folder: Path) -> tuple[Path, Path]:
    """Forecast lengths through βM and αM."""
    figure = Figure(figsize=(11, 6.8), facecolor="white")
    rows = [row for row in rows if row["scheme"] == "forecast by work"]
    for place, row in enumerate(rows):
        line, column = divmod(place, 2)
        axes = figure.add_axes((0.07 + 0.49 * column, 0.53 - 0.45 * line, 0.42, 0.33))
        for queue, colour in enumerate(QUEUE_COLOURS):
            axes.plot(
                row["at"], [max(1, one[queue]) for one in row["forecast"]], color=colour, linewidth=1.1,
                label=f"Q{queue + 1}" if place == 0 else None,
            )  # fmt: skip
        for limit, name in ((1000, "βM"), (8000, "αM")):
            axes.axhline(limit, color=LIMIT, linewidth=1, linestyle="--")
            axes.annotate(
                name, (1, limit), xycoords=("axes fraction", "data"), color=LIMIT, fontsize=8, va="center"
            )
        axes.set_ylim(bottom=0)
        axes.set_title(
            f"{row['size']:,} messages, classes {row['kind']}: forecast messages", loc="left", fontsize=10,
            color=FAINT,
        )  # fmt: skip
        if line:
            axes.set_xlabel("seconds", color=FAINT, fontsize=9)
        style_axes(axes)
    _legend(figure, 5)
    _title(figure, "Forecast by work over time: light below βM, overloaded above αM")
    return save_figure(figure, folder, "course")
