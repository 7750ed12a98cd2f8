"""What decisions see of a snapshot of Kafka's replicas: brokers, the worst deviation, broken limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from trimtab.decide import loads
from trimtab.decide.events import BrokenLimit, BrokerObservation, Observed
from trimtab.model.goals import Goals, goals_of
from trimtab.model.replicas.settings import RESOURCES, ReplicasSettings
from trimtab.model.replicas.snapshot import NO_BROKER, ReplicasSnapshot, forecast_usage, with_load

FORECAST_HOURS: Final = 4
"""Limits that the forecast breaks later than that are not acted upon: until then it may change."""


def observed_of(snapshot: ReplicasSnapshot, settings: ReplicasSettings, taken_at: float) -> Observed:
    """The event of a snapshot.

    Parameters
    ----------
    settings
        θ, and the utilization below which a resource is not balanced.
    taken_at
        Seconds since 1970.
    """
    goals = goals_of(settings, RESOURCES, snapshot.quality.nominal_capacity)
    forecast, error = _forecast_limits(snapshot, goals)
    ahead = loads.deviations(with_load(snapshot, "forecast").imbalance(), goals)
    return replace(
        loads.observed_of(snapshot, settings, taken_at),
        coverage=_coverage(snapshot),
        brokers=_brokers(snapshot),
        forecast_limits=forecast,
        forecast_error=error,
        forecast_deviation=float(ahead.max()) if snapshot.partitions.hours else None,
        unexplained=_unexplained(snapshot),
    )


def _coverage(snapshot: ReplicasSnapshot) -> float:
    """Share of the partitions whose load is known.

    Loads that were estimated count as known. Where retention cuts logs, many are, for as long as it does.
    """
    unknown = dict(snapshot.quality.extra).get("x_partitions_without_rates")
    if not isinstance(unknown, int | float) or not len(snapshot.partitions):
        return snapshot.quality.valid_share
    return 1.0 - float(unknown) / len(snapshot.partitions)


def _brokers(snapshot: ReplicasSnapshot) -> tuple[BrokerObservation, ...]:
    parts, brokers = snapshot.partitions, snapshot.brokers
    held = np.bincount(parts.replicas[parts.replicas != NO_BROKER], minlength=len(brokers))
    rows = zip(brokers.id.tolist(), brokers.rack, brokers.online.tolist(), held.tolist(), strict=True)
    return tuple(BrokerObservation(str(broker), rack, alive, count) for broker, rack, alive, count in rows)


def _forecast_limits(snapshot: ReplicasSnapshot, goals: Goals) -> tuple[tuple[BrokenLimit, ...], float]:
    """Limits that the coming hours break, of resources with a known error, and the largest error of these."""
    errors = snapshot.forecast_errors
    if not snapshot.partitions.hours or not errors:
        return (), 1.0
    usage = forecast_usage(snapshot)[:FORECAST_HOURS].max(axis=0)
    limits = [(name, float(one)) for name, one in zip(RESOURCES, goals.theta, strict=True)]
    found = loads.broken_limits(usage, snapshot.row_names, limits)
    known = tuple(one for one in found if one.resource in errors)
    return known, max((errors[one.resource] for one in known), default=1.0)


def _unexplained(snapshot: ReplicasSnapshot) -> int:
    """Partitions without a leader, none of whose brokers is dead."""
    parts, online = snapshot.partitions, snapshot.brokers.online
    held = parts.replicas != NO_BROKER
    on_dead = (held & ~online[parts.replicas]).any(axis=1)
    return int(((parts.leader == NO_BROKER) & ~on_dead).sum())
