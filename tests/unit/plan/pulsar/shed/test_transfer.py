"""TransferShedder: when it acts, and at which edge it does not."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from support.bundle_views import CHANCE, key, report, stats, view_of
from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.model.bundles.reports import BrokerReport
from trimtab.plan.pulsar.decision import ShedDecision
from trimtab.plan.pulsar.options import make_options
from trimtab.plan.pulsar.transfer_shedder import TransferState, transfer_shedder
from trimtab.plan.pulsar.view import LeaderLoadView

UNIT = 100_000
"""Bytes per second that make one bundle heavier than another."""

DUE = TransferState(hits=3)


def broker(cpu: float, *bundles: int, first: int = 0, throughput: float = 0) -> BrokerReport:
    """A broker with bundles of so many units each, and units that belong to none of them."""
    held = {key(first + number): stats(units * UNIT) for number, units in enumerate(bundles)}
    return report(held, cpu=cpu, throughput=(sum(bundles) + throughput) * UNIT)


def decided(
    brokers: Mapping[str, BrokerReport] | LeaderLoadView, state: TransferState = DUE, **options: object
) -> tuple[ShedDecision, TransferState]:
    """A decision and the state after it; by default the hits are there already."""
    view = brokers if isinstance(brokers, LeaderLoadView) else view_of(brokers)
    return transfer_shedder(ClusterMetadata()).decide(view, state, make_options(options), CHANCE)


def reason(brokers: Mapping[str, BrokerReport], **options: object) -> object:
    """Why anything should move at all."""
    return decided(brokers, TransferState(), **options)[0].facts["reason"]


def apart(high: float = 75, low: float = 25) -> dict[str, BrokerReport]:
    """Two brokers; a third of what the full one carries makes them even."""
    return {"full:1": broker(high, 2, 4), "idle:1": broker(low, throughput=6)}


def aged(view: LeaderLoadView, **ages: float) -> LeaderLoadView:
    """The same at second 10,000, each broker's report of so many seconds before."""
    brokers = {
        name: replace(one, updated_at=10_000 - ages.get(name.partition(":")[0], 0.0))
        for name, one in view.brokers.items()
    }
    return replace(view, at=10_000.0, brokers=brokers)


def test_a_deviation_on_the_target_is_even_enough() -> None:
    """Loads of .75 and .25 deviate by exactly .25: a target of .25 is met, one of .2 is not."""
    assert reason(apart()) is None
    assert reason(apart(), loadBalancerBrokerLoadTargetStd=0.2) == "Overloaded"


def test_an_emptier_broker_counts_below_a_share_of_the_average() -> None:
    """With a target of .5 that share is a quarter: .125 of .5 is just enough, less is too little."""
    target = {"loadBalancerBrokerLoadTargetStd": 0.5}
    assert reason(apart(87.5, 12.5), **target) is None
    assert reason(apart(87.5, 12.25), **target) == "Underloaded"


def test_the_share_is_never_more_than_half() -> None:
    """A target of 4 would require twice the average; half of it is required."""
    target = {"loadBalancerBrokerLoadTargetStd": 4}
    assert reason({"a:1": broker(75), "b:1": broker(25)}, **target) is None
    assert reason({"a:1": broker(75), "b:1": broker(24)}, **target) == "Underloaded"


def test_a_broker_that_carries_next_to_nothing_is_underloaded_whatever_its_usage() -> None:
    """An eighth of the fullest broker's bytes is just enough, less is not."""
    busy = broker(50, throughput=8)
    assert reason({"a:1": busy, "b:1": report(cpu=40, throughput=UNIT)}) is None
    assert reason({"a:1": busy, "b:1": report(cpu=40, throughput=UNIT - 1)}) == "Underloaded"


def test_an_outlier_must_be_above_both_its_limits() -> None:
    """.875 is exactly .25 above an average of .625; a little less average, and it is too full."""
    others = {"b:1": broker(50), "c:1": broker(50)}
    assert reason({"a:1": broker(87.5), **others}) is None
    others = {"b:1": broker(50), "c:1": broker(49)}
    assert reason({"a:1": broker(87.5), **others}) == "Overloaded"
    assert reason({"a:1": broker(87.5), **others}, loadBalancerBrokerOverloadedThresholdPercentage=88) is None


def test_a_load_on_the_overload_threshold_is_not_above_it() -> None:
    """75 % against a threshold of 75 %, far above an average of 40."""
    brokers = {"a:1": broker(75), "b:1": broker(25), "c:1": broker(25), "d:1": broker(25)}
    assert reason(brokers, loadBalancerBrokerOverloadedThresholdPercentage=75) is None
    assert reason(brokers, loadBalancerBrokerOverloadedThresholdPercentage=74) == "Overloaded"


def test_only_the_fourth_hit_in_succession_acts() -> None:
    """The count must exceed three; after an action it restarts."""
    state = TransferState()
    for hits in (1, 2, 3):
        decision, state = decided(apart(100, 0), state)
        assert decision.unloads == {}
        assert decision.facts["skipped"] == "HitCount"
        assert state.hits == hits
    decision, state = decided(apart(100, 0), state)
    assert decision.unloads == {"full:1": (key(0),)}
    assert decision.destinations == {key(0): "idle:1"}
    assert state.hits == 0


def test_one_even_decision_takes_all_hits_back() -> None:
    """Hits count in succession only."""
    assert decided(apart(50, 50), TransferState(hits=2))[1].hits == 0


def test_hits_stay_if_nothing_can_move() -> None:
    """The cluster is as uneven as before, and the next decision may act."""
    brokers = {"full:1": broker(100, 3), "idle:1": broker(0)}
    decision, state = decided(brokers)
    assert decision.facts["skipped"] == "NoBundles"
    assert decision.facts["pairs"][0]["outcome"] == "its sole reported bundle overloads it"
    assert state.hits == 4


def test_a_broker_that_was_unloaded_just_now_stops_everything() -> None:
    """Until its report is 180 seconds younger than the unload; the hits stay as they are."""
    view = replace(aged(view_of(apart(100, 0))), recently_unloaded_brokers={"full:1": 9_820.5})
    decision, state = decided(view)
    assert decision.facts["skipped"] == "CoolDown"
    assert (decision.unloads, state.hits) == ({}, 3)
    view = replace(view, recently_unloaded_brokers={"full:1": 9_820.0})
    assert decided(view)[0].unloads == {"full:1": (key(0),)}


def test_a_cooldown_ends_by_the_report_time_not_by_the_clock() -> None:
    """An hour later, but the newest report is from before the unload's time is over."""
    view = replace(aged(view_of(apart(100, 0)), full=100.0), recently_unloaded_brokers={"full:1": 9_800.0})
    assert decided(view)[0].facts["skipped"] == "CoolDown"


def test_data_of_half_an_hour_count_and_older_do_not() -> None:
    """Where all are older there is nothing to decide from."""
    view = view_of(apart(100, 0))
    assert decided(aged(view, full=1800.0, idle=1800.0))[0].unloads == {"full:1": (key(0),)}
    decision, state = decided(aged(view, full=1800.001, idle=1801.0))
    assert (decision.facts["skipped"], state.hits) == ("OutDatedData", 3)


def test_a_broker_of_old_data_is_left_out_of_the_average_but_not_of_the_order() -> None:
    """The idle one does not report: the other is the average, and yet the idle one is the emptiest."""
    decision, _ = decided(aged(view_of(apart(100, 0)), idle=1801.0), TransferState())
    assert (decision.facts["average"], decision.facts["deviation"]) == (1.0, 0.0)
    assert list(decision.facts["loads"]) == ["idle:1", "full:1"]
    assert decision.facts["reason"] == "Underloaded"


def test_without_any_broker_nothing_is_decided() -> None:
    """And nothing fails."""
    assert decided({})[0].facts == {"skipped": "NoBrokers"}


def test_a_living_broker_without_data_stops_everything() -> None:
    """It would be the emptiest of all, if it reported."""
    up = ClusterMetadata(brokers=("full:1", "idle:1", "new:1"))
    decision, state = transfer_shedder(up).decide(view_of(apart(100, 0)), DUE, make_options({}), CHANCE)
    assert decision.facts == {"skipped": "NoLoadData", "brokers": ["new:1"]}
    assert state.hits == 3


def test_a_lone_broker_is_even_with_itself() -> None:
    """However full it is."""
    assert decided({"a:1": broker(100, 5, 5)})[0].unloads == {}


def eight() -> dict[str, BrokerReport]:
    """Four full brokers and four idle ones, each pair even after one bundle."""
    full = {f"full{n}:1": broker(75, 2, 4, first=10 * n) for n in range(4)}
    return full | {f"idle{n}:1": broker(25, throughput=6) for n in range(4)}


def test_pairs_follow_until_the_prediction_is_on_target() -> None:
    """The deviation falls from .25 over .217 to .177: with a target of .2 two pairs are enough."""
    decision, _ = decided(eight(), loadBalancerBrokerLoadTargetStd=0.2)
    assert len(decision.unloads) == 2
    assert [pair["predicted_deviation"] for pair in decision.facts["pairs"]] == [
        (0.296875 - 0.25) ** 0.5,
        (0.28125 - 0.25) ** 0.5,
    ]


def test_no_more_than_three_pairs_a_cycle() -> None:
    """A target of .1 would need all four; the last broker in the order gives first, the first takes first."""
    decision, _ = decided(eight(), loadBalancerBrokerLoadTargetStd=0.1)
    assert decision.unloads == {"full3:1": (key(30),), "full2:1": (key(20),), "full1:1": (key(10),)}
    assert decision.destinations == {key(30): "idle0:1", key(20): "idle1:1", key(10): "idle2:1"}
    one, _ = decided(
        eight(), loadBalancerBrokerLoadTargetStd=0.1, loadBalancerMaxNumberOfBrokerSheddingPerCycle=1
    )
    assert list(one.unloads) == ["full3:1"]


def test_a_broker_without_movable_bundles_uses_up_no_pair_and_no_destination() -> None:
    """The fullest has a sole bundle: the next one gives to the emptiest, and three pairs are still left."""
    brokers = eight() | {"stuck:1": broker(75.5, 6, first=90)}
    decision, _ = decided(brokers, loadBalancerBrokerLoadTargetStd=0.1)
    assert decision.facts["pairs"][0]["source"] == "stuck:1"
    assert decision.destinations == {key(30): "idle0:1", key(20): "idle1:1", key(10): "idle2:1"}


def test_the_broker_in_the_middle_is_not_its_own_pair() -> None:
    """One pair moved too little to be even: of three brokers there is no second."""
    brokers = {"full:1": broker(100, 1, 23), "half:1": broker(50, 3, 9, first=50), "idle:1": broker(0)}
    decision, _ = decided(brokers)
    assert decision.unloads == {"full:1": (key(0),)}
    assert [pair["source"] for pair in decision.facts["pairs"]] == ["full:1"]
    assert decision.facts["pairs"][0]["predicted_deviation"] > 0.25


@pytest.mark.parametrize("enabled", [True, False])
def test_without_transfer_bundles_are_unloaded_to_wherever(enabled: bool) -> None:
    """`loadBalancerTransferEnabled=false` leaves the target to the placement."""
    decision, _ = decided(apart(100, 0), loadBalancerTransferEnabled=enabled)
    assert decision.unloads == {"full:1": (key(0),)}
    assert bool(decision.destinations) is enabled
