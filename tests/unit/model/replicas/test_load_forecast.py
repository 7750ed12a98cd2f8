"""The load of the hours to come: added up hour by hour, never peak by peak."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulated_clusters.weeks import plain_snapshot
from trimtab.model.replicas.settings import CPU, NETWORK_IN
from trimtab.model.replicas.snapshot import ReplicasSnapshot, busiest_hours, forecast_usage, with_load

DAY_AND_NIGHT = np.array([[2.0, 8.0], [6.0, 1.0], [3.0, 3.0]])
"""Network in of three partitions in two hours."""


def snapshot() -> ReplicasSnapshot:
    """Two brokers: the first leads partitions 0 and 1, the second leads 2; nobody follows."""
    now = np.ones((3, 4))
    coming = np.ones((3, 2, 4))
    coming[:, :, NETWORK_IN] = DAY_AND_NIGHT
    coming[2, 0, CPU] = 5.0
    made = plain_snapshot(
        "c",
        ids=np.array([1, 2]),
        capacity=np.full((2, 4), 10.0),
        topics=("t",),
        topic=np.zeros(3, dtype=np.int32),
        number=np.arange(3, dtype=np.int32),
        replicas=np.array([[0], [0], [1]], dtype=np.int32),
        leader_load=now,
        follower_load=now / 2,
    )
    parts = replace(made.partitions, leader_forecast=coming, follower_forecast=coming / 2)
    return replace(made, partitions=parts)


def test_loads_of_an_hour_are_added_up() -> None:
    """By day broker 1 takes in 2 + 6 = 8 of 10, by night 8 + 1 = 9; never the 8 + 6 of both peaks."""
    usage = forecast_usage(snapshot())
    np.testing.assert_allclose(usage[:, :, NETWORK_IN], [[0.8, 0.3], [0.9, 0.3]])


def test_peak_is_the_hour_in_which_the_fullest_broker_is_fullest() -> None:
    """Network in peaks by night on broker 1; CPU by day, on broker 2. Each resource has its own hour."""
    hours = busiest_hours(snapshot())
    assert hours[NETWORK_IN] == 1
    assert hours[CPU] == 0
    found = with_load(snapshot(), "peak").partitions
    np.testing.assert_array_equal(found.leader_load[:, NETWORK_IN], [8.0, 1.0, 3.0])
    np.testing.assert_array_equal(found.follower_load[:, NETWORK_IN], [4.0, 0.5, 1.5])
    np.testing.assert_array_equal(found.leader_load[:, CPU], [1.0, 1.0, 5.0])


def test_forecast_is_the_mean_hour() -> None:
    """(2 + 8) / 2, (6 + 1) / 2, (3 + 3) / 2."""
    found = with_load(snapshot(), "forecast").partitions
    np.testing.assert_array_equal(found.leader_load[:, NETWORK_IN], [5.0, 3.5, 3.0])


def test_without_hours_the_recent_load_stays() -> None:
    """A snapshot from a file, or of a cluster observed for an hour, has no forecast of the next day."""
    known = snapshot()
    bare = replace(
        known,
        partitions=replace(
            known.partitions,
            leader_forecast=known.partitions.leader_forecast[:, :0],
            follower_forecast=known.partitions.follower_forecast[:, :0],
        ),
    )
    assert with_load(bare, "peak") is bare
    assert with_load(known, "recent") is known
