"""A picture of what the pipeline attributed against what was true, partition by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trimtab.report.charts import FAINT, INK, style_axes, write_figure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trimtab.lab.sandbox.kafka.comparison import MeasureComparison

DOT = "#2b6cb0"
TITLES = {"bytes_in": "bytes in", "bytes_out": "bytes out", "disk": "disk", "cpu": "CPU"}


def draw(compared: Sequence[MeasureComparison], path: Path) -> None:
    """Draw one panel per measure, true share of the total across, found share up; equal on the diagonal.

    Totals may differ by as much as compression saves; who carries which share of them is what balancing
    depends on, and what the titles tell.

    Parameters
    ----------
    compared
        As `comparison.compare` gives them; CPU per broker, the others per partition.
    path
        The picture; its suffix says in which form, `.svg` or `.png`.
    """
    from matplotlib.figure import Figure

    panels = [one for one in compared if one.scope == "partition" or one.measure == "cpu"]
    figure = Figure(figsize=(3.4 * len(panels), 3.7), facecolor="white", layout="constrained")
    for place, one in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        true, found = (100 * some / (some.sum() or 1.0) for some in (one.truth, one.found))
        top = 1.05 * max(true.max(initial=0.0), found.max(initial=0.0)) or 1.0
        axes.plot([0, top], [0, top], color=FAINT, linewidth=0.8)
        axes.scatter(true, found, s=14, color=DOT, alpha=0.75, linewidths=0)
        axes.set_xlim(0, top)
        axes.set_ylim(0, top)
        axes.set_aspect("equal")
        axes.set_xlabel("true share of the total, %", color=FAINT)
        axes.set_ylabel("found share of the total, %" if place == 0 else "", color=FAINT)
        error = one.summary()["share_error"]
        told = "" if error is None or not np.isfinite(error) else f": {100 * error:.2f} % misplaced"
        axes.set_title(f"{TITLES[one.measure]} per {one.scope}{told}", fontsize=10, color=INK)
        style_axes(axes)
    write_figure(figure, path)
