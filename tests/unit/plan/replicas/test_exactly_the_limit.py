"""A broker exactly at θ, or exactly ε from the mean, is within its goal: for plans, status and measure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.replica_clusters import broker, partition, snapshot
from trimtab.model.goals import Goals, exceeds, goal_status, percent_above, violations
from trimtab.model.plan import Verdict
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.plan.replicas import role_aware, trim
from trimtab.report.comparison import MeasurementGoals as ReportGoals
from trimtab.report.comparison import met


def leaders(counts: list[int], capacity: float = 100.0) -> ReplicasSnapshot:
    """Brokers that lead so many equal partitions of one replica each; only network out has a capacity."""
    brokers = [broker(id, capacity=(None, None, None, capacity)) for id in range(1, len(counts) + 1)]
    ids = [id for id, count in enumerate(counts, 1) for _ in range(count)]
    load = (0.0, 0.0, 0.0, 1.0)
    return snapshot(brokers, [partition("t", row, [id], load=load) for row, id in enumerate(ids)])


def judged_level(made: ReplicasSnapshot, theta: float = 0.8) -> None:
    """Plan, status and measure find every goal met and nothing to do."""
    asked = ReplicasSettings(theta=(theta,) * 4)
    for planner in (trim.plan, role_aware.plan):
        plan = planner(made, asked)
        assert (plan.verdict, plan.moves, plan.problems) == (Verdict.BALANCED, (), ())
    assert goal_status(made, asked).violations == ()
    limits = ReportGoals({"network_out": theta}, {"network_out": 0.1}, len(made.brokers))
    assert met(made.imbalance().measures(), "network_out", limits)[1:] == (True, True)


def test_exactly_epsilon_from_the_mean_is_within_epsilon() -> None:
    """9, 10 and 11 leaders: 11/10 - 1 is 0.10000000000000009 as a double."""
    made = leaders([9, 10, 11])
    assert float(made.imbalance().worst_deviation[3]) > 0.1
    judged_level(made)


def test_exactly_theta_is_within_theta() -> None:
    """0.1 + 0.1 + 0.1 is 0.30000000000000004 as a double."""
    made = leaders([3, 3, 3], capacity=1.0)
    tenths = made.partitions.leader_load * 0.1
    made = replace(made, partitions=replace(made.partitions, leader_load=tenths))
    assert float(made.imbalance().peak_usage[3]) > 0.3
    judged_level(made, theta=0.3)


@settings(max_examples=200, deadline=None)
@given(
    brokers=st.integers(3, 12),
    tenth=st.integers(1, 10),
    sides=st.lists(st.sampled_from([-1, 0, 1]), min_size=6, max_size=6),
)
def test_equal_leaders_at_epsilon_are_balanced(brokers: int, tenth: int, sides: list[int]) -> None:
    """Pairs of brokers exactly ε above and below a mean of 10 to 100 leaders."""
    counts = [10 * tenth] * brokers
    for pair, side in enumerate(sides[: brokers // 2]):
        counts[2 * pair] += side * tenth
        counts[2 * pair + 1] -= side * tenth
    made = leaders(counts, capacity=1000.0)
    plan = trim.plan(made, ReplicasSettings())
    assert (plan.verdict, plan.moves, plan.problems) == (Verdict.BALANCED, (), ())
    assert goal_status(made, ReplicasSettings()).violations == ()


def test_a_deviation_beyond_epsilon_is_not_balanced() -> None:
    """8, 10 and 12 leaders are 20 % from the mean; and a billionth of the limit decides."""
    plan = trim.plan(leaders([8, 10, 12]), ReplicasSettings(max_moves=0))
    assert plan.verdict == Verdict.INCOMPLETE
    assert exceeds(0.1 * (1 + 2e-9), 0.1)
    assert not exceeds(0.1 * (1 + 5e-10), 0.1)
    goals = Goals(np.array([0.8]), np.array([0.1]), np.array([0.0]))
    above, off = violations(np.array([0.8 + 1e-8]), np.array([0.1 + 1e-9]), np.array([0.5]), goals)
    assert above.all()
    assert off.all()


def test_theta_missed_without_proof_is_incomplete() -> None:
    """950 of 1,000 take two copies of 100 to get below 800, and one is allowed."""
    brokers = [broker(id, capacity=(None, 1000.0, None, None)) for id in (1, 2)]
    sizes = [(1, 100.0)] * 9 + [(1, 50.0), (2, 100.0)]
    rows = [partition("t", p, [id], load=(0.0, size, 0.0, 0.0)) for p, (id, size) in enumerate(sizes)]
    plan = trim.plan(snapshot(brokers, rows), ReplicasSettings(goals=("theta",), max_moves=1))
    assert len(plan.moves) == 1
    assert plan.verdict is Verdict.INCOMPLETE
    assert any("a limit, named apart, left out what would help" in one.text for one in plan.problems)


def test_texts_distinguish_a_value_from_its_limit() -> None:
    """Never "more than 10% by 10.00%"."""
    assert percent_above(0.1234567, 0.1) == "12.35%"
    assert percent_above(0.100004, 0.1) == "10.0004%"
    assert percent_above(0.80000001, 0.8) == "80.000001%"
