"""The pictures of docs/benchmarks.md and docs/pipeline.md, from the figures in `results/`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from trimtab.report.charts import FAINT, INK, style_axes, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

IMAGES = Path(__file__).parent.parent / "docs" / "images"
COLOURS = {"trim": "#2f8f6b", "role_aware, literal": "#d98c2b", "role_aware, repaired": "#8a63b0"}
WITH, WITHOUT, SPARK = "#2f8f6b", "#a9b2bd", "#d98c2b"
TICK_SECONDS = 30
MOST_RATIO = 1.2
"""Bytes over the bound: the goal."""
NAMES = {
    "duckdb": "DuckDB",
    "polars": "Polars",
    "spark, same job": "Spark",
    "spark with Comet, same job": "Comet",
}
"""Engines that are drawn, as the picture calls them."""
OF_SPARK = {"Spark": "Spark", "Comet": "Spark with Comet"}
MEASURES = {"bytes_in": "bytes in", "bytes_out": "bytes out", "disk": "disk", "cpu": "CPU"}


def draw_plan_quality(medians: list[dict[str, Any]]) -> Path:
    """Bytes over the lower bound against brokers, and seconds against replicas, by strategy."""
    worst = max(row["worst_ratio"] for row in medians if row["strategy"] == "trim")
    never = [name for name in COLOURS if not any(row["ratio"] for row in medians if row["strategy"] == name)]
    figure = _figure(
        9.6,
        4.4,
        f"trim copies at most {worst:.2f} times what no plan can do without",
        "medians over seeds; on the left only plans that met every goal"
        + (f", as none of {' and '.join(never)} did" if never else ""),
    )
    left, right = (figure.add_axes((at, 0.13, 0.4, 0.58)) for at in (0.07, 0.56))
    for name, colour in COLOURS.items():
        of = [row for row in medians if row["strategy"] == name]
        met = [row for row in of if row["ratio"] is not None]
        _line(left, [row["brokers"] for row in met], [row["ratio"] for row in met], colour)
        _line(right, [row["replicas"] for row in of], [row["seconds"] for row in of], colour, label=name)
    left.axhline(MOST_RATIO, color="#b5341c", linewidth=1, linestyle="--")
    goal = {"va": "bottom", "ha": "right", "color": "#b5341c", "fontsize": 8}
    left.text(1, MOST_RATIO, f"goal {MOST_RATIO} ", transform=left.get_yaxis_transform(), **goal)
    left.set(xscale="log", ylim=(0.9, None))
    right.set(xscale="log", yscale="log")
    _told(left, "bytes copied over the bound", "brokers")
    _told(right, "seconds, planner alone in a warm process", "replicas")
    right.yaxis.set_major_formatter("{x:g}")
    _legend(figure, 0.06)
    return _written(figure, "plan_quality")


def _best_in_batch(rows_per_second: dict[str, float]) -> str:
    """How the faster of Spark's runs compares with the fastest of the other engines in the panel."""
    own, rival = (
        max(
            (name for name in rows_per_second if (name in OF_SPARK) == is_own),
            key=rows_per_second.__getitem__,
        )
        for is_own in (True, False)
    )
    times, spark = rows_per_second[rival] / rows_per_second[own], OF_SPARK[own]
    if times < 1:
        return f"{spark} builds tables {1 / times:.1f} times as fast as {rival}"
    return f"{rival} builds tables {times:.1f} times as fast as {spark}"


def draw_pipeline(compared: dict[str, Any], points: dict[str, Any]) -> Path:
    """Why Spark: rows a second in batch, seconds for one more tick, and how that grows with partitions."""
    engines, partitions = compared["engines"], compared["partitions"]
    once = {name: row for name, row in engines.items() if name in NAMES}
    live = points.get(str(partitions))
    figure = _figure(
        9.6,
        4.4,
        _best_in_batch({NAMES[name]: row["rows_per_second"] for name, row in once.items()})
        + (f"; a tick takes {live['tick_seconds']:.1f} s" if live else ""),
        f"two cores, {partitions:,} partitions, {compared['ticks']} ticks at once; one more tick is a "
        "micro-batch for Spark, the others make all anew",
    )
    left, middle, right = (figure.add_axes((at, 0.14, 0.25, 0.58)) for at in (0.08, 0.4, 0.71))
    colours = [SPARK if name.startswith("spark") else WITHOUT for name in once]
    names = [NAMES[name] for name in once]
    _bars(left, names, [([row["rows_per_second"] for row in once.values()], colours, None)], "{:,.0f}")
    left.margins(x=0.2)
    left.set_title("batch: raw rows per second", loc="left", fontsize=9.5, color=FAINT)
    # A micro-batch runs without Comet.
    tick = {"spark, same job": live["tick_seconds"] if live else None, "spark with Comet, same job": None}
    more = [tick.get(name, row["median_seconds"]) for name, row in once.items()]
    _bars(middle, [""] * len(once), [(more, colours, None)], "{:.1f} s")
    middle.set_title("live: one more tick in all tables", loc="left", fontsize=9.5, color=FAINT)
    curve = sorted(
        (one["partitions"], one["tick_seconds"]) for one in points.values() if one["master"] == "local[2]"
    )
    if curve:
        _line(right, [one for one, _ in curve], [seconds for _, seconds in curve], SPARK)
        right.axhline(TICK_SECONDS, color="#b5341c", linewidth=1, linestyle="--")
        right.text(curve[0][0], TICK_SECONDS, "a tick's own length", va="bottom", color="#b5341c", fontsize=8)
        right.set(xscale="log", ylim=(0, TICK_SECONDS * 1.15))
    _told(right, "Spark: seconds for a tick", "partitions")
    return _written(figure, "pipeline")


def draw_accuracy(rows: dict[str, Any]) -> Path:
    """Share of each measure laid at the wrong place, with and without the brokers' metrics."""
    runs = [
        {_label(one): None if one["share_error"] is None else 100 * one["share_error"] for one in rows[name]}
        for name in ("with_metrics", "without_metrics")
    ]
    labels = list(runs[0])
    worst = max(value for run in runs for value in run.values() if value is not None)
    figure = _figure(
        9.6,
        4.4,
        f"At most {worst:.1f}% of any load is laid at the wrong partition or broker",
        "share of each measure's total that is misplaced; six real brokers under load whose truth is known",
    )
    axes = figure.add_axes((0.2, 0.05, 0.74, 0.66))
    told = (WITH, "with the brokers' metrics"), (WITHOUT, "by the admin API alone")
    series = [([run.get(label) for label in labels], *how) for run, how in zip(runs, told, strict=True)]
    _bars(axes, labels, series, "{:.2f} %")
    _legend(figure, 0.19)
    return _written(figure, "accuracy")


def _figure(width: float, height: float, title: str, below: str) -> Figure:
    figure = Figure(figsize=(width, height), facecolor="white")
    figure.text(0.02, 1 - 0.32 / height, title, fontsize=13, fontweight="bold", color=INK)
    figure.text(0.02, 1 - 0.56 / height, below, fontsize=9, color=FAINT)
    return figure


def _legend(figure: Figure, left: float) -> None:
    at = (left, 1 - 0.58 / figure.get_figheight())
    figure.legend(ncols=3, fontsize=8.5, frameon=False, loc="upper left", bbox_to_anchor=at, labelcolor=INK)


def _line(axes: Axes, x: list[float], y: list[float], colour: str, label: str | None = None) -> None:
    axes.plot(x, y, marker="o", markersize=4, linewidth=1.6, color=colour, label=label)


def _told(axes: Axes, heading: str, across: str) -> None:
    axes.set_title(heading, loc="left", fontsize=9.5, color=FAINT)
    axes.set_xlabel(across, fontsize=8.5, color=FAINT)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    style_axes(axes)
    axes.minorticks_off()


def _bars(axes: Axes, labels: list[str], series: list[tuple[list[Any], Any, str | None]], form: str) -> None:
    """Bars from zero, each with its figure; what was not measured has none."""
    thick = 0.78 / len(series)
    for number, (values, colour, words) in enumerate(series):
        at = [row + (number - (len(series) - 1) / 2) * thick for row in range(len(labels))]
        axes.barh(at, [value or 0 for value in values], thick * 0.88, color=colour, label=words)
        for place, value in zip(at, values, strict=True):
            text = "not measured" if value is None else form.format(value)
            axes.text(
                value or 0, place, f" {text}", va="center", fontsize=8, color=FAINT if value is None else INK
            )
    style_axes(axes)
    axes.grid(visible=False)
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(axis="y", labelsize=9, labelcolor=INK, length=0)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.invert_yaxis()
    axes.margins(x=0.12)


def _label(one: dict[str, Any]) -> str:
    return f"{MEASURES[one['measure']]} per {one['scope']}"


def _written(figure: Figure, name: str) -> Path:
    IMAGES.mkdir(exist_ok=True)
    path = IMAGES / f"{name}.svg"
    write_figure(figure, path)
    return path
