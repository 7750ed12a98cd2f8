"""Tables and heat maps in the terminal.

Tables for the terminal are coloured by rich. Text that is kept or piped is lined up here: a plan with all its
moves has thousands of rows, rich takes about a millisecond for each, and loading it takes longer than reading
a plan.

A heat map shows deviations of brokers × figures as colour, and as text where there is no colour.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from trimtab.model.goals import exceeds
from trimtab.model.load import FloatArray

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


RowT = TypeVar("RowT")
Column = tuple[str, Callable[[RowT], str]]
"""A heading, and the function that gives the text of a row."""


def figures_table(texts: Sequence[str], figures: Sequence[str]) -> Table:
    """An empty table without lines.

    Parameters
    ----------
    texts, figures
        Headings of the columns: first those to the left, then those to the right.

    Returns
    -------
    rich.table.Table
        Print it with a rich console, which leaves colours out where they cannot be shown.
    """
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in texts:
        table.add_column(heading)
    for heading in figures:
        table.add_column(heading, justify="right")
    return table


def table_lines(rows: Sequence[Sequence[str]], align: str, indent: str = "  ") -> list[str]:
    """Rows as lines of plain text, two blanks between the columns.

    Parameters
    ----------
    rows
        Cells; every row has as many.
    align
        A letter for each column: `l` for left, `r` for right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        indent
        + "  ".join(
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(row, widths, align, strict=True)
        ).rstrip()
        for row in rows
    ]


def column_lines(
    rows: Iterable[RowT], align: str, columns: Sequence[Column[RowT]], indent: str = "  "
) -> list[str]:
    """A table with headings as lines of plain text; `align` and `indent` as for `table_lines`."""
    cells = [[cell(row) for _, cell in columns] for row in rows]
    return table_lines([[heading for heading, _ in columns], *cells], align, indent)


def comparison_table(
    heading: str, rows: Mapping[str, RowT], columns: Sequence[Column[RowT]], first: Sequence[str] = ()
) -> Table:
    """A table with a row for each strategy.

    Parameters
    ----------
    heading
        Of the column of names.
    rows
        By the strategy's name.
    columns
        All to the right.
    first
        Cells of a dimmed row above the others.
    """
    from rich.markup import escape

    table = figures_table([heading], [name for name, _ in columns])
    table.columns[0].no_wrap = True
    if first:
        table.add_row(*first, style="dim")
    for name, row in rows.items():
        table.add_row(escape(name), *(cell(row) for _, cell in columns))
    return table


def print_wide(parts: Iterable[RenderableType]) -> None:
    """Print texts and wide tables at the terminal's width, but wide enough for all figures."""
    from rich.console import Console

    width = max(shutil.get_terminal_size().columns, 108) if sys.stdout.isatty() else 120
    console = Console(highlight=False, width=width)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))


RANGE = 0.6
"""Deviations beyond ±60 % of the mean get the strongest colour, as in the drawn heat map."""
ABOVE, BELOW, BALANCED = (0xC8, 0x3E, 0x2B), (0x2B, 0x6C, 0xB8), (0xF2, 0xF2, 0xF0)
DARK, LIGHT = "#1c2430", "#ffffff"


@dataclass(frozen=True, eq=False)
class HeatmapPanel:
    """One panel of a heat map.

    Attributes
    ----------
    values
        What is printed, shape (rows, columns); NaN is not known.
    deviation
        What is coloured: signed, fractions of the column's mean, shape (rows, columns); NaN is not known.
    heading
        Set above its columns where there are several panels.
    percent
        Whether values are fractions, printed in percent, or counts.
    """

    values: FloatArray
    deviation: FloatArray
    heading: str = ""
    percent: bool = True


def terminal_heatmap(
    names: Sequence[str],
    before: HeatmapPanel,
    after: HeatmapPanel | None = None,
    *,
    columns: Sequence[str],
    epsilon: float | FloatArray = 0.1,
) -> Table:
    """A table of coloured cells, one row per name.

    Parameters
    ----------
    names
        Length (rows,).
    before, after
        One panel, or two side by side.
    columns
        Headings of a panel's columns.
    epsilon
        Deviation allowed, one figure or one per column. Cells beyond it carry ▲ or ▼, so that the map can
        be read without colours, in a log or through a pipe.
    """
    from rich.table import Table

    panels = [before] if after is None else [before, after]
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("")
    for number, panel in enumerate(panels):
        if number:
            table.add_column("", min_width=1)
        for column in columns:
            heading = f"{panel.heading}\n{column}" if panel.heading else column
            table.add_column(heading, justify="right")
    allowed = np.broadcast_to(np.asarray(epsilon, dtype=float), (len(columns),))
    for row, name in enumerate(names):
        texts: list[object] = [name]
        for number, panel in enumerate(panels):
            texts += [""] * (number > 0)
            texts += [_cell(panel, row, place, float(allowed[place])) for place in range(len(columns))]
        table.add_row(*texts)  # type: ignore[arg-type]
    return table


def cell_text(panel: HeatmapPanel, row: int, column: int, epsilon: float) -> str:
    """The text of a cell: value, signed deviation, and a mark if it is beyond ε."""
    value, deviation = float(panel.values[row, column]), float(panel.deviation[row, column])
    if np.isnan(value) and np.isnan(deviation):
        return "–"
    printed = "" if np.isnan(value) else f"{value:.0%} " if panel.percent else f"{value:,.0f} "
    if np.isnan(deviation):
        return printed.strip()
    mark = " " if not exceeds(abs(deviation), epsilon) else "▲" if deviation > 0 else "▼"
    return f"{printed}{mark}{deviation:+4.0%}"


def _cell(panel: HeatmapPanel, row: int, column: int, epsilon: float) -> object:
    from rich.text import Text

    deviation = float(panel.deviation[row, column])
    return Text(
        f" {cell_text(panel, row, column, epsilon)} ",
        style="dim" if np.isnan(deviation) else _style(deviation),
    )


def _style(deviation: float) -> str:
    strength = min(1.0, abs(deviation) / RANGE)
    strong = ABOVE if deviation > 0 else BELOW
    colour = [round(pale + (target - pale) * strength) for pale, target in zip(BALANCED, strong, strict=True)]
    ink = LIGHT if strength > 0.62 else DARK
    return f"{ink} on #{colour[0]:02x}{colour[1]:02x}{colour[2]:02x}"
