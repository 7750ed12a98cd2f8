"""No plan fills a disk above θ that was not: what gives way for it, and how it is told."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.replica_clusters import broker, partition, snapshot
from trimtab.balancers import BALANCERS
from trimtab.balancers.planning import planner_of
from trimtab.model.plan import Verdict
from trimtab.model.replicas.plan import Plan, ReplicaMoveKind
from trimtab.model.replicas.settings import ReplicasSettings, RoleAwareSettings
from trimtab.plan.replicas.headroom import too_full
from trimtab.plan.replicas.moves import LEADER_STEP, REPLICA_STEP, StepArrays
from trimtab.plan.replicas.problem import problem_data

SETTINGS = [
    ReplicasSettings(),
    ReplicasSettings(strategy="role_aware"),
    ReplicasSettings(strategy="role_aware", role_aware=RoleAwareSettings(literal=True)),
]


def planned(brokers: list, partitions: list, settings: ReplicasSettings = SETTINGS[0]) -> Plan:
    """A plan for a hand-written cluster."""
    return planner_of(BALANCERS["replicas"], settings.strategy)(snapshot(brokers, partitions), settings)


def three_racks(state: str) -> tuple[list, list]:
    """Brokers 1 to 6, disks of 100, two in each rack; 10 partitions of 5 on 1, 2, 3 and 10 on 4, 5, 6."""
    brokers = [
        broker(b, f"r{(b - 1) % 3}", state=state if b == 6 else "alive", capacity=(None, 100.0, None, None))
        for b in range(1, 7)
    ]
    parts = [
        partition("t", p, held, in_sync=[b for b in held if b != 6 or state != "dead"], load=(0, 5, 0, 0))
        for p, held in enumerate([[1, 2, 3]] * 10 + [[4, 5, 6]] * 10)
    ]
    return brokers, parts


@pytest.mark.parametrize("state", ["dead", "draining"])
def test_racks_are_relaxed_before_a_disk_is_filled(state: str) -> None:
    """Broker 6 is removed: rack r2 would hold 20 · 5 = 100 on broker 3 alone, and 0.8 of it is 80. So 4
    partitions crowd another rack, none stays behind, and the operator gets the alternatives.
    """
    plan = planned(*three_racks(state))
    assert plan.predicted.after.peak_usage["disk"] <= 0.8
    assert not any(6 in row.after for row in plan.assignments if 6 in row.before)
    assert sum(6 in row.before for row in plan.assignments) == 10
    told = next(one for one in plan.problems if "choices" in one.proof)
    assert plan.verdict is Verdict.INFEASIBLE
    assert (told.proof["where"], told.proof["needed_bytes"], told.count) == ("rack r2", 100.0, 1)
    choices: Any = told.proof["choices"]
    assert choices["add_brokers"] == {"count": 1, "disk": 0.5}
    assert choices["relax_rack"]["partitions"] == 4
    assert "rack r2 must hold 100 bytes by the rule of racks, more than 80% of its 1 broker, 80" in told.text
    crowded = [row for row in plan.assignments if len({(b - 1) % 3 for b in row.after}) < 3]
    assert len(crowded) == 4


def test_replicas_stay_if_no_disk_has_space() -> None:
    """Three disks hold 60 each; one broker drains: 180 do not fit into .8 of 200, so 20 or more stay."""
    plan = planned(
        [
            broker(b, state="draining" if b == 3 else "alive", capacity=(None, 100, None, None))
            for b in (1, 2, 3)
        ],
        [partition("t", p, [1 + p % 3], load=(0, 5, 0, 0)) for p in range(36)],
    )
    assert plan.predicted.after.peak_usage["disk"] <= 0.8
    assert len([move for move in plan.moves if move.kind is ReplicaMoveKind.REPLICA]) == 8
    told = next(one for one in plan.problems if "choices" in one.proof)
    assert (plan.verdict, told.kind, told.count) == (Verdict.INFEASIBLE, "add_brokers", 1)
    choices: Any = told.proof["choices"]
    assert choices["leave"] == {"partitions": 4, "disk": pytest.approx(0.8)}


def test_a_broker_that_must_bear_more_than_theta_is_no_improvement() -> None:
    """Rack b has one broker left of two, and all its traffic: 1.0 of what it can take."""
    plan = planned(
        [broker(b, "a" if b < 3 else "b", state="dead" if b == 4 else "alive") for b in (1, 2, 3, 4)],
        [
            partition("t", p, [1 + p % 2, 3 + p // 2 % 2], in_sync=[1 + p % 2], load=(0, 1, 5, 0))
            for p in range(20)
        ],
    )
    assert plan.predicted.after.peak_usage["network_in"] == pytest.approx(1.0)
    assert plan.verdict is Verdict.INFEASIBLE
    told = next(one for one in plan.problems if one.proof.get("goal") == "theta")
    assert "rack b has 1 broker left (3) and must hold 1 replica of every partition" in told.text


@pytest.mark.parametrize("settings", SETTINGS, ids=["trim", "role_aware", "role_aware literal"])
@pytest.mark.parametrize("state", ["dead", "draining"])
def test_every_strategy_keeps_disks_below_theta(settings: ReplicasSettings, state: str) -> None:
    """Also the paper's strategy, which treats one resource at a time."""
    assert planned(*three_racks(state), settings).predicted.after.peak_usage["disk"] <= 0.8 + 1e-9


def test_no_disk_is_filled_in_transit() -> None:
    """Two disks of 100 hold 75: to exchange 10 for 10, one of them passes 85."""
    parts = [partition("t", p, [1 + p % 2], load=(0, size, 0, 0)) for p, size in enumerate([10, 10, 65, 65])]
    brokers = [broker(b, capacity=(None, 100.0, None, None)) for b in (1, 2)]
    problem = problem_data(snapshot(brokers, parts), SETTINGS[0])

    def filled(*steps: tuple[int, int, int, int]) -> list[int]:
        kind, partition, source, target = (
            np.array(column, dtype=np.int32) for column in zip(*steps, strict=True)
        )
        role = np.zeros(len(steps), dtype=np.int8)
        return too_full(problem, StepArrays(kind.astype(np.int8), partition, source, target, role)).tolist()

    assert filled((REPLICA_STEP, 0, 0, 1), (REPLICA_STEP, 1, 1, 0)) == [0]
    assert filled((REPLICA_STEP, 1, 1, 0), (REPLICA_STEP, 0, 0, 1)) == [1]
    assert filled((LEADER_STEP, 0, 0, 1)) == []


@pytest.mark.parametrize("settings", SETTINGS, ids=["trim", "role_aware", "role_aware literal"])
def test_a_copy_without_space_yields_to_no_more_moves_than_the_limit(
    settings: ReplicasSettings,
) -> None:
    """The paper's own steps elect no leaders: after its copy was reverted, all missing leaders appeared."""
    capacity = (10.0, 10.0, 100.0, 100.0)
    parts = [
        partition("full", 0, [1], load=(0.05, 9.0, 0.0, 1.0)),
        partition("small", 0, [1], load=(0.05, 0.0, 0.0, 1.0)),
        *(partition("leaderless", p, [1], leader=None, in_sync=[1], load=(0, 0, 0, 0)) for p in range(3)),
    ]
    made = planned(
        [broker(1, capacity=capacity), broker(2, capacity=capacity)], parts, replace(settings, max_moves=1)
    )
    assert len(made.moves) <= 1, made.moves
