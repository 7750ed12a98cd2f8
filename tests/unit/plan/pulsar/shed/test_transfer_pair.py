"""TransferShedder between two brokers: what goes, what comes back, and at which edge it does not."""

import math
from dataclasses import replace
from typing import Any

import pytest

from support.bundle_views import key, report, stats, view_of
from trimtab.model.bundles.policies import BrokerTraits, BundlePolicies, ClusterMetadata, IsolationPolicy
from trimtab.model.bundles.reports import BrokerReport, BundleStats
from trimtab.plan.pulsar.java import divided
from trimtab.plan.pulsar.options import make_options
from trimtab.plan.pulsar.transfer_shedder import NO_METADATA, TransferPair, pair_up
from trimtab.plan.pulsar.view import LeaderLoadView, publish

UNIT = 100_000
"""Bytes per second that make one bundle heavier than another."""


def broker(cpu: float, bundles: list[float], first: int, total: float) -> BrokerReport:
    """A broker with bundles of so many units each, and its total in units."""
    held = {key(first + number): stats(units * UNIT) for number, units in enumerate(bundles)}
    return report(held, cpu=cpu, throughput=total * UNIT)


def two(
    full: list[float],
    idle: list[float] = [],  # noqa: B006
    *,
    total: float = 24,
    idle_total: float = 12,
    cpu: float = 75,
    recently: tuple[int, ...] = (),
) -> LeaderLoadView:
    """A broker of 24 units at 75 % (bundles from 0) and one at 25 % (from 100): 8 units are wanted."""
    return view_of(
        {
            "full:1": broker(cpu, full, 0, total),
            "idle:1": broker(cpu / 3, idle, 100, idle_total),
        },
        recently_unloaded=tuple(key(number) for number in recently),
    )


def paired(
    view: LeaderLoadView,
    metadata: ClusterMetadata = NO_METADATA,
    variant: str = "pulsar-4.2",
    **options: object,
) -> TransferPair:
    """What goes from the full broker to the idle one."""
    made = make_options(options, variant)
    return pair_up(metadata, view, "full:1", "idle:1", publish(view, {}, made), made)


def chosen(pair: TransferPair) -> list[int]:
    """The bundles in the order of choice; those that come back are 100 and up."""
    return [int(move.bundle.rpartition("/")[2][2:4], 16) for move in pair.moves]


def test_the_lightest_bundles_move_first_up_to_exactly_the_required_load() -> None:
    """A third of 24 is required: 2 and 6 make it exactly, the 7 is not tried."""
    pair = paired(two([9, 2, 6]))
    assert pair.facts["bytes_per_second_wanted"] == 8 * UNIT
    assert (chosen(pair), pair.offloaded) == ([1, 2], 8 * UNIT)
    assert pair.facts["outcome"] == "one reported bundle must stay"


def test_a_byte_more_than_required_does_not_move() -> None:
    """Where nothing can come back in return."""
    assert chosen(paired(two([8, 16]))) == [0]
    pair = paired(two([8 + 1 / UNIT, 16]))
    assert chosen(pair) == []
    assert pair.facts["outcome"] == "the next bundle is more than what is wanted, and nothing balances it"


def test_the_first_bundle_that_does_not_fit_ends_it() -> None:
    """7 fits, 8 more do not; 9 is not tried."""
    assert chosen(paired(two([7, 8, 9]))) == [0]


def test_one_of_the_reported_bundles_stays() -> None:
    """All three would fit."""
    pair = paired(two([1, 1.5, 2]))
    assert len(pair.moves) == 2
    assert pair.facts["outcome"] == "one reported bundle must stay"


def test_only_the_heaviest_bundles_are_reported() -> None:
    """Of four the two heaviest: one of them goes, and the light ones are not even known."""
    assert chosen(paired(two([1, 2, 3, 4]), loadBalancerMaxNumberOfBundlesInBundleLoadReport=2)) == [2]


def test_a_sole_reported_bundle_stays() -> None:
    """Another without traffic is not reported."""
    assert paired(two([0, 3])).facts["outcome"] == "its sole reported bundle overloads it"
    assert paired(two([])).facts["outcome"] == "it reports no bundle"


def test_recently_unloaded_and_foreign_bundles_stay() -> None:
    """The lightest was moved recently, the next is in transit; neither counts as moved."""
    view = two([1, 2, 3, 4], recently=(0,))
    held = view.brokers["full:1"].report
    foreign = replace(held, bundles=tuple(name for name in held.bundles if name != key(1)))
    view = replace(view, brokers={**view.brokers, "full:1": replace(view.brokers["full:1"], report=foreign)})
    assert chosen(paired(view)) == [2, 3]


def isolated(*primary: str, namespace: str = "t/n") -> ClusterMetadata:
    """A cluster whose brokers of these hosts are meant for the namespace."""
    return ClusterMetadata(policies=BundlePolicies((IsolationPolicy((namespace,), primary),)))


WITH_POLICIES: dict[str, Any] = {"loadBalancerSheddingBundlesWithPoliciesEnabled": True}


def test_bundles_that_policies_hold_stay() -> None:
    """The target must be allowed, also where bundles are just released and Pulsar forgets that it is open."""
    view = two([1, 2, 3])
    assert chosen(paired(view, isolated("full", "idle"), **WITH_POLICIES)) == [0, 1]
    assert chosen(paired(view, isolated("full"), **WITH_POLICIES)) == []
    elsewhere = isolated("full", "other")
    more = replace(view, brokers={**view.brokers, "other:1": replace(view.brokers["idle:1"])})
    assert chosen(paired(more, elsewhere, **WITH_POLICIES)) == []
    released: dict[str, Any] = {**WITH_POLICIES, "loadBalancerTransferEnabled": False}
    assert chosen(paired(more, elsewhere, **released)) == []
    assert chosen(paired(view, isolated("full", "idle"), **released)) == [0, 1]


def test_bundles_of_other_namespaces_avoid_a_primary_broker() -> None:
    """Without a policy of its own a namespace stays off primary brokers."""
    assert chosen(paired(two([1, 2, 3]), isolated("idle", namespace="t/other"))) == []


def test_bundles_that_anti_affinity_holds_stay() -> None:
    """The target has a namespace of the same group already, a third broker has none."""
    groups = ClusterMetadata(policies=BundlePolicies(anti_affinity_groups={"t/n": "g", "t/m": "g"}))
    view = two([1, 2, 3])
    crowded = replace(view.brokers["idle:1"], report=report({key(9, "t/m"): stats(UNIT)}, cpu=25))
    third = replace(view.brokers["idle:1"], report=report(cpu=50))
    held = replace(view, brokers={**view.brokers, "idle:1": crowded, "third:1": third})
    assert chosen(paired(held, groups, **WITH_POLICIES)) == []
    assert chosen(paired(view, groups, **WITH_POLICIES)) == [0, 1]


@pytest.mark.parametrize(("most", "moved"), [(1, []), (2, [0, 1])])
def test_a_broker_with_enough_topics_takes_nothing(most: int, moved: list[int]) -> None:
    """All filters of the extensible manager apply, not only policies: at the limit is full."""
    view = two([1, 2, 3], [9])
    assert chosen(paired(view, loadBalancerBrokerMaxTopics=most)) == moved


def test_a_broker_of_another_load_manager_takes_nothing() -> None:
    """While a cluster changes over."""
    traits = {"full:1": BrokerTraits(load_manager="E"), "idle:1": BrokerTraits(load_manager="M")}
    assert chosen(paired(two([1, 2, 3]), ClusterMetadata(traits=traits, load_manager="E"))) == []
    assert chosen(paired(two([1, 2, 3]), ClusterMetadata(traits=traits))) == [0, 1]


def test_nothing_moves_if_versions_are_unknown() -> None:
    """A failed filter lets a lookup pass, and stops a transfer."""
    unknown = ClusterMetadata(traits={"full:1": BrokerTraits("4.2.4")})
    assert chosen(paired(two([1, 2, 3]), unknown, preferLaterVersions=True)) == []
    told = ClusterMetadata(traits={"full:1": BrokerTraits("4.2.4"), "idle:1": BrokerTraits("4.2.4")})
    assert chosen(paired(two([1, 2, 3]), told, preferLaterVersions=True)) == [0, 1]


def test_bundles_with_policies_are_reported_only_if_that_is_switched_on() -> None:
    """By default none of them takes part."""
    assert paired(two([1, 2, 3]), isolated("full", "idle")).facts["outcome"] == "it reports no bundle"


def test_excluded_namespaces_are_of_pulsar_4_2() -> None:
    """4.0 does not know the option."""
    option: dict[str, Any] = {"loadBalancerSheddingExcludedNamespaces": "t/other, t/n"}
    assert paired(two([1, 2, 3]), **option).moves == ()
    assert chosen(paired(two([1, 2, 3]), variant="pulsar-4.0", **option)) == [0, 1]


def test_a_bundle_too_large_moves_if_smaller_ones_balance_it() -> None:
    """9 move and 1 returns: both then carry 16."""
    pair = paired(two([9, 15], [1], idle_total=8))
    assert chosen(pair) == [100, 0]
    assert [(move.source, move.target) for move in pair.moves] == [("idle:1", "full:1"), ("full:1", "idle:1")]


def test_a_swap_must_not_turn_the_two_around() -> None:
    """After the first return it would be 15.5 to 17: another must return too, or nothing moves."""
    assert chosen(paired(two([9, 15], [0.5, 1.5], idle_total=8.5))) == [100, 101, 0]
    assert chosen(paired(two([9, 15], [0.5], idle_total=8.5))) == []


def test_a_swap_must_leave_the_fuller_broker_below_three_quarters() -> None:
    """9 go and 3 come back leave 18 of 24, which is exactly three quarters; a byte less is enough."""
    assert chosen(paired(two([9, 15], [3], idle_total=4))) == []
    assert chosen(paired(two([9, 15], [3 - 1 / UNIT], idle_total=4))) == [100, 0]


def test_a_bundle_is_skipped_if_its_return_fills_the_emptier_broker_as_much() -> None:
    """17 go to one of 10: giving back 3 leaves it 24, as much as the full one had; 4 and 6 balance it."""
    view = two([17, 7], [3, 4, 6], idle_total=10, recently=(1,))
    assert chosen(paired(view)) == [101, 102, 0]


def test_a_bundle_is_skipped_if_its_return_would_undo_the_move() -> None:
    """Bundles are in the order of their inbound bytes: the first is all outbound and would make it 24."""
    heavy = BundleStats(msg_throughput_out=9 * UNIT, topics=1)
    idle = report({key(100): heavy, key(101): stats(UNIT)}, cpu=25, throughput=8 * UNIT)
    view = two([9, 15])
    mixed = replace(view, brokers={**view.brokers, "idle:1": replace(view.brokers["idle:1"], report=idle)})
    assert chosen(paired(mixed)) == [101, 0]


def test_a_returned_bundle_is_not_considered_again() -> None:
    """16 of 48 are required: 9 move, 10 move for 1, and the next searches its balance behind that 1."""
    view = two([9, 10, 11, 18], [1, 2, 3, 5], total=48, idle_total=6)
    assert chosen(paired(view)) == [0, 100, 1, 101, 102, 103, 2]


def test_a_recently_moved_bundle_may_return_as_in_pulsar() -> None:
    """For returned bundles, Pulsar checks policies only."""
    assert chosen(paired(two([9, 15], [1], idle_total=8, recently=(100,)))) == [100, 0]
    idle = report({key(0, "t/m"): stats(UNIT)}, cpu=25, throughput=8 * UNIT)
    view = two([9, 15])
    mixed = replace(view, brokers={**view.brokers, "idle:1": replace(view.brokers["idle:1"], report=idle)})
    assert len(paired(mixed).moves) == 2
    stays = isolated("idle", namespace="t/m")
    assert paired(mixed, stays, **WITH_POLICIES).moves == ()


def test_nothing_returns_without_transfer() -> None:
    """There is no target that it could come from."""
    assert chosen(paired(two([9, 15], [1], idle_total=8), loadBalancerTransferEnabled=False)) == []


def test_returned_load_counts_in_debug_mode_only() -> None:
    """Pulsar's bug: the gain is added inside `if debug`; an option of ours adds it always."""
    view = two([9, 15], [1], idle_total=8)
    released = paired(view)
    assert (released.offloaded, released.gained) == (9 * UNIT, 0)
    for option in ("loadBalancerDebugModeEnabled", "transferShedderSwapGainCounted"):
        counted = paired(view, **dict[str, Any]({option: True}))
        assert (counted.moves, counted.gained) == (released.moves, UNIT)


def test_a_load_of_nothing_gives_everything_away_as_in_pulsar() -> None:
    """0 / 0 is not a number, and no bundle is more than that: all go but one."""
    pair = paired(two([9, 15, 20], cpu=0))
    assert math.isnan(float(str(pair.facts["bytes_per_second_wanted"])))
    assert chosen(pair) == [0, 1]


def test_doubles_are_divided_as_in_java() -> None:
    """By zero too."""
    assert divided(1.0, 4.0) == 0.25
    assert divided(1.0, 0.0) == math.inf
    assert divided(-1.0, 0.0) == -math.inf
    assert math.isnan(divided(0.0, 0.0))
