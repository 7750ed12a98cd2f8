"""Pictures in files, and the panels of replays in them; the same figures give the same bytes."""

from __future__ import annotations

import datetime
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab_common.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trimtab.model.load import FloatArray


INK, FAINT = "#1c2430", "#5b6675"
"""Colours of what is to be read first, and of what explains it."""


def style_axes(axes: Axes) -> None:
    """Axes that stand back behind what is drawn in them: no box, faint lines and figures."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#c8ced6")
    axes.tick_params(colors=FAINT, labelsize=8)
    axes.grid(axis="y", color="#eceff2")
    axes.set_axisbelow(True)


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the form that the path's suffix says, SVG without one; whole or not at all."""
    import matplotlib as mpl

    form = path.suffix.lstrip(".") or "svg"
    metadata: dict[str, Any] = {"Date": None} if form == "svg" else {}
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "trimtab", "svg.fonttype": "path"}):
        figure.savefig(buffer, format=form, dpi=150, facecolor="white", metadata=metadata)
    write_atomically(path, buffer.getvalue())


def save_figure(figure: Figure, folder: Path, name: str) -> tuple[Path, Path]:
    """Write a figure as `<folder>/<name>.svg` and `<folder>/<name>.png`, and return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = (folder / f"{name}.svg", folder / f"{name}.png")
    for path in paths:
        write_figure(figure, path)
    return paths


LINE = "#0072b2"
OVERLOADED = "#d55e00"
BASELINE = "#b8bfc7"
"""The colour-blind tell them apart, and they differ in lightness and form as well."""


def shade_above(axes: Axes, at: np.ndarray, usage: FloatArray, limit: float) -> None:
    """A limit, and what of a stair is at or above it."""
    axes.axhline(limit, color=OVERLOADED, linewidth=0.8, linestyle=(0, (2, 2)))
    # The stair by its corners, so that a lone tick has a width too.
    when, peak = np.repeat(at, 2)[1:], np.repeat(usage, 2)[:-1]
    axes.fill_between(when, limit, np.maximum(peak, limit), color=OVERLOADED, alpha=0.45, linewidth=0)
    axes.plot(when, np.where(peak >= limit, peak, np.nan), color=OVERLOADED, linewidth=1.8)


def draw_steps(axes: Axes, at: np.ndarray, values: FloatArray, colour: str, width: float) -> None:
    """A stair, since a tick stands until the next; a lone tick is a dot."""
    marker = "o" if len(values) == 1 else None
    axes.plot(at, values, drawstyle="steps-post", color=colour, linewidth=width, marker=marker)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8.5, colors=INK, length=3)
    axes.grid(axis="y", color="#e6e9ed", linewidth=0.8)
    axes.locator_params(axis="y", nbins=4)


def time_axes(panels: np.ndarray, at: FloatArray) -> None:
    """The same axis of time, seconds since 1970, below all panels, told below the last row."""
    from matplotlib import dates

    untyped: Any = dates
    locator = untyped.AutoDateLocator(tz=datetime.UTC, minticks=3, maxticks=7)
    for axes in panels.flat:
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(
            untyped.ConciseDateFormatter(locator, tz=datetime.UTC, show_offset=False)
        )
        if len(at) > 1:
            begin, end = (datetime.datetime.fromtimestamp(one, datetime.UTC) for one in at[[0, -1]].tolist())
            axes.set_xlim(begin, end)
        axes.margins(x=0)
    for axes in panels[-1]:
        axes.set_xlabel("time (UTC)", fontsize=8.5, color=FAINT)
