"""The sentence that each step comes with: what it is for, in figures that move."""

import re

import numpy as np
import pytest

from simulate.instances import lognormal_skew
from support.replica_clusters import broker, partition, snapshot
from trimtab.model.replicas.plan import Plan, ReplicaMove, ReplicaMoveKind
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.replicas import trim
from trimtab.plan.replicas.arrays import Placement
from trimtab.plan.replicas.outcome import plan_of
from trimtab.plan.replicas.problem import problem_data
from trimtab.plan.search.reasons import change, from_average, rejections


def handed_over(leader_load: float) -> tuple[ReplicaMove, ReplicaMove]:
    """Brokers 1, 2, 3 of 100; t-0 on 1 and 3 takes 60 of disk. Broker 3 shall lead it and 2 hold it for 1.

    Leading takes `leader_load` of network out.
    """
    cluster = snapshot(
        [broker(b, capacity=(100.0,) * 4) for b in (1, 2, 3)],
        [
            partition("t", 0, [1, 3], load=(0, 60, 0, leader_load)),
            partition("u", 0, [1], load=(0, 60, 0, 50)),
        ],
    )
    problem = problem_data(cluster, ReplicasSettings())
    end = Placement(np.array([[1, 2], [0, -1]], np.int32), np.array([1, 0], np.int32))
    lead, copy = plan_of(problem, "trim", end).moves
    assert [(m.kind, m.source, m.target) for m in (lead, copy)] == [
        (ReplicaMoveKind.LEADER, 1, 3),
        (ReplicaMoveKind.REPLICA, 1, 2),
    ]
    return lead, copy


@pytest.mark.parametrize(("load", "told"), [(0.0, "(no load moves yet)"), (0.04, "50.04% -> 50.00%")])
def test_a_leadership_move_that_lets_a_copy_leave_has_the_copys_purpose(load: float, told: str) -> None:
    """Who leads makes no difference to the load, or next to none; but 1 cannot go before 3 leads."""
    lead, copy = handed_over(load)
    assert (
        "its replica is to leave broker 1 for broker 2 (move 2); moves leader of t-0 to broker 3 first"
        in lead.reason.text
    )
    assert told in lead.reason.text
    assert copy.reason.resource == "disk"
    same = [(m.reason.goal, m.reason.resource, m.reason.broker, m.reason.limit) for m in (lead, copy)]
    assert same[0] == same[1]
    assert (lead.reason.before, lead.reason.after) == (None, None)


def test_a_leadership_move_that_relieves_its_broker_states_the_change() -> None:
    """Network out of broker 1 falls from .9 to .5: that is what it is for, and the copy follows."""
    reason = handed_over(40.0)[0].reason
    assert (reason.goal, reason.resource, reason.broker) == ("theta", "network_out", 1)
    assert reason.before == pytest.approx(0.9)
    assert reason.after == pytest.approx(0.5)
    assert reason.text.startswith(
        "broker 1 is at 90.0% network out, limit 80.0%; moves leader of t-0 to broker 3 "
        "(network out 90.0% -> 50.0%, broker 3 "
    )
    assert reason.text.endswith("; its replica follows to broker 2 (move 2)")


def test_a_reason_states_the_deviation_of_its_broker_and_the_effect() -> None:
    """One leader of four sends on each of two brokers, two on the third and none on the fourth."""
    brokers = [broker(b, capacity=(1000.0,) * 4) for b in (1, 2, 3, 4)]
    partitions = [partition("t", i, [b], load=(0, 60, 0, 100)) for i, b in enumerate((1, 2, 3, 3))]
    (move,) = trim.plan(snapshot(brokers, partitions), ReplicasSettings()).moves
    name = f"t-{move.partition}"
    assert move.reason.text in (
        f"broker 3 sends 100% more than the average; moves leading replica of {name} to broker 4 "
        "(network out 20.0% -> 10.0%, broker 4 0.0% -> 10.0%)",
        f"broker 4 sends 100% less than the average; moves leading replica of {name} from broker 3 to "
        "broker 4 (network out 0.0% -> 10.0%, broker 3 20.0% -> 10.0%)",
    )


def test_no_reason_prints_an_invisible_change() -> None:
    """Thousands of small partitions: both figures of a change differ as printed, and every transfer explained
    by its copy names a later copy of its own partition from its own broker.
    """
    plan: Plan = trim.plan(lognormal_skew(30, 6_000, 1), ReplicasSettings())
    for move in plan.moves:
        figures = re.findall(r"(\d+\.\d+)% -> (\d+\.\d+)%", move.reason.text)
        assert all(one != other for one, other in figures), move.reason.text
        assert "inf" not in move.reason.text
        named = re.search(r"broker (\d+) \(move (\d+)\)", move.reason.text)
        if named:
            copy = plan.moves[int(named[2]) - 1]
            assert (copy.kind, copy.source, copy.target) == (
                ReplicaMoveKind.REPLICA,
                move.source,
                int(named[1]),
            )
            assert (copy.topic, copy.partition) == (move.topic, move.partition)
            assert copy.order > move.order
    assert any("its replica follows" in move.reason.text for move in plan.moves)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (0.82, 0.66, "82.0% -> 66.0%"),
        (0.26541, 0.26538, "26.541% -> 26.538%"),
        (0.2651, 0.2652, "26.51% -> 26.52%"),
        (0.265, 0.265, "stays 26.5%"),
    ],
)
def test_a_change_is_printed_with_as_many_digits_as_necessary(before: float, after: float, told: str) -> None:
    """One digit hides what a small partition moves."""
    assert change(before, after) == told


def test_a_deviation_is_printed_in_percent_of_the_average() -> None:
    """One digit more where a whole percent would read as none."""
    told = [from_average(one, 0.25) for one in (0.47, 0.2, 0.0, 0.2511)]
    assert told == ["88% more", "20% less", "100% less", "0.4% more"]


def test_a_reason_names_rejected_brokers_only_if_there_are_some() -> None:
    """Of three others one holds a replica; without other brokers this is stated; without rejections there is
    no sentence.
    """
    rules = ("by state", "for holding a replica")
    assert rejections(3, [0, 1], rules) == "; of 3 other brokers rejected: 1 for holding a replica"
    assert rejections(3, [0, 0], rules) == ""
    assert rejections(0, [0, 0], rules) == "; there is no other broker"
