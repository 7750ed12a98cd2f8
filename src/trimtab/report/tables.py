"""Tables: coloured ones for the terminal by rich, and lines of plain text for what is kept or piped.

A plan with all its moves has thousands of rows, for which rich takes about a millisecond each, and loading it
takes longer than reading a plan: texts are lined up here.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


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


def print_wide(parts: Iterable[RenderableType]) -> None:
    """Print texts and wide tables: as wide as the terminal, but not so that figures would be cut off."""
    from rich.console import Console

    width = max(shutil.get_terminal_size().columns, 108) if sys.stdout.isatty() else 120
    console = Console(highlight=False, width=width)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))
