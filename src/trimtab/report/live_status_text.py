"""`trimtab status` without a lake: who holds how much at this moment, as the brokers themselves tell it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trimtab.report.formats import counted, known_value
from trimtab.report.status_text import worst_rows
from trimtab.report.terminal_heatmap import HeatmapPanel, terminal_heatmap

if TYPE_CHECKING:
    from rich.console import RenderableType


def live_status_text(
    status: Any,
    head: str,
    names: Sequence[str],
    columns: Mapping[str, float],
    remarks: Iterable[str],
    *,
    every: bool,
    carrier: str = "broker",
    source: str = "the brokers",
) -> Iterator[RenderableType]:
    """One look at a cluster, top to bottom.

    Parameters
    ----------
    head
        What there is besides brokers.
    names
        Length (brokers,).
    columns
        Headings of the figures, and the unit that each is shown in.
    remarks
        Lines below the map.
    every
        Whether to show all brokers, however many.
    carrier, source
        What carries load, in the singular, and who has told of it.
    """
    carriers = counted(len(status.brokers), carrier)
    yield f"[bold]{status.cluster}[/]: {carriers}, {head}; straight from {source}"
    rows, hidden = worst_rows(status.deviation, every)
    yield terminal_heatmap(
        [names[row] for row in rows],
        HeatmapPanel(status.values[rows] / [*columns.values()], status.deviation[rows], percent=False),
        columns=tuple(columns),
    )
    if hidden:
        yield f"[dim]{hidden} more {carrier}s deviate less; --all shows them[/]"
    yield ""
    yield from (f"[yellow]![/] {problem}" for problem in status.problems)
    yield from remarks


def live_status_document(
    status: Any,
    balancer: str,
    facts: Mapping[str, Any],
    brokers: Sequence[Mapping[str, Any]],
    figures: Sequence[str],
) -> dict[str, Any]:
    """The same as plain JSON values.

    Parameters
    ----------
    facts, brokers
        What is told of the cluster, and of each broker besides its figures.
    figures
        Names of the figures.
    """
    return {
        "cluster": status.cluster,
        "balancer": balancer,
        "source": "admin",
        **facts,
        "brokers": [
            {**broker, **{name: known_value(value) for name, value in zip(figures, values, strict=True)}}
            for broker, values in zip(brokers, status.values.tolist(), strict=True)
        ],
        "problems": list(status.problems),
    }
