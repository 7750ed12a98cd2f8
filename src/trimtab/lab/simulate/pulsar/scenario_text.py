"""Results of scenarios in a simulated Pulsar, as tables and as plain JSON values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from trimtab.lab.simulate.pulsar.catalogue import SCENARIOS

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from trimtab.lab.simulate.pulsar.catalogue import ScenarioOutcome


HEADINGS = (
    "emptiest",
    "fullest",
    "unloads",
    "came back",
    "splits",
    "clients closed",
    "longest gap",
    "waiting",
)


def scenario_text(outcomes: Iterable[ScenarioOutcome]) -> Iterator[RenderableType]:
    """A table for each scenario, with a row for each shedder, as soon as it has been played."""
    for name, played in groupby(outcomes, key=lambda one: one.scenario):
        yield f"[bold]{name}[/]: {SCENARIOS[name].text}"
        yield _table(played)
    yield (
        "[dim]emptiest, fullest: usage of living brokers at the end; clients closed: producer and consumer "
        "of every topic, as often as they were; waiting: bundles whose clients have no broker yet[/]"
    )


def _table(played: Iterable[ScenarioOutcome]) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("  strategy", no_wrap=True, min_width=22)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))
    for one in played:
        found = one.outcome
        table.add_row(
            f"  {one.shedder}",
            *(f"{share:.0%}" for share in (min(found.usage.values()), max(found.usage.values()))),
            str(found.unloads),
            str(found.returned),
            str(found.splits),
            f"{2 * found.topics_interrupted:,}",
            f"{found.longest_gap_seconds:.1f} s" if found.longest_gap_seconds else "–",
            str(found.waiting),
        )
    return table


def scenario_document(outcomes: Iterable[ScenarioOutcome]) -> list[dict[str, Any]]:
    """The same as plain JSON values."""
    return [
        {"scenario": one.scenario, "strategy": one.shedder, **dataclasses.asdict(one.outcome)}
        for one in outcomes
    ]
