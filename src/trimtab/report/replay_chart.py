"""Strategies side by side over one recording, as a picture: imbalance and the fullest broker over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trimtab.report.heatmap import FAINT, INK, save_figure
from trimtab.report.replay_text import UNMOVED

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from trimtab.history.bundles.compare import Comparison
    from trimtab.history.bundles.effect import Effect
    from trimtab.model.load import FloatArray

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", "--", ":", "-.")
"""Six colours that the colour-blind can tell apart; where they are used up, they begin anew with dashes."""


def draw_replay(comparison: Comparison, folder: Path, name: str, title: str) -> tuple[Path, Path]:
    """Draw σ above and the usage of the fullest broker below, a line for each strategy.

    Parameters
    ----------
    comparison
        The figures; the recording with nothing moved is the grey line.
    folder, name
        `<folder>/<name>.svg` and `<folder>/<name>.png` are written, each whole or not at all.
    title
        What is seen, in one line.

    Returns
    -------
    tuple[Path, Path]
        The SVG and the PNG.
    """
    from matplotlib.figure import Figure

    at = comparison.unmoved.at
    unit, seconds = _unit(float(at[-1] - at[0]) if len(at) else 0.0)
    figure = Figure(figsize=(9.6, 6.4), facecolor="white", layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    upper, lower = figure.subplots(2, 1, sharex=True)
    elapsed = (at - at[:1]) / seconds
    # Where strategies decide alike, their lines lie on one another: each is thinner than those below it.
    widest, *widths = np.linspace(5.0, 1.2, len(comparison.effects) + 1).tolist()
    _line(upper, elapsed, comparison.unmoved.sigma, UNMOVED, widest)
    _line(lower, elapsed, comparison.unmoved.peak_usage, UNMOVED, widest)
    for number, (label, effect) in enumerate(comparison.effects.items()):
        _line(upper, elapsed, effect.sigma, _legend(label, effect), widths[number], number)
        _line(lower, elapsed, effect.peak_usage, label, widths[number], number)
    lower.axhline(comparison.measured_by.overload, color=FAINT, linewidth=0.8, linestyle=(0, (1, 3)))
    lower.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    _dress(upper, "imbalance σ")
    _dress(lower, "usage of the fullest broker\n(dotted: overloaded)")
    lower.set_xlabel(f"{unit} since the beginning of the recording", color=FAINT)
    figure.legend(
        *upper.get_legend_handles_labels(), loc="outside lower left", ncols=2, fontsize=8.5, frameon=False
    )
    return save_figure(figure, folder, name)


def _line(
    axes: Axes,
    elapsed: FloatArray,
    values: FloatArray,
    label: str,
    width: float,
    number: int | None = None,
) -> None:
    """A stair, since a tick stands until the next; a lone tick is a dot. Without a number it is grey."""
    turn, place = divmod(number or 0, len(COLOURS))
    axes.plot(
        elapsed,
        values,
        drawstyle="steps-post",
        label=label.lstrip("_") or label,  # matplotlib leaves labels with a leading underscore out
        color="#c3c9d0" if number is None else COLOURS[place],
        linestyle=DASHES[turn % len(DASHES)],
        linewidth=width,
        marker="o" if len(values) == 1 else None,
    )


def _legend(label: str, effect: Effect) -> str:
    unloads, back = int(effect.unloads.sum()), len(effect.oscillations)
    return f"{label}: {unloads} unload{'' if unloads == 1 else 's'}, {back} came back"


def _dress(axes: Axes, heading: str) -> None:
    axes.set_title(heading, loc="left", fontsize=10, color=FAINT)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9, colors=INK, length=3)
    axes.grid(axis="y", color="#e6e9ed", linewidth=0.8)


def _unit(seconds: float) -> tuple[str, float]:
    if seconds >= 4 * 86400:
        return "days", 86400.0
    return ("hours", 3600.0) if seconds >= 4 * 3600 else ("minutes", 60.0)
