"""What `trimtab status --bootstrap` shows: placement and sizes, as the brokers themselves tell them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.report.before_after import bytes_text
from trimtab.report.status_text import broker_name, known_value, worst_rows
from trimtab.report.terminal_heatmap import Cells, terminal_heatmap

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.observe.collect.glance import Glance


def glance_text(glance: Glance, every: bool = False) -> Iterator[RenderableType]:
    """What a cluster's placement alone tells: counts and sizes, no rates."""
    disk = bytes_text(float(np.nansum(glance.values[:, 0])))
    yield (
        f"[bold]{glance.cluster}[/]: {len(glance.brokers)} brokers, {glance.partitions:,} partitions, "
        f"{disk} on disk; placement only, straight from the brokers"
    )
    rows, hidden = worst_rows(glance.deviation, every)
    yield terminal_heatmap(
        [broker_name(glance.brokers[row]) for row in rows],
        Cells(glance.values[rows] / [1e6, 1, 1], glance.deviation[rows], percent=False),
        columns=("disk MB", "replicas", "leaders"),
    )
    if hidden:
        yield f"[dim]{hidden} more brokers deviate less; --all shows them[/]"
    yield ""
    for problem in glance.problems:
        yield f"[yellow]![/] {problem}"
    if glance.leaderless:
        yield f"[red]![/] {glance.leaderless} partitions have no leader: they cannot be read or written"
    if glance.under_replicated:
        yield f"[yellow]![/] {glance.under_replicated} partitions have replicas that are not in sync"
    yield (
        "[dim]CPU and network need two samples and more: `trimtab collect`, then `trimtab pipeline run`, "
        "then `trimtab status`.[/]"
    )


def glance_document(glance: Glance) -> dict[str, Any]:
    """The same as plain JSON values."""
    names = ("disk_bytes", "replicas", "leaders")
    return {
        "cluster": glance.cluster,
        "source": "admin",
        "partitions": glance.partitions,
        "leaderless_partitions": glance.leaderless,
        "under_replicated_partitions": glance.under_replicated,
        "brokers": [
            {"id": b.id, "host": b.host, "rack": b.rack, "state": b.state}
            | {name: known_value(glance.values[row, place]) for place, name in enumerate(names)}
            for row, b in enumerate(glance.brokers)
        ],
        "problems": list(glance.problems),
    }
