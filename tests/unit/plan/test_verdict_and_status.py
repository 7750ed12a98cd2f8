"""One definition of level: what a plan's verdict says of a placement, `trimtab status` says too."""

from dataclasses import replace

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.bundle_snapshots import small_snapshot
from support.replica_clusters import broker, partition, snapshot
from trimtab.model.bundles.plan import BundlesSettings
from trimtab.model.goals import goal_status, goals_of
from trimtab.model.plan import Problem
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.bundles.problem import problem_data as bundles_problem
from trimtab.plan.bundles.verdicts import evaluate as judge_bundles
from trimtab.plan.replicas.dir_schedule import schedule_log_dirs
from trimtab.plan.replicas.moves import path_to
from trimtab.plan.replicas.problem import problem_data as replicas_problem
from trimtab.plan.replicas.verdicts import evaluate as judge_replicas

LOADS = st.lists(st.integers(0, 95), min_size=3, max_size=3)


def missed(problems: tuple[Problem, ...]) -> set[str | None]:
    """Resources of which a verdict says that a goal is missed."""
    return {one.resource for one in problems if one.kind != "conflicting_constraints"}


@settings(max_examples=60, deadline=None)
@given(st.lists(LOADS, min_size=4, max_size=4))
@example([[40, 42, 44], [84, 84, 84], [0, 1, 0], [0, 0, 0]])
@example([[44, 40, 36], [80, 80, 80], [81, 80, 80], [1, 1, 2]])
def test_replicas(loads: list[list[int]]) -> None:
    """Any loads of three brokers, of some resources idle ones too."""
    found = snapshot(
        [broker(one, capacity=(100.0,) * 4) for one in range(3)],
        [
            partition("t", one, [one], load=tuple(map(float, load)))
            for one, load in enumerate(zip(*loads, strict=True))
        ],
    )
    asked = ReplicasSettings()
    problem = replicas_problem(found, asked)
    measured = found.imbalance()
    way = schedule_log_dirs(problem, path_to(problem, problem.initial_placement)[0])
    load = problem.load(problem.initial_placement)
    verdict = judge_replicas(
        problem,
        problem.initial_placement,
        problem.initial_placement.leader,
        load,
        (measured, measured),
        way,
        False,
    )
    assert missed(verdict.problems) == {one.resource for one in goal_status(found, asked).violations}
    breaches = goal_status(found, asked).violations
    if verdict.verdict == "balanced":
        assert all(one.goal == "epsilon" for one in breaches)
        assert all(one.proof for one in verdict.problems), "a miss may remain only where it is proven"
    else:
        assert breaches


@settings(max_examples=60, deadline=None)
@given(st.lists(LOADS, min_size=1, max_size=3))
@example([[40, 42, 44], [40, 40, 90]])
@example([[0, 0, 1], [1, 0, 0]])
@example([[51, 95, 95]])
def test_bundles(views: list[list[int]]) -> None:
    """Any loads of three brokers, in one view or several."""
    found = small_snapshot([0, 1, 2], np.array(views).T.tolist())
    asked = BundlesSettings()
    problem = bundles_problem(found, asked)
    verdict = judge_bundles(problem, problem.arrays.initial, False, None)
    assert missed(verdict.problems) == {one.resource for one in goal_status(found, asked).violations}


def test_a_made_up_capacity_is_never_idle() -> None:
    """Of any balancer: its size depends on the number of brokers, so a share of it has no meaning."""
    for asked in (ReplicasSettings(), BundlesSettings()):
        names = ("cpu", "message_rate")
        idle = goals_of(replace(asked, theta=(0.8, 0.8), epsilon=(0.1, 0.1)), names, ["message_rate"]).idle
        assert idle.tolist() == [0.01, 0.0]
