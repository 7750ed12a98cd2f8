"""AvgShedder's placement: the plan by what is known of a bundle, the plan by name, and chance."""

from zlib import crc32

import numpy as np
import pytest

from support.bundle_views import CHANCE, key, report, stats, view_of
from trimtab.model.bundles.reports import BundleData, TimeAverage
from trimtab.plan.pulsar.avg_shedder import (
    AvgState,
    PlannedDestination,
    choose,
    decide,
    living,
    planned,
    without_plan,
)
from trimtab.plan.pulsar.options import PulsarBrokerConfig, make_options
from trimtab.plan.pulsar.view import LeaderLoadView

OPTIONS = make_options(
    {"loadBalancerAvgShedderHitCountLowThreshold": 1, "loadBalancerAvgShedderHitCountHighThreshold": 1}
)
BY_NAME = make_options(
    {
        "loadBalancerAvgShedderHitCountLowThreshold": 1,
        "loadBalancerAvgShedderHitCountHighThreshold": 1,
        "avgShedderPlanByBundleName": True,
    }
)
ALL = ("a:1", "b:1", "c:1", "d:1")


def four(rate: float = 1000, other: float = 1000) -> LeaderLoadView:
    """Two full brokers with two bundles each, two idle ones; a sheds to d and b to c."""
    return view_of(
        {
            "a:1": report({key(0): stats(rate=rate), key(1): stats()}, cpu=90, rate=10_000),
            "b:1": report({key(2): stats(rate=other), key(3): stats()}, cpu=80, rate=10_000),
            "c:1": report(cpu=20),
            "d:1": report(cpu=10),
        }
    )


def planned_for(view: LeaderLoadView, options: PulsarBrokerConfig = OPTIONS) -> AvgState:
    """The state after one decision."""
    return decide(view, AvgState(), options, CHANCE)[1]


def test_a_planned_bundle_follows_the_plan() -> None:
    """Whatever the random choice would be, and no number is drawn."""
    view = four(other=900)
    state = planned_for(view)
    chance = np.random.default_rng(7)
    before = chance.bit_generator.state
    placement, after = choose(key(0), ALL, view, state, OPTIONS, chance)
    assert (placement.broker, placement.pool, after) == ("d:1", ("d:1",), state)
    assert chance.bit_generator.state == before


def test_bundles_of_equal_data_collide() -> None:
    """Both carry 1,000 msg/s: the one planned last takes the other's destination with it."""
    decision, state = decide(four(), AvgState(), OPTIONS, CHANCE)
    assert decision.unloads == {"a:1": (key(0),), "b:1": (key(2),)}
    assert decision.destinations == {key(0): "c:1", key(2): "c:1"}
    assert decision.facts["planned_for_an_equal_bundle"] == [key(0)]
    assert [(one.bundle, one.broker) for one in state.plan] == [(key(0), "c:1")]


def test_bundles_of_equal_data_do_not_collide_by_name() -> None:
    """With #26246 each has its own destination."""
    decision, _ = decide(four(), AvgState(), BY_NAME, CHANCE)
    assert decision.destinations == {key(0): "d:1", key(2): "c:1"}
    assert decision.facts["planned_for_an_equal_bundle"] == []


def test_the_plan_is_lost_after_a_new_sample_of_the_bundle() -> None:
    """One more sample changes the key: the bundle is placed at random."""
    state = planned_for(four(other=900))
    assert planned(key(0), four(other=900), state, OPTIONS) == "d:1"
    heard = four(rate=1000.5, other=900)
    assert planned(key(0), heard, state, OPTIONS) is None
    assert planned(key(2), heard, state, OPTIONS) == "c:1"


def test_another_bundle_with_the_old_data_does_not_find_the_plan() -> None:
    """Java compares with the key as it is now: the entry is filed where nothing matches it any more."""
    state = planned_for(four(other=900))
    swapped = four(rate=900, other=1000)
    assert planned(key(2), swapped, state, OPTIONS) is None


def test_by_name_the_plan_lasts_while_data_change() -> None:
    """The name is the key, until the round of shedding is over."""
    state = planned_for(four(other=900), BY_NAME)
    assert planned(key(0), four(rate=1, other=1), state, BY_NAME) == "d:1"
    assert without_plan(state, BY_NAME).plan == ()
    assert without_plan(state, OPTIONS) is state


def test_by_name_each_round_plans_again() -> None:
    """What the round before planned is forgotten when the next begins."""
    state = planned_for(four(other=900), BY_NAME)
    even = view_of({"a:1": report(cpu=50), "b:1": report(cpu=50)})
    assert decide(even, state, BY_NAME, CHANCE)[1].plan == ()


def test_entries_that_can_never_match_again_are_dropped() -> None:
    """The count of samples in the key only grows: the next decision clears them out."""
    state = planned_for(four(other=900))
    even = view_of({"a:1": report({key(0): stats(rate=5)}, cpu=50), "b:1": report(cpu=50)})
    assert [one.bundle for one in decide(even, state, OPTIONS, CHANCE)[1].plan] == [key(2)]


def test_an_unplanned_bundle_follows_a_hash_over_sorted_candidates() -> None:
    """The number drawn is hashed as decimal text, and the order of the candidates does not matter."""
    view = four()
    chance = np.random.default_rng(3)
    drawn = int(np.random.default_rng(3).integers(-(2**31), 2**31))
    placement, _ = choose(key(0), ("d:1", "b:1", "c:1"), view, AvgState(), OPTIONS, chance)
    assert placement.pool == ("b:1", "c:1", "d:1")
    assert placement.broker == placement.pool[crc32(str(drawn).encode()) % 3]
    assert placement.facts["drawn"] == drawn


def test_a_random_choice_is_remembered_for_all_equal_bundles() -> None:
    """Bundles without samples are all equal: the first draws for all of them."""
    view = view_of({name: report() for name in ALL})
    state, found = AvgState(), []
    for number in range(20):
        placement, state = choose(key(number), ALL, view, state, OPTIONS, CHANCE)
        found.append(placement.broker)
    assert len(set(found)) == 1
    assert len(state.plan) == 1


def test_a_placement_alone_does_not_remember_for_ever() -> None:
    """With another shedder the plan is written by chance only: what is out of date goes at the next one."""
    state = AvgState()
    for tick in range(1, 6):
        view = view_of({"a:1": report({key(0): stats(rate=tick)}), "b:1": report()})
        _, state = choose(key(0), ("a:1", "b:1"), view, state, OPTIONS, CHANCE)
    assert len(state.plan) == 1


def test_by_name_every_unplanned_bundle_draws_for_itself() -> None:
    """Twenty bundles do not all come to the same of four brokers."""
    view = view_of({name: report() for name in ALL})
    chance = np.random.default_rng(0)
    found = {choose(key(n), ALL, view, AvgState(), BY_NAME, chance)[0].broker for n in range(20)}
    assert found == set(ALL)


def test_a_destination_that_is_no_candidate_is_drawn_again() -> None:
    """The planned broker has died: another is drawn and written down in its place."""
    view = four(other=900)
    placement, state = choose(key(0), ("b:1",), view, planned_for(view), OPTIONS, CHANCE)
    assert placement.broker == "b:1"
    assert planned(key(0), view, state, OPTIONS) == "b:1"


def test_without_candidates_there_is_no_broker() -> None:
    """And nothing fails."""
    assert choose(key(0), (), four(), AvgState(), OPTIONS, CHANCE)[0].broker is None


@pytest.mark.parametrize(("samples", "kept"), [(999, False), (1000, True)])
def test_an_entry_with_a_saturated_sample_count_is_retained(samples: int, kept: bool) -> None:
    """At 1,000 samples the key may come back as it was filed; below it never will."""
    view = view_of({"a:1": report({key(0): stats(rate=1)}), "b:1": report()})
    filed = BundleData(TimeAverage(10, 1, 1, 1, 1), TimeAverage(samples, 1, 1, 1, 1))
    state = AvgState(plan=(PlannedDestination(key(0), filed, "b:1"),))
    assert bool(living(state, view).plan) is kept
