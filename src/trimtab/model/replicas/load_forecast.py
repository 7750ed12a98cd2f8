"""The load that a plan is made for: the recent one, or what the hours to come are expected to bring.

Values of hours are added up hour by hour: partitions that are busy at different times of the day are not
busy together, and the sum of their peaks is a load that no broker ever bears.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.model.replicas.resources import RESOURCES
from trimtab.model.replicas.snapshot import ReplicasSnapshot

LOADS: Final = {
    "recent": "the load of the recent windows",
    "peak": "of each resource, the load in the hour to come in which the fullest broker is fullest",
    "forecast": "the mean load of the hours to come",
}
"""Loads that a plan can be made for, by name."""


def with_load(snapshot: ReplicasSnapshot, load: str) -> ReplicasSnapshot:
    """The snapshot with one of `LOADS` in place of the recent load.

    A snapshot that tells no hours to come stays as it is: there is nothing better than the recent load.
    """
    parts = snapshot.partitions
    if load == "recent" or not parts.hours:
        return snapshot
    if load == "peak":
        hour = busiest_hours(snapshot)
        every = np.arange(len(RESOURCES))
        leader, follower = parts.leader_forecast[:, hour, every], parts.follower_forecast[:, hour, every]
    else:
        leader, follower = parts.leader_forecast.mean(axis=1), parts.follower_forecast.mean(axis=1)
    return replace(snapshot, partitions=replace(parts, leader_load=leader, follower_load=follower))


def forecast_usage(snapshot: ReplicasSnapshot) -> FloatArray:
    """Utilisation of every broker in each hour to come, as replicas lie: shape (hours, brokers, resources).

    0 where a resource has no capacity, and on brokers that are not in service.
    """
    parts, capacity = snapshot.partitions, snapshot.brokers.capacity
    loads = np.empty((parts.hours, *capacity.shape))
    for hour in range(parts.hours):
        now = replace(
            parts, leader_load=parts.leader_forecast[:, hour], follower_load=parts.follower_forecast[:, hour]
        )
        loads[hour] = replace(snapshot, partitions=now).broker_load()
    counted = np.isfinite(capacity) & snapshot.brokers.in_service[:, None]
    return np.where(counted, loads / np.where(counted, capacity, 1.0), 0.0)


def busiest_hours(snapshot: ReplicasSnapshot) -> np.ndarray:
    """Shape (resources,): the hour to come in which the fullest broker is fullest; the first of several."""
    return np.asarray(forecast_usage(snapshot).max(axis=1).argmax(axis=0))
