"""The experiment's pictures: σ against bytes, the ten samples of each resource, collapse, and the sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from trimtab.model.load import resource_name
from trimtab.model.replicas.settings import RESOURCES
from trimtab.report.charts import FAINT, INK, save_figure, style_axes

COLOURS = {
    "default": "#5b6675",
    "role_aware literal": "#d98c2b",
    "role_aware as meant": "#b5651d",
    "role_aware repaired": "#e3c16f",
    "trim": "#2f8f6b",
    "paper: strategy": "#8a63b0",
}
FADED = {"0.10": 0.45, "0.05": 0.7}
"""By what was asked for."""
ETA = 0.1 / 6


def _colour(name: str) -> tuple[str, float]:
    method, _, asked = name.partition(", ε = ")
    return COLOURS[method], FADED.get(asked, 1.0)


def draw_figures(runs: list[dict[str, Any]], paper: dict[str, Any], folder: Path) -> list[Path]:
    """All pictures; `runs` as in `result.json`, `paper` as in `expected.json`."""
    written = [*_price(runs, paper, folder)]
    for draw in dict.fromkeys(run["draw"] for run in runs):
        of_draw = [run for run in runs if run["draw"] == draw]
        written += _lines(draw, of_draw, folder)
    return written


def _price(runs: list[dict[str, Any]], paper: dict[str, Any], folder: Path) -> tuple[Path, Path]:
    """What is left of σ for which bytes: a mark for each draw, strategy and ε."""
    figure = Figure(figsize=(11, 7.2), facecolor="white")
    for place, resource in enumerate(RESOURCES):
        row, column = divmod(place, 2)
        axes = figure.add_axes((0.06 + 0.48 * column, 0.47 - 0.41 * row, 0.41, 0.33))
        for run in runs:
            if "plan" not in run:
                continue
            colour, strength = _colour(run["strategy"])
            share = 100 * run["cost"]["bytes_copied"] / run["bytes_held"]
            # Bigger where more is allowed: what was asked for is seen without colours too.
            size = {0.45: 70, 0.7: 36, 1.0: 14}[strength]
            first = run["draw"] == runs[0]["draw"] and place == 0
            label = run["strategy"] if first else None
            axes.scatter(
                share, run["sigma"][resource], size, color=colour, alpha=0.75, label=label, linewidth=0
            )
        for value, name, colour in (
            (paper["sigma"]["strategy"][resource], "paper", COLOURS["paper: strategy"]),
            (ETA, "η", "#b5341c"),
        ):
            axes.axhline(value, color=colour, linewidth=1, linestyle="--")
            axes.annotate(
                name, (1, value), xycoords=("axes fraction", "data"), color=colour, fontsize=8, va="center"
            )
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, 55)
        axes.set_title(f"σ of {resource_name(resource)}", loc="left", fontsize=10, color=FAINT)
        if row:
            axes.set_xlabel("bytes copied, % of all", color=FAINT, fontsize=9)
        style_axes(axes)
    figure.legend(
        ncols=3, fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0.06, 0.95), labelcolor=INK
    )
    figure.text(0.07, 0.96, "σ that is left, and its price, on four draws", fontsize=13, fontweight="bold",
                color=INK)  # fmt: skip
    return save_figure(figure, folder, "price")


def _lines(draw: str, runs: list[dict[str, Any]], folder: Path) -> tuple[Path, Path]:
    """P1 to P10 of the default and of what was asked for the paper's ε."""
    runs = [run for run in runs if run["strategy"] == "default" or run["strategy"].endswith("ε = 0.10")]
    figure = Figure(figsize=(11, 6.4), facecolor="white")
    for place, resource in enumerate(RESOURCES):
        row, column = divmod(place, 2)
        axes = figure.add_axes((0.07 + 0.48 * column, 0.50 - 0.42 * row, 0.43, 0.33))
        for run in runs:
            samples = run["samples"]["sigma"][resource]
            axes.plot(
                range(1, len(samples) + 1), samples, marker="o", markersize=3.5, linewidth=1.4,
                color=_colour(run["strategy"])[0], label=run["strategy"] if place == 0 else None,
            )  # fmt: skip
        axes.axhline(ETA, color="#b5341c", linewidth=1, linestyle="--")
        axes.set_ylim(bottom=0)
        axes.set_title(f"σ of {resource_name(resource)}", loc="left", fontsize=10, color=FAINT)
        count = max(len(run["samples"]["sigma"][resource]) for run in runs)
        axes.set_xticks(range(1, count + 1), [f"P{number}" for number in range(1, count + 1)])
        style_axes(axes)
    figure.legend(
        ncols=6, fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0.06, 0.945), labelcolor=INK
    )
    figure.text(
        0.07,
        0.955,
        f"The samples one by one, draw {draw}; dashed: η",
        fontsize=13,
        fontweight="bold",
        color=INK,
    )
    return save_figure(figure, folder, f"samples-{draw}")


def draw_collapse(runs: dict[str, dict[str, Any]], folder: Path) -> tuple[Path, Path]:
    """Traffic that clients wanted and got, above the fullest disk, on both placements."""
    figure = Figure(figsize=(11, 5.6), facecolor="white")
    above = figure.add_axes((0.07, 0.47, 0.91, 0.38))
    below = figure.add_axes((0.07, 0.09, 0.91, 0.28))
    for name, colour in (("default", "#b5341c"), ("balanced", COLOURS["trim"])):
        samples = runs[name]["samples"]
        at = range(1, len(samples) + 1)
        style: dict[str, Any] = {"marker": "o", "markersize": 3.5, "linewidth": 1.6, "color": colour}
        above.plot(at, [megabytes(one["served_bytes_per_second"]) for one in samples], label=name, **style)
        below.plot(
            at, [100 * max(one["disk_usage"].values(), default=float("nan")) for one in samples], **style
        )
    wanted = [megabytes(one["offered_bytes_per_second"]) for one in runs["default"]["samples"]]
    above.plot(range(1, len(wanted) + 1), wanted, color=FAINT, linewidth=1, linestyle="--", label="to write")
    for axes, title, top in (
        (above, "Written and read by clients, MB/s", None),
        (below, "The fullest disk, % of its size", 105),
    ):
        axes.set_ylim(0, top)
        axes.set_title(title, loc="left", fontsize=10, color=FAINT)
        count = len(runs["default"]["samples"])
        axes.set_xticks(range(1, count + 1), [f"P{number}" for number in range(1, count + 1)])
        style_axes(axes)
    above.legend(ncols=3, fontsize=8, frameon=False, loc="lower right", labelcolor=INK)
    figure.text(0.07, 0.94, "Logs that grow on disks of one size, on two placements", fontsize=13,
                fontweight="bold", color=INK)  # fmt: skip
    return save_figure(figure, folder, "collapse")


def megabytes(value: float | None) -> float:
    """In millions; NaN where nothing was told."""
    return float("nan") if value is None else value / 1e6


def draw_sweep(document: dict[str, Any], folder: Path) -> tuple[Path, Path]:
    """Both ends of θ and of ε: time above the limit, and replicas that were moved more than once."""
    figure = Figure(figsize=(12, 4.2), facecolor="white")
    for place, (name, rows) in enumerate(document["sweeps"].items()):
        axes = figure.add_axes((0.055 + 0.325 * place, 0.13, 0.235, 0.60))
        at = [row["value"] for row in rows]
        axes.plot(at, [row["broker_hours_above"] for row in rows], marker="o", markersize=4, color="#b5341c")
        axes.set_ylim(bottom=0)
        style_axes(axes)
        title = name.replace("theta", "θ").replace("epsilon", "ε")
        axes.set_title(title + " alone" * (place == 0), loc="left", fontsize=10, color=INK)
        axes.set_ylabel("broker-hours above .80", color="#b5341c", fontsize=8)
        other = axes.twinx()
        again = [row["moved_again"] for row in rows]
        other.plot(at, again, marker="s", markersize=4, linestyle="--", color="#2f8f6b")
        other.set_ylim(0, max(1, 1.05 * max(again)))
        style_axes(other)
        other.grid(visible=False)
        other.set_ylabel("replicas moved again that day", color="#2f8f6b", fontsize=8)
    text = f"θ and ε over a {document['day']} day, asked of {document['strategy']}"
    figure.text(0.055, 0.91, text, fontsize=13, fontweight="bold", color=INK)
    return save_figure(figure, folder, f"sweep-{document['day']}-{document['strategy']}")
