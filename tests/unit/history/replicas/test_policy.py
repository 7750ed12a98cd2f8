"""A policy over a small recording, worked by hand: a step is 15 minutes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from support.replays import course, move
from trimtab.history.replicas.policy import replayed_policy, settings_with
from trimtab.history.replicas.replay import PlanningScenario, ScenarioTrace, trace_scenario
from trimtab.model.plan import Verdict
from trimtab.model.policy import Drift, HardLimit, Mode, Policy
from trimtab.model.replicas.plan import ReplicaMoveKind
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot

STEP_SECONDS = 900.0
DRIFT = Policy(drift=Drift(hold_seconds=1800.0), hard_limit=HardLimit(Mode.OBSERVE))
"""Half an hour above γ = 0.20, with the usual rest of 12 hours."""


class FakePlanner:
    """One move for every order; it keeps the settings of the orders."""

    def __init__(self, verdict: Verdict = Verdict.BALANCED) -> None:
        self.verdict = verdict
        self.settings: list[ReplicasSettings] = []

    def __call__(self, snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Any:
        self.settings.append(settings)
        return SimpleNamespace(
            verdict=self.verdict,
            moves=(move(ReplicaMoveKind.REPLICA, 0, 1, 3),),
            cost=SimpleNamespace(bytes=1, leader_moves=0),
            problems=(),
        )


def trace(policy: Policy, planner: FakePlanner, steps: int = 10, capacity: float = 20.0) -> ScenarioTrace:
    """Brokers use 20, 25 and 5 % of their CPU: the worst deviation is 70 % of the mean."""
    scenario = PlanningScenario(planner, ReplicasSettings(), policy=replayed_policy(policy, STEP_SECONDS))
    return trace_scenario(course(steps, disk=1.0, capacity=capacity), scenario)


def test_drift_plans_once_for_the_forecast_and_then_rests() -> None:
    """Above the threshold from the end of step 0 on; two steps later the plan; its copy arrives in step 3."""
    planner = FakePlanner()
    found = trace(DRIFT, planner)
    assert found.plans.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert found.moves.tolist() == [[3, -1]]
    assert found.copied_bytes.tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert planner.settings[0].epsilon == (0.10, 0.10, 0.10, 0.10)
    assert planner.settings[0].load == "forecast"
    assert planner.settings[0].recent_move_hours == 24


def test_a_trigger_in_mode_observe_makes_no_plan() -> None:
    """Other modes act in a replay, because nobody approves there."""
    planner = FakePlanner()
    policy = replace(DRIFT, drift=replace(DRIFT.drift, mode=Mode.OBSERVE))
    assert trace(policy, planner).plans.sum() == 0


def test_an_incomplete_plan_is_not_carried_out_and_retried_after_an_hour() -> None:
    """Planned after step 2; the trigger waits four steps, then eight."""
    planner = FakePlanner(Verdict.INCOMPLETE)
    found = trace(DRIFT, planner)
    assert found.plans.tolist() == [0, 0, 1, 0, 0, 0, 1, 0, 0, 0]
    assert len(found.moves) == 0


def test_a_broken_limit_asks_for_theta_only() -> None:
    """Capacity 5: broker 2 uses all of its CPU; one step stands for three snapshots of five minutes."""
    planner = FakePlanner()
    policy = Policy(drift=Drift(Mode.OBSERVE))
    found = trace(policy, planner, capacity=5.0)
    assert found.plans.tolist()[:2] == [1, 0]
    assert "theta" in planner.settings[0].goals
    assert "epsilon" not in planner.settings[0].goals
    assert planner.settings[0].theta == pytest.approx((0.76,) * 4)


@pytest.mark.parametrize(("interval", "count"), [(300.0, 1), (900.0, 3), (60.0, 1)])
def test_numbers_of_snapshots_are_scaled_to_the_step(interval: float, count: int) -> None:
    """Three snapshots of five minutes are one step of fifteen."""
    policy = replayed_policy(Policy(interval_seconds=interval), STEP_SECONDS)
    assert policy.hard_limit.min_snapshots == count
    assert policy.interval_seconds == STEP_SECONDS


def test_orders_to_plan_name_settings_as_set_does() -> None:
    """One ε stands for all resources; θ is given by resource."""
    found = settings_with(ReplicasSettings(), (("epsilon", 0.1), ("max_bytes", 7), ("theta.disk", 0.7)))
    assert found.epsilon == (0.1, 0.1, 0.1, 0.1)
    assert found.theta == (0.8, 0.7, 0.8, 0.8)
    assert found.max_bytes == 7
