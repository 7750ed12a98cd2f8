"""OverloadShedder at the edges of its comparisons."""

import numpy as np
import pytest

from support.bundle_views import CHANCE, MB, key, report, stats, view_of
from trimtab.model.bundles.reports import BrokerReport, ResourceUsage
from trimtab.plan.pulsar.decision import NoState, ShedDecision
from trimtab.plan.pulsar.options import make_options
from trimtab.plan.pulsar.threshold_shedders import decide_overload
from trimtab.plan.pulsar.view import LeaderLoadView


def decided(view: LeaderLoadView, variant: str = "pulsar-4.2", **options: object) -> ShedDecision:
    """A decision under Pulsar's defaults but for `options`."""
    return decide_overload(view, NoState(), make_options(options, variant), CHANCE)[0]


def lone(usage: float, **usages: float) -> LeaderLoadView:
    """A broker with three bundles, 10, 20 and 30 MB/s, at so much CPU."""
    bundles = {key(number): stats(number * 10 * MB) for number in (1, 2, 3)}
    return view_of({"a:1": report(bundles, cpu=usage, **usages)})


def test_on_the_threshold_is_overloaded() -> None:
    """85 is itself in single precision, and divided by 100 in double precision it is .85; 84.99 is below."""
    assert float(np.float32(85)) / 100 == 0.85
    assert decided(lone(85)).unloads == {"a:1": (key(3),)}
    assert decided(lone(84.99)).unloads == {}


def test_five_points_below_the_threshold_are_aimed_at() -> None:
    """At 95 % it is 10 + 5 points of 60 MB/s, 9 MB/s: the busiest bundle is more than enough."""
    decision = decided(lone(95))
    assert decision.facts["brokers"]["a:1"]["bytes_per_second_needed"] == pytest.approx(9 * MB, rel=1e-5)
    assert decision.unloads == {"a:1": (key(3),)}


def test_far_above_the_threshold_more_bundles_go() -> None:
    """With a threshold of 40 %, 100 % means 65 points of 60 MB/s, 39 MB/s: 30 and 20."""
    decision = decided(lone(100), loadBalancerBrokerOverloadedThresholdPercentage=40)
    assert decision.unloads == {"a:1": (key(3), key(2))}


def test_weights_matter_here_too() -> None:
    """Direct memory has weight 0 and overloads no broker, unless the operator changes it."""
    assert decided(lone(10, direct_memory=90)).unloads == {}
    heavy = decided(lone(10, direct_memory=90), loadBalancerDirectMemoryResourceWeight=1.0)
    assert heavy.unloads == {"a:1": (key(3),)}
    assert decided(lone(90), loadBalancerCPUResourceWeight=0.5).unloads == {}


def test_heap_memory_counts_in_the_article_only() -> None:
    """A heap that waits for its collection is no overload to Pulsar 4."""
    assert decided(lone(10, memory=90)).unloads == {}
    assert decided(lone(10, memory=90), variant="article").unloads == {"a:1": (key(3),)}
    assert decided(lone(10, direct_memory=90), variant="article").unloads == {}


def test_a_sole_bundle_stays() -> None:
    """Moving it would move the overload."""
    view = view_of({"a:1": report({key(1): stats(60 * MB)}, cpu=99)})
    decision = decided(view)
    assert decision.unloads == {}
    assert decision.facts["brokers"]["a:1"]["outcome"] == "its sole bundle overloads it"


def test_a_broker_keeps_bundles_that_have_all_just_arrived() -> None:
    """Nothing may be unloaded twice within the grace time, and this is reported."""
    view = lone(99)
    waiting = LeaderLoadView(view.at, view.brokers, view.bundles, dict.fromkeys(view.bundles.names, 0.0))
    decision = decided(waiting)
    assert decision.unloads == {}
    assert decision.facts["brokers"]["a:1"]["outcome"] == "no bundle may be unloaded now"


def test_a_bundle_gained_but_not_yet_measured_is_not_chosen() -> None:
    """It is among the broker's bundles, and nothing is known of its traffic."""
    measured = {key(1): stats(MB)}
    gained = BrokerReport(
        cpu=ResourceUsage(99, 100), msg_throughput_in=MB, bundles=(key(9), key(1)), last_stats=measured
    )
    assert decided(view_of({"a:1": gained})).unloads == {"a:1": (key(1),)}
