"""Strategies side by side over recorded loads of partitions, as a picture: a row of panels for each."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import numpy as np

from trimtab.report.formats import bytes_text, duration_text
from trimtab.report.pictures import FAINT, INK, save_figure
from trimtab.report.replay_panels import BASELINE, LINE, OVERLOADED, above, line, time_axes
from trimtab.report.replicas.replay_text import NOTHING, mean

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trimtab.history.replicas.effect import ReplicasReplayEffect
    from trimtab.history.replicas.spark import ScenarioComparison

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
    from matplotlib.figure import Figure

    unmoved = comparison.effects[NOTHING]
    effects = {name: one for name, one in comparison.effects.items() if name != NOTHING}
    effects = effects or {NOTHING: unmoved}
    rows = len(effects)
    height = 1.5 + 1.5 * rows
    figure = Figure(figsize=(12.8, height), facecolor="white")
    top, bottom = 1 - 1.15 / height, 0.55 / height
    figure.subplots_adjust(left=0.045, right=0.985, top=top, bottom=bottom, hspace=0.5, wspace=0.14)
    figure.text(0.01, 1 - 0.30 / height, title, fontsize=14, fontweight="bold", color=INK)
    figure.text(0.01, 1 - 0.55 / height, _title(comparison), fontsize=9, color=FAINT)
    panels = figure.subplots(rows, 3, sharex=True, sharey="col", squeeze=False)
    at = np.array([datetime.datetime.fromtimestamp(one, datetime.UTC) for one in unmoved.at])
    theta = max(comparison.measured_by.theta)
    for row, (label, effect) in zip(panels, effects.items(), strict=True):
        line(row[0], at, unmoved.peak, BASELINE, 2.6)
        line(row[0], at, effect.peak, LINE, 1.3)
        above(row[0], at, np.nan_to_num(effect.peak), theta)
        line(row[1], at, unmoved.gamma, BASELINE, 2.6)
        line(row[1], at, effect.gamma, LINE, 1.3)
        line(row[2], at, np.cumsum(effect.copied_bytes), LINE, 1.3)
        _units(row)
        row[0].set_title(label, loc="left", fontsize=10.5, fontweight="bold", color=INK, pad=5)
        row[2].set_title(_summary(effect), loc="right", fontsize=9, color=INK, pad=5)
    for axes, heading in zip(panels[0], HEADINGS, strict=True):
        place = axes.get_position()
        figure.text(place.x0, top + 0.33 / height, heading, fontsize=9.5, color=FAINT)
    for axes in panels[0]:
        axes.set_ylim(bottom=0)  # shared by the column, and known only when all are drawn
    time_axes(panels, unmoved.at)
    _legend(figure, height, theta)
    return save_figure(figure, folder, name)


def _units(row: np.ndarray) -> None:
    axes: Axes
    for axes in row[:2]:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    row[2].yaxis.set_major_formatter(lambda value, _: bytes_text(value))


def _legend(figure: Figure, height: float, theta: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure.legend(
        handles=[
            Line2D([], [], color=LINE, linewidth=1.6, label="the strategy"),
            Line2D([], [], color=BASELINE, linewidth=3, label=NOTHING),
            Patch(color=OVERLOADED, alpha=0.45, label=f"above θ ({theta:.0%})"),
        ],
        loc="upper right",
        bbox_to_anchor=(0.99, 1 - 0.12 / height),
        ncols=3,
        fontsize=9,
        frameon=False,
        handlelength=1.6,
        columnspacing=1.6,
    )


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
