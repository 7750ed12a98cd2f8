"""Strategies side by side: none knows of the others, and all are measured alike."""

import dataclasses

import numpy as np
import pytest

from support.bundle_views import MB, key, report, stats
from trimtab.history.bundles.effect import compare, metric_spec, side_by_side
from trimtab.history.bundles.replay import ShedderScenario, replay
from trimtab.model.bundles.reports import BundleStats, ReportTick
from trimtab.model.errors import PlanError
from trimtab.plan.bundles.strategies import shedder
from trimtab.plan.pulsar.decision import placer
from trimtab.plan.pulsar.options import PulsarBrokerConfig, make_options

COMMON = {"loadBalancerHistoryResourcePercentage": "0.1", "loadBalancerSheddingGracePeriodMinutes": "2"}


def carried(*megabytes: float, first: int) -> dict[str, BundleStats]:
    """Bundles by number from `first` on; a thousand messages to the megabyte."""
    return {key(first + place): stats(one * MB, rate=1000 * one) for place, one in enumerate(megabytes)}


TICKS = [
    ReportTick(
        minute * 60.0,
        {
            "hot:1": report(carried(100, 300, 200, first=0), cpu=90),
            "cold:1": report(carried(10, first=3), cpu=20),
        },
    )
    for minute in range(12)
]


def scenario(name: str, placement: str = "LeastLongTermMessageRate", **more: str) -> ShedderScenario:
    """A strategy in the simulated world."""
    options = make_options({**COMMON, **more})
    return ShedderScenario(shedder(name), options, seed=3, placer=placer(placement), world_answers=True)


SCENARIOS = {
    "ThresholdShedder": scenario("ThresholdShedder"),
    "lazy": scenario("ThresholdShedder", loadBalancerBrokerThresholdShedderPercentage="40"),
    "AvgShedder": scenario("AvgShedder", "AvgShedder"),
    "OverloadShedder": scenario("OverloadShedder"),
    "TransferShedder": scenario("TransferShedder"),
    "UniformLoadShedder": scenario("UniformLoadShedder"),
}


def test_each_decides_as_it_would_alone() -> None:
    """Six states, six worlds: no decision and no tick differs from a replay of that strategy by itself."""
    together = [decided for _, decided in side_by_side(TICKS, SCENARIOS)]
    for name, one in SCENARIOS.items():
        alone = [(seen, decision) for seen, decision, _ in replay(TICKS, one)]
        assert [decided[name] for decided in together] == alone
        assert any(decision.unloads for _, decision in alone) or name == "lazy"


def test_each_strategy_moves_bundles_in_its_own_world() -> None:
    """The unmoved recording stays at its σ; who unloads gets below it; who does not, stays there."""
    found = compare(TICKS, SCENARIOS, metric_spec(PulsarBrokerConfig()))
    assert np.ptp(found.unmoved.sigma) == 0
    assert found.unmoved.unloads.sum() == 0
    assert found.unmoved.overload_seconds == 11 * 60
    assert found.effects["lazy"].unloads.sum() == 0
    assert found.effects["lazy"].sigma.tolist() == found.unmoved.sigma.tolist()
    overload = found.effects["OverloadShedder"]
    assert overload.sigma[0] == found.unmoved.sigma[0]
    assert overload.sigma_mean < found.unmoved.sigma_mean
    assert overload.overload_seconds < found.unmoved.overload_seconds


def test_a_bundle_that_returns_is_found() -> None:
    """With lagging means and three minutes of grace, bundles return, and each return is named. Its facts are
    in the decisions: it was unloaded from there before, and is sent there now.
    """
    third = {"third:1": report(carried(20, 20, 20, 20, first=4), cpu=30)}
    ticks = [ReportTick(tick.at, {**tick.brokers, **third}) for tick in TICKS]
    lagging = scenario(
        "ThresholdShedder",
        "LeastResourceUsageWithWeight",
        loadBalancerHistoryResourcePercentage="0.9",
        loadBalancerSheddingGracePeriodMinutes="3",
    )
    returned = (
        compare(ticks, {"lagging": lagging}, metric_spec(PulsarBrokerConfig()))
        .effects["lagging"]
        .oscillations
    )
    assert returned
    decided = {seen.at: decision for seen, decision, _ in replay(ticks, lagging)}
    for one in returned:
        assert one.bundle in decided[one.at - one.away_seconds].unloads[one.target]
        assert one.source is not None
        assert one.bundle in decided[one.at].unloads[one.source]
        assert decided[one.at].destinations[one.bundle] == one.target


def test_all_decisions_are_reported_in_the_order_of_ticks() -> None:
    """Each is reported once, with the tick of that strategy."""
    heard: list[tuple[float, str]] = []
    names = dict(list(SCENARIOS.items())[:2])
    compare(
        TICKS[:2],
        names,
        metric_spec(PulsarBrokerConfig()),
        lambda name, seen, _: heard.append((seen.at, name)),
    )
    assert heard == [(0, "ThresholdShedder"), (0, "lazy"), (60, "ThresholdShedder"), (60, "lazy")]


def test_the_one_that_cannot_go_on_is_named() -> None:
    """Without a placement the world cannot answer: of several strategies the incomplete one is named."""
    homeless = dataclasses.replace(SCENARIOS["ThresholdShedder"], placer=None)
    with pytest.raises(PlanError, match="second: bundle .* was unloaded without a destination"):
        compare(TICKS, {"first": SCENARIOS["lazy"], "second": homeless}, metric_spec(PulsarBrokerConfig()))
