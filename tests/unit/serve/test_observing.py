"""What the service observes of a snapshot in the lake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.replica_clusters import broker, partition, snapshot
from trimtab.api import write_snapshot
from trimtab.balancers import BALANCERS
from trimtab.decide.events import BrokenLimit, MakePlan
from trimtab.decide.machine import decide
from trimtab.decide.state import State
from trimtab.model.documents import Quality
from trimtab.model.policy import Policy, Trigger
from trimtab.model.replicas.settings import NETWORK_IN, ReplicasSettings
from trimtab.observe.lake.lake import Lake
from trimtab.serve.observing import Observation, observation_of


def observe(lake: Path, minute: int, errors: dict[str, float], before: Observation | None) -> Observation:
    """The observation of a snapshot whose forecast fills broker 1 to 90 % of its network in."""
    found = snapshot([broker(1), broker(2)], [partition("t", 0, [1]), partition("t", 1, [2])])
    coming = np.repeat(found.partitions.leader_load[:, None], 24, axis=1)
    coming[0, 2, NETWORK_IN] = 90.0
    parts = replace(found.partitions, leader_forecast=coming, follower_forecast=coming)
    known = {"error": errors, "error_with_trend": {}, "trend": []}
    quality = Quality(extra=(("x_load_forecast", {"hours": 24, "backtest": known}),))
    taken_at = f"2026-11-21T12:{minute:02}:00.000000Z"
    reference = replace(found.reference, cluster="orders", taken_at=taken_at)
    folder = Lake(lake, BALANCERS["replicas"].pipeline()).snapshot_folder("orders")
    write_snapshot(
        replace(found, partitions=parts, quality=quality, reference=reference),
        lake / "snapshots" / folder.name / taken_at,
    )
    cluster: Any = SimpleNamespace(id="orders")
    return observation_of(BALANCERS["replicas"], cluster, lake, ReplicasSettings(), before)


@pytest.mark.parametrize(
    ("errors", "orders"), [({"network_in": 0.19}, 1), ({"network_in": 0.21}, 0), ({"cpu": 0.01}, 0), ({}, 0)]
)
def test_a_limit_of_the_forecast_fires_with_the_error_of_the_snapshot(
    tmp_path: Path, errors: dict[str, float], orders: int
) -> None:
    """The error is measured by the pipeline, from forecasts and outcomes of the last day; limit 20 %."""
    (tmp_path / "snapshots" / "orders").mkdir(parents=True)
    state, decisions, found = State(is_leader=True), [], None
    for minute in (0, 5, 10):
        found = observe(tmp_path, minute, errors, found)
        state, last = decide(state, found.event, found.event.taken_at, Policy())
        decisions += [one for one in last if isinstance(one, MakePlan)]
    assert found is not None
    expected = (BrokenLimit("network_in", "1", 0.9, 0.8),) if "network_in" in errors else ()
    assert found.event.forecast_limits == expected
    assert found.event.forecast_error == errors.get("network_in", 1.0)
    assert [(one.trigger, dict(one.settings)["load"]) for one in decisions] == [
        (Trigger.HARD_LIMIT, "peak")
    ] * orders
