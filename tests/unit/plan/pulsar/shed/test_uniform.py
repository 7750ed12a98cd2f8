"""UniformLoadShedder at the edges of its comparisons, in Pulsar 4.2 and 4.0."""

from typing import Any

import pytest

from support.bundle_views import CHANCE, MB, key, report, stats, view_of
from trimtab.plan.pulsar.decision import NoState, ShedDecision
from trimtab.plan.pulsar.options import make_options
from trimtab.plan.pulsar.threshold_shedders import decide_uniform
from trimtab.plan.pulsar.view import LeaderLoadView


def decided(view: LeaderLoadView, variant: str = "pulsar-4.2", **options: object) -> ShedDecision:
    """A decision under Pulsar's defaults but for `options`."""
    return decide_uniform(view, NoState(), make_options(options, variant), CHANCE)[0]


def by_rate(*rates: float, high: float, low: float) -> LeaderLoadView:
    """A broker of a total rate with bundles of these, and another of a lower rate."""
    bundles = {key(number): stats(rate=rate) for number, rate in enumerate(rates)}
    return view_of({"high:1": report(bundles, rate=high), "low:1": report(rate=low)})


def by_throughput(*throughputs: float, high: float, low: float) -> LeaderLoadView:
    """The same by bytes per second, with equal rates."""
    bundles = {key(number): stats(throughput) for number, throughput in enumerate(throughputs)}
    return view_of(
        {"high:1": report(bundles, throughput=high, rate=10), "low:1": report(throughput=low, rate=10)}
    )


def test_half_as_much_again_is_just_not_too_much() -> None:
    """15,000 against 10,000 is 50 %, and only more than 50 % counts."""
    assert decided(by_rate(500, 400, high=15000, low=10000)).unloads == {}
    assert decided(by_rate(500, 400, high=15001, low=10000)).unloads == {"high:1": (key(0), key(1))}


def test_four_times_the_throughput_is_just_not_too_much() -> None:
    """40 MB/s against 10 is a factor of 4, and only more counts."""
    assert decided(by_throughput(MB, MB, high=40 * MB, low=10 * MB)).unloads == {}
    assert decided(by_throughput(MB, MB, high=40 * MB + 1, low=10 * MB)).unloads == {
        "high:1": (key(0), key(1))
    }


def test_a_fifth_of_the_difference_is_needed_and_at_least_the_minimum() -> None:
    """(6,000 - 1,000) * 0.2 is 1,000 msg/s, exactly the minimum; with 5,999 the cast leaves 999."""
    decision = decided(by_rate(700, 300, high=6000, low=1000))
    assert decision.facts["needed"] == 1000
    assert decision.unloads == {"high:1": (key(0), key(1))}
    less = decided(by_rate(700, 300, high=5999, low=1000))
    assert less.facts["needed"] == 999
    assert less.unloads == {}


def test_a_megabyte_is_the_minimum_of_throughput() -> None:
    """(6 MiB - 1 MiB) * 0.2 is exactly 1 MiB/s; a byte less is too little."""
    assert decided(by_throughput(MB, 1, high=6 * MB, low=MB)).unloads == {"high:1": (key(0),)}
    assert decided(by_throughput(1, 1, high=6 * MB - 5, low=MB)).unloads == {}


def test_rate_precedes_throughput() -> None:
    """Both are too far apart: only the rate counts, even if it can unload nothing. By throughput 29.8 MB/s
    would be required, and either bundle would move.
    """
    bundles = {key(0): stats(20 * MB, rate=5), key(1): stats(5 * MB, rate=5)}
    view = view_of(
        {"high:1": report(bundles, rate=20, throughput=150 * MB), "low:1": report(rate=10, throughput=MB)}
    )
    decision = decided(view)
    assert decision.facts["measure"] == "rate"
    assert decision.unloads == {}


def test_the_two_measures_may_find_different_brokers() -> None:
    """The busiest by messages keeps its bundles if only bytes are too far apart."""
    bundles = {key(0): stats(5 * MB, rate=1), key(1): stats(5 * MB, rate=1)}
    view = view_of(
        {
            "chatty:1": report({key(8): stats(), key(9): stats()}, rate=14, throughput=2 * MB),
            "heavy:1": report(bundles, rate=10, throughput=100 * MB),
        }
    )
    assert decided(view).unloads == {"heavy:1": (key(0), key(1))}


def test_an_idle_broker_counts_as_one() -> None:
    """A minimum of 0 would divide by nothing: it becomes 1 message and 1 byte per second."""
    decision = decided(by_rate(900, 100, high=6001, low=0))
    assert decision.facts["rate"]["lowest"] == 1.0
    assert decision.facts["rate"]["difference_percent"] == 600000.0
    assert decision.facts["needed"] == 1200


def test_bundles_that_do_not_fit_are_passed_over() -> None:
    """Of 1,100 to unload, 1,200 is too much; 1,000 goes; then 150 is too much for what is left, 100 not."""
    view = by_rate(1200, 1000, 150, 100, high=6500, low=1000)
    assert decided(view).unloads == {"high:1": (key(1), key(3))}


def test_bundles_without_traffic_are_unloaded_with_the_rest() -> None:
    """Zero is never more than what is left (#21214): they are unloaded with the rest."""
    view = by_rate(1000, 500, 0, 0, high=6000, low=1000)
    assert decided(view).unloads == {"high:1": (key(0), key(2), key(3))}


def test_the_remainder_is_counted_in_whole_messages() -> None:
    """Java's MutableInt drops fractions: 500.9 takes 500, so that 500 more still fit into 1,000."""
    view = by_rate(500.9, 500, high=6000, low=1000)
    assert decided(view).unloads == {"high:1": (key(0), key(1))}


def test_pulsar_4_0_takes_a_thousand_more() -> None:
    """Its bundles may be 1,000 over what is left, by messages as by bytes (#21906)."""
    view = by_rate(2000, 1001, 1000, 1, high=6000, low=1000)
    assert decided(view).unloads == {"high:1": (key(2),)}
    assert decided(view, variant="pulsar-4.0").unloads == {"high:1": (key(0),)}
    heavy = by_throughput(MB + 1001, MB + 1000, high=6 * MB, low=MB)
    assert decided(heavy).unloads == {}
    assert decided(heavy, variant="pulsar-4.0").unloads == {"high:1": (key(1),)}


def test_pulsar_4_0_runs_over_the_ends_of_an_int() -> None:
    """Where all of an int is needed, 1,000 more are less than nothing, and no bundle fits."""
    view = by_throughput(MB, MB, high=1e12, low=1e10)
    assert decided(view).unloads == {"high:1": (key(0), key(1))}
    assert decided(view, variant="pulsar-4.0").unloads == {}


def test_pulsar_4_0_continues_below_zero() -> None:
    """After 1,500 of 1,000 there are -500 left, plus 1,000: 500 still fits, and then nothing but silence."""
    view = by_rate(1500, 501, 500, 1, 0, high=6000, low=1000)
    assert decided(view, variant="pulsar-4.0").unloads == {"high:1": (key(0), key(2), key(4))}


def test_no_more_bundles_than_allowed() -> None:
    """-1 is no limit; 0 unloads nothing at all."""
    view = by_rate(300, 200, 100, high=6000, low=1000)
    assert decided(view, maxUnloadBundleNumPerShedding=2).unloads == {"high:1": (key(0), key(1))}
    assert decided(view, maxUnloadBundleNumPerShedding=0).unloads == {}


@pytest.mark.parametrize(
    "option",
    [
        "loadBalancerMsgRateDifferenceShedderThreshold",
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
    ],
)
def test_a_threshold_of_zero_switches_a_measure_off(option: str) -> None:
    """Pulsar takes 0 as never, not as always."""
    rate_off = option.startswith("loadBalancerMsgRate")
    view = by_rate(900, high=9000, low=1) if rate_off else by_throughput(MB, MB, high=99 * MB, low=MB)
    assert decided(view, **dict[str, Any]({option: 0})).unloads == {}


def test_a_sole_bundle_stays_even_on_the_busiest_broker() -> None:
    """The busiest is found among all brokers, also those that cannot shed."""
    decision = decided(by_rate(900, high=9000, low=1000))
    assert decision.unloads == {}
    assert decision.facts["outcome"] == "it has no second bundle"


def test_the_first_of_equals_sheds() -> None:
    """Only more than the most so far counts: of two equally busy brokers the first of the view."""
    one = report({key(0): stats(rate=500), key(1): stats(rate=400)}, rate=9000)
    other = report({key(2): stats(rate=500), key(3): stats(rate=400)}, rate=9000)
    view = view_of({"a:1": one, "b:1": other, "c:1": report(rate=1000)})
    assert list(decided(view).unloads) == ["a:1"]


def test_above_two_gigabytes_the_minimum_is_javas_largest_int() -> None:
    """Upstream quirk: the search for the minimum begins at 2^31-1, and need is held within an int."""
    view = by_throughput(MB, MB, high=1e12, low=1e10)
    decision = decided(view)
    assert decision.facts["throughput"]["lowest"] == 2**31 - 1
    assert decision.facts["throughput"]["idlest"] is None
    assert decision.facts["needed"] == 2**31 - 1


@pytest.mark.parametrize(("low", "counted"), [(1e-6, 1.0), (1.1e-6, 1.1e-6), (0.5, 0.5)])
def test_next_to_nothing_is_nothing(low: float, counted: float) -> None:
    """Up to a millionth counts as 0, which becomes 1; what is more stays as it is."""
    assert decided(by_rate(900, 100, high=6001, low=low)).facts["rate"]["lowest"] == counted
