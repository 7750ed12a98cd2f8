"""What holds of AvgShedder and TransferShedder whatever the brokers report."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.bundle_views import key, report, stats, view_of
from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.plan.pulsar import avg_shedder
from trimtab.plan.pulsar.decision import ShedDecision, Shedder
from trimtab.plan.pulsar.options import VARIANTS, PulsarBrokerConfig, make_options
from trimtab.plan.pulsar.transfer_shedder import transfer_shedder
from trimtab.plan.pulsar.view import LeaderLoadView

EAGER: dict[str, object] = {
    "loadBalancerAvgShedderLowThreshold": 1,
    "loadBalancerAvgShedderHighThreshold": 5,
    "loadBalancerAvgShedderHitCountLowThreshold": 2,
    "loadBalancerAvgShedderHitCountHighThreshold": 1,
    "maxUnloadPercentage": 0.5,
    "minUnloadMessage": 0,
    "minUnloadMessageThroughput": 0,
    "loadBalancerBrokerLoadTargetStd": 0.05,
    "loadBalancerSheddingConditionHitCountThreshold": 1,
}
"""Settings under which something happens at nearly every decision."""

BOTH = pytest.mark.parametrize(
    "shedder",
    [avg_shedder.SHEDDER, transfer_shedder(ClusterMetadata())],
    ids=["AvgShedder", "TransferShedder"],
)


@st.composite
def streams(draw: st.DrawFn) -> list[LeaderLoadView]:
    """A few brokers over a few ticks: usages and traffic change, bundles stay, some came just now."""
    numbers = iter(range(200))
    owned = {
        f"b{place}:1": [key(next(numbers)) for _ in range(draw(st.integers(0, 5)))]
        for place in range(draw(st.integers(2, 6)))
    }
    traffic = st.sampled_from([0, 1, 50_000, 100_000, 300_000, 300_000, 1_000_000])
    views = []
    for tick in range(draw(st.integers(1, 4))):
        brokers = {}
        for broker, bundles in owned.items():
            held = {bundle: stats(draw(traffic), rate=draw(traffic)) for bundle in bundles}
            brokers[broker] = report(held, cpu=draw(st.sampled_from([0, 5, 20, 20.4, 50, 80, 100])))
        every = [bundle for bundles in owned.values() for bundle in bundles] or ["none"]
        recent = draw(st.sets(st.sampled_from(every), max_size=3))
        views.append(view_of(brokers, recently_unloaded=tuple(sorted(recent)), at=60.0 * tick))
    return views


def run(
    shedder: Shedder[Any], views: list[LeaderLoadView], options: PulsarBrokerConfig
) -> list[tuple[ShedDecision, Any]]:
    """Each decision and the state after it."""
    state, found = shedder.initial, []
    for view in views:
        decision, state = shedder.decide(view, state, options, np.random.default_rng(0))
        found.append((decision, state))
    return found


def givers(decision: ShedDecision) -> set[str]:
    """Brokers that give up load, not those that give something back in a swap."""
    pairs = decision.facts.get("pairs", [])
    return {pair["source"] for pair in pairs}


@BOTH
@given(streams(), st.sampled_from(VARIANTS))
def test_only_bundles_that_may_move_are_moved(
    shedder: Shedder[Any], views: list[LeaderLoadView], variant: str
) -> None:
    """Each is its broker's own, is moved once, goes to another broker, and was not unloaded just now."""
    for view, (decision, _) in zip(views, run(shedder, views, make_options(EAGER, variant)), strict=True):
        moved = [bundle for chosen in decision.unloads.values() for bundle in chosen]
        assert len(set(moved)) == len(moved)
        assert set(decision.destinations) == set(moved)
        for broker, chosen in decision.unloads.items():
            assert set(chosen) <= set(view.reports[broker].bundles)
            assert {decision.destinations[bundle] for bundle in chosen} <= set(view.brokers) - {broker}
            if broker in givers(decision):
                assert not set(chosen) & set(view.recently_unloaded)


@BOTH
@given(streams())
def test_a_broker_that_gives_keeps_a_bundle(shedder: Shedder[Any], views: list[LeaderLoadView]) -> None:
    """Its sole bundle never goes, and never do all of several."""
    for view, (decision, _) in zip(views, run(shedder, views, make_options(EAGER)), strict=True):
        for broker in givers(decision) & set(decision.unloads):
            assert len(decision.unloads[broker]) < len(view.reports[broker].bundles)


@BOTH
@given(streams(), st.booleans())
def test_a_state_that_went_through_json_decides_the_same(
    shedder: Shedder[Any], views: list[LeaderLoadView], by_name: bool
) -> None:
    """Saved and read back before every tick, there is no difference."""
    options = make_options({**EAGER, "avgShedderPlanByBundleName": by_name})
    state = shedder.initial
    for view, (decision, after) in zip(views, run(shedder, views, options), strict=True):
        read = msgspec.json.decode(msgspec.json.encode(state), type=type(state))
        again, state = shedder.decide(view, read, options, np.random.default_rng(0))
        assert msgspec.json.encode(again) == msgspec.json.encode(decision)
        assert state == after


@BOTH
@given(streams())
def test_reasons_of_decisions_can_be_written(shedder: Shedder[Any], views: list[LeaderLoadView]) -> None:
    """Numbers, texts, lists and mappings only."""
    for decision, _ in run(shedder, views, make_options(EAGER)):
        assert msgspec.json.decode(msgspec.json.encode(decision.facts))


@given(streams())
def test_hits_of_avg_shedder_are_of_brokers_that_are_apart(views: list[LeaderLoadView]) -> None:
    """A high hit is a low one too, and no broker has enough hits to act."""
    options = make_options(EAGER)
    for decision, state in run(avg_shedder.SHEDDER, views, options):
        assert set(state.hits_high) <= set(state.hits_low)
        assert all(hits < 2 for hits in state.hits_low.values())
        assert all(hits < 1 for hits in state.hits_high.values())
        assert set(decision.unloads) <= givers(decision)


@given(streams())
def test_transfer_shedder_predicts_less_deviation_wherever_it_moves_without_a_swap(
    views: list[LeaderLoadView],
) -> None:
    """Half a difference moved at most brings two brokers nearer to each other."""
    options = make_options({**EAGER, "loadBalancerTransferEnabled": False})
    for decision, _ in run(transfer_shedder(ClusterMetadata()), views, options):
        before: Any = decision.facts.get("deviation")
        for pair in decision.facts.get("pairs", []):
            if "predicted_deviation" in pair and pair["predicted_deviation"] is not None:
                assert not pair["predicted_deviation"] > before + 1e-9
                before = pair["predicted_deviation"]
