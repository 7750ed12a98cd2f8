"""Goals per topic: examples worked out by hand, and trades held against whole placements."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.plan_checker import check
from support.replica_clusters import broker, partition, snapshot, snapshots
from trimtab.balancers.settings import read_settings
from trimtab.files.replicas.plan import FORMAT as PLAN
from trimtab.files.replicas.plan import plan_bytes
from trimtab.files.replicas.snapshot import write_snapshot
from trimtab.model.errors import PlanError
from trimtab.model.goals import goal_status
from trimtab.model.plan import Verdict
from trimtab.model.replicas.plan import Plan
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.model.replicas.topics import topic_goals
from trimtab.plan.replicas.arrays import Placement
from trimtab.plan.replicas.board import (
    SPREAD,
    ReplicasBoard,
    burden,
    give_lead_interpreted,
    may_move,
    move_interpreted,
    outcome,
    topic_potential,
    topic_table,
)
from trimtab.plan.replicas.problem import problem_data
from trimtab.plan.replicas.trim import board_of, plan
from trimtab.plan.search.compiled import entry
from trimtab.report.replicas.renderer import plan_text
from trimtab.report.status_text import secondary_violation_text
from trimtab_common.errors import SettingsError

EVEN = (0.1, 1.0, 1.0, 1.0)
ALL = ("topic_replicas", "topic_leaders", "min_leaders_per_topic")


def two_topics() -> ReplicasSnapshot:
    """Brokers 1 and 2 hold the six partitions of `a`, 2 and 3 those of `b`, led by the first of each pair."""
    rows = [partition("a", i, [1, 2], load=EVEN) for i in range(6)]
    rows += [partition("b", i, [2, 3], load=EVEN) for i in range(6)]
    return snapshot([broker(1), broker(2), broker(3)], rows)


def leaders(asked: ReplicasSnapshot, found: Plan, topic: str) -> dict[int | None, int]:
    """Partitions of a topic that each broker leads after the plan."""
    parts, ids = asked.partitions, asked.brokers.id.tolist()
    after = {
        (parts.topics[t], number): ids[leader]
        for t, number, leader in zip(parts.topic, parts.number.tolist(), parts.leader.tolist(), strict=True)
    }
    after |= {(row.topic, row.partition): row.leader_after for row in found.assignments}
    return Counter(leader for (name, _), leader in after.items() if name == topic)


def test_replicas_of_every_topic_are_evened() -> None:
    """Twelve replicas of each topic, six on two brokers each: four on each of three, so four are copied."""
    found = plan(two_topics(), ReplicasSettings(goals=("topic_replicas",)))
    assert found.verdict is Verdict.BALANCED
    assert found.cost.replica_moves == 8
    assert {move.reason.goal for move in found.moves} == {"topic_replicas"}
    assert found.topics is not None
    (missed,) = found.topics.values()
    assert (missed.topics, missed.before, missed.after) == (2, 2, 0)
    first = next(move.reason for move in found.moves if move.kind == "replica" and move.topic == "a")
    assert first.resource is None
    copies = [m.reason for m in found.moves if m.topic == "a" and m.reason.text.startswith("broker 3 holds")]
    assert [(one.before, one.after) for one in copies] == [(n, n + 1) for n in range(len(copies))]
    assert len(copies) > 2
    assert first.text.startswith(
        "broker 3 holds 0 replicas of topic a, limit 4; moves leading replica of a-0 from broker 1 to "
        "broker 3 (0 -> 1, broker 1 6 -> 5)"
    )
    assert "topic replicas       2          2      0" in plan_text(found)


def test_leaders_of_a_topic_are_evened_without_a_copy() -> None:
    """Brokers 1, 2, 3 hold six partitions, all led by 1: two each after four transfers."""
    asked = snapshot(
        [broker(1), broker(2), broker(3)], [partition("t", i, [1, 2, 3], load=EVEN) for i in range(6)]
    )
    found = plan(asked, ReplicasSettings(goals=("topic_leaders",)))
    assert (found.verdict, found.cost.bytes, found.cost.leader_moves) == (Verdict.BALANCED, 0, 4)
    assert leaders(asked, found, "t") == {1: 2, 2: 2, 3: 2}
    assert {move.reason.goal for move in found.moves} == {"topic_leaders"}


def test_a_copy_that_makes_a_leader_has_that_reason() -> None:
    """Broker 3 holds nothing of `a` and is to lead two of it: two copies, and why."""
    wanted = ReplicasSettings(goals=("min_leaders_per_topic",), min_leaders_per_topic={"a": 2})
    found = plan(two_topics(), wanted)
    assert found.verdict is Verdict.BALANCED
    assert leaders(two_topics(), found, "a") == {1: 2, 2: 2, 3: 2}
    assert {move.reason.goal for move in found.moves} == {"min_leaders_per_topic"}
    copy = next(move for move in found.moves if move.kind == "replica")
    assert copy.reason.text.startswith(f"broker 3 is to lead a-{copy.partition} (move ")
    assert f"and holds no replica; moves replica of a-{copy.partition} from broker " in copy.reason.text
    assert found.settings["min_leaders_per_topic"] == {"a": 2}
    assert found.topics is not None
    assert {goal: one.topics for goal, one in found.topics.items()} == {"min_leaders_per_topic": 1}


def test_brokers_above_the_minimum_of_leaders_stay_unchanged() -> None:
    """4, 1 and 1 of six, with a minimum of one each."""
    rows = [partition("t", i, [b], load=EVEN) for i, b in enumerate([1, 1, 1, 1, 2, 3])]
    wanted = ReplicasSettings(goals=("min_leaders_per_topic",), min_leaders_per_topic={"t": 1})
    assert plan(snapshot([broker(1), broker(2), broker(3)], rows), wanted).verdict is Verdict.BALANCED


@pytest.mark.parametrize(
    ("counts", "epsilon", "band"),
    [
        ([20, 20, 20], 0.1, (18, 22)),  # ε of the mean
        ([2, 3, 3], 0.1, (2, 3)),  # the numbers next to the mean
        ([1, 0, 0], 0.1, (0, 1)),
        ([2, 2, 2], 0.1, (2, 2)),  # a whole mean is the only number within less than one of itself
        ([9, 10, 12], 0.3, (8, 13)),  # mean 10.33: 7.23 to 13.43
    ],
)
def test_the_band_of_a_topic(counts: list[int], epsilon: float, band: tuple[int, int]) -> None:
    """ε around the mean, and never less than the whole numbers next to it."""
    held = [1 + b for b, number in enumerate(counts) for _ in range(number)]
    rows = [partition("t", i, [b], load=EVEN) for i, b in enumerate(held)]
    wanted = ReplicasSettings(goals=("topic_replicas", "topic_leaders"), count_epsilon=epsilon)
    asked = snapshot([broker(1), broker(2), broker(3)], rows)
    topics = topic_goals(asked, wanted)
    assert topics is not None
    tally = topics.counts(asked.partitions.replicas, asked.partitions.leader)
    assert tally.tolist() == [[[number, number] for number in counts]]
    assert topics.band(tally).tolist() == [[list(band), list(band)]]


def test_brokers_that_must_not_receive_or_lead_are_not_counted() -> None:
    """Broker 3 leads nothing, 4 gets nothing: replicas are evened over 1, 2 and 3, leaders over 1 and 2."""
    states = ["alive", "alive", "no_leaders", "no_new_replicas"]
    asked = snapshot(
        [broker(b, state=state) for b, state in enumerate(states, 1)],
        [partition("t", i, [1], load=EVEN) for i in range(6)],
    )
    topics = topic_goals(asked, ReplicasSettings(goals=("topic_replicas",)))
    assert topics is not None
    assert topics.counted.tolist() == [[True, True], [True, True], [True, False], [False, False]]
    found = plan(asked, ReplicasSettings(goals=("topic_replicas",)))
    after = Counter(row.after[0] for row in found.assignments)
    assert (found.verdict, after[3], after[4]) == (
        Verdict.IMPROVED,
        0,
        0,
    )  # with one replica each, 3 would lead
    both = plan(asked, ReplicasSettings(goals=("topic_leaders",)))
    assert both.verdict is Verdict.BALANCED
    assert leaders(asked, both, "t") == {1: 3, 2: 3}
    problem = problem_data(asked, ReplicasSettings(goals=("topic_replicas",)))
    board = board_of(problem, problem.initial_placement, 1.0)
    # The mean of three is 2: broker 1 has 4 too many, 2 and 3 lack 2 each, and nobody asks what 4 has.
    assert board.potentials[:, SPREAD] * 100 == pytest.approx([16, 4, 4, 0], abs=1e-6)


@entry
def _burdens(g, out):
    for b in range(len(out)):
        out[b] = burden(g, b)


def test_topics_burden_a_broker_as_its_load_does() -> None:
    """The first broker of the descent: 5, 1 and 0 of six, with 2 each required, and no load."""
    rows = [partition("t", i, [b], load=EVEN) for i, b in enumerate([1, 1, 1, 1, 1, 2])]
    problem = problem_data(
        snapshot([broker(1), broker(2), broker(3)], rows), ReplicasSettings(goals=("topic_replicas",))
    )
    out = np.zeros(3)
    _burdens(board_of(problem, problem.initial_placement, 1.0), out)
    assert out * 100 == pytest.approx([9, 1, 4], abs=1e-6)


def test_only_requested_topics_are_balanced_and_never_excluded_ones() -> None:
    """Of `a`, `b` and an internal topic `a` is named, `__a` too but excluded: only `a` moves."""
    rows = [partition(name, i, [1], load=EVEN) for name in ("a", "b", "__a") for i in range(4)]
    asked = snapshot([broker(1), broker(2)], rows)
    wanted = ReplicasSettings(goals=("topic_replicas",), balanced_topics=("*a",), excluded_topics=("__*",))
    found = plan(asked, wanted)
    assert found.verdict is Verdict.BALANCED
    assert {move.topic for move in found.moves} == {"a"}
    assert found.topics is not None
    assert found.topics["topic_replicas"].topics == 1
    assert found.settings["balanced_topics"] == ["*a"]


def test_too_few_partitions_are_proven() -> None:
    """Three brokers cannot lead three of six partitions each: three more are needed; two of `b` they can."""
    wanted = ReplicasSettings(
        goals=("min_leaders_per_topic",), min_leaders_per_topic={"*": 2, "a": 3, "b": 1}
    )
    found = plan(two_topics(), wanted)
    assert found.verdict is Verdict.INFEASIBLE
    (why,) = found.problems
    assert (why.kind, why.count) == ("add_partitions", 3)
    assert why.proof == {
        "goal": "min_leaders_per_topic",
        "brokers_that_may_lead": 3,
        "least_leaders": {"a": 3},
        "partitions": {"a": 6},
    }
    # As near as can be: two each of `a`; and the largest number of those that cover `b` holds.
    assert leaders(two_topics(), found, "a") == {1: 2, 2: 2, 3: 2}
    assert leaders(two_topics(), found, "b") == {1: 2, 2: 2, 3: 2}
    assert "add partitions 3: topic a has 6 partitions, and 3 brokers are to lead 3 each: add 3" in plan_text(
        found
    )


def test_plan_and_status_name_the_topics_that_miss() -> None:
    """Two topics whose partitions lie on one of two brokers each, and no move allowed."""
    asked = snapshot(
        [broker(1), broker(2)], [partition(t, i, [1], load=EVEN) for t in "ab" for i in range(4)]
    )
    wanted = ReplicasSettings(goals=("topic_replicas",), max_moves=0)
    found = plan(asked, wanted)
    assert found.verdict is Verdict.INCOMPLETE
    missed = next(one for one in found.problems if one.kind == "unmet_goal")
    assert missed.proof == {"goal": "topic_replicas", "topics": ["a", "b"]}
    told = "topic a: broker 1 has 4, at most 2 asked for, 1 more broker off too"
    assert told in missed.text
    (of_topics,) = goal_status(asked, wanted).secondary_goals
    assert [(one.goal, one.resource, one.value, one.limit) for one in of_topics.violations()] == [
        ("topic_replicas", "a", 4, 2),
        ("topic_replicas", "b", 4, 2),
    ]
    assert secondary_violation_text(of_topics.kind, of_topics.violations()[0]) == f"{told} (topic_replicas)"


@pytest.mark.parametrize(("big", "small"), [("a", "b"), ("b", "a")])
def test_limits_on_moves_drop_the_least_needed_topics(big: str, small: str) -> None:
    """One move of two: 23 and 17 of a topic are out by one of 20, 3 and 1 of the other by one of 2."""
    held = {big: [1] * 23 + [2] * 17, small: [1] * 3 + [2]}
    rows = [partition(t, i, [b], load=EVEN) for t, on in held.items() for i, b in enumerate(on)]
    wanted = ReplicasSettings(goals=("topic_replicas",))
    asked = snapshot([broker(1), broker(2)], rows)
    assert len(plan(asked, wanted).moves) == 2
    assert [move.topic for move in plan(asked, replace(wanted, max_moves=1)).moves] == [small]


def test_without_topic_goals_the_plan_has_no_topic_fields() -> None:
    """A plan without goals per topic has none of their fields, nor their settings."""
    document = json.loads(plan_bytes(plan(two_topics(), ReplicasSettings())))
    assert "x_topics" not in document
    assert not {"balanced_topics", "min_leaders_per_topic", "count_epsilon"} & set(document["settings"])


def test_a_plan_of_topics_is_read_back(tmp_path: Path) -> None:
    """Format `trimtab/plan/1`, with `x_topics`."""
    found = plan(two_topics(), ReplicasSettings(goals=("topic_leaders",)))
    path = tmp_path / "plan.json"
    path.write_bytes(plan_bytes(found))
    assert json.loads(path.read_bytes())["x_topics"] == {
        "topic_leaders": {"topics": 2, "before": 2, "after": 0}
    }
    assert PLAN.read(path).topics == found.topics


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ('goals = ["min_leaders_per_topic"]', "a table replicas.min_leaders_per_topic"),
        ('min_leaders_per_topic = {"a" = 1}', "the goal min_leaders_per_topic among replicas.goals"),
        ('goals = ["min_leaders_per_topic"]\nmin_leaders_per_topic = {"a" = 0}', "1 or more for each"),
        ('goals = ["topic_replicas"]\nbalanced_topics = []', "expected a list that is not empty"),
    ],
)
def test_settings_that_do_not_fit_are_refused(lines: str, why: str, tmp_path: Path) -> None:
    """A goal without its table and a table without its goal ask for nothing: both are named."""
    path = tmp_path / "trimtab.toml"
    path.write_text(f"[replicas]\n{lines}\n")
    with pytest.raises(SettingsError, match=why):
        read_settings(path, (), {})


def test_a_topic_that_is_not_there_is_refused() -> None:
    """A misspelt topic would always have its leaders."""
    wanted = ReplicasSettings(goals=("min_leaders_per_topic",), min_leaders_per_topic={"order": 1})
    with pytest.raises(PlanError, match="no topic of the snapshot of .* is order; correct it"):
        plan(two_topics(), wanted)


@entry
def _traded(g, a, b, gives, gets, out):
    out[0], out[1] = outcome(g, a, b, gives, gets)


@entry
def _may_move(g, p, s, b):
    return may_move(g, p, s, b)


def _rests(board: ReplicasBoard) -> float:
    return float(board.potentials[:, 0].sum() + board.potentials[:, SPREAD].sum())


@settings(max_examples=60, deadline=None)
@given(snapshot=snapshots(), drawn=st.data())
def test_trades_are_worth_the_difference_of_placements(
    snapshot: ReplicasSnapshot, drawn: st.DataObject
) -> None:
    """After any sequence of changes: predicted falls are exact, and incremental tables equal recomputed ones,
    to the bit.
    """
    wanted = ReplicasSettings(goals=(*ALL, "theta", "epsilon"), min_leaders_per_topic={"t*": 1})
    if not len(snapshot.partitions):
        wanted = replace(wanted, goals=ALL[:2], min_leaders_per_topic={})
    problem = problem_data(snapshot, wanted)
    board = board_of(problem, problem.initial_placement, 0.9)
    partitions, width = board.place.shape
    out = np.zeros(2)
    for _ in range(12 if partitions else 0):
        p, s = drawn.draw(st.integers(0, partitions - 1)), drawn.draw(st.integers(0, width - 1))
        b = drawn.draw(st.integers(0, len(board.broker_traits) - 1))
        old, here, before = board.lead[p], board.place[p, s], _rests(board)
        if here < 0:
            continue
        if drawn.draw(st.booleans()) and old >= 0 and old != s:
            _traded(board, board.place[p, old], here, 2 * p + 1, 2 * p, out)
            give_lead_interpreted(board, p, s)
        elif _may_move(board, p, s, b):
            _traded(board, here, b, 2 * p + (old == s), -1, out)
            move_interpreted(board, p, s, b)
        else:
            continue
        assert out[0] - out[1] == pytest.approx(before - _rests(board), abs=1e-12 + 1e-9 * before)
    if problem.topics is not None:
        placement = Placement(board.place, board.lead)
        fresh = topic_table(problem.topics, placement.place, placement.leader)
        np.testing.assert_array_equal(board.counts, fresh.counts)
        table = fresh._replace(bounds=board.bounds)
        np.testing.assert_array_equal(
            board.potentials[: len(board.broker_traits), SPREAD], topic_potential(table)
        )


def test_the_judge_of_plans_counts_hosts_and_topics_itself(tmp_path: Path) -> None:
    """A plan with neither goal claims neither: host a is too full, and topics are on few brokers."""
    brokers = [broker(1, host="a"), broker(2, host="a"), broker(3, host="b"), broker(4, host="b")]
    rows = [partition("t", i, [1 + i % 2], load=(0.1, 1.0, 1.0, 20.0)) for i in range(6)]
    free = float("inf")
    asked = replace(snapshot(brokers, rows), hosts=(("a", (free, free, free, 140.0)),))
    write_snapshot(asked, tmp_path / "snapshot.json")
    told = json.loads((tmp_path / "snapshot.json").read_bytes())
    document = json.loads(plan_bytes(plan(asked, ReplicasSettings(goals=("rack",)))))
    assert check(told, document) == []
    document["settings"]["goals"] = ["rack", "theta", "host_load"]
    assert check(told, document) == ["verdict is balanced, but host a network_out 0.8571 > θ (1 such)"]
    document["settings"] |= {"goals": ["topic_leaders"], "balanced_topics": ["*"], "count_epsilon": 0.1}
    assert check(told, document) == [
        "x_topics tells of {}, counted {'topic_leaders': 1}",
        "verdict is balanced, but topic_leaders of t (1 such)",
    ]
