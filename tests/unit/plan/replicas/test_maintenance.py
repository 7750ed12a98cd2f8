"""Brokers emptied, relieved of leaderships, filled, and repairs alone: every broker has 100 of everything."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.plan_checker import check
from support.random_snapshots import random_snapshot
from support.replica_clusters import broker, partition, snapshot
from tiers import by_tier
from trimtab.balancers import BALANCERS
from trimtab.balancers.planning import planner_of
from trimtab.balancers.settings import read_settings
from trimtab.files.replicas.plan import plan_bytes
from trimtab.files.replicas.snapshot import FORMAT
from trimtab.model.errors import PlanError
from trimtab.model.plan import Verdict
from trimtab.model.replicas.plan import Plan
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.replicas import trim
from trimtab_common.errors import SettingsError

FULL = (100.0,) * 4


def planned(partitions: list, brokers: int | list = 3, **settings: object) -> Plan:
    """A plan by `trim`."""
    there = [broker(b, capacity=FULL) for b in range(1, brokers + 1)] if isinstance(brokers, int) else brokers
    return trim.plan(snapshot(there, partitions), ReplicasSettings(**settings))  # type: ignore[arg-type]


def moved(plan: Plan) -> list[tuple]:
    """Kind, topic, source, target and goal of every move."""
    return [(m.kind.value, m.topic, m.source, m.target, m.reason.goal) for m in plan.moves]


def test_a_drained_broker_is_emptied_and_nothing_else_moves() -> None:
    """Broker 1 holds `a` as leader and `b` as follower; 3 is the only one that holds neither."""
    parts = [partition("a", 0, [1, 2]), partition("b", 0, [2, 1]), partition("c", 0, [2, 3])]
    plan = planned(parts, drain=(1,), fix_offline_replicas=True)
    assert plan.verdict == Verdict.BALANCED
    assert {a.topic: set(a.after) for a in plan.assignments} == {"a": {2, 3}, "b": {2, 3}}
    assert {goal for *_, goal in moved(plan)} == {"drain"}
    assert plan.settings["drain"] == [1]
    assert plan.settings["goals"] == ["rack", "host", "theta"]


def test_a_demoted_broker_leads_nothing_and_keeps_its_replicas() -> None:
    """Two of three partitions are led by broker 1: two hand-overs, no copy."""
    parts = [partition("a", 0, [1, 2]), partition("b", 0, [1, 3]), partition("c", 0, [2, 1])]
    plan = planned(parts, demote=(1,), fix_offline_replicas=True)
    assert plan.verdict == Verdict.BALANCED
    assert sorted(moved(plan)) == [("leader", "a", 1, 2, "demote"), ("leader", "b", 1, 3, "demote")]
    assert [(set(a.before), a.leader_after) for a in plan.assignments] == [({1, 2}, 2), ({1, 3}, 3)]


def test_a_leader_without_a_substitute_moves_with_its_replica() -> None:
    """The only replica of `a`, and a sibling out of sync of `b`: both need a copy that can lead."""
    parts = [partition("a", 0, [1]), partition("b", 0, [1, 2], in_sync=[1])]
    plan = planned(parts, demote=(1,), fix_offline_replicas=True)
    assert plan.verdict == Verdict.BALANCED
    assert {goal for *_, goal in moved(plan)} == {"demote"}
    assert [(1 in a.after, a.leader_after) for a in plan.assignments] in (
        [(False, 2), (True, 3)],
        [(False, 3), (True, 3)],
    )


def test_excluded_topics_that_stay_led_weigh_as_leaders() -> None:
    """Broker 1 is demoted, and the settings keep `a` there: it weighs as a leader does, and is counted."""
    asked: dict[str, Any] = {
        "excluded_topics": ("a",),
        "evacuate_excluded_topics": False,
        "fix_offline_replicas": True,
    }
    plan = planned([partition("a", 0, [1, 2])], demote=(1,), **asked)
    assert plan.verdict == Verdict.INCOMPLETE
    assert plan.predicted.after.peak_usage["network_out"] == 0.01


def test_a_demoted_leader_keeps_the_stand_in_that_was_made_for_it() -> None:
    """Leader 1 is second in its list and alone in sync: its role goes by way of a copy, and 2 cannot stay."""
    plan = planned([partition("a", 0, [2, 1], leader=1, in_sync=[1])], demote=(1,), fix_offline_replicas=True)
    assert plan.verdict == Verdict.BALANCED
    assert [(set(a.after), a.leader_after) for a in plan.assignments] == [({1, 3}, 3)]


def test_a_limit_that_leaves_leaders_in_place_is_reported() -> None:
    """One move is allowed, two leaderships are to be handed over."""
    parts = [partition("a", 0, [1, 2]), partition("b", 0, [1, 3])]
    plan = planned(parts, demote=(1,), fix_offline_replicas=True, max_moves=1)
    assert plan.verdict == Verdict.INCOMPLETE
    assert len(plan.moves) == 1
    assert {"goal": "demote", "partitions": 1, "cause": "limits"} in [p.proof for p in plan.problems]


def test_a_broker_that_cannot_be_relieved_is_proven() -> None:
    """Two brokers, both to lead nothing."""
    plan = planned([partition("a", 0, [1, 2])], brokers=2, demote=(1, 2), fix_offline_replicas=True)
    assert plan.verdict == Verdict.INFEASIBLE
    assert plan.moves == ()
    assert {"partitions": 1, "goal": "demote"} in [p.proof for p in plan.problems]


@pytest.mark.parametrize(("brokers", "limits"), [(2, {}), (3, {"max_moves": 0})])
def test_a_leader_that_stays_on_a_demoted_broker_is_not_counted_as_missing(
    brokers: int, limits: dict
) -> None:
    """Broker 1 still leads `a`: no other broker may lead it, or the plan may make no move."""
    demoted = (1, 2) if brokers == 2 else (1,)
    plan = planned([partition("a", 0, [1, 2])], brokers=brokers, demote=demoted, **limits)
    assert plan.moves == ()
    assert {p.proof["goal"] for p in plan.problems if "goal" in p.proof} == {"demote"}
    assert "no_leader" not in {p.kind for p in plan.problems}


def test_copies_go_to_the_brokers_that_are_added_alone() -> None:
    """80, 30, 0 and 0 in parts of 10: 1 and 4 meet halfway, and 3 stays empty without a request."""
    parts = [partition(f"a{n}", 0, [1], load=(0, 10, 0, 0)) for n in range(8)]
    parts += [partition(f"b{n}", 0, [2], load=(0, 10, 0, 0)) for n in range(3)]
    free = planned(parts, brokers=4)
    assert {m.target for m in free.moves} == {3, 4}
    plan = planned(parts, brokers=4, add=(4,))
    assert {(m.target, m.reason.goal) for m in plan.moves} == {(4, "add")}
    assert sum(m.bytes for m in plan.moves) == 40


def test_a_drained_replica_moves_anywhere_while_a_broker_is_filled() -> None:
    """Broker 1 is drained; 4, in the rack that `a` has already, cannot take its replica."""
    there = [broker(b, rack=rack, capacity=FULL) for b, rack in ((1, "x"), (2, "y"), (3, "x"), (4, "y"))]
    plan = planned([partition("a", 0, [1, 2])], brokers=there, drain=(1,), add=(4,), goals=("rack", "host"))
    assert [a.after for a in plan.assignments] == [(3, 2)]


def test_repairs_alone_balance_nothing() -> None:
    """80 and 0 stay; the partition without leader gets one."""
    parts = [partition("a", 0, [1], load=(0, 80, 0, 0)), partition("b", 0, [1, 2], leader=None)]
    plan = planned(parts, fix_offline_replicas=True)
    assert plan.verdict == Verdict.BALANCED
    assert [(kind, topic, goal) for kind, topic, *_, goal in moved(plan)] == [("leader", "b", "offline")]


def test_repairs_alone_fill_no_disk_above_theta() -> None:
    """Broker 1 is dead with 30; 3 is the only one to take it and holds 60, and 80 is the most."""
    there = [broker(b, state="dead" if b == 1 else "alive", capacity=FULL) for b in (1, 2, 3)]
    parts = [partition("a", 0, [1, 2], leader=2, in_sync=[2], load=(0, 30, 0, 0))]
    parts.append(partition("b", 0, [3], load=(0, 60, 0, 0)))
    plan = planned(parts, brokers=there, fix_offline_replicas=True)
    assert plan.moves == ()
    assert plan.verdict == Verdict.INCOMPLETE


def test_repairs_alone_keep_racks() -> None:
    """Broker 1 is dead; 3 shares the rack of what is left; 4 gets it, though it holds more."""
    there = [
        broker(b, rack=rack, state="dead" if b == 1 else "alive", capacity=FULL)
        for b, rack in ((1, "x"), (2, "y"), (3, "y"), (4, "x"))
    ]
    parts = [partition("a", 0, [1, 2], leader=2, in_sync=[2]), partition("b", 0, [4], load=(9.0,) * 4)]
    plan = planned(parts, brokers=there, fix_offline_replicas=True)
    assert [set(a.after) for a in plan.assignments] == [{2, 4}]


def test_a_dead_broker_that_is_to_be_emptied_stays_dead() -> None:
    """Broker 1 died as the leader: it cannot transfer the role, so nothing waits for it."""
    there = [broker(b, state="dead" if b == 1 else "alive", capacity=FULL) for b in (1, 2, 3)]
    plan = planned(
        [partition("a", 0, [1, 2], in_sync=[2])], brokers=there, drain=(1,), fix_offline_replicas=True
    )
    assert moved(plan) == [("leader", "a", None, 2, "offline"), ("replica", "a", 1, 3, "offline")]


@pytest.mark.parametrize("state", ["no_new_replicas", "draining", "no_leaders"])
def test_a_broker_that_is_filled_is_open_whatever_it_was(state: str) -> None:
    """Closed, drained or demoted in the snapshot: `add` opens the broker."""
    there = [broker(1, capacity=FULL), broker(2, state=state, capacity=FULL)]
    parts = [partition(f"a{n}", 0, [1], load=(10,) * 4) for n in range(4)]
    plan = planned(parts, brokers=there, add=(2,))
    assert plan.verdict == Verdict.BALANCED
    assert {m.target for m in plan.moves} == {2}
    assert len(plan.moves) == 2


def test_an_excluded_broker_is_not_filled() -> None:
    """Broker 3 is to be filled, and to be given no replicas: the exclusion holds."""
    parts = [partition(f"a{n}", 0, [1], load=(10,) * 4) for n in range(4)]
    plan = planned(parts, add=(2, 3), excluded_brokers_for_replicas=(3,))
    assert {m.target for m in plan.moves} == {2}


def test_a_broker_without_leaders_is_not_relieved() -> None:
    """`a` has no leader, and the last broker is to lead nothing: broker 1 leads it, for it was offline."""
    plan = planned([partition("a", 0, [1, 3], leader=None)], demote=(3,), fix_offline_replicas=True)
    assert moved(plan) == [("leader", "a", None, 1, "offline")]


def test_repairs_alone_leave_healthy_partitions_in_place() -> None:
    """A cluster on which random changes found it cheaper to trade places with healthy partitions."""
    document = random_snapshot(2074)
    read = FORMAT.from_json(Path("random.json"), json.dumps(document).encode(), "0" * 64)
    demoted = [row["id"] for row in document["brokers"] if row["state"] != "dead"][2074 % 3]
    plan = trim.plan(read, ReplicasSettings(demote=(demoted,), fix_offline_replicas=True))
    assert check(document, json.loads(plan_bytes(plan))) == []


@pytest.mark.parametrize("name", ["drain", "demote", "add"])
def test_a_broker_that_is_not_there_is_refused(name: str) -> None:
    """Broker 9 is in no snapshot; nor is one filled that is dead."""
    with pytest.raises(PlanError, match=rf"^{name}: broker 9 is not in the snapshot .* knows 1, 2, 3; "):
        planned([partition("a", 0, [1])], **dict[str, Any]({name: (9,)}))
    there = [broker(1, capacity=FULL), broker(2, state="dead", capacity=FULL)]
    with pytest.raises(PlanError, match="^add: broker 2 is dead"):
        planned([partition("a", 0, [1])], brokers=there, add=(2,))


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("excluded_topics", ("__consumer_offset",), "no topic __consumer_offset; .*mean __consumer_offsets"),
        ("balanced_topics", ("nope",), "no topic nope; .*correct the name or take it out"),
        ("excluded_brokers_for_leaders", (42,), "no broker 42; it has 1, 2, 3"),
        ("excluded_brokers_for_replicas", (42,), "no broker 42; it has 1, 2, 3"),
    ],
)
@pytest.mark.parametrize("strategy", BALANCERS["replicas"].planners)
def test_a_name_that_meets_nothing_is_refused(strategy: str, name: str, value: tuple, told: str) -> None:
    """An exclusion with a slip would exclude nothing, and what it is to keep would move."""
    made = snapshot(
        [broker(b, capacity=FULL) for b in (1, 2, 3)], [partition("__consumer_offsets", 0, [1, 2])]
    )
    planner = planner_of(BALANCERS["replicas"], strategy)
    with pytest.raises(PlanError, match=f"replicas.{name}: the snapshot of .* has {told}"):
        planner(made, ReplicasSettings(**dict[str, Any]({name: value})))


def test_a_pattern_may_meet_nothing() -> None:
    """`__*` is right for clusters that have such topics and for those that have none."""
    plan = planned([partition("a", 0, [1, 2])], excluded_topics=("__*", "x[0-9]", "y?"))
    assert plan.settings["excluded_topics"] == ["__*", "x[0-9]", "y?"]


def test_a_broker_has_one_part() -> None:
    """Emptied or filled, not both."""
    with pytest.raises(SettingsError, match="each broker once, in one of drain, demote and add"):
        read_settings(None, ["replicas.drain=1,2", "replicas.add=2"], {})


ASKED = (
    ("drain",),
    ("demote",),
    ("add",),
    ("drain", "add"),
    ("demote", "fix_offline_replicas"),
    ("fix_offline_replicas",),
)


@pytest.mark.parametrize("strategy", BALANCERS["replicas"].planners)
@pytest.mark.parametrize("seed", range(by_tier(6, 24, 24)))
def test_a_plan_keeps_its_promises(seed: int, strategy: str) -> None:
    """Checked independently on random clusters, with the settings in the plan."""
    document = random_snapshot(seed)
    alive = [b["id"] for b in document["brokers"] if b["state"] != "dead"]
    named = iter(alive[seed % 3 :] + alive)
    words = [
        f"replicas.{n}={'true' if n == 'fix_offline_replicas' else next(named)}"
        for n in ASKED[seed % len(ASKED)]
    ]
    read = FORMAT.from_json(Path("random.json"), json.dumps(document).encode(), "0" * 64)
    settings = read_settings(None, [f"replicas.strategy={strategy}", *words], {}).balancers["replicas"]
    plan = planner_of(BALANCERS["replicas"], strategy)(read, settings)
    assert check(document, json.loads(plan_bytes(plan))) == []
