"""The demo's picture: masters and queries per node over time, and what clients waited."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from trimtab.report.pictures import FAINT, INK, plain_axes, save_figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")


def draw(
    out: Path,
    masters: Sequence[tuple[float, Sequence[int]]],
    queries: Sequence[tuple[float, Sequence[int]]],
    acknowledged: Sequence[tuple[float, float]],
    events: Mapping[str, float],
) -> tuple[Path, Path]:
    """Draw three panels, one above the other, over the same seconds.

    Parameters
    ----------
    masters, queries
        When, and by node: of how many groups it is master; queries answered since its process began.
    acknowledged
        When a message was acknowledged, and how long it had waited.
    events
        What happened when.
    """
    from matplotlib.figure import Figure

    begun = masters[0][0]
    figure = Figure(figsize=(10, 7), layout="constrained", facecolor="white")
    panels = figure.subplots(3, 1, sharex=True)
    at = [when - begun for when, _ in masters]
    for node in range(len(masters[0][1])):
        colour = COLOURS[node % len(COLOURS)]
        panels[0].step(at, [counts[node] for _, counts in masters], where="post", color=colour, linewidth=1.8,
                       label=f"node {node}")  # fmt: skip
        rates = [
            # A node that was started again counts from 0.
            max(0, now[node] - before[node]) / (then - when)
            for (when, before), (then, now) in pairwise(queries)
        ]
        panels[1].step(at[1:], rates, color=colour, linewidth=1.4)
    waits = sorted((when - begun, wait) for when, wait in acknowledged)
    panels[2].plot([one for one, _ in waits], [max(wait, 1e-4) for _, wait in waits], ",", color=INK)
    panels[2].set_yscale("log")
    panels[2].yaxis.set_major_formatter(lambda value, _: f"{value:g} s")
    titles = ("groups of which a node is master", "queries a second that it answers",
              "what each message waited for its acknowledgement")  # fmt: skip
    for axes, title in zip(panels, titles, strict=True):
        plain_axes(axes)
        axes.set_title(title, loc="left", fontsize=9.5, color=INK)
        _events(axes, {name: when - begun for name, when in events.items()}, named=axes is panels[0])
    panels[0].legend(
        fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(masters[0][1])
    )
    panels[0].set_ylim(bottom=0, top=1.15 * max(max(counts) for _, counts in masters))
    panels[2].set_xlabel("seconds of the demo", fontsize=8, color=FAINT)
    return save_figure(figure, out, "demo-masters")


def _events(axes: Axes, events: Mapping[str, float], *, named: bool) -> None:
    for name, when in events.items():
        axes.axvline(when, color=FAINT, linewidth=0.8, linestyle=(0, (2, 2)))
        if named:
            axes.text(when, 0.97, f"{name} ", transform=axes.get_xaxis_transform(), fontsize=7.5, color=FAINT,
                      va="top", ha="right", rotation=90)  # fmt: skip
