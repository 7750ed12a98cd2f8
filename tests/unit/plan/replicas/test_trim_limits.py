"""What `trim` is told to keep to: every broker has 100 of everything, so that loads read as percent."""

import numpy as np
import pytest

from support.replica_clusters import broker, partition, snapshot
from trimtab.model.plan import Verdict
from trimtab.model.replicas.plan import Plan
from trimtab.model.replicas.settings import RESOURCES, ReplicasSettings
from trimtab.plan.replicas import trim
from trimtab.plan.search.limits import limits_around

FULL = (100.0,) * 4


def held(name: str, on: int | list[int], size: float, of: str = "disk") -> dict:
    """Partition 0 of a topic: so much of one resource on its leader's broker, and of disk on all others."""
    load = tuple(size if resource == of else 0.0 for resource in RESOURCES)
    follower = load if of == "disk" else (0.0,) * 4
    return partition(name, 0, [on] if isinstance(on, int) else on, load=load, follower=follower)


def planned(partitions: list, brokers: int | list = 3, **settings: object) -> Plan:
    """A plan by `trim`."""
    there = [broker(b, capacity=FULL) for b in range(1, brokers + 1)] if isinstance(brokers, int) else brokers
    return trim.plan(snapshot(there, partitions), ReplicasSettings(**settings))  # type: ignore[arg-type]


def peak(plan: Plan, of: str = "disk") -> float:
    """The fullest broker after all moves."""
    return plan.predicted.after.peak_usage[of]


def pieces(*sizes: tuple[int, float], of: str = "disk") -> list:
    """One partition for each (broker, size)."""
    return [held(f"p{at}", b, size, of) for at, (b, size) in enumerate(sizes)]


THETA_ONLY = ("theta",)
TIGHT = pieces((1, 50), (1, 28), (1, 12), (2, 60), (3, 20))
"""90, 60 and 20: with θ .8 alone, 12 must leave broker 1, and 28 cannot go to 2."""


def test_theta_alone_moves_the_minimum_that_brings_all_brokers_below_it() -> None:
    """The partition of 12 suffices; no further move is required, however uneven the result."""
    plan = planned(TIGHT, goals=THETA_ONLY)
    assert plan.verdict == Verdict.BALANCED
    assert [move.bytes for move in plan.moves] == [12]
    assert peak(plan) <= 0.8


@pytest.mark.parametrize(("theta", "worst"), [(0.85, 0.85), (0.65, 0.65)])
def test_theta_is_the_configured_one(theta: float, worst: float) -> None:
    """The same at .85 and at .65, where broker 3 must take more."""
    plan = planned(TIGHT, goals=THETA_ONLY, theta=(theta,) * 4)
    assert plan.verdict == Verdict.BALANCED
    assert peak(plan) <= worst


def test_theta_is_each_resources_own() -> None:
    """90 of disk with a disk limit of .95 stays; 90 of network in goes below its .8."""
    limits = (0.8, 0.95, 0.8, 0.8)
    assert planned(TIGHT, goals=THETA_ONLY, theta=limits).verdict == Verdict.BALANCED
    into = planned(pieces((1, 50), (1, 30), (1, 10), of="network_in"), goals=THETA_ONLY, theta=limits)
    assert peak(into, "network_in") <= 0.8


def test_without_goals_nothing_moves() -> None:
    """Racks and hosts alone: 90, 60 and 20 are none of their business."""
    assert planned(TIGHT, goals=("rack", "host")).moves == ()


@pytest.mark.parametrize("epsilon", [0.1, 0.3])
def test_epsilon_holds_above_and_below(epsilon: float) -> None:
    """60, 30 and 0 in parts of 5: all three end within ε of 30, and a wider one takes fewer moves."""
    parts = pieces(*[(1, 5)] * 12, *[(2, 5)] * 6)
    plan = planned(parts, epsilon=(epsilon,) * 4)
    assert plan.verdict == Verdict.BALANCED
    assert plan.predicted.after.worst_deviation["disk"] <= epsilon
    assert len(plan.moves) == {0.1: 6, 0.3: 5}[epsilon]


def test_a_broker_below_the_band_is_filled_if_none_is_above_it() -> None:
    """36, 36, 36 and 12, mean 30, band 24 to 36 and a little: only the last is out."""
    parts = pieces(*[(b, 6) for b in (1, 2, 3) for _ in range(6)], (4, 12))
    plan = planned(parts, 4, epsilon=(0.21,) * 4)
    assert plan.verdict == Verdict.BALANCED
    assert {move.target for move in plan.moves} == {4}
    assert len(plan.moves) == 2


def test_a_broker_above_the_band_is_relieved_if_none_is_below_it() -> None:
    """36 in parts of 2 and three times 28, mean 30, band 27 to 33: two parts leave it."""
    plan = planned(pieces(*[(1, 2)] * 18, *[(b, 28) for b in (2, 3, 4)]), 4)
    assert plan.verdict == Verdict.BALANCED
    assert [(move.source, move.bytes) for move in plan.moves] == [(1, 2)] * 2


def test_no_more_moves_and_bytes_than_allowed_and_the_best_of_them() -> None:
    """60 and 0 in parts of 20 and 5: one move or 24 bytes are allowed, and it is a large one. The plan
    reports what was left out.
    """
    parts = pieces((1, 20), (1, 20), (1, 5), (1, 5), (1, 5), (1, 5))
    for limit, sizes in (({"max_moves": 1}, [20]), ({"max_bytes": 24}, [20]), ({"max_moves": 0}, [])):
        plan = planned(parts, 2, **limit)
        assert [move.bytes for move in plan.moves] == sizes
        assert plan.problems[0].kind == "limit_reached"
        assert plan.verdict == (Verdict.IMPROVED if plan.moves else Verdict.INCOMPLETE)


def test_excluded_topics_stay() -> None:
    """50 and 0, and 25 would balance it: the excluded partition never moves."""
    for excluded, moved in (("p0", "p1"), ("p1", "p0")):
        plan = planned(pieces((1, 25), (1, 25)), 2, excluded_topics=(excluded,))
        assert [move.topic for move in plan.moves] == [moved]


@pytest.mark.parametrize("closed", [2, 3])
def test_excluded_brokers_receive_no_replica(closed: int) -> None:
    """60, 0 and 0: all that leaves goes to the one that is open."""
    plan = planned(pieces(*[(1, 10)] * 6), excluded_brokers_for_replicas=(closed,), goals=("epsilon",))
    assert {move.target for move in plan.moves} == {5 - closed}


@pytest.mark.parametrize("closed", [2, 3])
def test_excluded_brokers_receive_no_leadership(closed: int) -> None:
    """Roles that weigh 10 each, all on broker 1: they go to the one that is open, and no data moves."""
    parts = [held(f"p{n}", [1, 2, 3], 10, "network_out") for n in range(4)]
    plan = planned(parts, excluded_brokers_for_leaders=(closed,), goals=("epsilon",))
    assert {(str(move.kind), move.target) for move in plan.moves} == {("leader", 5 - closed)}


def test_racks_are_not_crowded_for_evenness() -> None:
    """Brokers 1 and 2 are rack a, 3 and 4 rack b; every partition has a replica in both. All that leaves
    broker 1 stays in rack a, though 3 is as empty as 2.
    """
    brokers = [broker(b, rack=rack, capacity=FULL) for b, rack in enumerate("aabb", 1)]
    plan = planned([held(f"p{n}", [1, 4], 10) for n in range(4)], brokers)
    ends = {tuple(sorted(assignment.after)) for assignment in plan.assignments}
    assert plan.moves
    assert all((one <= 2) and (other >= 3) for one, other in ends)


def test_racks_are_respected_although_crowding_one_would_balance_best() -> None:
    """Brokers 1 to 4 hold 40, 30 (to stay), 0, 40: without racks broker 1 gives to 3, which crowds b."""
    brokers = [broker(b, rack=rack, capacity=FULL) for b, rack in enumerate("aabb", 1)]
    parts = [*(held(f"p{n}", [1, 4], 10) for n in range(4)), held("x", [2], 30)]
    crowded = {}
    for goals in (("epsilon",), ("rack", "epsilon")):
        plan = planned(parts, brokers, goals=goals, excluded_topics=("x",))
        assert plan.moves
        crowded[goals[0]] = [set(a.after) for a in plan.assignments if set(a.after) in ({1, 2}, {3, 4})]
    assert crowded["epsilon"]
    assert not crowded["rack"]


def test_a_theta_that_no_placement_can_meet_is_raised() -> None:
    """A mean of 0.9 is above 0.8: brokers up to 2 % above the mean are even enough. A mean of 0.5 is not."""
    mean, theta, epsilon = np.array([0.9, 0.5]), np.array([0.8, 0.8]), np.array([0.1, 0.1])
    found = limits_around(mean, np.ones((3, 2), dtype=np.bool_), theta, epsilon, 0.01)
    assert found.theta == pytest.approx(np.full((3, 2), [0.918, 0.8]))
    assert found.high == pytest.approx(np.full((3, 2), [0.918, 0.55]))
    closer = limits_around(mean, np.ones((3, 2), dtype=np.bool_), theta, np.array([0.01, 0.1]), 0.01)
    assert closer.theta[:, 0] == pytest.approx(0.909)
    # Rules on racks force 1.9 times the mean on one broker, and more than theta with it.
    stretch = np.array([[1.0, 1.9], [1.0, 1.0], [1.0, 1.0]]), np.ones((3, 2))
    forced = limits_around(mean, np.ones((3, 2), dtype=np.bool_), theta, epsilon, 0.01, stretch)
    assert forced.theta[:, 1] == pytest.approx([0.969, 0.8, 0.8])
