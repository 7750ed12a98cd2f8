"""Pictures in files; the same figures give the same bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from trimtab.files.atomic import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT = "#1c2430", "#5b6675"
"""Colours of what is to be read first, and of what explains it."""


def plain_axes(axes: Axes) -> None:
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
