"""The demo's picture: seconds of work in each queue over time, before and after weights were learned."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.observe.lake import microseconds
from trimtab.report.pictures import INK, plain_axes, save_figure

if TYPE_CHECKING:
    from trimtab.observe.lake import Lake


def draw(lake: Lake, out: Path, periods: dict[str, tuple[float, float]]) -> tuple[Path, Path]:
    """Messages in each queue in each period, side by side on one scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    panels = figure.subplots(1, len(periods), sharey=True)
    for axes, (title, (begun, ended)) in zip(panels, periods.items(), strict=True):
        rows = lake.table(
            "brokers", ["tick", "broker", "messages"],
            since=datetime.fromtimestamp(begun, UTC), until=datetime.fromtimestamp(ended + 1e-3, UTC),
        ).to_pylist()  # fmt: skip
        for name in sorted({row["broker"] for row in rows}):
            ours = sorted(
                (microseconds(r["tick"]) / 1e6 - begun, r["messages"]) for r in rows if r["broker"] == name
            )
            axes.plot([at for at, _ in ours], [number for _, number in ours], linewidth=1, label=name)
        plain_axes(axes)
        axes.set_title(f"{title} weights were learned", loc="left", fontsize=9, color=INK)
        axes.set_xlabel("seconds", fontsize=8)
    panels[0].set_ylabel("messages in queue", fontsize=8)
    panels[-1].legend(fontsize=7, frameon=False)
    return save_figure(figure, out, "demo-queues")
