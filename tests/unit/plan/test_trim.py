"""`trim` on clusters small enough to be read."""

import pytest

from simulate.instances import lognormal_skew
from support.replica_clusters import broker, partition, snapshot
from trimtab.model.plan import Verdict
from trimtab.model.replicas.plan import Plan, ReplicaMoveKind
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.replicas import trim

EVEN = ReplicasSettings()
HARD_ONLY = ReplicasSettings(goals=("rack", "host"))


def planned(brokers: list, partitions: list, settings: ReplicasSettings = EVEN) -> Plan:
    """A plan for a hand-written cluster."""
    return trim.plan(snapshot(brokers, partitions), settings)


def test_a_balanced_cluster_gets_no_moves() -> None:
    """Three equal brokers with equal load need nothing."""
    plan = planned([broker(b) for b in (1, 2, 3)], [partition("t", b, [b]) for b in (1, 2, 3)])
    assert (plan.verdict, plan.moves, plan.bound.bytes) == (Verdict.BALANCED, (), 0)


def test_leaders_that_sit_on_one_broker_are_spread_without_copying() -> None:
    """Role skew: equal replicas, all leaders on broker 1; leader transfers balance it without copies."""
    plan = planned(
        [broker(b) for b in (1, 2, 3)],
        [partition("t", p, [1, 2 + p % 2, 3 - p % 2], load=(0.4, 1, 1, 2)) for p in range(24)],
    )
    assert plan.verdict == Verdict.BALANCED
    assert plan.cost.bytes == 0
    assert {move.kind for move in plan.moves} == {ReplicaMoveKind.LEADER}


def test_a_new_broker_is_filled() -> None:
    """A new empty broker gets its share, and the bytes are within the bound's reach."""
    parts = [partition("t", p, [1 + p % 3]) for p in range(24)]
    plan = planned([*(broker(b) for b in (1, 2, 3)), broker(4, state="new")], parts)
    assert plan.verdict == Verdict.BALANCED
    assert all(move.target == 4 for move in plan.moves)
    assert plan.bound.bytes <= plan.cost.bytes <= plan.bound.bytes + 1


def test_a_draining_broker_is_emptied_within_its_rack() -> None:
    """Broker 1 of rack a drains: its replicas go to the other broker of rack a."""
    plan = planned(
        [broker(1, "a", state="draining"), broker(2, "a"), broker(3, "b"), broker(4, "b")],
        [partition("t", p, [1, 3 + p % 2]) for p in range(4)],
        HARD_ONLY,
    )
    assert plan.verdict == Verdict.BALANCED
    assert {(move.source, move.target) for move in plan.moves if move.kind == ReplicaMoveKind.REPLICA} == {
        (1, 2)
    }
    assert {move.reason.goal for move in plan.moves} == {"drain"}


def test_a_leader_on_a_dead_broker_is_replaced_before_its_replica_is_copied() -> None:
    """Nothing can be copied from a dead leader: leadership is assigned first."""
    plan = planned([broker(1, state="dead"), broker(2), broker(3)], [partition("t", 0, [1, 2])], HARD_ONLY)
    assert [(move.kind, move.source, move.target) for move in plan.moves] == [
        (ReplicaMoveKind.LEADER, None, 2),
        (ReplicaMoveKind.REPLICA, 1, 3),
    ]
    assert plan.assignments[0].after == (2, 3)


def test_a_leader_that_is_not_first_hands_over_before_it_moves() -> None:
    """Broker 2 leads as second of its list and drains: an in-sync replica leads before the copy."""
    plan = planned(
        [broker(1), broker(2, state="draining"), broker(3)],
        [partition("t", 0, [1, 2], leader=2)],
        HARD_ONLY,
    )
    assert [(move.kind, move.source, move.target) for move in plan.moves] == [
        (ReplicaMoveKind.LEADER, 2, 1),
        (ReplicaMoveKind.REPLICA, 2, 3),
    ]


def test_a_replica_out_of_sync_never_gets_the_lead() -> None:
    """All load is on broker 1, its only follower lags: data is copied, the laggard does not lead."""
    plan = planned(
        [broker(1), broker(2), broker(3)],
        [partition("t", p, [1, 2], in_sync=[1], load=(1, 1, 1, 4)) for p in range(6)],
    )
    assert not any(move.kind == ReplicaMoveKind.LEADER and move.target == 2 for move in plan.moves)


def test_missing_brokers_are_counted_and_proven() -> None:
    """Four hundred of load on three brokers of a hundred, θ 0.8: two more are needed, with proof."""
    plan = planned(
        [broker(b) for b in (1, 2, 3)],
        [partition("t", p, [1 + p % 3], load=(0, 100 / 3, 0, 0)) for p in range(12)],
    )
    problem = next(p for p in plan.problems if p.kind == "add_brokers")
    assert plan.verdict == Verdict.INFEASIBLE
    assert (problem.count, problem.resource) == (2, "disk")
    assert problem.proof["total"] == pytest.approx(400)


def test_a_replica_too_big_for_any_broker_is_named() -> None:
    """One leader takes .9 of any broker: no placement helps, and it is called by name."""
    plan = planned([broker(b) for b in (1, 2, 3)], [partition("big", 7, [1], load=(9, 1, 1, 1))])
    problem = next(p for p in plan.problems if p.proof.get("goal") == "theta")
    assert plan.verdict == Verdict.INFEASIBLE
    assert problem.kind == "indivisible_replica"
    assert (problem.proof["topic"], problem.proof["partition"]) == ("big", 7)


def test_a_partition_without_a_live_copy_stays_and_is_reported() -> None:
    """Its only replica is on a dead broker: nothing can be done, and the plan reports it."""
    plan = planned([broker(1, state="dead"), broker(2)], [partition("t", 0, [1])])
    assert plan.verdict == Verdict.INFEASIBLE
    assert plan.moves == ()
    assert "conflicting_constraints" in {one.kind for one in plan.problems}
    assert {one.proof.get("goal") for one in plan.problems} >= {"offline", "leader"}


@pytest.mark.parametrize("brokers", [[broker(1)], [broker(1, state="dead")], [broker(1), broker(2)]])
def test_a_cluster_without_partitions_is_balanced(brokers: list) -> None:
    """Nothing moves, for any brokers."""
    assert planned(brokers, []).verdict == Verdict.BALANCED


def test_two_log_dirs_are_filled_evenly_and_a_cordoned_one_not_at_all() -> None:
    """The new broker has a cordoned dir and two online ones: arrivals alternate between the two."""
    dirs = [("/a", "online", None), ("/b", "online", None), ("/c", "cordoned", None)]
    plan = planned(
        [broker(1, state="draining"), broker(2, dirs=dirs)],
        [partition("t", p, [1]) for p in range(4)],
        HARD_ONLY,
    )
    chosen = [move.target_dir for move in plan.moves]
    assert sorted(map(str, chosen)) == ["/a", "/a", "/b", "/b"]


@pytest.mark.parametrize(("brokers", "replicas", "seed"), [(6, 600, 1), (12, 2400, 2), (30, 6000, 3)])
def test_a_lognormal_skew_is_balanced_near_the_bound(brokers: int, replicas: int, seed: int) -> None:
    """All four resources within ε and θ, for at most 1.2 times the bytes that any plan needs."""
    plan = trim.plan(lognormal_skew(brokers, replicas, seed), EVEN)
    assert plan.verdict == Verdict.BALANCED
    assert max(plan.predicted.after.worst_deviation.values()) <= 0.1
    assert max(plan.predicted.after.peak_usage.values()) <= 0.8
    assert plan.cost.bytes <= 1.2 * plan.bound.bytes
