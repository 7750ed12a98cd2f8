"""Requests do what they say and no more, and what remains undone is counted: brokers of 100 of everything."""

from typing import Any

import pytest

from support.replica_clusters import broker, partition, snapshot
from trimtab.balancers.settings import read_settings
from trimtab.model.plan import Problem, Verdict
from trimtab.model.replicas.plan import Plan, ReplicaMoveKind
from trimtab.model.replicas.settings import CPU, ReplicasSettings
from trimtab.plan.replicas import role_aware, trim
from trimtab.plan.replicas.problem import problem_data
from trimtab.plan.replicas.verdicts import must_exceed_theta
from trimtab_common.errors import SettingsError

FULL = (100.0,) * 4
DISK_ONLY = (None, 100.0, None, None)


def planned(partitions: list, brokers: int | list = 3, **settings: object) -> Plan:
    """A plan by `trim`."""
    there = [broker(b, capacity=FULL) for b in range(1, brokers + 1)] if isinstance(brokers, int) else brokers
    return trim.plan(snapshot(there, partitions), ReplicasSettings(**settings))  # type: ignore[arg-type]


def left_on(plan: Plan, number: int) -> dict:
    """The goal and the counts of the problem that is about a broker."""
    proofs = [one.proof for one in plan.problems if one.proof.get("broker") == number]
    assert len(proofs) == 1
    return {name: proofs[0][name] for name in ("goal", "replicas", "leaders")}


def told(plan: Plan, goal: str) -> Problem:
    """The only problem with that goal in its proof."""
    (found,) = [one for one in plan.problems if one.proof.get("goal") == goal]
    return found


EXCLUDED = [partition("__c", 0, [1, 2]), partition("__c", 1, [2, 1]), partition("a", 0, [1, 2])]


def test_excluded_topics_leave_a_drained_broker() -> None:
    """Broker 1 holds three replicas, two of them of an excluded topic: all go to broker 3."""
    plan = planned(EXCLUDED, drain=(1,), excluded_topics=("__*",))
    assert plan.verdict is Verdict.BALANCED
    assert {(a.topic, a.partition): set(a.after) for a in plan.assignments} == {
        ("__c", 0): {2, 3},
        ("__c", 1): {2, 3},
        ("a", 0): {2, 3},
    }


@pytest.mark.parametrize("asked", [{}, {"fix_offline_replicas": True}])
def test_excluded_topics_leave_a_dead_broker(asked: dict) -> None:
    """Broker 1 is dead and led `__c-0`: broker 2 leads it, and broker 3 gets a copy of each partition."""
    there = [broker(b, state="dead" if b == 1 else "alive", capacity=FULL) for b in (1, 2, 3)]
    parts = [partition("__c", p, held, in_sync=[2]) for p, held in enumerate(([1, 2], [2, 1]))]
    plan = planned(parts, there, excluded_topics=("__*",), **asked)
    assert plan.verdict.is_complete
    assert {a.partition: (set(a.after), a.leader_after) for a in plan.assignments} == {
        0: ({2, 3}, 2),
        1: ({2, 3}, 2),
    }


def test_a_healthy_replica_of_an_excluded_topic_stays() -> None:
    """`__c` crowds rack y on brokers 2 and 3; only its replica on the drained broker 1 moves."""
    there = [broker(b, rack=rack, capacity=FULL) for b, rack in enumerate("xyyxz", 1)]
    plan = planned([partition("__c", 0, [1, 2, 3])], there, drain=(1,), excluded_topics=("__*",))
    assert plan.verdict is Verdict.BALANCED
    assert [move.source for move in plan.moves] == [1]
    assert {2, 3} < set(plan.assignments[0].after)


def test_the_old_rule_keeps_excluded_topics_and_counts_them() -> None:
    """Two replicas and one leader of `__c` stay on broker 1, and the plan is incomplete."""
    plan = planned(EXCLUDED, drain=(1,), excluded_topics=("__*",), evacuate_excluded_topics=False)
    assert plan.verdict is Verdict.INCOMPLETE
    assert left_on(plan, 1) == {"goal": "drain", "replicas": 2, "leaders": 1}
    assert (
        "broker 1, which is to be emptied, still holds 2 replicas and leads 1 partition"
        in plan.problems[0].text
    )
    assert told(plan, "excluded_topics").proof["partitions"] == 2
    assert "max_moves" not in " ".join(one.text for one in plan.problems)


def test_leaders_of_excluded_topics_leave_a_demoted_broker() -> None:
    """Broker 1 leads two partitions, one of them excluded: two hand-overs, or one and a problem."""
    parts = [partition("__c", 0, [1, 2]), partition("a", 0, [1, 2])]
    plan = planned(parts, demote=(1,), excluded_topics=("__*",))
    assert (plan.verdict, [m.kind for m in plan.moves]) == (Verdict.BALANCED, [ReplicaMoveKind.LEADER] * 2)
    plan = planned(parts, demote=(1,), excluded_topics=("__*",), evacuate_excluded_topics=False)
    assert (plan.verdict, len(plan.moves)) == (Verdict.INCOMPLETE, 1)
    assert left_on(plan, 1) == {"goal": "demote", "replicas": 0, "leaders": 1}


UNEVEN = [partition("a", p, [1, 2], load=(5, 5, 5, 5)) for p in range(8)]


@pytest.mark.parametrize("asked", [{"demote": (1,)}, {"drain": (4,)}, {"fix_offline_replicas": True}])
def test_a_request_balances_nothing(asked: dict) -> None:
    """Brokers 1 and 2 hold everything and 3 nothing. No request is about that; a rebalance is."""
    plan = planned(UNEVEN, brokers=4, **asked)
    assert plan.cost.bytes == 0
    assert plan.verdict.is_complete
    goals: Any = plan.settings["goals"]
    assert "epsilon" not in goals
    assert planned(UNEVEN, brokers=4, rebalance=True, **asked).cost.bytes > 0


def test_a_demotion_repairs_neither_racks_nor_dead_brokers() -> None:
    """`b` crowds rack y and lost its replica on the dead broker 5: neither is requested."""
    there = [
        broker(b, rack=rack, state="dead" if b == 5 else "alive", capacity=FULL)
        for b, rack in enumerate("xyyzw", 1)
    ]
    parts = [partition("a", 0, [1, 2]), partition("b", 0, [2, 3, 5], in_sync=[2, 3])]
    plan = planned(parts, there, demote=(1,))
    assert plan.verdict is Verdict.BALANCED
    assert [(move.kind, move.topic) for move in plan.moves] == [(ReplicaMoveKind.LEADER, "a")]


def test_a_demotion_leaves_partitions_without_a_leader_to_another_plan() -> None:
    """`b` has none, and broker 2, the only one in sync, would send 90 of 100 with it."""
    parts = [
        partition("a", 0, [1, 2, 3]),
        partition("b", 0, [2, 3], leader=None, in_sync=[2], load=(0, 1, 1, 60)),
        partition("c", 0, [2], load=(0, 1, 1, 30)),
    ]
    plan = planned(parts, demote=(1,))
    assert plan.verdict is Verdict.BALANCED
    assert [(move.kind, move.topic) for move in plan.moves] == [(ReplicaMoveKind.LEADER, "a")]


def test_replicas_outside_a_request_may_move_to_make_space() -> None:
    """Broker 3 must hold all of `a` once 4 is emptied, since both are rack z: `b` goes to broker 5."""
    racks = {1: "x", 2: "y", 3: "z", 4: "z", 5: "x"}
    there = [
        broker(b, rack=rack, capacity=(90 if b == 3 else 100, 100, 100, 100)) for b, rack in racks.items()
    ]
    load = {"load": (10, 1, 1, 1), "follower": (10, 1, 1, 1)}
    parts = [partition("a", p, [1, 2, 4 if p < 4 else 3], **load) for p in range(7)]
    parts.append(partition("b", 0, [3], load=(20, 1, 1, 1)))
    plan = planned(parts, there, drain=(4,))
    assert plan.verdict is Verdict.BALANCED
    assert [(move.topic, move.target) for move in plan.moves if move.source == 3] == [("b", 5)]
    assert must_exceed_theta(problem_data(snapshot(there, parts), ReplicasSettings(drain=(4,))), CPU) is None


def test_a_total_beyond_theta_is_proven_if_a_replica_cannot_leave() -> None:
    """`a` fits into no log dir of broker 1, and both together would use 100 % of its CPU."""
    there = [broker(1, capacity=FULL, dirs=(("/d0", "online", 50.0), ("/d1", "online", 50.0)))]
    there.append(broker(2, capacity=FULL))
    parts = [
        partition("a", 0, [2], load=(50, 45, 1, 1)),
        partition("b", 0, [1], load=(50, 20, 1, 1), dirs=["/d0"]),
    ]
    plan = planned(parts, there, drain=(2,))
    assert plan.verdict is Verdict.INFEASIBLE
    (proven,) = [one for one in plan.problems if one.kind == "add_brokers"]
    assert (proven.resource, proven.proof["total"], proven.proof["capacity"]) == ("cpu", 100.0, 100.0)


def test_brokers_without_a_limit_take_one_copy_each_too() -> None:
    """The disk size of broker 2 is unknown; 1 and 3 must hold a copy of 90 each."""
    there = [broker(b, capacity=FULL if b != 2 else (100.0, None, 100.0, 100.0)) for b in (1, 2, 3)]
    plan = planned([partition("a", 0, [1, 2, 3], load=(1, 90, 1, 1))], there)
    assert plan.verdict is Verdict.INFEASIBLE
    proof = told(plan, "theta").proof
    assert (proof["biggest_brokers"], proof["other_brokers"], proof["needed_bytes"]) == ([2], [1, 3], 180.0)


def test_a_broker_above_theta_is_for_another_plan() -> None:
    """Broker 2 is 90 % full and stays so; broker 1 is emptied to broker 3, not to broker 2."""
    there = [broker(b, capacity=DISK_ONLY) for b in (1, 2, 3)]
    parts = [partition("a", p, [2], load=(0, 30, 0, 0)) for p in range(3)]
    parts.append(partition("b", 0, [1], load=(0, 20, 0, 0)))
    plan = planned(parts, there, drain=(1,))
    assert plan.verdict is Verdict.BALANCED
    assert [(move.topic, move.target) for move in plan.moves] == [("b", 3)]


def test_a_drain_keeps_other_brokers_below_theta() -> None:
    """40 go from broker 1 to 3, which holds 60 and may hold 80: so 20 or more go on from 3 to 2."""
    there = [broker(b, capacity=DISK_ONLY) for b in (1, 2, 3)]
    parts = [partition("a", 0, [1, 2], load=(0, 40, 0, 0))]
    parts += [partition("b", p, [3], load=(0, 20, 0, 0)) for p in range(3)]
    plan = planned(parts, there, drain=(1,))
    assert plan.verdict is Verdict.BALANCED
    assert plan.cost.bytes == 60
    assert plan.predicted.after.peak_usage["disk"] <= 0.8


def test_a_demotion_prefers_leaders_that_stay_below_theta() -> None:
    """Broker 2 sends 70 of 100: a leader of 20 goes to broker 3, although it is later in the list."""
    parts = [partition("a", 0, [1, 2, 3], load=(0, 1, 1, 20)), partition("b", 0, [2], load=(0, 1, 1, 70))]
    plan = planned(parts, demote=(1,))
    assert (plan.verdict, plan.cost.bytes) == (Verdict.BALANCED, 0)
    assert [(move.topic, move.target) for move in plan.moves] == [("a", 3)]


def test_theta_is_met_by_leaders_before_replicas_are_copied() -> None:
    """Broker 2 must lead `a` (20) and sends 70: it hands `b` (30) over to broker 3, and nothing is copied."""
    parts = [
        partition("a", 0, [1, 2], load=(0, 1, 1, 20)),
        partition("b", 0, [2, 3], load=(0, 1, 1, 30)),
        partition("c", 0, [2], load=(0, 1, 1, 40)),
    ]
    plan = planned(parts, demote=(1,))
    assert (plan.verdict, plan.cost.bytes) == (Verdict.BALANCED, 0)
    assert {(move.topic, move.target) for move in plan.moves} == {("a", 2), ("b", 3)}


def test_without_bytes_every_free_leader_is_handed_over() -> None:
    """Eleven leaders leave broker 1, which needs no bytes; balancing would need some."""
    parts = [partition("a", p, [1, 2 + p % 2], load=(1, 5, 5, 5)) for p in range(11)]
    parts += [partition("b", p, [2, 3], load=(1, 5, 5, 5)) for p in range(4)]
    for rebalance in (False, True):
        plan = planned(parts, brokers=4, demote=(1,), max_bytes=0, rebalance=rebalance)
        assert plan.cost.bytes == 0
        after = {(a.topic, a.partition): a.leader_after for a in plan.assignments}
        assert all(after["a", p] != 1 for p in range(11))


def test_a_drain_without_bytes_hands_its_leaders_over() -> None:
    """Nothing may be copied: three replicas stay on broker 1, and none of them leads."""
    parts = [partition("a", p, [1, 2]) for p in range(3)]
    plan = planned(parts, drain=(1,), max_bytes=0)
    assert plan.verdict is Verdict.INCOMPLETE
    assert [move.kind for move in plan.moves] == [ReplicaMoveKind.LEADER] * 3
    assert left_on(plan, 1) == {"goal": "drain", "replicas": 3, "leaders": 0}
    assert told(plan, "offline or drain").proof["cause"] == "limits"


def test_a_drain_of_a_full_cluster_hands_its_leaders_over() -> None:
    """Three disks of 78 % each: nothing fits anywhere, and broker 1 leads nothing all the same."""
    there = [broker(b, capacity=DISK_ONLY) for b in (1, 2, 3)]
    parts = [partition("a", p, [1 + p % 3, 1 + (p + 1) % 3], load=(0, 6.5, 0, 0)) for p in range(18)]
    plan = planned(parts, there, drain=(1,))
    assert plan.verdict is Verdict.INFEASIBLE
    assert left_on(plan, 1) == {"goal": "drain", "replicas": 12, "leaders": 0}


def two_big_brokers() -> tuple[list, list]:
    """Disks of 25, 25, 50, 50, 200 and 200; 138 partitions of 1, a copy of each on a big broker at least."""
    capacity = (25.0, 25.0, 50.0, 50.0, 200.0, 200.0)
    there = [broker(b, capacity=(None, size, None, None)) for b, size in enumerate(capacity, 1)]
    parts = [
        partition("a", p, [5, 6] if p % 3 == 0 else [5 + p % 2, (1, 2, 3, 4, 3, 4)[p % 6]], load=(0, 1, 0, 0))
        for p in range(138)
    ]
    return there, parts


def test_one_copy_a_broker_proves_that_a_drain_has_no_room() -> None:
    """Broker 6 takes one copy of each, so the small ones must hold 138 and may hold .8 of 150, 120."""
    plan = planned(two_big_brokers()[1], two_big_brokers()[0], drain=(5,))
    assert plan.verdict is Verdict.INFEASIBLE
    (proof,) = [one for one in plan.problems if "copies_a_broker" in one.proof]
    assert proof.proof["biggest_brokers"] == [6]
    others: Any = proof.proof["other_brokers"]
    assert sorted(others) == [1, 2, 3, 4]
    assert proof.proof["needed_bytes"] == 138
    assert proof.proof["allowed_bytes"] == pytest.approx(120, rel=0.1)
    assert proof.count == 1
    assert "add 1 broker of 50 bytes" in proof.text
    assert left_on(plan, 5)["replicas"] > 0


def test_a_drain_precedes_a_demotion() -> None:
    """Broker 3 has room for one copy: the one of the drained broker 1, not that of the demoted broker 2."""
    there = [broker(b, capacity=DISK_ONLY) for b in (1, 2, 3)]
    sizes = (("a", 1, 35), ("b", 2, 40), ("c", 3, 40))
    parts = [partition(name, 0, [b], load=(0, size, 0, 0)) for name, b, size in sizes]
    plan = planned(parts, there, drain=(1,), demote=(2,))
    assert [(move.topic, move.target) for move in plan.moves] == [("a", 3)]
    assert not plan.verdict.is_complete
    assert left_on(plan, 2) == {"goal": "demote", "replicas": 0, "leaders": 1}


def test_role_aware_places_drained_replicas_before_demoted_ones() -> None:
    """Broker 4 has room for one: `a` of the drained broker 1, not the bigger `b` of the demoted broker 2."""
    there = [broker(b, capacity=DISK_ONLY) for b in (1, 2, 3, 4)]
    sizes = (("a", 1, 40), ("b", 2, 50), ("c", 3, 50))
    parts = [partition(name, 0, [b], load=(0, size, 0, 0)) for name, b, size in sizes]
    settings = ReplicasSettings(strategy="role_aware", drain=(1,), demote=(2,))
    plan = role_aware.plan(snapshot(there, parts), settings)
    assert [(move.topic, move.target) for move in plan.moves] == [("a", 4)]
    assert left_on(plan, 2) == {"goal": "demote", "replicas": 0, "leaders": 1}


def test_a_demoted_broker_is_exempt_from_goals_on_leaders_load() -> None:
    """Network out of brokers 2 and 3 is even, and of broker 1 there is none: every goal holds."""
    parts = [
        partition("a", p, [1 + p % 3, 1 + (p + 1) % 3], load=(0, 5, 5, 5), follower=(0, 5, 5, 0))
        for p in range(12)
    ]
    plan = planned(parts, demote=(1,), rebalance=True)
    assert (plan.verdict, plan.cost.bytes) == (Verdict.BALANCED, 0)


def test_nothing_is_copied_to_a_demoted_broker_for_the_cpu_of_leaders() -> None:
    """Broker 1 leads nothing and uses 8 of CPU, the others 32 each; more followers would cost bytes."""
    parts = [
        partition("a", p, [1 + p % 3, 1 + (p + 1) % 3], load=(5, 5, 5, 5), follower=(1, 5, 5, 0))
        for p in range(12)
    ]
    plan = planned(parts, demote=(1,), rebalance=True, epsilon=(0.1, 0.9, 0.9, 0.1))
    assert (plan.verdict, plan.cost.bytes) == (Verdict.BALANCED, 0)


@pytest.mark.parametrize("other", ["intra_broker_only=true", "replication_factor={a=2}"])
def test_a_rebalance_is_rejected_if_nothing_else_may_move(other: str) -> None:
    """Both requests leave every other replica where it is."""
    with pytest.raises(SettingsError, match="rebalance"):
        read_settings(None, ["replicas.rebalance=true", f"replicas.{other}"], {})


def test_leaders_on_a_demoted_broker_and_stuck_replicas_are_both_counted() -> None:
    """Of two brokers one is to be emptied and the other is to lead nothing: neither request can be met."""
    plan = planned([partition("a", 0, [1, 2])], brokers=2, drain=(2,), demote=(1,))
    assert not plan.verdict.is_complete
    assert left_on(plan, 1) == {"goal": "demote", "replicas": 0, "leaders": 1}
    assert left_on(plan, 2) == {"goal": "drain", "replicas": 1, "leaders": 0}


def test_a_replica_bigger_than_any_broker_may_hold_is_proven_impossible() -> None:
    """A replica of 90 must leave broker 1, and every other broker may hold 80 of 100."""
    plan = planned([partition("a", 0, [1], load=(0.0, 90.0, 0.0, 0.0))], drain=(1,))
    assert plan.verdict is Verdict.INFEASIBLE
    (proof,) = [one.proof for one in plan.problems if "allowed_bytes_a_replica" in one.proof]
    assert proof["partitions"] == 1
    assert proof["allowed_bytes_a_replica"] == pytest.approx(80.0)


def test_several_leaders_change_before_anything_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 2 must lead `a` (50) and leads `b` (40): `b` goes to broker 3 if `c` (60) goes on to broker 4.

    Neither helps alone: `b` would lift broker 3 to 100, and broker 3 is not above 80 before.
    """
    monkeypatch.setattr(trim, "MOST_CHANGES", 0)
    parts = [
        partition("a", 0, [1, 2], load=(0, 1, 1, 50)),
        partition("b", 0, [2, 3], load=(0, 1, 1, 40)),
        partition("c", 0, [3, 4], load=(0, 1, 1, 60)),
    ]
    plan = planned(parts, brokers=5, demote=(1,))
    assert (plan.verdict, plan.cost.bytes) == (Verdict.BALANCED, 0)
    assert {(move.topic, move.target) for move in plan.moves} == {("a", 2), ("b", 3), ("c", 4)}


def test_the_partitions_of_a_request_change_before_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 3 sends 77 and must hold `a`, which it cannot lead: 5 more would pass 80. Broker 2 leads it.

    To hand `c` over to broker 2 instead takes as many moves, but the request does not concern `c`.
    """
    monkeypatch.setattr(trim, "MOST_CHANGES", 0)
    parts = [
        partition("a", 0, [1, 2], load=(0, 1, 1, 5)),
        partition("b", 0, [3], load=(0, 1, 1, 55)),
        partition("c", 0, [3, 2], load=(0, 1, 1, 22)),
    ]
    plan = planned(parts, drain=(1,))
    assert (plan.verdict, plan.cost.bytes) == (Verdict.BALANCED, 1)
    assert [(move.kind, move.topic, move.target) for move in plan.moves] == [
        (ReplicaMoveKind.LEADER, "a", 2),
        (ReplicaMoveKind.REPLICA, "a", 3),
    ]


def test_a_copy_for_theta_is_the_smallest_that_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 2 must lead `a` (50) and leads `b` (40), which no other broker holds: `b` of 2 is copied."""
    monkeypatch.setattr(trim, "MOST_CHANGES", 0)
    parts = [
        partition("a", 0, [1, 2], load=(0, 9, 9, 50)),
        partition("b", 0, [2], load=(0, 2, 2, 40)),
    ]
    plan = planned(parts, demote=(1,))
    assert (plan.verdict, plan.cost.bytes) == (Verdict.BALANCED, 2)


def test_a_copy_that_is_to_lead_crowds_no_rack() -> None:
    """Broker 4 lags, and 1 and 3 are to lead nothing: the leader goes from 1 to 2, in its rack.

    A copy on broker 2 in place of broker 4's would crowd rack x, and cost another copy.
    """
    there = [broker(b, rack=rack, capacity=FULL) for b, rack in enumerate("xxyy", 1)]
    parts = [partition("a", 0, [1, 4], in_sync=[1], load=(1, 5, 5, 5))]
    plan = planned(parts, there, demote=(1, 3))
    assert [(move.kind, move.source, move.target) for move in plan.moves] == [(ReplicaMoveKind.REPLICA, 1, 2)]
    assert (plan.verdict, plan.cost.bytes) == (Verdict.BALANCED, 5)


def test_a_demotion_elects_no_leader() -> None:
    """`b` has no leader: that is for another plan, as dead brokers are."""
    parts = [partition("a", 0, [1, 2]), partition("b", 0, [2, 3], leader=None)]
    plan = planned(parts, demote=(1,))
    assert plan.verdict is Verdict.BALANCED
    assert [move.topic for move in plan.moves] == ["a"]
    assert {move.topic for move in planned(parts, demote=(1,), fix_offline_replicas=True).moves} == {"a", "b"}


def test_an_excluded_topic_is_not_copied_for_a_leader() -> None:
    """`__c` has no leader, and broker 1, which alone holds it, may be given none."""
    parts = [partition("__c", 0, [1], leader=None), partition("a", 0, [2, 3])]
    closed: dict[str, Any] = {"excluded_topics": ("__*",), "excluded_brokers_for_leaders": (1,)}
    plan = planned(parts, fix_offline_replicas=True, **closed)
    assert plan.moves == ()
    assert told(plan, "leader").proof["partitions"] == 1


def test_requested_leaders_precede_those_that_make_space() -> None:
    """Three leaders of 20 go to broker 2 if its own of 30 goes to 3; of two moves both are of the request."""
    parts = [partition("a", p, [1, 2], load=(0, 1, 1, 20)) for p in range(3)]
    parts.append(partition("b", 0, [2, 3], load=(0, 1, 1, 30)))
    assert {move.topic for move in planned(parts, demote=(1,)).moves} == {"a", "b"}
    plan = planned(parts, demote=(1,), max_moves=2)
    assert [(move.topic, move.source, move.target) for move in plan.moves] == [("a", 1, 2), ("a", 1, 2)]
