"""A picture of brokers × resources, before and after, as SVG and PNG.

Colour is the deviation from the resource's mean on one fixed diverging range, so that a balanced cluster
looks level and two pictures can be laid side by side; the number in the cell is the usage itself.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.model.load import resource_name
from trimtab.report.formats import signed_text
from trimtab.report.pictures import FAINT, INK, save_figure
from trimtab.report.terminal_heatmap import RANGE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trimtab.report.measured import MeasuredLoad

HEADING_LETTERS = 52
"""As many fit beside each other above a panel."""
LETTER_INCHES = 0.082
"""Width of a letter of a broker's name."""


def draw_heatmap(
    panels: Sequence[tuple[str, MeasuredLoad]], folder: Path, name: str, title: str, epsilon: float
) -> tuple[Path, Path]:
    """Draw `heatmap_figure` into `<folder>/<name>.svg` and `.png`, each whole or not at all; their paths."""
    return save_figure(heatmap_figure(panels, title, epsilon), folder, name)


def heatmap_figure(panels: Sequence[tuple[str, MeasuredLoad]], title: str, epsilon: float) -> Figure:
    """One panel per placement, side by side.

    Parameters
    ----------
    panels
        Heading and figures of each placement, in the order to be read.
    title
        What is seen, in one line.
    epsilon
        Deviation allowed, named in the legend.
    """
    from matplotlib.figure import Figure

    rows = max(len(measured.brokers) for _, measured in panels)
    headings = [textwrap.fill(heading, HEADING_LETTERS) for heading, _ in panels]
    above = 1.0 + 0.18 * max(heading.count("\n") for heading in headings)
    longest = max(len(line) for _, one in panels for name in one.names("\n") for line in name.splitlines())
    names = max(0.8, 0.2 + LETTER_INCHES * longest)
    figure = Figure(figsize=(names + 0.1 + 4.9 * len(panels), 1.3 + above + 0.56 * rows), facecolor="white")
    left = names / figure.get_figwidth()
    width = (0.965 - left) / len(panels)
    bottom, top = 1.25 / figure.get_figheight(), 1 - above / figure.get_figheight()
    for number, (heading, (_, measured)) in enumerate(zip(headings, panels, strict=True)):
        axes = figure.add_axes((left + number * width, bottom, width * 0.9, top - bottom))
        _panel(axes, heading, measured, labels=number == 0)
    figure.text(0.02, 1 - 0.34 / figure.get_figheight(), title, fontsize=14, fontweight="bold", color=INK)
    _legend(figure, epsilon)
    return figure


def _panel(axes: Axes, heading: str, measured: MeasuredLoad, *, labels: bool) -> None:
    deviation, usage = measured.signed_deviation(), measured.usage.mean(axis=0)
    sigma = measured.sigma.mean(axis=0)
    axes.imshow(
        np.nan_to_num(deviation),
        cmap=_colours(),
        vmin=-RANGE,
        vmax=RANGE,
        aspect="auto",
        interpolation="nearest",
    )
    for row, column in np.ndindex(*usage.shape):
        strong = abs(deviation[row, column]) > 0.62 * RANGE
        text = "–" if np.isnan(usage[row, column]) else f"{usage[row, column]:.0%}"
        ink = "white" if strong else INK
        axes.text(column, row - 0.13, text, ha="center", va="center", color=ink, fontsize=11.5)
        if not np.isnan(deviation[row, column]):
            small = signed_text(float(deviation[row, column]))
            axes.text(
                column, row + 0.25, small, ha="center", va="center", color=ink, fontsize=7.5, alpha=0.85
            )
    axes.set_xticks(range(len(measured.resources)))
    axes.set_xticklabels(
        [
            f"{resource_name(name)}\nσ {value:.4f}"
            if np.isfinite(value)
            else f"{resource_name(name)}\nnot measured"
            for name, value in zip(measured.resources, sigma, strict=True)
        ]
    )
    axes.set_yticks(range(len(measured.brokers)))
    axes.set_yticklabels(measured.names("\n") if labels else [])
    axes.tick_params(length=0, labelsize=9.5, colors=INK)
    axes.set_title(heading, loc="left", fontsize=11, color=FAINT, pad=8)
    axes.set_xticks(np.arange(len(measured.resources) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(measured.brokers) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=2.5)
    axes.tick_params(which="minor", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _legend(figure: Figure, epsilon: float) -> None:
    height = figure.get_figheight()
    axes = figure.add_axes((0.075, 0.36 / height, 0.3, 0.13 / height))
    axes.imshow(
        np.linspace(-RANGE, RANGE, 256)[None, :], cmap=_colours(), aspect="auto", extent=(-RANGE, RANGE, 0, 1)
    )
    ticks = [-RANGE, -epsilon, epsilon, RANGE]
    axes.set_xticks(ticks)
    axes.set_xticklabels([f"{tick:+.0%}" for tick in ticks])
    axes.set_yticks([])
    axes.tick_params(labelsize=8, colors=FAINT, length=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.text(
        0.40, 0.36 / height,
        f"colour: deviation from the resource's mean (small number); goal: within ±{epsilon:.0%}\n"
        "large number: share of the broker's capacity in use; σ: mean over the instants",
        fontsize=8.5, color=FAINT, va="center",
    )  # fmt: skip


def _colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(
        "trimtab", ["#1f5f9e", "#8db9de", "#f4f4f1", "#f0a878", "#b5341c"]
    )
