"""Strategies side by side over one recording, as a picture: a row of panels for each strategy.

Lines of several strategies in one panel lie on one another as soon as two of them decide alike; beside the
recording as it is, each is read at a glance.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import numpy as np

from trimtab.report.bundles.replay_text import UNMOVED
from trimtab.report.formats import bytes_text, duration_text
from trimtab.report.pictures import FAINT, INK, save_figure
from trimtab.report.replay_panels import BASELINE, LINE, OVERLOADED, above, line, time_axes

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trimtab.history.bundles.compare import StrategyComparison
    from trimtab.history.bundles.effect import ReplayEffect

BACK = "#111111"
HEADINGS = (
    "imbalance σ of the brokers' usage",
    "usage of the fullest broker",
    "bundles unloaded so far",
)
MOST_MARKERS = 400
"""Of returns in one panel; past it they would be a black bar."""


def draw_replay(comparison: StrategyComparison, folder: Path, name: str, title: str) -> tuple[Path, Path]:
    """Draw σ, the usage of the fullest broker, and the unloads, over time, in a row for each strategy.

    Parameters
    ----------
    comparison
        The figures; the recording with nothing moved is the grey line behind each strategy's.
    folder, name
        `<folder>/<name>.svg` and `<folder>/<name>.png` are written, each whole or not at all.
    title
        What is seen, in one line.
    """
    from matplotlib.figure import Figure

    effects = comparison.effects or {UNMOVED: comparison.unmoved}
    rows = len(effects)
    height = 1.5 + 1.5 * rows
    figure = Figure(figsize=(12.8, height), facecolor="white")
    top, bottom = 1 - 1.15 / height, 0.55 / height
    figure.subplots_adjust(left=0.045, right=0.985, top=top, bottom=bottom, hspace=0.5, wspace=0.14)
    figure.text(0.01, 1 - 0.30 / height, title, fontsize=14, fontweight="bold", color=INK)
    figure.text(0.01, 1 - 0.55 / height, _title(comparison), fontsize=9, color=FAINT)
    panels = figure.subplots(rows, 3, sharex=True, sharey="col", squeeze=False)
    at = np.array([datetime.datetime.fromtimestamp(one, datetime.UTC) for one in comparison.unmoved.at])
    for row, (label, effect) in zip(panels, effects.items(), strict=True):
        _uneven(row[0], at, comparison.unmoved, effect)
        _fullest(row[1], at, comparison, effect)
        _unloads(row[2], at, effect)
        row[0].set_title(
            label.lstrip("_") or label, loc="left", fontsize=10.5, fontweight="bold", color=INK, pad=5
        )
        row[2].set_title(_summary(effect), loc="right", fontsize=9, color=INK, pad=5)
    for axes, heading in zip(panels[0], HEADINGS, strict=True):
        place = axes.get_position()
        figure.text(place.x0, top + 0.33 / height, heading, fontsize=9.5, color=FAINT)
    for axes in panels[0]:
        axes.set_ylim(bottom=0)  # shared by the column, and known only when all are drawn
    time_axes(panels, comparison.unmoved.at)
    _legend(figure, height)
    return save_figure(figure, folder, name)


def _uneven(axes: Axes, at: np.ndarray, unmoved: ReplayEffect, effect: ReplayEffect) -> None:
    line(axes, at, unmoved.sigma, BASELINE, 2.6)
    line(axes, at, effect.sigma, LINE, 1.3)


def _fullest(axes: Axes, at: np.ndarray, comparison: StrategyComparison, effect: ReplayEffect) -> None:
    overload = comparison.measured_by.overload
    line(axes, at, comparison.unmoved.peak_usage, BASELINE, 2.6)
    line(axes, at, effect.peak_usage, LINE, 1.3)
    above(axes, at, effect.peak_usage, overload)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def _unloads(axes: Axes, at: np.ndarray, effect: ReplayEffect) -> None:
    from matplotlib.ticker import MaxNLocator

    so_far = np.cumsum(effect.unloads)
    line(axes, at, so_far.astype(np.float64), LINE, 1.3)
    back = np.array([one.at for one in effect.oscillations[:MOST_MARKERS]])
    rows = np.searchsorted(effect.at, back)
    axes.plot(
        at[rows], so_far[rows], linestyle="", marker="o", markersize=4, color=BACK, markerfacecolor="white"
    )
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))


def _legend(figure: Figure, height: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure.legend(
        handles=[
            Line2D([], [], color=LINE, linewidth=1.6, label="the strategy"),
            Line2D([], [], color=BASELINE, linewidth=3, label=UNMOVED),
            Patch(color=OVERLOADED, alpha=0.45, label="overloaded"),
            Line2D(
                [], [], color=BACK, marker="o", markerfacecolor="white", linestyle="",
                label="a bundle came back to a broker that it had left",
            ),
        ],
        loc="upper right",
        bbox_to_anchor=(0.99, 1 - 0.12 / height),
        ncols=4,
        fontsize=9,
        frameon=False,
        handlelength=1.6,
        columnspacing=1.6,
    )  # fmt: skip


def _title(comparison: StrategyComparison) -> str:
    unmoved = comparison.unmoved
    words = [f"{len(unmoved.at):,} ticks"]
    if len(unmoved.at):
        begin = datetime.datetime.fromtimestamp(float(unmoved.at[0]), datetime.UTC)
        words.append(f"from {begin:%Y-%m-%d %H:%M} UTC")
    words.append(f"overloaded: {comparison.measured_by.overload:.0%} or more")
    return f"{', '.join(words)}; {UNMOVED}: {_balance(unmoved)}"


def _summary(effect: ReplayEffect) -> str:
    unloads, back = int(effect.unloads.sum()), len(effect.oscillations)
    return " · ".join(
        (
            _balance(effect),
            f"{unloads:,} unload{'' if unloads == 1 else 's'}, {back:,} came back",
            f"{effect.clients_disturbed:,} clients disturbed",
            f"{bytes_text(effect.interrupted_bytes)} interrupted",
        )
    )


def _balance(effect: ReplayEffect) -> str:
    if not np.isfinite(effect.sigma).any():
        return "no broker"
    overload = duration_text(effect.overload_seconds) if effect.overload_seconds else "0 s"
    return f"σ {effect.sigma_mean:.4f} on average, overloaded for {overload}"
