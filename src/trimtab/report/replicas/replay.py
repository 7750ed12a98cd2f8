"""Strategies side by side over recorded loads of partitions: tables, JSON and a picture."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rich.markup import escape

from trimtab.files.head import time_text
from trimtab.model.load import resource_name
from trimtab.model.replicas.settings import RESOURCES
from trimtab.report import charts
from trimtab.report.formats import bytes_text, counted, duration_text, figure_text, known_value
from trimtab.report.tables import figures_table

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from trimtab.history.replicas.replay import ReplicasReplayEffect
    from trimtab.history.replicas.spark import ScenarioComparison


NOTHING: Final = "nothing moved"


def replay_text(comparison: ScenarioComparison) -> Iterator[RenderableType]:
    """A row for each scenario, that in which nothing is moved first."""
    first = next(iter(comparison.effects.values()))
    theta = comparison.measured_by.theta
    limit = figure_text(theta[0], ".0%") if len(set(theta)) == 1 else "θ"
    yield (
        f"{counted(len(first.at), 'step')} of {duration_text(first.step_seconds)} to "
        f"{time_text(first.at[-1])}"
    )
    table = figures_table(
        ["strategy"],
        [f"time above {limit}", "brokers × time", "peak", "γ mean", "γ worst", "σ mean", "plans", "replicas",
         "twice", "leaders", "copied", "of all"],
    )  # fmt: skip
    table.columns[0].no_wrap = True
    for name, effect in comparison.effects.items():
        copied = float(effect.copied_bytes.sum())
        table.add_row(
            escape(name),
            duration_text(effect.seconds_above) if effect.seconds_above else "0 s",
            duration_text(effect.broker_seconds_above) if effect.broker_seconds_above else "0 s",
            figure_text(highest(effect.peak), ".0%"),
            figure_text(mean(effect.gamma), ".0%"),
            figure_text(highest(effect.gamma), ".0%"),
            figure_text(mean(effect.sigma), ".4f"),
            f"{effect.plans.sum():,}",
            f"{effect.replicas.sum():,}",
            f"{effect.moved_twice.sum():,}",
            f"{effect.leaders.sum():,}",
            bytes_text(copied),
            figure_text(copied / comparison.held_bytes if comparison.held_bytes else np.nan, ".0%"),
        )
    yield table
    yield (
        "[dim]peak: of the fullest broker and resource; γ, σ: of the worst broker and resource of each step; "
        "twice: replicas that go on within a day of coming; of all: bytes copied, in parts of all held; "
        "the load of copies is in all figures[/]"
    )
    if comparison.errors:
        off = figures_table(["expected a day ahead"], [resource_name(one) for one in RESOURCES])
        for way, share in comparison.errors.items():
            off.add_row(way, *(figure_text(one, ".1%") for one in share.tolist()))
        yield off
        yield "[dim]error: Σ|expected − actual| / Σ actual, leaders' loads of all partitions and hours[/]"


def replay_document(comparison: ScenarioComparison) -> dict[str, Any]:
    """The same as plain JSON values, with the figures of every step."""
    return {
        "theta": dict(zip(RESOURCES, comparison.measured_by.theta, strict=True)),
        "held_bytes": comparison.held_bytes,
        "errors": {
            way: dict(zip(RESOURCES, map(known_value, share.tolist()), strict=True))
            for way, share in comparison.errors.items()
        },
        "strategies": [{"name": name, **_document(one)} for name, one in comparison.effects.items()],
    }


def _document(effect: ReplicasReplayEffect) -> dict[str, Any]:
    return {
        "seconds_above_theta": effect.seconds_above,
        "broker_seconds_above_theta": effect.broker_seconds_above,
        "peak_usage": known_value(highest(effect.peak)),
        "gamma_mean": known_value(mean(effect.gamma)),
        "gamma_worst": known_value(highest(effect.gamma)),
        "sigma_mean": known_value(mean(effect.sigma)),
        "plans": int(effect.plans.sum()),
        "replicas_moved": int(effect.replicas.sum()),
        "replicas_moved_twice": int(effect.moved_twice.sum()),
        "leaders_moved": int(effect.leaders.sum()),
        "copied_bytes": float(effect.copied_bytes.sum()),
        "over_time": {
            "at": [time_text(one) for one in effect.at.tolist()],
            "brokers_above_theta": effect.above.tolist(),
            "peak_usage": [known_value(one) for one in effect.peak.tolist()],
            "gamma": [known_value(one) for one in effect.gamma.tolist()],
            "sigma": [known_value(one) for one in effect.sigma.tolist()],
            "replicas_moved": effect.replicas.tolist(),
            "copied_bytes": effect.copied_bytes.tolist(),
        },
    }


def mean(values: np.ndarray) -> float:
    """Mean of what is known; NaN where nothing is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def highest(values: np.ndarray) -> float:
    """The highest of what is known; NaN where nothing is."""
    return float(np.fmax.reduce(values, initial=np.nan))


HEADINGS = (
    "usage of the fullest broker and resource",
    "worst distance γ from the mean",
    "bytes copied so far",
)


def draw_replay(comparison: ScenarioComparison, folder: Path, name: str, title: str) -> tuple[Path, Path]:
    """Draw the usage of the fullest broker, the worst γ, and the bytes copied, over time, a row a strategy.

    Parameters
    ----------
    comparison
        The figures; where nothing is moved is the grey line behind each strategy's.
    folder, name
        `<folder>/<name>.svg` and `<folder>/<name>.png` are written, each whole or not at all.
    title
        What is seen, in one line.
    """
    unmoved = comparison.effects[NOTHING]
    effects = {name: one for name, one in comparison.effects.items() if name != NOTHING}
    effects = effects or {NOTHING: unmoved}
    figure, panels = charts.panel_rows(len(effects), HEADINGS, title, _title(comparison), charts.TALL)
    at = np.array([datetime.datetime.fromtimestamp(one, datetime.UTC) for one in unmoved.at])
    theta = max(comparison.measured_by.theta)
    for row, (label, effect) in zip(panels, effects.items(), strict=True):
        charts.draw_steps(row[0], at, unmoved.peak, charts.BASELINE, 2.6)
        charts.draw_steps(row[0], at, effect.peak, charts.LINE, 1.3)
        charts.shade_above(row[0], at, np.nan_to_num(effect.peak), theta)
        charts.draw_steps(row[1], at, unmoved.gamma, charts.BASELINE, 2.6)
        charts.draw_steps(row[1], at, effect.gamma, charts.LINE, 1.3)
        charts.draw_steps(row[2], at, np.cumsum(effect.copied_bytes), charts.LINE, 1.3)
        _units(row)
        row[0].set_title(label, loc="left", fontsize=10.5, fontweight="bold", color=charts.INK, pad=5)
        row[2].set_title(_summary(effect), loc="right", fontsize=9, color=charts.INK, pad=5)
    for axes in panels[0]:
        axes.set_ylim(bottom=0)  # shared by the column, and known only when all are drawn
    charts.time_axes(panels, unmoved.at)
    _legend(figure, theta)
    return charts.save_figure(figure, folder, name)


def _units(row: np.ndarray) -> None:
    axes: Axes
    for axes in row[:2]:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    row[2].yaxis.set_major_formatter(lambda value, _: bytes_text(value))


def _legend(figure: Figure, theta: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Artist] = [
        Line2D([], [], color=charts.LINE, linewidth=1.6, label="the strategy"),
        Line2D([], [], color=charts.BASELINE, linewidth=3, label=NOTHING),
        Patch(color=charts.OVERLOADED, alpha=0.45, label=f"above θ ({theta:.0%})"),
    ]
    charts.top_legend(figure, handles)


def _title(comparison: ScenarioComparison) -> str:
    unmoved = comparison.effects[NOTHING]
    begin = datetime.datetime.fromtimestamp(float(unmoved.at[0]), datetime.UTC)
    words = (
        f"{len(unmoved.at):,} steps of {duration_text(unmoved.step_seconds)} from {begin:%Y-%m-%d %H:%M} UTC"
    )
    return f"{words}; {NOTHING}: {_balance(unmoved)}"


def _summary(effect: ReplicasReplayEffect) -> str:
    return (
        f"{_balance(effect)} · {effect.replicas.sum():,} replicas moved, {effect.moved_twice.sum():,} twice"
        f" · {bytes_text(float(effect.copied_bytes.sum()))} copied"
    )


def _balance(effect: ReplicasReplayEffect) -> str:
    above_theta = duration_text(effect.seconds_above) if effect.seconds_above else "0 s"
    return f"above θ for {above_theta}, γ {mean(effect.gamma):.0%} in the mean"
