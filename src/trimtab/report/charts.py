"""Pictures in files, and the panels of replays in them; the same figures give the same bytes."""

from __future__ import annotations

import datetime
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab_common.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.artist import Artist
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


@dataclass(frozen=True)
class PanelShape:
    """The shape of a picture of rows of panels: lengths in inches, margins as shares of the picture.

    Attributes
    ----------
    row_height
        Of a row of panels, with the gap below it.
    note_at
        Of the line below the title, from the top.
    time_shared
        Whether all panels have one horizontal axis, or each column its own.
    """

    width: float = 12.8
    row_height: float = 1.5
    left: float = 0.045
    hspace: float = 0.5
    wspace: float = 0.14
    note_at: float = 0.55
    time_shared: bool = True


TALL = PanelShape()
LOW = PanelShape(row_height=0.85, left=0.06, hspace=0.75, wspace=0.16, note_at=0.52, time_shared=False)


def panel_rows(
    rows: int, headings: Sequence[str], title: str, note: str, shape: PanelShape
) -> tuple[Figure, np.ndarray]:
    """A picture of rows of panels below a title and a note, with a heading above each column."""
    from matplotlib.figure import Figure

    height = 1.5 + shape.row_height * rows
    figure = Figure(figsize=(shape.width, height), facecolor="white")
    top, bottom = 1 - 1.15 / height, 0.55 / height
    figure.subplots_adjust(
        left=shape.left, right=0.985, top=top, bottom=bottom, hspace=shape.hspace, wspace=shape.wspace
    )
    figure.text(0.01, 1 - 0.30 / height, title, fontsize=14, fontweight="bold", color=INK)
    figure.text(0.01, 1 - shape.note_at / height, note, fontsize=9, color=FAINT)
    shared: Any = True if shape.time_shared else "col"
    panels: np.ndarray = figure.subplots(rows, len(headings), sharex=shared, sharey="col", squeeze=False)
    for axes, heading in zip(panels[0], headings, strict=True):
        figure.text(axes.get_position().x0, top + 0.33 / height, heading, fontsize=9.5, color=FAINT)
    return figure, panels


def top_legend(figure: Figure, handles: list[Artist]) -> None:
    """A legend in one row, to the right of the title."""
    figure.legend(
        handles=handles,
        loc="upper right",
        bbox_to_anchor=(0.99, 1 - 0.12 / figure.get_figheight()),
        ncols=len(handles),
        fontsize=9,
        frameon=False,
        handlelength=1.6,
        columnspacing=1.6,
    )
