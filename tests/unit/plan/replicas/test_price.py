"""The price of copies for ε: by hand, and on clusters that pay too much without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simulate.instances import lognormal_skew
from support.replica_clusters import broker, partition, snapshot
from trimtab.model.plan import Problem
from trimtab.model.replicas.settings import RESOURCES, ReplicasSettings
from trimtab.model.replicas.snapshot import snapshot_after
from trimtab.plan.replicas.arrays import Placement
from trimtab.plan.replicas.budget import worthwhile
from trimtab.plan.replicas.problem import ReplicasProblem, problem_data
from trimtab.plan.replicas.trim import plan


def disks(*held: list[float], minimum: float = 0.05, room: float = 1000.0) -> ReplicasProblem:
    """Brokers that hold partitions of such sizes, one replica each; only disks have a capacity."""
    brokers = [broker(id, capacity=(None, room, None, None)) for id in range(1, len(held) + 1)]
    sizes = [(id, size) for id, of in enumerate(held, 1) for size in of]
    rows = [partition("t", p, [id], load=(0.0, size, 0.0, 0.0)) for p, (id, size) in enumerate(sizes)]
    return problem_data(snapshot(brokers, rows), ReplicasSettings(min_gain_per_copy=minimum))


def moved(problem: ReplicasProblem, to: dict[int, int]) -> Placement:
    """The home placement, but for partitions that are on other brokers, by index."""
    place = problem.arrays.initial.copy()
    for p, b in to.items():
        place[p, 0] = b
    return Placement(place, problem.initial_leader.copy())


def home_again(problem: ReplicasProblem, kept: Placement) -> list[int]:
    """Partitions that are not at home."""
    return np.flatnonzero((kept.place != problem.arrays.initial).any(axis=1)).tolist()


def priced(problem: ReplicasProblem, placement: Placement) -> tuple[Placement, Problem | None]:
    """What remains of a placement if nothing must move."""
    return worthwhile(problem, lambda: problem.initial_placement, placement)


def test_a_direct_copy_gains_the_difference_of_deviations() -> None:
    """50, 20 and 20 of 90: 10 move from 66.7 % above to 33.3 % below the mean of 30. Mean γ² falls from 2/9
    to 2/27, by 4/27, for a ninth of the data: 4/27 / (2/9) is 2/3, which is the difference of 1 less the
    copy's own third. Other disks stay out of ε, so the copy is evaluated alone.
    """
    for least, kept in ((0.6, [0]), (0.7, [])):
        problem = disks([10.0, 40.0], [20.0], [20.0], minimum=least)
        found, cut = priced(problem, moved(problem, {0: 1}))
        assert home_again(problem, found) == kept
        assert (cut is None) == bool(kept)
    assert cut is not None
    assert cut.proof["gain"] == pytest.approx(2 / 3)
    assert cut.proof["bytes"] == 10.0
    assert "gain is 0.6667, less than replicas.min_gain_per_copy 0.7" in cut.text


def test_an_exchange_of_equals_is_left_out_as_a_pair() -> None:
    """30 against 29, next to an empty disk: to send home either alone would make things worse."""
    problem = disks([30.0, 4.0], [26.0], [29.0, 1.0], [0.0], minimum=0.05)
    swap = moved(problem, {0: 2, 3: 0})
    found, cut = priced(problem, swap)
    assert home_again(problem, found) == []
    assert cut is not None
    assert cut.proof["bytes"] == 59.0


def test_theta_has_no_price() -> None:
    """850 of 1,000 are above θ: what brings it below is kept at any price."""
    problem = disks([100.0, 750.0], [100.0], [0.0], minimum=100.0)
    found, cut = priced(problem, moved(problem, {0: 1}))
    assert home_again(problem, found) == [0]
    assert cut is None


def test_no_price_keeps_every_copy() -> None:
    """0 asks for none."""
    problem = disks([30.0, 4.0], [26.0], [29.0, 1.0], [0.0], minimum=0.0)
    swap = moved(problem, {0: 2, 3: 0})
    assert home_again(problem, priced(problem, swap)[0]) == [0, 3]


def test_a_plan_that_meets_every_goal_has_no_price() -> None:
    """Necessary moves are not computed then: that takes as long as a part of the search."""

    def lawful() -> Placement:
        raise AssertionError("looked for what must move")

    problem = disks([20.0, 20.0], [0.0], minimum=100.0)
    placement = moved(problem, {0: 1})
    assert worthwhile(problem, lawful, placement) == (placement, None)


def test_a_plan_that_rules_keep_from_epsilon_has_a_price() -> None:
    """Broker 1 must hold one replica of each partition, 100 of 200: out of ε, so copies are priced."""
    brokers = [broker(id, rack=rack, capacity=(None, 1000.0, None, None)) for id, rack in enumerate("xyy", 1)]
    rows = [partition("t", p, [1, 2 + (p > 5)], load=(0.0, 10.0, 0.0, 0.0)) for p in range(10)]
    for least, kept in ((0.0, [5]), (2.0, [])):
        problem = problem_data(snapshot(brokers, rows), ReplicasSettings(min_gain_per_copy=least))
        place = problem.arrays.initial.copy()
        place[5, 1] = 2
        found, cut = priced(problem, Placement(place, problem.initial_leader.copy()))
        assert home_again(problem, found) == kept
        assert (cut is None) == bool(kept)


def test_replicas_left_out_earlier_are_reported_as_well() -> None:
    """10 bytes before and 59 now are 69."""
    problem = disks([30.0, 4.0], [26.0], [29.0, 1.0], [0.0], minimum=0.05)
    swap = moved(problem, {0: 2, 3: 0})
    _, cut = priced(problem, swap)
    assert cut is not None
    earlier = Problem("limit_reached", "", proof={"copied_share": 10.0 / 90.0, "fall_of_unevenness": 0.001})
    _, both = worthwhile(problem, lambda: problem.initial_placement, swap, earlier)
    assert both is not None
    assert both.proof["bytes"] == pytest.approx(69.0)
    fall: Any = cut.proof["fall_of_unevenness"]
    assert both.proof["fall_of_unevenness"] == pytest.approx(fall + 0.001)
    assert (
        worthwhile(problem, lambda: problem.initial_placement, problem.initial_placement, earlier)[1]
        is earlier
    )


def test_an_exchange_of_equals_does_not_hide_behind_a_copy_that_gains_much() -> None:
    """60 to a broker with 20 pay for everything; the exchange of 30 against 29 is left out all the same."""
    problem = disks([30.0, 29.0], [59.0], [29.0, 30.0], [60.0, 60.0], [20.0], minimum=0.05)
    found, cut = priced(problem, moved(problem, {0: 2, 3: 0, 5: 4}))
    assert home_again(problem, found) == [5]
    assert cut is not None
    assert cut.proof["bytes"] == pytest.approx(59.0)


def test_a_copy_that_gains_too_little_does_not_hide_behind_one_that_gains_much() -> None:
    """The mean is 100: 30 from 160 to 30 gain 1; 5 from 115 to 95 gain 0.15, more than half of the least."""
    problem = disks([110.0, 5.0], [95.0], [130.0, 30.0], [30.0], minimum=0.2)
    found, cut = priced(problem, moved(problem, {1: 1, 4: 3}))
    assert home_again(problem, found) == [4]
    assert cut is not None
    assert cut.proof["bytes"] == pytest.approx(5.0)
    assert cut.proof["gain"] == pytest.approx(0.15)


def test_a_leader_returns_with_the_copy_that_it_depends_on() -> None:
    """10 of 100 from broker 2 to 80 make room for a leader from broker 1. Without that copy the leader alone
    would turn 100, 100, 80 into 90, 110, 80.
    """
    sizes = {1: 90.0, 2: 90.0, 3: 80.0, 4: 0.0}
    brokers = [broker(id, capacity=(None, None, None, 1000.0)) for id in sizes]
    loads = [([id], size) for id, size in sizes.items()] + [([2], 10.0), ([1, 2], 10.0)]
    rows = [partition("t", p, place, load=(0.0, 10.0, 0.0, out)) for p, (place, out) in enumerate(loads)]
    for least, copies in ((0.0, [4]), (100.0, [])):
        problem = problem_data(snapshot(brokers, rows), ReplicasSettings(min_gain_per_copy=least))
        placement = moved(problem, {4: 2})
        placement.lead[5] = 1
        found, _ = priced(problem, placement)
        assert home_again(problem, found) == copies
        assert found.lead[5] == bool(copies)


@pytest.mark.parametrize("seed", range(4))
def test_leaders_go_back_with_the_copies_that_they_were_chosen_for(seed: int) -> None:
    """A second plan for racks of 3, 3 and 2 brokers: its copies gain too little, and its leaders alone would
    make the load less even than it is.
    """
    first = lognormal_skew(8, 72, seed)
    racks = tuple(f"r{number % 3}" for number in range(8))
    first = replace(first, brokers=replace(first.brokers, rack=racks, host=tuple(map(str, range(8)))))
    settings = ReplicasSettings()
    second = snapshot_after(first, plan(first, settings).assignments)
    made = plan(second, settings)
    assert any(one.kind == "limit_reached" for one in made.problems)
    mean = dict(zip(RESOURCES, second.imbalance().mean.tolist(), strict=True))
    before, after = (
        sum((one.sigma[resource] / mean[resource]) ** 2 for resource in RESOURCES)
        for one in (made.predicted.before, made.predicted.after)
    )
    assert after <= before * (1 + 1e-12)
