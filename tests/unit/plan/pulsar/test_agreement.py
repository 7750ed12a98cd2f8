"""Whether shedder and placement agree, and a strategy's decision as a plan."""

import json
from pathlib import Path

import pytest

from support.bundle_views import key
from trimtab.files.bundles.plan import bundle_plan_bytes, bundle_plan_from
from trimtab.history.bundles.replay import ShedderScenario, decide_now
from trimtab.model.bundles.plan import BundlesSettings
from trimtab.model.bundles.reports import BrokerReport, BundleStats, ReportTick, ResourceUsage
from trimtab.model.documents import SnapshotReference
from trimtab.model.plan import Verdict
from trimtab.plan.bundles.reported import snapshot_of_ticks
from trimtab.plan.bundles.strategies import plan_of_decision, shedder
from trimtab.plan.pulsar.decision import ShedDecision, disagreements, placer
from trimtab.plan.pulsar.options import make_options

OPTIONS = make_options({})


def report(cpu: float, *bundles: int, bytes_per_second: float = 50e6) -> BrokerReport:
    """A broker whose bundles carry the same each."""
    stats = {
        key(number): BundleStats(1000.0, 0.0, bytes_per_second, 0.0, 1, consumer_count=1)
        for number in bundles
    }
    return BrokerReport(
        cpu=ResourceUsage(cpu, 100.0),
        msg_throughput_in=bytes_per_second * len(bundles),
        msg_rate_in=1000.0 * len(bundles),
        bundles=tuple(stats),
        last_stats=stats,
    )


REPORTS = {"a:1": report(90.0, 0, 1), "b:1": report(60.0, 2), "c:1": report(10.0, 3)}


def kinds(decision: ShedDecision) -> list[tuple[str, str, str | None]]:
    """What is said of each bundle."""
    return [(one.kind, one.bundle, one.target) for one in disagreements(decision, REPORTS, OPTIONS)]


def test_a_placement_that_helps_agrees() -> None:
    """Half of the fullest broker goes to the emptiest: 10 % and 45 % are no overload."""
    assert kinds(ShedDecision({"a:1": (key(0),)}, {key(0): "c:1"})) == []


def test_a_bundle_that_would_return_is_reported() -> None:
    """Whether the load manager keeps it for that, or a placement really names the same broker."""
    back = "the placement would put it back on its broker"
    assert kinds(ShedDecision(facts={"refused": {key(0): back}})) == [("back", key(0), "a:1")]
    assert kinds(ShedDecision({"a:1": (key(0),)}, {key(0): "a:1"})) == [("back", key(0), "a:1")]


def test_a_broker_that_would_be_overloaded_is_reported_with_its_numbers() -> None:
    """60 % and half of 90 % are more than 85 %."""
    decision = ShedDecision({"a:1": (key(0),)}, {key(0): "b:1"})
    assert kinds(decision) == [("overloaded", key(0), "b:1")]
    (told,) = disagreements(decision, REPORTS, OPTIONS)
    assert "60% full and would be 105%, above 85%" in told.text
    assert (
        disagreements(
            decision, REPORTS, make_options({"loadBalancerBrokerOverloadedThresholdPercentage": 200})
        )
        == ()
    )


def test_two_bundles_to_one_broker_add_up() -> None:
    """Each alone would fit; the second makes it overflow."""
    decision = ShedDecision({"a:1": (key(0), key(1))}, {key(0): "c:1", key(1): "c:1"})
    assert kinds(decision) == [("overloaded", key(1), "c:1")]


@pytest.mark.parametrize(
    ("why", "kind"),
    [
        ("there is no broker for it", "nowhere"),
        ("policies or anti-affinity keep it where it is", "kept"),
    ],
)
def test_bundles_that_stay_for_other_reasons_are_reported(why: str, kind: str) -> None:
    """The load manager's own reasons are included."""
    (told,) = disagreements(ShedDecision(facts={"refused": {key(0): why}}), REPORTS, OPTIONS)
    assert told.kind == kind
    assert why in told.text


def test_pulsars_decision_becomes_a_plan_file() -> None:
    """ThresholdShedder and its placement, with the numbers that decided, in the plan file's format."""
    ticks = [ReportTick(60.0 * minute, REPORTS) for minute in range(3)]
    scenario = ShedderScenario(
        shedder("ThresholdShedder"), OPTIONS, placer=placer("LeastLongTermMessageRate")
    )
    _, decision = decide_now(ticks, scenario)
    assert decision.destinations
    snapshot = snapshot_of_ticks(ticks, SnapshotReference("c", "2026-11-21T05:00:00Z", "0" * 64))
    plan = plan_of_decision(
        snapshot, decision, "ThresholdShedder", "LeastLongTermMessageRate", BundlesSettings(), {}
    )
    assert bundle_plan_from(Path("p"), bundle_plan_bytes(plan)) == plan
    assert {move.bundle: move.target for move in plan.moves} == dict(decision.destinations)
    assert plan.verdict is Verdict.IMPROVED
    assert plan.moves[0].reason.goal == "ThresholdShedder"
    assert "usage 0.9" in plan.moves[0].reason.text
    assert json.loads(bundle_plan_bytes(plan))["settings"]["placement"] == "LeastLongTermMessageRate"


def test_a_decision_without_execution_does_not_count_as_unloaded() -> None:
    """Called a minute later, a strategy decides the same: nothing was done in between."""
    scenario = ShedderScenario(
        shedder("ThresholdShedder"), OPTIONS, placer=placer("LeastLongTermMessageRate")
    )
    ticks = [ReportTick(60.0 * minute, REPORTS) for minute in range(4)]
    once, again = (decide_now(ticks[:number], scenario)[1] for number in (3, 4))
    assert once.unloads == again.unloads
    assert once.unloads


def test_an_executed_move_counts_as_unloaded() -> None:
    """Its former owner took it back a minute ago: within the grace time it is not shed again."""
    moved = {"a:1": report(90.0, 1), "b:1": report(60.0, 2), "c:1": report(10.0, 0, 3)}
    scenario = ShedderScenario(
        shedder("ThresholdShedder"), OPTIONS, placer=placer("LeastLongTermMessageRate")
    )
    ticks = [ReportTick(0.0, moved), ReportTick(60.0, REPORTS)]
    assert key(0) not in decide_now(ticks, scenario)[1].destinations
