"""What decisions see of a snapshot of Kafka's replicas: brokers, the worst deviation, broken limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from trimtab.decide.events import BrokenLimit, BrokerObservation, Observed
from trimtab.model.goals import exceeds, goal_status
from trimtab.model.load import FloatArray
from trimtab.model.replicas.settings import DISK, RESOURCES, ReplicasSettings
from trimtab.model.replicas.snapshot import NO_BROKER, ReplicasSnapshot, forecast_usage

FORECAST_HOURS: Final = 4
"""Limits that the forecast breaks later than that are not acted upon: until then it may change."""


def observed_of(
    snapshot: ReplicasSnapshot,
    settings: ReplicasSettings,
    taken_at: float,
    forecast_errors: Mapping[str, float],
    foreign_work: str = "",
    conflict: str = "",
) -> Observed:
    """The event of a snapshot.

    Parameters
    ----------
    settings
        θ, and the utilization below which a resource is not balanced.
    taken_at
        Seconds since 1970.
    forecast_errors
        By resource, the measured error of the forecast as a share of the load; a resource that is not there
        has no forecast.
    foreign_work, conflict
        As in `Observed`.
    """
    now = snapshot.imbalance()
    goals = goal_status(snapshot, settings).goals
    is_used = np.isfinite(now.mean) & ~(now.mean < goals.idle)
    deviation = np.where(is_used, now.deviation, 0.0)
    broker, resource = np.unravel_index(int(deviation.argmax()), deviation.shape)
    forecast, error = _forecast_limits(snapshot, settings, forecast_errors)
    return Observed(
        taken_at=taken_at,
        coverage=_coverage(snapshot),
        brokers=_brokers(snapshot),
        worst_deviation=float(deviation[broker, resource]),
        worst_resource=RESOURCES[resource],
        worst_broker=str(snapshot.brokers.id[broker]),
        limits=tuple(zip(RESOURCES, settings.theta, strict=True)),
        broken_limits=_broken(snapshot, now.usage, settings),
        forecast_limits=forecast,
        forecast_error=error,
        foreign_work=foreign_work,
        unexplained=_unexplained(snapshot),
        conflict=conflict,
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


def _broken(
    snapshot: ReplicasSnapshot, usage: FloatArray, settings: ReplicasSettings
) -> tuple[BrokenLimit, ...]:
    """The worst broker of each resource that is above θ, disk first."""
    found = []
    for resource in (DISK, *(one for one in range(len(RESOURCES)) if one != DISK)):
        row, limit = int(usage[:, resource].argmax()), settings.theta[resource]
        if exceeds(usage[row, resource], limit):
            name = str(snapshot.brokers.id[row])
            found.append(BrokenLimit(RESOURCES[resource], name, float(usage[row, resource]), limit))
    return tuple(found)


def _forecast_limits(
    snapshot: ReplicasSnapshot, settings: ReplicasSettings, errors: Mapping[str, float]
) -> tuple[tuple[BrokenLimit, ...], float]:
    """Limits that the coming hours break, of resources with a forecast, and the largest error of these."""
    if not snapshot.partitions.hours or not errors:
        return (), 1.0
    usage = forecast_usage(snapshot)[:FORECAST_HOURS].max(axis=0)
    limits = tuple(one for one in _broken(snapshot, usage, settings) if one.resource in errors)
    return limits, max((errors[one.resource] for one in limits), default=1.0)


def _unexplained(snapshot: ReplicasSnapshot) -> int:
    """Partitions without a leader, none of whose brokers is dead."""
    parts, online = snapshot.partitions, snapshot.brokers.online
    held = parts.replicas != NO_BROKER
    on_dead = (held & ~online[parts.replicas]).any(axis=1)
    return int(((parts.leader == NO_BROKER) & ~on_dead).sum())
