"""Goals on numbers instead of load: examples small enough to be worked out by hand."""

import re
from collections import Counter

import pytest

from support.replica_clusters import broker, partition, snapshot
from trimtab.model.goals import goal_status
from trimtab.model.plan import Verdict
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.replicas.trim import plan
from trimtab.report.replicas.renderer import plan_text

EVEN = (0.1, 1.0, 1.0, 1.0)


def test_replicas_are_evened_to_the_numbers_next_to_the_mean() -> None:
    """Eight replicas as 6, 1, 1 on three brokers: the mean is 2.67, so 2 or 3 each; three leave broker 1."""
    held = [1] * 6 + [2, 3]
    asked = snapshot(
        [broker(1), broker(2), broker(3)], [partition("t", i, [b], load=EVEN) for i, b in enumerate(held)]
    )
    found = plan(asked, ReplicasSettings(goals=("replica_numbers",)))
    assert found.verdict is Verdict.BALANCED
    assert len(found.moves) == 3
    assert {move.source for move in found.moves} == {1}
    assert {move.reason.goal for move in found.moves} == {"replica_numbers"}
    assert found.numbers is not None
    told = found.numbers["replicas"]
    assert (told.before.minimum, told.before.maximum, told.after.minimum, told.after.maximum) == (1, 6, 2, 3)
    assert re.search(r"replicas +1 +2\.66667 +6 +2 +3\n", plan_text(found))
    assert found.settings["count_epsilon"] == 0.1


def test_leaders_are_evened_without_a_copy() -> None:
    """Broker 1 leads all six partitions that 1 and 2 hold: three leaderships go over, nothing is copied."""
    asked = snapshot([broker(1), broker(2)], [partition("t", i, [1, 2], load=EVEN) for i in range(6)])
    found = plan(asked, ReplicasSettings(goals=("leader_numbers",)))
    assert found.verdict is Verdict.BALANCED
    assert (found.cost.bytes, found.cost.leader_moves) == (0, 3)


def test_brokers_that_must_not_lead_are_not_counted() -> None:
    """Broker 3 is to lead nothing: 1 and 2 share six leaders."""
    rows = [partition("t", i, [1, 2, 3], load=EVEN) for i in range(6)]
    asked = snapshot([broker(1), broker(2), broker(3, state="no_leaders")], rows)
    found = plan(asked, ReplicasSettings(goals=("leader_numbers",)))
    leaders = Counter(row.leader_after for row in found.assignments)
    assert found.verdict is Verdict.BALANCED
    assert leaders == {2: 3}


def test_potential_network_out_counts_followers_as_leaders() -> None:
    """Broker 3 sends nothing, but would send 90 of 100 if it led all that it holds: one must go."""
    rows = [partition("t", i, [1 + i % 2, 3], load=(0.1, 1.0, 1.0, 30.0)) for i in range(3)]
    asked = snapshot([broker(1), broker(2), broker(3), broker(4)], rows)
    settings = ReplicasSettings(goals=("potential_network_out",))
    (beside,) = goal_status(asked, settings).secondary_goals
    (breach,) = beside.violations()
    assert (breach.goal, breach.broker) == ("theta", 3)
    assert breach.value == pytest.approx(0.9)
    found = plan(asked, settings)
    assert found.verdict is Verdict.BALANCED
    (move,) = found.moves
    assert (move.source, move.reason.goal) == (3, "potential_network_out")
    assert found.numbers is not None
    assert found.numbers["potential_network_out"].after.maximum == pytest.approx(0.6)


def test_counts_that_cannot_be_balanced_are_reported() -> None:
    """An excluded topic of five stays on broker 1: 5 and 1 instead of the requested 3 and 3."""
    rows = [partition("t", i, [1 if i < 5 else 2], load=EVEN) for i in range(6)]
    asked = snapshot([broker(1), broker(2)], rows)
    found = plan(asked, ReplicasSettings(goals=("replica_numbers",), excluded_topics=("t",)))
    assert found.verdict is Verdict.INCOMPLETE
    (why,) = found.problems
    assert why.proof["goal"] == "replica_numbers"
