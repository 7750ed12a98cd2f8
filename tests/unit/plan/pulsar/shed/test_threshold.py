"""ThresholdShedder at the edges of its comparisons."""

from typing import Any

import pytest

from support.bundle_views import CHANCE, MB, key, report, stats, view_of
from trimtab.plan.pulsar.decision import ShedDecision
from trimtab.plan.pulsar.options import make_options
from trimtab.plan.pulsar.threshold_shedders import THRESHOLD, ThresholdState, decide_threshold
from trimtab.plan.pulsar.view import LeaderLoadView


def decided(
    view: LeaderLoadView, state: ThresholdState | None = None, variant: str = "pulsar-4.2", **options: object
) -> tuple[ShedDecision, ThresholdState]:
    """A decision under Pulsar's defaults but for `options`."""
    return decide_threshold(view, state or ThresholdState(), make_options(options, variant), CHANCE)


def two(hot: float, cold: float, throughput: float = 400 * MB) -> LeaderLoadView:
    """A hot broker with three bundles, 10, 20 and 30 MB/s, and a cold one."""
    bundles = {key(number): stats(number * 10 * MB) for number in (1, 2, 3)}
    return view_of({"hot:1": report(bundles, cpu=hot, throughput=throughput), "cold:1": report(cpu=cold)})


def test_a_broker_on_the_threshold_sheds_in_pulsar_and_not_in_the_article() -> None:
    """40 % and 20 % have the average 30 %: the hot one lies exactly 10 points above it."""
    view = two(40, 20)
    assert decided(view)[0].unloads == {"hot:1": (key(3),)}
    assert decided(view, variant="article")[0].unloads == {}


def test_a_broker_just_below_the_threshold_keeps_its_bundles() -> None:
    """39.999 % against 20 %: 9.9995 points above the average."""
    assert decided(two(39.999, 20))[0].unloads == {}


def test_on_the_threshold_five_points_of_the_traffic_are_needed() -> None:
    """The aim is five points below the threshold, not the average: 0.05 of 400 MB/s is 20 MB/s."""
    decision, _ = decided(two(40, 20))
    assert decision.facts["brokers"]["hot:1"]["bytes_per_second_needed"] == pytest.approx(20 * MB)


def test_the_busiest_bundles_go_first_until_enough_is_taken() -> None:
    """60 % lies 10 points above the threshold of 50 %: 15 % of 400 MB/s are 60, so that all three must go."""
    decision, _ = decided(two(60, 20))
    assert decision.facts["brokers"]["hot:1"]["bytes_per_second_needed"] == pytest.approx(60 * MB, rel=1e-6)
    assert decision.unloads == {"hot:1": (key(3), key(2), key(1))}
    assert decided(two(59, 20))[0].unloads == {"hot:1": (key(3), key(2), key(1))}
    assert decided(two(50, 20))[0].unloads == {"hot:1": (key(3), key(2))}


def test_too_little_to_unload_is_left_alone() -> None:
    """Exactly the minimum throughput suffices, slightly less does not, with a reason."""
    view = two(40, 20)
    share = decided(view)[0].facts["brokers"]["hot:1"]["share_to_unload"]
    need = 400 * MB * share
    assert decided(view, loadBalancerBundleUnloadMinThroughputThreshold=need / MB)[0].unloads
    more = decided(view, loadBalancerBundleUnloadMinThroughputThreshold=need / MB * (1 + 1e-12))[0]
    assert more.unloads == {}
    assert "less than" in more.facts["brokers"]["hot:1"]["outcome"]


@pytest.mark.parametrize(
    ("bundles", "outcome"), [((1,), "its sole bundle overloads it"), ((), "overloaded without any bundle")]
)
def test_a_broker_with_one_bundle_or_none_cannot_shed(bundles: tuple[int, ...], outcome: str) -> None:
    """With a reason: a lone hot bundle can only be split."""
    held = {key(number): stats(100 * MB) for number in bundles}
    view = view_of({"hot:1": report(held, cpu=90, throughput=400 * MB), "cold:1": report(cpu=10)})
    decision, _ = decided(view)
    assert decision.unloads == {}
    assert decision.facts["brokers"]["hot:1"]["outcome"] == outcome


def test_one_bundle_is_taken_even_if_it_is_more_than_needed() -> None:
    """And the next only while less than needed is taken: what exactly suffices ends it."""
    held = {key(1): stats(200 * MB), key(2): stats(1 * MB)}
    view = view_of({"hot:1": report(held, cpu=40, throughput=400 * MB), "cold:1": report(cpu=20)})
    assert decided(view)[0].unloads == {"hot:1": (key(1),)}


def test_recently_unloaded_and_bound_bundles_stay() -> None:
    """Within the grace time a bundle is not moved again, and a heartbeat bundle belongs to its broker."""
    heartbeat = "pulsar/hot:8080/0x00000000_0xffffffff"
    held = {heartbeat: stats(90 * MB), key(1): stats(80 * MB), key(2): stats(70 * MB)}
    view = view_of(
        {"hot:1": report(held, cpu=40, throughput=400 * MB), "cold:1": report(cpu=20)},
        recently_unloaded=(key(1),),
    )
    assert decided(view)[0].unloads == {"hot:1": (key(2),)}


def test_equal_bundles_go_in_the_order_of_the_view() -> None:
    """Java's sort is stable: of two equals the first of the map is taken."""
    held = {key(7): stats(50 * MB), key(2): stats(50 * MB), key(5): stats(50 * MB)}
    view = view_of({"hot:1": report(held, cpu=40, throughput=400 * MB), "cold:1": report(cpu=20)})
    assert decided(view)[0].unloads == {"hot:1": (key(7),)}


def test_history_weighs_nine_tenths() -> None:
    """The first sample is taken as it is; each later one moves the mean by a tenth of the way."""
    _, state = decided(two(40, 20))
    assert state.usage == {"hot:1": 0.4, "cold:1": 0.2}
    _, state = decided(two(90, 20), state)
    assert state.usage["hot:1"] == 0.4 * 0.9 + (1 - 0.9) * 0.9


def test_a_burst_of_a_minute_moves_nothing() -> None:
    """From balanced to 90 % for one sample: the mean rises by 6 points only, the average by 3."""
    _, state = decided(two(30, 30))
    assert decided(two(90, 30), state)[0].unloads == {}


def test_a_missing_broker_is_forgotten_after_the_manager_reports_it() -> None:
    """Two things in Pulsar too: a decision keeps every history, a change of the active brokers drops some."""
    _, state = decided(two(40, 20))
    decision, state = decided(view_of({"cold:1": report(cpu=20)}), state)
    assert decision.facts["average"] == pytest.approx(0.2)
    assert state.usage["hot:1"] == 0.4
    after = THRESHOLD.noted(state, view_of({"cold:1": report(cpu=20)}), make_options({}))
    assert after.usage == {"cold:1": state.usage["cold:1"]}


def test_an_idle_cluster_is_left_alone() -> None:
    """With an average of 0 Pulsar gives up at once, even where the threshold is 0."""
    decision, _ = decided(two(0, 0), loadBalancerBrokerThresholdShedderPercentage=0)
    assert decision.unloads == {}
    assert decision.facts["outcome"] == "the average usage is 0"


@pytest.mark.parametrize("variant", ["pulsar-4.2", "pulsar-4.0", "article"])
def test_a_resource_above_its_limit_counts_as_it_is(variant: str) -> None:
    """110 % of a NIC is 1.1: no version of Pulsar 4 cuts it off or passes over it."""
    bundles = {key(1): stats(300 * MB), key(2): stats(100 * MB)}
    hot = report(bundles, cpu=30, bandwidth_in=110)
    decision, _ = decided(view_of({"hot:1": hot, "cold:1": report(cpu=20)}), variant=variant)
    assert decision.facts["brokers"]["hot:1"]["usage"] == pytest.approx(1.1)
    assert decision.unloads == {"hot:1": (key(1),)}


def test_the_same_view_gives_the_same_decision_and_leaves_its_state_alone() -> None:
    """States are values: a decision can be repeated."""
    _, state = decided(two(40, 20))
    before = dict(state.usage)
    assert decided(two(80, 20), state) == decided(two(80, 20), state)
    assert state.usage == before


def nine_and_one(idle: float = 0.0) -> LeaderLoadView:
    """Nine brokers at 60 % with two bundles each, and a tenth that has just joined."""
    brokers = {
        f"b{number}:1": report(
            {key(2 * number): stats(60 * MB), key(2 * number + 1): stats(40 * MB)},
            cpu=60,
            throughput=400 * MB,
        )
        for number in range(9)
    }
    return view_of({**brokers, "new:1": report(cpu=idle)})


def test_a_broker_that_joins_stays_empty_by_default() -> None:
    """Nine at .60 and one idle: the average is .54, and .60 is only six points above it."""
    assert decided(nine_and_one())[0].unloads == {}


def test_with_lower_boundary_shedding_the_new_broker_is_fed() -> None:
    """One broker far below the average makes the first of the busiest shed 10 % * 0.5 of its traffic."""
    decision, _ = decided(nine_and_one(), lowerBoundarySheddingEnabled=True)
    assert decision.unloads == {"b0:1": (key(0),)}
    assert decision.facts["lower_boundary"]["bytes_per_second_needed"] == pytest.approx(20 * MB)


def test_lower_boundary_shedding_counts_the_sample_twice() -> None:
    """Upstream quirk: the means take the same sample again, so that history fades at double speed."""
    _, before = decided(nine_and_one())
    _, after = decided(nine_and_one(idle=30), before, lowerBoundarySheddingEnabled=True)
    once = 0.0 * 0.9 + (1 - 0.9) * after_percent(30)
    assert after.usage["new:1"] == once * 0.9 + (1 - 0.9) * after_percent(30)


def after_percent(percent: float) -> float:
    """A percentage as Pulsar's single precision has it, as a fraction."""
    return report(cpu=percent).weighted_usage((1, 0, 0, 0, 0))


def test_lower_boundary_shedding_needs_a_broker_below_the_average() -> None:
    """45 % among nine at 60 % is 13.5 points below the average; 51 % is 8.1, and nothing is done."""
    assert decided(nine_and_one(45), lowerBoundarySheddingEnabled=True)[0].unloads
    decision, _ = decided(nine_and_one(51), lowerBoundarySheddingEnabled=True)
    assert decision.unloads == {}
    assert decision.facts["lower_boundary"]["some_broker_below"] is False


def test_lower_boundary_shedding_wants_ten_megabytes_too() -> None:
    """5 % of the busiest broker's traffic must be at least the minimum: on it is enough, above it is not."""
    view = nine_and_one()
    at = 400 * 0.1 * 0.5
    assert decided(
        view, lowerBoundarySheddingEnabled=True, loadBalancerBundleUnloadMinThroughputThreshold=at
    )[0].unloads
    assert not decided(
        view, lowerBoundarySheddingEnabled=True, loadBalancerBundleUnloadMinThroughputThreshold=at + 1e-9
    )[0].unloads


def quarters(low: float) -> LeaderLoadView:
    """Three quarters against one, with too little traffic to shed by the upper boundary."""
    bundles = {key(1): stats(MB), key(2): stats(MB)}
    return view_of({"hot:1": report(bundles, cpu=75, throughput=2 * MB), "cold:1": report(cpu=low)})


def test_a_broker_on_the_lower_boundary_is_not_below_it() -> None:
    """.25 is exactly 25 points below an average of .5; a hair less is below."""
    quarter: dict[str, Any] = {
        "lowerBoundarySheddingEnabled": True,
        "loadBalancerBrokerThresholdShedderPercentage": 25,
    }
    on = decided(quarters(25), **quarter)[0].facts["lower_boundary"]
    assert (on["average"], on["some_broker_below"]) == (0.5, False)
    assert decided(quarters(24.999), **quarter)[0].facts["lower_boundary"]["some_broker_below"] is True


def test_lower_boundary_shedding_passes_over_a_broker_with_a_sole_bundle() -> None:
    """The busiest of those with two bundles or more sheds, not the busiest."""
    full = nine_and_one()
    sole = report({key(99): stats(900 * MB)}, cpu=63)
    view = view_of({"sole:1": sole, **{name: one.report for name, one in full.brokers.items()}})
    decision, _ = decided(view, lowerBoundarySheddingEnabled=True)
    assert decision.facts["lower_boundary"]["busiest"] == "b0:1"
    assert decision.unloads == {"b0:1": (key(0),)}
