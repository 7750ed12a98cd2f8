"""AvgShedder at the edges of its comparisons."""

from collections.abc import Mapping
from typing import Any

import pytest

from support.bundle_views import CHANCE, MB, key, report, stats, view_of
from trimtab.model.bundles.reports import BrokerReport
from trimtab.plan.pulsar.avg_shedder import AvgState, decide
from trimtab.plan.pulsar.decision import ShedDecision
from trimtab.plan.pulsar.options import make_options
from trimtab.plan.pulsar.view import LeaderLoadView

AT_ONCE: dict[str, Any] = {
    "loadBalancerAvgShedderHitCountLowThreshold": 1,
    "loadBalancerAvgShedderHitCountHighThreshold": 1,
}


def decided(
    view: LeaderLoadView, state: AvgState | None = None, variant: str = "pulsar-4.2", **options: object
) -> tuple[ShedDecision, AvgState]:
    """A decision and the state after it, under Pulsar's defaults but for `options`."""
    return decide(view, state or AvgState(), make_options(options, variant), CHANCE)


def two(
    *rates: float, high: float = 75, low: float = 25, total: float = 60_000, recently: tuple[str, ...] = ()
) -> LeaderLoadView:
    """A full broker with bundles of these rates (the first is `key(0)`) and an idle one."""
    bundles = {key(number): stats(rate=rate) for number, rate in enumerate(rates)}
    return view_of(
        {"full:1": report(bundles, cpu=high, rate=total), "idle:1": report(cpu=low)},
        recently_unloaded=recently,
    )


def idle(**cpu: float) -> dict[str, BrokerReport]:
    """Brokers with a usage and nothing to unload."""
    return {name: report(cpu=one) for name, one in cpu.items()}


def pairs(brokers: Mapping[str, BrokerReport], variant: str = "pulsar-4.2", apart: int = 0) -> list[object]:
    """Which brokers become pairs, the emptier first."""
    decision, _ = decided(view_of(brokers), variant=variant, loadBalancerAvgShedderLowThreshold=apart)
    return [(pair["target"], pair["source"]) for pair in decision.facts["pairs"]]


def test_brokers_a_threshold_apart_are_a_pair_and_less_is_none() -> None:
    """75 - 50 is 25: it counts from a threshold of 25 on and not from one of 26."""
    view = two(100, 100, high=75, low=50)
    assert decided(view, loadBalancerAvgShedderLowThreshold=25)[1].hits_low == {"full:1": 1, "idle:1": 1}
    assert decided(view, loadBalancerAvgShedderLowThreshold=26)[1].hits_low == {}


def test_the_high_threshold_counts_on_it_too() -> None:
    """50 points apart is a high hit from a threshold of 50 on; every high hit is a low one as well."""
    view = two(100, 100)
    state = decided(view, loadBalancerAvgShedderHighThreshold=50)[1]
    assert (state.hits_high, state.hits_low) == ({"full:1": 1, "idle:1": 1}, {"full:1": 1, "idle:1": 1})
    state = decided(view, loadBalancerAvgShedderHighThreshold=51)[1]
    assert (state.hits_high, state.hits_low) == ({}, {"full:1": 1, "idle:1": 1})


def test_far_apart_twice_acts() -> None:
    """The second high hit unloads, and both brokers reset their counts."""
    view = two(100, 100)
    first, state = decided(view)
    assert first.unloads == {}
    second, state = decided(view, state)
    assert second.unloads == {"full:1": (key(0), key(1))}
    assert second.destinations == {key(0): "idle:1", key(1): "idle:1"}
    assert (state.hits_high, state.hits_low) == ({}, {})


def test_apart_eight_times_acts() -> None:
    """25 points apart is only a low hit: seven of them do nothing, the eighth does."""
    view, state = two(100, 100, high=50, low=25), AvgState()
    for _ in range(7):
        decision, state = decided(view, state)
        assert decision.unloads == {}
    assert decided(view, state)[0].unloads == {"full:1": (key(0), key(1))}


def test_high_hits_must_follow_each_other_and_low_ones_go_on() -> None:
    """A decision in between with less than 40 points takes the high hit back and adds a low one."""
    state = decided(two(100, 100))[1]
    state = decided(two(100, 100, high=50), state)[1]
    assert (state.hits_high, state.hits_low) == ({}, {"full:1": 2, "idle:1": 2})
    assert decided(two(100, 100), state)[0].unloads == {}


def test_near_brokers_forget_all_hits() -> None:
    """One even decision, and everything is counted from the beginning."""
    state = decided(two(100, 100))[1]
    state = decided(two(100, 100, high=30), state)[1]
    assert state == AvgState(max_brokers=2)


def test_the_partner_of_a_broker_that_was_apart_before_is_enough() -> None:
    """Hits are of brokers, not of pairs: one that was apart from another partner acts with a new one."""
    state = AvgState(hits_high={"idle:1": 1}, hits_low={"idle:1": 1})
    assert decided(two(100, 100), state)[0].unloads == {"full:1": (key(0), key(1))}


def test_hits_are_used_up_even_if_nothing_can_be_unloaded() -> None:
    """A broker without any bundle is still full; the count restarts."""
    state = decided(two())[1]
    decision, state = decided(two(), state)
    assert decision.unloads == {}
    assert decision.facts["pairs"][0]["outcome"] == "overloaded without any bundle"
    assert state.hits_high == {}


@pytest.mark.parametrize("variant", ["pulsar-4.2", "pulsar-4.0"])
def test_a_sole_bundle_is_unloaded_despite_pulsars_log_message(variant: str) -> None:
    """It logs "No Load Shedding will be done on this broker", and then the bundle is unloaded."""
    decision, _ = decided(two(100), variant=variant, **AT_ONCE)
    assert decision.unloads == {"full:1": (key(0),)}
    assert decided(two(100_000), variant=variant, **AT_ONCE)[0].unloads == {}


def test_a_threshold_of_nothing_makes_the_middle_broker_its_own_pair() -> None:
    """It is 0 points from itself, counts two hits at once, and has nothing to give to itself."""
    decision, state = decided(
        view_of(idle(a=10, b=50, c=90)),
        loadBalancerAvgShedderLowThreshold=0,
        loadBalancerAvgShedderHitCountLowThreshold=3,
        loadBalancerAvgShedderHitCountHighThreshold=9,
    )
    assert state.hits_low == {"a": 1, "c": 1, "b": 2}
    assert decision.unloads == {}


def test_the_hits_of_a_broker_that_left_stay_until_all_is_even() -> None:
    """They stay while any pair is apart; the first decision without a pair clears them all."""
    state = AvgState(hits_low={"gone:1": 7})
    state = decided(two(100, 100), state)[1]
    assert state.hits_low["gone:1"] == 7
    assert decided(two(100, 100, high=30), state)[1].hits_low == {}


def test_fullest_and_emptiest_are_pairs_from_outside_in() -> None:
    """Five brokers make two pairs, and the one in the middle loses its hits."""
    brokers = idle(a=10, b=90, c=50, d=70, e=30)
    assert pairs(brokers) == [("a", "b"), ("e", "d"), ("c", "c")]
    state = decided(view_of(brokers), AvgState(hits_low={"c": 5}))[1]
    assert state.hits_low == {"a": 1, "b": 1, "d": 1, "e": 1}


def test_equal_brokers_come_in_the_order_of_javas_map() -> None:
    """The order of the reports does not matter: recorded for `broker-0` to `broker-4` as 2, 1, 3, 0, 4."""
    brokers = {f"broker-{i}:8080": report(cpu=50) for i in (0, 1, 2, 3, 4)}
    expected = [(2, 4), (1, 0), (3, 3)]
    assert pairs(brokers) == [(f"broker-{i}:8080", f"broker-{j}:8080") for i, j in expected]


def test_pulsar_4_0_takes_no_notice_of_less_than_a_point() -> None:
    """There 50.5 stays before 50 if the map has it first; 4.2 sorts by the exact score."""
    brokers = {"broker-2:8080": report(cpu=50.5), "broker-1:8080": report(cpu=50)}
    assert pairs(brokers, "pulsar-4.2") == [("broker-1:8080", "broker-2:8080")]
    assert decided(view_of(brokers), variant="pulsar-4.0", loadBalancerAvgShedderLowThreshold=-1)[0].facts[
        "pairs"
    ][0]["source"] == ("broker-1:8080")


def test_pulsar_4_0_does_nothing_if_javas_sort_fails() -> None:
    """Many brokers less than a point apart: Pulsar 4.0 fails, and what was counted so far stays."""
    values, seed = [], 5
    for _ in range(300):
        seed = (seed * 1103515245 + 12345) % 2**31
        values.append(seed / 2**31 * 8)
    brokers = {f"b{i}": report(cpu=value) for i, value in enumerate(values)}
    before = AvgState(hits_low={"b0": 3})
    decision, state = decided(view_of(brokers), before, "pulsar-4.0")
    assert "Pulsar fails here" in decision.facts["outcome"]
    assert state.hits_low == {"b0": 3}
    assert "Pulsar fails" not in decided(view_of(brokers), before)[0].facts["outcome"]


def test_a_fifth_of_the_difference_moves_and_only_above_the_minimum() -> None:
    """5,000 * 0.2 is 1,000 msg/s: not above the minimum, and 5,001 is."""
    assert decided(two(10, 10, total=5000), **AT_ONCE)[0].unloads == {}
    decision = decided(two(10, 10, total=5001), **AT_ONCE)[0]
    assert decision.unloads == {"full:1": (key(0), key(1))}
    assert decision.facts["pairs"][0]["measure"] == "rate"


def test_throughput_is_the_second_measure_with_its_own_minimum() -> None:
    """4 MiB/s apart with a quarter of it to move is exactly 1 MiB/s: too little, a byte more is enough."""

    def view(total: float) -> LeaderLoadView:
        bundles = {key(0): stats(1000), key(1): stats(1000)}
        return view_of({"full:1": report(bundles, cpu=75, throughput=total), "idle:1": report(cpu=25)})

    quarter: dict[str, Any] = {"maxUnloadPercentage": 0.25, **AT_ONCE}
    assert decided(view(4 * MB), **quarter)[0].unloads == {}
    decision = decided(view(4 * MB + 4), **quarter)[0]
    assert decision.unloads == {"full:1": (key(0), key(1))}
    assert decision.facts["pairs"][0]["measure"] == "throughput"


def test_rate_precedes_throughput_if_both_suffice() -> None:
    """10,000 msg/s and 100 MB/s apart: 2,000 msg/s are required, which the one bundle has; the other has the
    20 MB/s required by throughput.
    """
    bundles = {key(0): stats(50 * MB, rate=2000), key(1): stats(20 * MB, rate=3000)}
    full = report(bundles, cpu=75, rate=10_000, throughput=100 * MB)
    view = view_of({"full:1": full, "idle:1": report(cpu=25)})
    assert decided(view, **AT_ONCE)[0].unloads == {"full:1": (key(0),)}


def test_bundles_are_taken_from_the_busiest_down_as_far_as_they_fit() -> None:
    """Of 2,000 msg/s to move: 2,001 is too much, 1,500 fits, 501 no longer, 500 just does, 0 never."""
    view = two(500, 2001, 0, 1500, 501, total=10_000)
    assert decided(view, **AT_ONCE)[0].unloads == {"full:1": (key(3), key(0))}


def test_equal_bundles_keep_the_order_of_the_view() -> None:
    """Java's sort is stable: of three equal ones the first two fit."""
    assert decided(two(1000, 1000, 1000, total=10_000), **AT_ONCE)[0].unloads == {"full:1": (key(0), key(1))}


def test_recently_unloaded_bundles_stay() -> None:
    """Also the busiest, if it arrived recently."""
    view = two(1000, 900, 800, total=10_000, recently=(key(0),))
    assert decided(view, **AT_ONCE)[0].unloads == {"full:1": (key(1), key(2))}


def test_a_fuller_broker_that_does_less_sheds_nothing() -> None:
    """Its CPU is full but the other one has the traffic: the difference is negative."""
    bundles = {key(0): stats(rate=10), key(1): stats(rate=10)}
    view = view_of(
        {"full:1": report(bundles, cpu=75, rate=1000), "idle:1": report(cpu=25, rate=9000)},
    )
    assert decided(view, **AT_ONCE)[0].unloads == {}


@pytest.mark.parametrize("brokers", [{}, {"a:1": report(cpu=90)}])
def test_a_lone_broker_has_no_partner(brokers: dict[str, BrokerReport]) -> None:
    """Nothing is decided, and nothing fails."""
    assert decided(view_of(brokers), **AT_ONCE)[0].unloads == {}
