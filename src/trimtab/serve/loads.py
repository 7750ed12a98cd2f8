"""The load of the last hours, read from the table `imbalance` of a lake."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.status import newest_rows
from trimtab.serve.documents import LoadSeries

if TYPE_CHECKING:
    from trimtab.balancers import Balancer
    from trimtab.balancers.clusters import Cluster
    from trimtab.files.store import Location
    from trimtab.serve.observing import Observation

_COLUMNS = ("resource", "worst_deviation", "peak_usage")
_MAX_TICKS = 2_880
"""A day of samples every 30 s; older ones are read only where they are sparser."""


def load_series(
    balancer: Balancer,
    cluster: Cluster,
    observation: Observation | None,
    lake: Location,
    since: float,
    max_points: int,
) -> LoadSeries:
    """Worst deviation and peak of each resource since an instant, thinned to `max_points` instants.

    Raises
    ------
    TrimtabError
        If the lake cannot be read.
    """
    empty = LoadSeries(cluster=str(cluster.name), balancer=balancer.name, at=(), deviation={}, peak={})
    name = cluster.id if observation is None else observation.snapshot.reference.cluster
    if name is None:
        return empty
    found = Lake(lake, balancer.pipeline())
    entries = found.manifest().tables.get("imbalance", ())
    rows = newest_rows(found, tuple(entries), _COLUMNS, name, _MAX_TICKS)
    ticks = [tick for tick in rows if tick / 1e6 >= since]
    step = max(1, math.ceil(len(ticks) / max(1, max_points)))
    chosen = ticks[::-1][::step][::-1]
    resources = sorted({str(row["resource"]) for tick in chosen for row in rows[tick]})

    def series(column: str) -> dict[str, tuple[float | None, ...]]:
        by_tick = [{row["resource"]: row.get(column) for row in rows[tick]} for tick in chosen]
        return {one: tuple(values.get(one) for values in by_tick) for one in resources}

    return LoadSeries(
        cluster=empty.cluster,
        balancer=empty.balancer,
        at=tuple(tick / 1e6 for tick in chosen),
        deviation=series("worst_deviation"),
        peak=series("peak_usage"),
    )
