"""Pictures in files, and the panels of replays; equal figures give equal bytes."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from trimtab_common.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trimtab.model.load import FloatArray


UNMOVED = "nothing moved"
"""The name of a recording as it is beside those of strategies."""
INK, FAINT = "#1c2430", "#5b6675"
"""Colours of what is to be read first, and of what explains it."""


def style_axes(axes: Axes) -> None:
    """Plain axes: no box, faint lines and figures."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#c8ced6")
    axes.tick_params(colors=FAINT, labelsize=8)
    axes.grid(axis="y", color="#eceff2")
    axes.set_axisbelow(True)


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure atomically, in the format of the path's suffix; SVG without one."""
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
    """Draw a limit, and shade the part of a stair at or above it."""
    axes.axhline(limit, color=OVERLOADED, linewidth=0.8, linestyle=(0, (2, 2)))
    # The stair by its corners, so that a lone tick has a width too.
    when, peak = np.repeat(at, 2)[1:], np.repeat(usage, 2)[:-1]
    axes.fill_between(when, limit, np.maximum(peak, limit), color=OVERLOADED, alpha=0.45, linewidth=0)
    axes.plot(when, np.where(peak >= limit, peak, np.nan), color=OVERLOADED, linewidth=1.8)


def draw_steps(axes: Axes, at: np.ndarray, values: FloatArray, colour: str, width: float) -> None:
    """Draw a stair, since a value holds until the next tick; a lone tick is a dot."""
    marker = "o" if len(values) == 1 else None
    axes.plot(at, values, drawstyle="steps-post", color=colour, linewidth=width, marker=marker)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8.5, colors=INK, length=3)
    axes.grid(axis="y", color="#e6e9ed", linewidth=0.8)
    axes.locator_params(axis="y", nbins=4)


def time_axes(panels: np.ndarray, at: FloatArray) -> None:
    """Give all panels the same axis of time, labelled below the last row; `at` is in seconds since 1970."""
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
    label_size
        Of the name of a row, points.
    """

    width: float = 12.8
    row_height: float = 1.5
    left: float = 0.045
    hspace: float = 0.5
    wspace: float = 0.14
    note_at: float = 0.55
    time_shared: bool = True
    label_size: float = 10.5


TALL = PanelShape()
LOW = PanelShape(
    row_height=0.85, left=0.06, hspace=0.75, wspace=0.16, note_at=0.52, time_shared=False, label_size=10
)

EffectT = TypeVar("EffectT")


def small_multiples(
    effects: Mapping[str, EffectT],
    headings: Sequence[str],
    title: str,
    note: str,
    shape: PanelShape,
    draw: Callable[[np.ndarray, EffectT], str],
) -> tuple[Figure, np.ndarray]:
    """A picture with a row of panels for each strategy, below a title, a note and headings of columns.

    Parameters
    ----------
    effects
        By the strategy's name, which is written above the row's first panel.
    draw
        Draws into the panels of a row, and returns the summary above the last of them.

    Returns
    -------
    tuple
        The figure, and its panels, shape (strategies, columns).
    """
    from matplotlib.figure import Figure

    height = 1.5 + shape.row_height * len(effects)
    figure = Figure(figsize=(shape.width, height), facecolor="white")
    top, bottom = 1 - 1.15 / height, 0.55 / height
    figure.subplots_adjust(
        left=shape.left, right=0.985, top=top, bottom=bottom, hspace=shape.hspace, wspace=shape.wspace
    )
    figure.text(0.01, 1 - 0.30 / height, title, fontsize=14, fontweight="bold", color=INK)
    figure.text(0.01, 1 - shape.note_at / height, note, fontsize=9, color=FAINT)
    shared: Any = True if shape.time_shared else "col"
    panels: np.ndarray = figure.subplots(
        len(effects), len(headings), sharex=shared, sharey="col", squeeze=False
    )
    for axes, heading in zip(panels[0], headings, strict=True):
        figure.text(axes.get_position().x0, top + 0.33 / height, heading, fontsize=9.5, color=FAINT)
    pad = 5 if shape.time_shared else 4
    for row, (name, effect) in zip(panels, effects.items(), strict=True):
        row[-1].set_title(draw(row, effect), loc="right", fontsize=9, color=INK, pad=pad)
        # matplotlib shows no label that begins with an underscore.
        label = name.lstrip("_") or name
        row[0].set_title(label, loc="left", fontsize=shape.label_size, fontweight="bold", color=INK, pad=pad)
    return figure, panels


@dataclass(frozen=True)
class StairPanel(Generic[EffectT]):
    """A column of panels with a figure of each strategy over time.

    Attributes
    ----------
    heading
        Above the column.
    values
        Of a strategy, shape (ticks,).
    compared
        Whether the figure of the recording as it is stands behind it.
    limit
        Values at or above it are shaded.
    form
        The text of a value at the axis; None for matplotlib's.
    """

    heading: str
    values: Callable[[EffectT], FloatArray]
    compared: bool = True
    limit: float | None = None
    form: Callable[[float], str] | None = None


def draw_over_time(
    effects: Mapping[str, EffectT],
    unmoved: EffectT,
    seconds: FloatArray,
    columns: Sequence[StairPanel[EffectT]],
    summary: Callable[[EffectT], str],
    title: str,
    note: str,
    keys: Sequence[Artist],
    more: Callable[[np.ndarray, np.ndarray, EffectT], None] = lambda row, at, effect: None,
) -> Figure:
    """A row of panels for each strategy, with the recording as it is in grey.

    Parameters
    ----------
    effects, unmoved
        By the strategy's name, and the recording as it is.
    seconds
        Shape (ticks,): since 1970.
    summary
        The line above a row.
    keys
        What the legend explains besides the two lines.
    more
        Draws more into a row of panels, at these dates.
    """
    from matplotlib.lines import Line2D

    at = np.array([datetime.datetime.fromtimestamp(one, datetime.UTC) for one in seconds])

    def draw(row: np.ndarray, effect: EffectT) -> str:
        for axes, column in zip(row, columns, strict=True):
            values = column.values(effect)
            if column.compared:
                draw_steps(axes, at, column.values(unmoved), BASELINE, 2.6)
            draw_steps(axes, at, values, LINE, 1.3)
            if column.limit is not None:
                shade_above(axes, at, np.nan_to_num(values), column.limit)
            if column.form is not None:
                axes.yaxis.set_major_formatter(lambda value, _, form=column.form: form(value))
        more(row, at, effect)
        return summary(effect)

    figure, panels = small_multiples(effects, [one.heading for one in columns], title, note, TALL, draw)
    for axes in panels[0]:
        axes.set_ylim(bottom=0)  # shared by the column, and known only when all are drawn
    time_axes(panels, seconds)
    own = Line2D([], [], color=LINE, linewidth=1.6, label="the strategy")
    top_legend(figure, [own, Line2D([], [], color=BASELINE, linewidth=3, label=UNMOVED), *keys])
    return figure


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
