"""What rules on racks, hosts and replicas make brokers carry: by hand, against a linear program, in plans."""

from __future__ import annotations

from dataclasses import replace

import highspy
import numpy as np
import pytest

from simulated_clusters.weeks import plain_snapshot
from support.replica_clusters import broker, partition, snapshot
from trimtab.model.plan import Verdict
from trimtab.model.replicas.settings import DISK, NETWORK_OUT, ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.plan.replicas import trim
from trimtab.plan.replicas.problem import problem_data
from trimtab.plan.search.limits import even_usage


def test_even_usage_by_hand() -> None:
    """Four equal brokers with a load of 8: the first must carry 4, so the others carry 4/3 each."""
    least = np.array([0.0, 4.0, 4.0, 4.0, 8.0])
    assert even_usage(np.ones(4), least) == pytest.approx([4.0, 4 / 3, 4 / 3, 4 / 3])
    # The first two must carry 6, which is more than the first alone: they share it.
    assert even_usage(np.ones(4), np.array([0.0, 2.0, 6.0, 6.0, 8.0])) == pytest.approx([3.0, 3.0, 1.0, 1.0])
    assert even_usage(np.array([1.0, 3.0]), np.array([0.0, 1.0, 8.0])) == pytest.approx([2.0, 2.0])


def racks(*sizes: int, partitions: int = 60, factor: int = 3, drained: int = -1) -> ReplicasSnapshot:
    """Racks of so many equal brokers; partitions of 1, 2 and 3 units with a replica in `factor` racks."""
    first = np.concatenate([[0], np.cumsum(sizes)])
    brokers = [
        broker(int(first[r]) + b, rack=f"r{r}", capacity=(100.0, 150.0, 500.0, 500.0))
        for r, size in enumerate(sizes)
        for b in range(size)
    ]
    rows = []
    for p in range(partitions):
        place = [int(first[r]) + p // len(sizes) % sizes[r] for r in range(len(sizes))]
        place = [place[(p + turn) % len(sizes)] for turn in range(factor)]
        size = float(1 + p % 3)
        rows.append(partition("t", p, place, load=(size, size, size, 2 * size)))
    return snapshot(brokers, rows)


def test_a_rack_holds_a_replica_of_every_partition() -> None:
    """3, 4 and 5 brokers hold a third of all data each: 4/3, 1 and 4/5 of the mean; leaders go anywhere."""
    shares = problem_data(racks(3, 4, 5), ReplicasSettings()).shares
    most, least = shares.stretch
    assert most[:, DISK] == pytest.approx([4 / 3] * 3 + [1.0] * 9)
    assert least[:, DISK] == pytest.approx([1.0] * 7 + [0.8] * 5)
    assert (most[:, NETWORK_OUT] == 1).all()
    assert (least[:, NETWORK_OUT] == 1).all()
    found = shares.fullest(DISK)
    assert found is not None
    assert (sorted(found.brokers.tolist()), found.needed, found.replicas) == ([0, 1, 2], 120.0, (1, 1))


def test_a_big_broker_holds_one_replica_at_most() -> None:
    """Brokers of 100, 100 and 1,000: the small ones hold half of all data on a sixth of the disks."""
    made = snapshot(
        [broker(id, capacity=(None, room, None, None)) for id, room in ((1, 100.0), (2, 100.0), (3, 1000.0))],
        [partition("t", p, [1 + p % 2, 3], load=(0.0, 1.0, 0.0, 0.0)) for p in range(60)],
    )
    most, least = problem_data(made, ReplicasSettings()).shares.stretch
    assert most[:, DISK] == pytest.approx([3.0, 3.0, 1.0])
    assert least[:, DISK] == pytest.approx([1.0, 1.0, 0.6])


def lowest_peak(made: ReplicasSnapshot, column: int) -> float:
    """The lowest peak utilisation of any placement, replicas and leaders being divisible."""
    parts, capacity = made.partitions, made.brokers.capacity[:, column]
    rack = np.unique(np.array(made.brokers.rack), return_inverse=True)[1]
    number, brokers = len(parts), len(capacity)
    cap = -(-(parts.replicas >= 0).sum(axis=1) // len(set(rack.tolist())))
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    peak = model.addVariable(0.0, highspy.kHighsInf, 1.0)
    holds = [[model.addVariable(0.0, 1.0) for _ in range(brokers)] for _ in range(number)]
    leads = [[model.addVariable(0.0, 1.0) for _ in range(brokers)] for _ in range(number)]
    for p in range(number):
        model.addConstr(sum(holds[p]) == int((parts.replicas[p] >= 0).sum()))
        model.addConstr(sum(leads[p]) == 1)
        for b in range(brokers):
            model.addConstr(leads[p][b] <= holds[p][b])
        for r in set(rack.tolist()):
            model.addConstr(sum(holds[p][b] for b in range(brokers) if rack[b] == r) <= int(cap[p]))
    for b in range(brokers):
        load = sum(
            parts.follower_load[p, column] * holds[p][b]
            + (parts.leader_load[p, column] - parts.follower_load[p, column]) * leads[p][b]
            for p in range(number)
        )
        model.addConstr(load <= float(capacity[b]) * peak)
    model.minimize(peak)
    return float(model.getInfo().objective_function_value)


@pytest.mark.parametrize("seed", range(12))
def test_no_linear_program_finds_a_lower_peak(seed: int) -> None:
    """The bound holds for divisible replicas too, and is met where brokers of a rack are equal."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 4, 3)
    brokers, number = int(sizes.sum()), 8
    rack = np.repeat(np.arange(3), sizes)
    factor = int(random.integers(2, 4))
    place = np.array(
        [
            [random.choice(np.flatnonzero(rack == r)) for r in random.permutation(3)[:factor]]
            for _ in range(number)
        ]
    )
    load = np.repeat(random.integers(1, 9, (number, 1)).astype(float), 4, axis=1)
    follower = load * np.array([0.25, 1.0, 1.0, 0.0])
    even = seed % 2 == 0
    room = np.full(brokers, 100.0) if even else random.choice([100.0, 300.0], brokers)
    made = plain_snapshot(
        "c",
        ids=np.arange(brokers),
        capacity=np.repeat(room[:, None], 4, axis=1),
        topics=("t",),
        topic=np.zeros(number, dtype=np.int32),
        number=np.arange(number, dtype=np.int32),
        replicas=place.astype(np.int32),
        leader_load=load,
        follower_load=follower,
    )
    made = replace(made, brokers=replace(made.brokers, rack=tuple(f"r{r}" for r in rack)))
    shares = problem_data(made, ReplicasSettings()).shares
    for column in (DISK, NETWORK_OUT):
        total, capacity = shares.total(column)
        bound = float(shares.stretch[0][:, column].max()) * total / capacity
        lowest = lowest_peak(made, column)
        assert bound <= lowest * (1 + 1e-6)
        if even and column == DISK:
            assert bound == pytest.approx(lowest)


def test_uneven_racks_copy_next_to_nothing_and_are_named() -> None:
    """Within each rack all is even already: nothing is copied for what the rack forbids."""
    plan = trim.plan(racks(3, 4, 5), ReplicasSettings())
    assert plan.cost.bytes <= 0.05 * 360
    why = [one for one in plan.problems if one.resource == "disk"]
    assert [one.kind for one in why] == ["conflicting_constraints"]
    assert "rack r0 has 3 of 12 brokers (0, 1, 2) and must hold 1 replica of every partition" in why[0].text
    assert "at least 33.3% above the mean" in why[0].text
    assert why[0].proof["names"] == ["r0"]
    assert plan.verdict in (Verdict.IMPROVED, Verdict.INCOMPLETE)


def test_slightly_uneven_racks_are_still_balanced() -> None:
    """Racks of 10, 10 and 11: 3.3 % above the mean is within ε, which applies around the mean itself."""
    problem = problem_data(racks(10, 10, 11, partitions=310), ReplicasSettings())
    limits = problem.limits(problem.carried_load(problem.initial_placement))
    mean = problem.mean(problem.load(problem.initial_placement))
    assert limits.high[:, DISK] == pytest.approx([mean[DISK] * 1.1] * 31)


def test_a_drained_broker_makes_racks_uneven() -> None:
    """The other broker of its rack must hold a replica of everything, and the plan states this."""
    plan = trim.plan(racks(2, 2, 2), ReplicasSettings(drain=(5,), rebalance=True))
    told = [one.text for one in plan.problems if one.resource == "disk"]
    assert any("rack r2 has 1 broker left (4) and must hold 1 replica of every partition" in t for t in told)


def test_a_lone_rack_cannot_stay_below_theta() -> None:
    """Racks of 3, 3 and 1: 120 units on a disk of 140, limit 112; a second broker would help."""
    made = racks(3, 3, 1)
    made = replace(made, brokers=replace(made.brokers, capacity=made.brokers.capacity * 140 / 150))
    plan = trim.plan(made, ReplicasSettings())
    assert plan.verdict is Verdict.INFEASIBLE
    (why,) = (one for one in plan.problems if one.proof.get("goal") == "theta" and one.resource == "disk")
    assert why.text == (
        "disk: rack r2 has 1 of 7 brokers (6) and must hold 1 replica of every partition: 120 bytes, limit "
        "112 (80% of the capacity). Add 1 broker of 140 bytes to rack r2, or take rack out of replicas.goals"
    )
    assert (why.count, why.proof["brokers"], why.proof["needed"]) == (1, [6], 120.0)
