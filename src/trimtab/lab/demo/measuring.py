"""Figures of a stretch of the demo's samples."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from trimtab.model.errors import ObserveError
from trimtab.model.replicas.resources import RESOURCES
from trimtab.report.measured import MeasuredLoad, complete_ticks, measured_at, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trimtab.lab.demo.sampling import MeasuredPeriod
    from trimtab.observe.lake import Lake

MICROSECOND = datetime.timedelta(microseconds=1)


def measured(
    lake: Lake,
    period: MeasuredPeriod,
    hosts: Mapping[int, str] | None = None,
    resources: tuple[str, ...] = RESOURCES,
) -> MeasuredLoad:
    """The table's figures at the undisturbed ticks of a period at which every live broker was sampled.

    Parameters
    ----------
    lake
        Its table `imbalance` must reach to the period's end.
    period
        Which ticks.
    hosts
        Host of each broker; empty where a broker's name tells it.
    resources
        Those of the balancer.

    Raises
    ------
    ObserveError
        If no tick of the period is complete.
    """
    table = lake.table("imbalance", since=period.first, until=period.last + MICROSECOND)
    rows = rows_of(table.to_pylist())
    ticks, known = complete_ticks(rows, resources)
    # Where most were disturbed, figures of all are better than those of a few; the period says so.
    ticks = [tick for tick in ticks if tick not in period.left_out] or ticks
    if not ticks:
        raise ObserveError(
            f"none of the {period.ticks} ticks up to {period.last:%H:%M:%S} UTC has samples of all brokers: "
            "this machine may be too busy; try again, or with longer ticks"
        )
    return measured_at(rows, ticks, known, resources, hosts)
