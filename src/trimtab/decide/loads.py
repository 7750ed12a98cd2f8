"""What decisions see of a snapshot of any balancer: brokers, the worst deviation, limits that are broken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trimtab.decide.events import BrokenLimit, BrokerObservation, Observed
from trimtab.model.goals import exceeds, goals_of


def observed_of(
    snapshot: Any, settings: Any, taken_at: float, forecast_errors: Mapping[str, float]
) -> Observed:
    """The event of a snapshot that has measures of load, and no racks.

    Parameters
    ----------
    settings
        Of the balancer; its θ, and the utilization below which a resource is not balanced.
    taken_at
        Seconds since 1970.
    forecast_errors
        Not used: these snapshots hold no forecast.
    """
    measured, names = snapshot.imbalance(), snapshot.row_names
    goals = goals_of(settings, measured.resources, snapshot.quality.nominal_capacity)
    is_used = np.isfinite(measured.mean) & ~(measured.mean < goals.idle)
    deviation = np.where(is_used, measured.deviation, 0.0)
    row, place = np.unravel_index(int(deviation.argmax()), deviation.shape)
    broken = []
    for at, resource in enumerate(measured.resources):
        busiest, limit = int(measured.usage[:, at].argmax()), float(goals.theta[at])
        if exceeds(measured.usage[busiest, at], limit):
            usage = float(measured.usage[busiest, at])
            broken.append(BrokenLimit(resource, str(names[busiest]), usage, limit))
    rows = zip(names, measured.counted, strict=True)
    return Observed(
        taken_at=taken_at,
        coverage=float(getattr(snapshot.quality, "valid_share", 1.0)),
        brokers=tuple(BrokerObservation(str(name), str(name), bool(one.any()), 1) for name, one in rows),
        worst_deviation=float(deviation[row, place]),
        worst_resource=measured.resources[int(place)],
        worst_broker=str(names[int(row)]),
        limits=tuple(zip(measured.resources, map(float, goals.theta), strict=True)),
        broken_limits=tuple(broken),
    )
