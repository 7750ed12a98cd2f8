"""A picture of what the pipeline attributed against what was true, partition by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trimtab.report.pictures import FAINT, INK, write_figure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trimtab.lab.sandbox.kafka.comparison import Compared

DOT = "#2b6cb0"
TITLES = {"bytes_in": "bytes in", "bytes_out": "bytes out", "disk": "disk", "cpu": "CPU"}


def draw(compared: Sequence[Compared], path: Path) -> None:
    """Draw one panel per measure, true value across, found value up; on the diagonal both are the same.

    Parameters
    ----------
    compared
        As `comparison.compare` gives them; CPU per broker, the others per partition.
    path
        The picture; its suffix says in which form, `.svg` or `.png`.
    """
    from matplotlib.figure import Figure

    panels = [one for one in compared if one.level == "partition" or one.measure == "cpu"]
    figure = Figure(figsize=(3.4 * len(panels), 3.7), facecolor="white", layout="constrained")
    for place, one in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        top = 1.05 * max(one.truth.max(initial=0.0), one.found.max(initial=0.0)) or 1.0
        scale, unit = (1.0, "cores") if one.unit == "cores" else (1e6, "MB")
        axes.plot([0, top / scale], [0, top / scale], color=FAINT, linewidth=0.8)
        axes.scatter(one.truth / scale, one.found / scale, s=14, color=DOT, alpha=0.75, linewidths=0)
        axes.set_xlim(0, top / scale)
        axes.set_ylim(0, top / scale)
        axes.set_aspect("equal")
        axes.set_xlabel(f"true, {unit}", color=FAINT)
        axes.set_ylabel(f"found, {unit}" if place == 0 else "", color=FAINT)
        error = one.summary()["share_error"]
        told = "" if error is None or not np.isfinite(error) else f": {100 * error:.2f} % misplaced"
        axes.set_title(f"{TITLES[one.measure]} per {one.level}{told}", fontsize=10, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
    write_figure(figure, path)
