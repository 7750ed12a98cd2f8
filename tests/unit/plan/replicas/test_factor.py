"""Another replication factor: replicas added and dropped, by hand; every broker has 100 of everything."""

import json
from pathlib import Path

import pytest

from support.plan_checker import check
from support.random_snapshots import random_snapshot
from support.replica_clusters import broker, partition, snapshot
from trimtab.balancers import BALANCERS
from trimtab.balancers.balancer import setting_overrides
from trimtab.balancers.planning import planner_of
from trimtab.balancers.replicas import PLAN_OPTIONS
from trimtab.balancers.replicas.replay import replayed
from trimtab.balancers.settings import read_settings
from trimtab.files.replicas.plan import plan_bytes, plan_from
from trimtab.files.replicas.snapshot import FORMAT
from trimtab.model.errors import PlanError
from trimtab.model.plan import Verdict
from trimtab.model.replicas.plan import Plan, ReplicaMoveKind
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.replicas import role_aware, trim
from trimtab_common.errors import InputError, SettingsError

FULL = (100.0,) * 4
BIG = (1.0, 30.0, 1.0, 1.0)


def planned(partitions: list, brokers: int | list = 4, **settings: object) -> Plan:
    """A plan by `trim`."""
    there = [broker(b, capacity=FULL) for b in range(1, brokers + 1)] if isinstance(brokers, int) else brokers
    return trim.plan(snapshot(there, partitions), ReplicasSettings(**settings))  # type: ignore[arg-type]


def moved(plan: Plan) -> list[tuple]:
    """Kind, partition, source and target of every move."""
    return [(m.kind.value, f"{m.topic}-{m.partition}", m.source, m.target) for m in plan.moves]


def test_an_added_replica_is_put_on_the_broker_that_it_balances_best() -> None:
    """Broker 3 holds 30 of 100, broker 4 nothing; `b` could be balanced, without such a request."""
    parts = [partition("a", 0, [1, 2], load=(1.0, 5.0, 1.0, 1.0)), partition("b", 0, [3], load=BIG)]
    plan = planned(parts, replication_factor={"a": 3})
    assert moved(plan) == [("add", "a-0", None, 4)]
    assert [(a.before, a.after, a.leader_after) for a in plan.assignments] == [((1, 2), (1, 2, 4), 1)]
    assert (plan.verdict, plan.settings["goals"]) == (Verdict.BALANCED, ["rack", "host", "theta"])
    assert (plan.cost.bytes, plan.cost.added_replicas, plan.cost.replica_moves, plan.bound.bytes) == (
        5,
        1,
        0,
        4,
    )
    reason = plan.moves[0].reason
    assert (reason.goal, reason.broker, reason.before, reason.after, reason.limit) == (
        *("replication_factor", 4),
        *(2.0, 3.0, 3.0),
    )
    moved_partition = f"{plan.moves[0].topic}-{plan.moves[0].partition}"
    assert reason.text.startswith(
        f"{moved_partition} has 2 of 3 replicas; adds one on broker 4 (disk 0.0% -> 5.0%)"
    )


def test_racks_precede_balanced_loads() -> None:
    """Racks r1 (1, 2), r2 (3, 4), r3 (5): the third replica goes to 5, which is the fullest."""
    brokers = [broker(b, rack=f"r{(b + 1) // 2}", capacity=FULL) for b in range(1, 6)]
    parts = [partition("a", 0, [1, 3]), partition("b", 0, [5], load=BIG)]
    plan = planned(parts, brokers, replication_factor={"a": 3})
    assert moved(plan) == [("add", "a-0", None, 5)]
    assert "2 for rack or host spread" in plan.moves[0].reason.text


def test_an_added_replica_prefers_free_disk_space_over_a_new_rack() -> None:
    """Broker 3, alone in rack r2, is 75 % full and the replica takes 10: it would pass θ = 80 %."""
    brokers = [
        *(broker(b, rack="r1", capacity=FULL) for b in (1, 2)),
        broker(3, rack="r2", capacity=FULL),
    ]
    load = (1.0, 10.0, 1.0, 1.0)
    parts = [partition("a", 0, [1], load=load), partition("b", 0, [3], load=(1.0, 75.0, 1.0, 1.0))]
    plan = planned(parts, brokers, replication_factor={"a": 2})
    assert moved(plan) == [("add", "a-0", None, 2)]
    assert (plan.verdict, [p.kind for p in plan.problems]) == (Verdict.INCOMPLETE, ["unmet_goal"])
    assert plan.problems[0].proof == {"partitions": 1, "goal": "rack"}


def test_the_mean_to_be_near_is_that_of_all_replicas_to_be_added() -> None:
    """Six partitions of broker 1 get a second replica each: two on every other broker, none twice."""
    plan = planned([partition("a", n, [1]) for n in range(6)], replication_factor={"a": 2})
    assert sorted(m.target for m in plan.moves) == [2, 2, 3, 3, 4, 4]


def test_replicas_are_dropped_in_the_order_offline_lagging_best_balance() -> None:
    """Of `dead` the dead broker's replica goes, of `lags` the one out of sync, of `full` the fullest's."""
    brokers = [broker(b, capacity=FULL) for b in (1, 2, 3)] + [broker(4, capacity=FULL, state="dead")]
    parts = [
        partition("dead", 0, [1, 2, 4], load=(0.0, 1.0, 0.0, 0.0)),
        partition("full", 0, [1, 2, 3]),
        partition("lags", 0, [1, 3, 2], in_sync=[1, 3]),
        partition("more", 0, [2], load=(1.0, 50.0, 1.0, 1.0)),
        partition("most", 0, [3], load=(1.0, 60.0, 1.0, 1.0)),
    ]
    plan = planned(parts, brokers, replication_factor={"dead": 2, "full": 2, "lags": 2})
    assert sorted(moved(plan)) == [
        ("drop", "dead-0", 4, 4),
        ("drop", "full-0", 3, 3),
        ("drop", "lags-0", 2, 2),
    ]
    texts = {move.topic: move.reason.text for move in plan.moves}
    assert "has 3 of 2 replicas; drops that of broker 4, which is dead" in texts["dead"]
    assert "drops that of broker 2, which is not in sync" in texts["lags"]
    assert "drops that of broker 3, which can spare it best (disk 62.0% -> 61.0%)" in texts["full"]
    assert (plan.cost.bytes, plan.cost.dropped_replicas, plan.bound.bytes) == (0, 3, 0)


def test_a_lagging_replica_is_dropped_though_another_would_balance_better() -> None:
    """Broker 3, in sync, is the fullest by far; broker 2 is behind."""
    parts = [partition("lags", 0, [1, 3, 2], in_sync=[1, 3]), partition("most", 0, [3], load=BIG)]
    plan = planned(parts, 3, replication_factor={"lags": 2})
    assert moved(plan) == [("drop", "lags-0", 2, 2)]
    in_step = [partition("lags", 0, [1, 3, 2]), parts[1]]
    assert moved(planned(in_step, 3, replication_factor={"lags": 2})) == [("drop", "lags-0", 3, 3)]


def test_racks_decide_which_replica_is_dropped() -> None:
    """Brokers 1 and 2 share a rack: 3 stays, though it is the fullest, and so does the leader, 1."""
    brokers = [broker(b, rack="r1" if b < 3 else "r2", capacity=FULL) for b in (1, 2, 3)]
    parts = [partition("a", 0, [1, 2, 3]), partition("b", 0, [3], load=BIG)]
    assert moved(planned(parts, brokers, replication_factor={"a": 2})) == [("drop", "a-0", 2, 2)]


def test_a_leader_hands_over_before_its_replica_is_dropped() -> None:
    """Broker 1 leads and is to be emptied: its replica goes first, once 2, which is in sync, leads."""
    brokers = [broker(1, capacity=FULL, state="draining"), *(broker(b, capacity=FULL) for b in (2, 3))]
    plan = planned([partition("a", 0, [1, 2, 3], in_sync=[1, 2])], brokers, replication_factor={"a": 2})
    assert moved(plan) == [("leader", "a-0", 1, 2), ("drop", "a-0", 1, 1)]
    assert [(a.after, a.leader_after) for a in plan.assignments] == [((2, 3), 2)]
    assert plan.moves[0].reason.text == (
        "the replica of broker 1, which leads, is dropped (move 2); moves leader of a-0 to broker 2, which "
        "is in sync"
    )


def test_a_leader_on_a_broker_above_theta_hands_over_too() -> None:
    """Broker 1 sends 90 of 100, and would send 40 without the partition; 2 and 3 send nothing."""
    load = (1.0, 1.0, 1.0, 50.0)
    parts = [partition("a", 0, [1, 2, 3], load=load), partition("b", 0, [1], load=(1.0, 1.0, 1.0, 40.0))]
    plan = planned(parts, 3, replication_factor={"a": 2})
    assert moved(plan) == [("leader", "a-0", 1, 2), ("drop", "a-0", 1, 1)]


def test_the_last_replica_in_sync_is_never_dropped() -> None:
    """Broker 1 is to be emptied, leads, and is alone in sync: the others go, lagging as they are."""
    brokers = [broker(1, capacity=FULL, state="draining"), *(broker(b, capacity=FULL) for b in (2, 3))]
    plan = planned([partition("a", 0, [1, 2, 3], in_sync=[1])], brokers, replication_factor={"a": 1})
    assert sorted(moved(plan)) == [("drop", "a-0", 2, 2), ("drop", "a-0", 3, 3)]


def test_the_last_in_sync_stays_though_it_does_not_lead() -> None:
    """A snapshot may have a leader that is not in sync: 2 is, and may not lead, so one is too few."""
    brokers = [
        broker(1, capacity=FULL),
        broker(2, capacity=FULL, state="no_leaders"),
        broker(3, capacity=FULL),
    ]
    plan = planned([partition("a", 0, [1, 2, 3], in_sync=[2])], brokers, replication_factor={"a": 1})
    assert (plan.moves, plan.verdict) == ((), Verdict.INCOMPLETE)
    assert plan.problems[0].proof == {"partitions": 1, "goal": "replication_factor"}


def test_without_any_replica_in_sync_nothing_is_copied_and_nothing_dropped() -> None:
    """Both brokers that held it in sync are dead: what is left is all there is."""
    brokers = [broker(b, capacity=FULL) for b in (1, 2)] + [broker(3, capacity=FULL, state="dead")]
    part = partition("a", 0, [3, 1], leader=None, in_sync=[3])
    for factor in (1, 3):
        plan = planned([part], brokers, replication_factor={"a": factor})
        assert (plan.moves, plan.verdict) == ((), Verdict.INFEASIBLE)
        assert plan.problems[0].proof == {"partitions": 1, "online_in_sync_copies": 0}


def test_more_replicas_than_brokers_is_infeasible_with_proof_and_choices() -> None:
    """Of five brokers one is dead and one takes nothing: three may hold it; `b` is served all the same."""
    brokers = [broker(b, capacity=FULL) for b in (1, 2, 3)]
    brokers += [broker(4, capacity=FULL, state="dead"), broker(5, capacity=FULL, state="no_new_replicas")]
    parts = [partition("a", 0, [1, 2]), partition("b", 0, [1])]
    plan = planned(parts, brokers, replication_factor={"a": 5, "b": 2})
    assert plan.verdict == Verdict.INFEASIBLE
    (problem,) = plan.problems
    assert (problem.kind, problem.count) == ("add_brokers", 2)
    assert problem.proof == {
        "partitions": 1,
        "replication_factor": 5,
        "brokers_that_may_hold_them": 3,
        "choices": {"add_brokers": {"count": 2}, "ask_for": {"replication_factor": 3}},
    }
    assert [(kind, name) for kind, name, *_ in moved(plan)] == [("add", "b-0")]


def test_too_little_room_on_all_disks_is_proven() -> None:
    """Two partitions of 30 on brokers 1 and 2, 60 on 3: 50, 50 and 20 free below θ; three times
    60 requested.
    """
    parts = [partition("a", n, [1 + n % 2], load=BIG) for n in range(2)]
    parts += [partition("b", 0, [3], load=(1.0, 60.0, 1.0, 1.0))]
    plan = planned(parts, 3, replication_factor={"a": 3, "b": 2})
    assert plan.verdict == Verdict.INFEASIBLE
    problem = next(p for p in plan.problems if p.resource == "disk")
    assert problem.kind == "add_brokers"
    assert problem.proof["needed_bytes"] == pytest.approx(2 * 2 * 30 + 60)
    assert problem.proof["free_bytes"] == pytest.approx(50 + 50 + 20, rel=1e-6)
    assert problem.count == 1
    assert all(usage <= 0.8 for usage in plan.predicted.after.peak_usage.values())


def test_the_byte_limit_leaves_whole_partitions_out() -> None:
    """Each of three partitions takes two copies of 30: with 70 bytes one of them is served."""
    parts = [partition("a", n, [1], load=BIG) for n in range(1)]
    parts += [partition("a", n, [2], load=(1.0, 1.0, 1.0, 1.0)) for n in (1, 2)]
    plan = planned(parts, replication_factor={"a": 3}, max_bytes=10)
    assert {len(a.after) for a in plan.assignments} == {3}
    assert {a.partition for a in plan.assignments} == {1, 2}
    assert [p.kind for p in plan.problems] == ["limit_reached", "unmet_goal"]


def test_a_topics_own_name_precedes_patterns_and_excluded_topics_stay() -> None:
    """`*` asks for two, `orders` for three; `__offsets` is excluded."""
    parts = [partition(topic, 0, [1]) for topic in ("__offsets", "clicks", "orders")]
    plan = planned(parts, replication_factor={"*": 2, "orders": 3}, excluded_topics=("__*",))
    assert {a.topic: len(a.after) for a in plan.assignments} == {"clicks": 2, "orders": 3}


@pytest.mark.parametrize(
    ("asked", "settings", "error"),
    [
        ({"none": 2}, {}, "no topic of the snapshot of 2026-01-01T00:00:00Z is called none"),
        ({"a": 2}, {"excluded_topics": ("a",)}, "topic a is excluded"),
        ({"a*": 2, "*a": 3}, {}, r"of topic a a\* asks 2 and \*a asks 3"),
    ],
)
def test_contradictory_replication_factors_are_rejected(asked: dict, settings: dict, error: str) -> None:
    """A name that is not there, one that is excluded, and two patterns that disagree."""
    with pytest.raises(PlanError, match=error):
        planned([partition("a", 0, [1])], replication_factor=asked, **settings)


def test_role_aware_knows_no_other_replication_factor() -> None:
    """The source's procedure moves what is there."""
    there = snapshot([broker(1), broker(2)], [partition("a", 0, [1])])
    with pytest.raises(PlanError, match="role_aware adds and drops no replicas"):
        role_aware.plan(there, ReplicasSettings(replication_factor={"a": 2}))


def test_a_replay_adds_and_drops_no_replicas() -> None:
    """It would plan the same again at every step."""
    given = {"settings": None, "set": ["replicas.replication_factor={a = 2}"], "master": "local[1]"}
    with pytest.raises(SettingsError, match="a replay adds and drops no replicas"):
        replayed(given)


def test_topics_with_the_requested_factor_are_balanced() -> None:
    """No moves, no problems."""
    plan = planned([partition("a", 0, [1, 2])], replication_factor={"*": 2})
    assert (plan.verdict, plan.moves, plan.assignments) == (Verdict.BALANCED, (), ())


def test_the_option_is_a_table_of_the_settings() -> None:
    """Names with dots and patterns too; given again, it is one more row; both forms read alike."""
    given = {"replication_factor": ["eu.orders=3", "a*=2"]}
    words = setting_overrides(PLAN_OPTIONS, given)
    asked = read_settings(None, words, {}).balancers["replicas"].replication_factor
    assert asked == {"eu.orders": 3, "a*": 2}


@pytest.mark.parametrize("word", ["orders", "orders=", "=3", "orders=three", "orders=-1"])
def test_a_word_that_is_no_name_with_a_number_is_refused(word: str) -> None:
    """With the form that is expected."""
    with pytest.raises(SettingsError, match="expected NAME=NUMBER, like orders=3"):
        setting_overrides(PLAN_OPTIONS, {"replication_factor": [word]})


def test_a_topic_named_twice_is_refused() -> None:
    """Unless both ask the same."""
    with pytest.raises(SettingsError, match="a was given 2 before"):
        setting_overrides(PLAN_OPTIONS, {"replication_factor": ["a=2", "a=3"]})


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (['{"a" = 0}'], "numbers of replicas above 0"),
        (['{"a" = 2}', "replicas.drain=5"], "none beside drain"),
        (['{"a" = 2}', "replicas.intra_broker_only=true"], "none beside intra_broker_only"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(words: list[str], error: str) -> None:
    """One plan for each."""
    with pytest.raises(SettingsError, match=error):
        read_settings(None, [f"replicas.replication_factor={words[0]}", *words[1:]], {})


def test_plans_without_it_do_not_name_it() -> None:
    """The bytes of other plans are as they were."""
    told = json.loads(plan_bytes(planned([partition("a", 0, [1, 2])])))
    assert "replication_factor" not in told["settings"]
    assert not {"x_added_replicas", "x_dropped_replicas"} & set(told["cost"])


def test_a_plan_file_states_added_and_dropped_replicas_and_reads_back() -> None:
    """And one whose moves do not fit its lists is refused."""
    parts = [partition("a", 0, [1]), partition("b", 0, [1, 2, 3])]
    plan = planned(parts, replication_factor={"a": 2, "b": 2})
    data = plan_bytes(plan)
    assert plan_from(Path("plan.json"), data) == plan
    told = json.loads(data)
    assert told["cost"]["x_added_replicas"] == told["cost"]["x_dropped_replicas"] == 1
    broken = [
        ("add", "source", 2, r"source is 2, expected null"),
        ("add", "target", 1, r"target is 1, expected none of \[1\]"),
        ("drop", "target", 1, r"source is \d, expected 1"),
    ]
    for kind, field, value, error in broken:
        other = json.loads(data)
        next(move for move in other["moves"] if move["kind"] == kind)[field] = value
        with pytest.raises(InputError, match=error):
            plan_from(Path("plan.json"), json.dumps(other).encode())


FACTORS = ('{"*" = 3}', '{"*" = 1}', '{"*" = 2, "t0" = 4}')


@pytest.mark.parametrize("seed", range(18))
def test_any_cluster_gets_a_sound_plan(seed: int) -> None:
    """The independent checker finds no error with dead, full, crowded, offline or excluded parts."""
    document = random_snapshot(seed)
    drawn = FORMAT.from_json(Path("random.json"), json.dumps(document).encode(), "0" * 64)
    words = [f"replicas.replication_factor={FACTORS[seed % 3]}"]
    words += [[], ["replicas.excluded_topics=t1*"], ["replicas.max_moves=6"]][seed % 9 // 3]
    settings = read_settings(None, words, {}).balancers["replicas"]
    plan = planner_of(BALANCERS["replicas"], "trim")(drawn, settings)
    assert check(document, json.loads(plan_bytes(plan))) == []
    assert {move.kind for move in plan.moves} <= {
        ReplicaMoveKind.ADD,
        ReplicaMoveKind.DROP,
        ReplicaMoveKind.LEADER,
    }
