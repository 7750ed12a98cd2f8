"""Plans for the load of the hours to come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simulated_clusters.weeks import plain_snapshot
from trimtab.balancers import BALANCERS
from trimtab.balancers.settings import read_settings
from trimtab.model.replicas.plan import Plan
from trimtab.model.replicas.settings import DISK, NETWORK_IN, ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.plan.replicas import role_aware, trim
from trimtab.report.replicas.renderer import plan_text
from trimtab_common.errors import SettingsError

THETA = ReplicasSettings(goals=("theta",))


def snapshot(hours: bool = True) -> ReplicasSnapshot:
    """Three brokers, two partitions of each; those of broker 1 take in 45 of 100 each at night, now 15."""
    now = np.full((6, 4), 15.0)
    coming = np.repeat(now[:, None], 3, axis=1)
    coming[:2, 1, NETWORK_IN] = 45.0
    coming[:, :, DISK] = 20.0
    made = plain_snapshot(
        "c",
        ids=np.array([1, 2, 3]),
        capacity=np.full((3, 4), 100.0),
        topics=("t",),
        topic=np.zeros(6, dtype=np.int32),
        number=np.arange(6, dtype=np.int32),
        replicas=np.array([[0], [0], [1], [1], [2], [2]], dtype=np.int32),
        leader_load=now,
        follower_load=now,
    )
    if not hours:
        return made
    parts = replace(made.partitions, leader_forecast=coming, follower_forecast=coming)
    return replace(made, partitions=parts)


@pytest.mark.parametrize("planner", [trim.plan, role_aware.plan])
def test_a_plan_for_the_peak_relieves_brokers_that_fill_at_night(planner: object) -> None:
    """Now 30 % everywhere: nothing to do. By night broker 1 would stand at 90 %: one of its partitions goes,
    and its copy takes the 15 bytes that lie there now.
    """
    assert callable(planner)
    assert planner(snapshot(), THETA).moves == ()
    plan = planner(snapshot(), replace(THETA, load="peak"))
    assert isinstance(plan, Plan)
    assert plan.verdict == "balanced"
    (move,) = plan.moves
    assert (move.source, move.bytes, move.reason.resource) == (1, 15, "network_in")
    assert plan.predicted.before.peak_usage["network_in"] == pytest.approx(0.9)
    assert plan.settings["load"] == "peak"
    told = plan_text(plan, snapshot())
    assert "loads: of each resource, the load in the hour to come in which" in told


def test_a_plan_reports_the_error_of_its_forecasts() -> None:
    """Of network in by the trend, which counts there; of disks by what is expected without it."""
    coming = {
        "hours": 3,
        "backtest": {
            "error": {"disk": 0.02, "network_in": 0.5},
            "error_with_trend": {"disk": 0.3, "network_in": 0.25},
            "trend": ["network_in"],
        },
    }
    there = snapshot()
    there = replace(there, quality=replace(there.quality, extra=(("x_load_forecast", coming),)))
    told = plan_text(trim.plan(there, replace(THETA, load="peak")), there)
    assert (
        "expected loads were off by disk 2.0%, network in 25.0% over the last day; "
        "with the trend of the weeks: network in\n" in told
    )
    assert "expected loads" not in plan_text(trim.plan(there, THETA), there), "not of the recent load"


def test_a_plan_for_the_mean_hour_sees_no_peak() -> None:
    """(15 + 45 + 15) / 3, twice, is 50 %: below θ."""
    plan = trim.plan(snapshot(), replace(THETA, load="forecast"))
    assert plan.moves == ()
    assert plan.predicted.before.peak_usage["network_in"] == pytest.approx(0.5)


def test_a_snapshot_without_hours_to_come_is_planned_by_the_recent_load() -> None:
    """The plan's text states it too."""
    plan = trim.plan(snapshot(hours=False), replace(THETA, load="peak"))
    assert plan.moves == ()
    assert "loads: recent, not peak: the snapshot has no forecast" in plan_text(plan, snapshot(False))


def test_an_unknown_load_is_rejected() -> None:
    """With those that there are."""
    with pytest.raises(
        SettingsError, match='replicas.load is "peaks", expected one of recent, peak, forecast'
    ):
        read_settings(None, ["replicas.load=peaks"], {}).of(BALANCERS["replicas"].settings())
