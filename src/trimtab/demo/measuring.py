"""From the pipeline's table `imbalance` to the figures of a report."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.model.errors import ObserveError
from trimtab.model.load import RESOURCES
from trimtab.report.measured import Measured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trimtab.demo.sampling import Period
    from trimtab.observe.lake import Lake

MICROSECOND = datetime.timedelta(microseconds=1)


def measured(
    lake: Lake,
    period: Period,
    hosts: Mapping[int, str] | None = None,
    resources: tuple[str, ...] = RESOURCES,
) -> Measured:
    """What the table says of the ticks of a period at which every live broker was sampled.

    Parameters
    ----------
    lake
        Its table `imbalance` must reach to the period's end.
    period
        Which ticks.
    hosts
        Host of each broker; empty where a broker's name tells it.
    resources
        Those of the level.

    Raises
    ------
    ObserveError
        If no tick of the period is complete.
    """
    table = lake.table("imbalance", since=period.first, until=period.last + MICROSECOND)
    rows: dict[datetime.datetime, dict[str, Any]] = {}
    for row in table.to_pylist():
        rows.setdefault(row["tick"], {})[row["resource"]] = row
    known = [
        name for name in resources if any(found[name]["complete"] for found in rows.values() if name in found)
    ]
    ticks = sorted(
        tick
        for tick, found in rows.items()
        if known and all(name in found and found[name]["complete"] for name in known)
    )
    if not ticks:
        raise ObserveError(
            f"none of the {period.ticks} ticks up to {period.last:%H:%M:%S} UTC has samples of all brokers: "
            "this machine may be too busy; try again, or with longer ticks"
        )
    brokers = sorted({one["broker"] for one in rows[ticks[0]][known[0]]["by_broker"]})
    shape = (len(ticks), len(brokers), len(resources))
    usage, deviation = np.full(shape, np.nan), np.full(shape, np.nan)
    mean, sigma = np.full(shape[::2], np.nan), np.full(shape[::2], np.nan)
    for instant, tick in enumerate(ticks):
        for resource, name in enumerate(resources):
            if name not in known:
                continue
            row = rows[tick][name]
            mean[instant, resource], sigma[instant, resource] = row["mean"], row["sigma"]
            for one in row["by_broker"]:
                place = brokers.index(one["broker"])
                usage[instant, place, resource] = np.nan if one["usage"] is None else one["usage"]
                deviation[instant, place, resource] = one["deviation"]
    return Measured(
        brokers=tuple(brokers),
        hosts=tuple((hosts or {}).get(broker, "") for broker in brokers),
        usage=usage,
        mean=mean,
        deviation=deviation,
        sigma=sigma,
        ticks=tuple(ticks),
        resources=resources,
    )
