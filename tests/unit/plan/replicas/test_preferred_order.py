"""Lists whose leader is not the first of them: put in order, nothing copied, nobody else leads."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.replica_clusters import broker, partition, snapshot
from trimtab.files.replicas.plan import plan_bytes, plan_from
from trimtab.model.plan import Verdict
from trimtab.model.replicas.plan import Plan, ReplicaMoveKind
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.replicas import trim
from trimtab_common.errors import InputError


def planned(parts: list[Any], brokers: Any = None, **wishes: Any) -> Plan:
    """A plan that asks for nothing else."""
    there = brokers or [broker(1), broker(2), broker(3)]
    return trim.plan(snapshot(there, parts), ReplicasSettings(goals=("preferred_order",), **wishes))


def test_a_leader_moves_to_the_front_of_its_list() -> None:
    """Broker 3 leads a list that begins with 1: it moves to the front, the others keep their order."""
    plan = planned([partition("t", 0, [1, 2, 3], leader=3), partition("t", 1, [2, 1])])
    (move,) = plan.moves
    assert (move.kind, move.source, move.target, move.bytes) == (ReplicaMoveKind.ORDER, 3, 3, 0)
    assert [(one.before, one.after, one.leader_after) for one in plan.assignments] == [
        ((1, 2, 3), (3, 1, 2), 3)
    ]
    assert (plan.verdict, plan.cost.bytes, plan.cost.order_moves) == (Verdict.BALANCED, 0, 1)
    assert move.reason.goal == "preferred_order"


def test_preferred_order_is_no_default_goal() -> None:
    """The default goals leave lists alone."""
    plan = trim.plan(
        snapshot([broker(1), broker(2)], [partition("t", 0, [1, 2], leader=2)]),
        ReplicasSettings(goals=("rack", "host")),
    )
    assert plan.moves == ()
    assert "preferred_order" not in ReplicasSettings().goals


def test_excluded_topics_and_brokers_that_must_not_lead_are_left_alone() -> None:
    """A demoted broker is not preferred; an excluded topic keeps its list."""
    parts = [partition("t", 0, [1, 2], leader=2)]
    assert planned(parts, excluded_topics=("t",)).moves == ()
    assert planned(parts, excluded_brokers_for_leaders=(2,)).moves == ()
    resting = [broker(1), broker(2, state="no_leaders")]
    assert planned(parts, resting).moves == ()


def test_a_limit_on_moves_leaves_lists_out_with_a_reason() -> None:
    """Two lists, one move."""
    plan = planned([partition("t", n, [1, 2], leader=2) for n in range(2)], max_moves=1)
    assert len(plan.moves) == 1
    assert (plan.verdict, plan.problems[-1].kind) == (Verdict.IMPROVED, "limit_reached")


def test_moved_partitions_end_in_preferred_order_too() -> None:
    """Broker 1 is emptied, its list was led by its second: the copy arrives behind the leader."""
    there = [broker(1, state="draining"), broker(2), broker(3)]
    plan = planned([partition("t", 0, [1, 2], leader=2)], there)
    assert [move.kind for move in plan.moves] == [ReplicaMoveKind.REPLICA, ReplicaMoveKind.ORDER]
    assert plan.assignments[0].after == (2, 3)


def test_the_file_keeps_it_and_refuses_another_broker() -> None:
    """A new order is about one broker, which holds the partition."""
    plan = planned([partition("t", 0, [1, 2], leader=2)])
    data = plan_bytes(plan)
    assert plan_from(Path("plan.json"), data) == plan
    document = json.loads(data)
    assert document["cost"]["x_order_moves"] == 1
    document["moves"][0]["source"] = 1
    with pytest.raises(InputError, match="stays on its broker"):
        plan_from(Path("plan.json"), json.dumps(document).encode())
