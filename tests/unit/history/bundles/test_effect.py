"""What a strategy did over a replay: imbalance, overload, clients, traffic, and bundles that came back."""

import math

import pytest

from support.bundle_views import key, report
from trimtab.history.bundles.effect import EffectMeter, MetricSpec, ReplayEffect, metric_spec
from trimtab.model.bundles.reports import BundleStats, Oscillation, ReportTick
from trimtab.plan.pulsar.decision import ShedDecision
from trimtab.plan.pulsar.options import make_options

RULER = MetricSpec(weights=(1, 0, 0, 1, 1), overload=0.85, pause_seconds=0.5)
BUSY = BundleStats(msg_throughput_in=300.0, msg_throughput_out=100.0, producer_count=2, consumer_count=5)


def tick(at: float, **cpu: float) -> ReportTick:
    """Brokers by their CPU in percent, each with one bundle that the others have not."""
    return ReportTick(
        at, {name: report({key(number): BUSY}, cpu=usage) for number, (name, usage) in enumerate(cpu.items())}
    )


def moved(bundle: int, source: str, target: str | None = None) -> ShedDecision:
    """One unload."""
    return ShedDecision({source: (key(bundle),)}, {} if target is None else {key(bundle): target})


def measured(*steps: tuple[ReportTick, ShedDecision]) -> ReplayEffect:
    """The effect of these steps."""
    meter = EffectMeter(RULER)
    for seen, decision in steps:
        meter.add(seen, decision)
    return meter.effect()


def test_imbalance_is_sigma_of_the_shares_of_usage() -> None:
    """At 90 and 30 % the shares are 3/4 and 1/4, a quarter from the half; at 60 and 60 % there is none."""
    effect = measured((tick(0, a=90, b=30), ShedDecision()), (tick(60, a=60, b=60), ShedDecision()))
    assert effect.sigma.tolist() == pytest.approx([0.25, 0.0])
    assert (effect.sigma_mean, effect.sigma_worst) == pytest.approx((0.125, 0.25))
    assert effect.peak_usage.tolist() == pytest.approx([0.9, 0.6])
    assert effect.peak == pytest.approx(0.9)


def test_usage_is_that_of_the_most_used_resource_with_its_weight() -> None:
    """Memory without weight counts nothing, however full; the busier bandwidth does."""
    seen = ReportTick(0, {"a": report(cpu=20, memory=99, bandwidth_out=70), "b": report(cpu=70)})
    effect = measured((seen, ShedDecision()))
    assert effect.peak == pytest.approx(0.7)
    assert effect.sigma_worst == pytest.approx(0.0)


def test_a_potential_split_is_counted_once_from_its_first_tick() -> None:
    """Nothing is split in a replay, so that the bundle is above its limit at every tick that follows."""

    def above(reason: str, outcome: str = "split") -> ShedDecision:
        return ShedDecision(facts={"splits": {key(0): {"reason": reason, "outcome": outcome}}})

    effect = measured(
        (tick(0, a=10), above("Topics", "its namespace has as many bundles as it may")),
        (tick(60, a=10), above("MsgRate")),
        (tick(120, a=10), above("Topics")),
    )
    assert effect.splits == {key(0): (60, "MsgRate")}


def test_overload_lasts_from_a_tick_to_the_next() -> None:
    """85 % is overloaded already; two brokers for 60 s and one for 30 s are 90 s, or 150 broker-seconds. The
    last tick has no duration.
    """
    effect = measured(
        (tick(0, a=85, b=90), ShedDecision()),
        (tick(60, a=84, b=90), ShedDecision()),
        (tick(90, a=84, b=84), ShedDecision()),
        (tick(600, a=99, b=99), ShedDecision()),
    )
    assert effect.overloaded.tolist() == [2, 1, 0, 2]
    assert effect.overload_seconds == 90
    assert effect.overload_broker_seconds == 150


def test_clients_and_traffic_of_every_unload_are_counted() -> None:
    """A bundle unloaded twice disturbs its 7 clients twice, and its 400 B/s pause for 0.5 s each time."""
    seen = tick(0, a=90, b=10)
    effect = measured((seen, moved(0, "a", "b")), (seen, moved(0, "a", "b")), (seen, moved(1, "b", "a")))
    assert effect.unloads.tolist() == [1, 1, 1]
    assert effect.bundles_unloaded == 2
    assert effect.clients_disturbed == 21
    assert effect.interrupted_bytes_per_second == 1200
    assert effect.interrupted_bytes == 600
    assert effect.unloads_without_stats == 0


def test_a_bundle_without_statistics_is_counted_apart() -> None:
    """Just gained, it is in no statistics: the unload counts, and its clients are reported as uncounted."""
    effect = measured((tick(0, a=90, b=10), moved(9, "a", "b")))
    assert (effect.unloads.sum(), effect.unloads_without_stats, effect.clients_disturbed) == (1, 1, 0)


def test_a_returning_bundle_is_named() -> None:
    """From a to b to c is no return; from c to a is one, an hour after it left a."""
    seen = [tick(hour * 3600.0, a=90, b=10, c=10) for hour in range(4)]
    seen = [ReportTick(one.at, {name: report({key(0): BUSY}) for name in one.brokers}) for one in seen]
    effect = measured(
        (seen[0], moved(0, "a", "b")),
        (seen[1], moved(0, "b", "c")),
        (seen[2], moved(0, "c", "a")),
        (seen[3], moved(0, "a", "b")),
    )
    assert effect.oscillations == (
        Oscillation(key(0), "c", "a", 7200.0, 7200.0, ("b", "c")),
        Oscillation(key(0), "a", "b", 10800.0, 7200.0, ("c", "a")),
    )


def test_without_a_destination_nothing_is_known_to_come_back() -> None:
    """An unload without a destination may lead anywhere."""
    seen = tick(0, a=90, b=10)
    effect = measured((seen, moved(0, "a")), (seen, moved(0, "a")))
    assert effect.oscillations == ()


def test_without_measurements_there_is_no_sigma_and_no_warning() -> None:
    """Without ticks, or with a tick of no broker, there is no σ; and no warning either."""
    for effect in (measured(), measured((ReportTick(0, {}), ShedDecision()))):
        assert math.isnan(effect.sigma_mean)
        assert math.isnan(effect.sigma_worst)
        assert math.isnan(effect.peak)
        assert effect.overload_seconds == 0


def test_the_metric_specification_uses_the_common_options() -> None:
    """Weights and the threshold of overload are Pulsar's options; memory counts in the article alone."""
    options = {
        "loadBalancerBrokerOverloadedThresholdPercentage": "70",
        "loadBalancerMemoryResourceWeight": "0.5",
    }
    assert metric_spec(make_options(options), 2.0) == MetricSpec((1.0, 0.0, 0.0, 1.0, 1.0), 0.7, 2.0)
    assert metric_spec(make_options(options, "article"), 2.0).weights == (1.0, 0.5, 0.0, 1.0, 1.0)
