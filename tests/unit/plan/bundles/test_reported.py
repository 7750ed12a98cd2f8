"""Load reports as a snapshot, and `trim` as a strategy on a stream of them."""

import dataclasses

import numpy as np
import pytest

from support.bundle_views import key
from trimtab.history.bundles.replay import ShedderScenario, replay
from trimtab.model.bundles.plan import BundlesSettings
from trimtab.model.bundles.reports import BrokerReport, BundleStats, ReportTick, ResourceUsage
from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.model.documents import SnapshotReference
from trimtab.plan.bundles.reported import snapshot_of_ticks
from trimtab.plan.bundles.strategies import shedder
from trimtab.plan.bundles.trim import plan_bundles
from trimtab.plan.pulsar.options import make_options

REFERENCE = SnapshotReference("c", "2026-11-21T05:00:00Z", "0" * 64)


def report(cpu: float, **throughput: float) -> BrokerReport:
    """A broker of two cores whose bundles (`b0`, `b1`, ...) take so many bytes per second in."""
    stats = {
        key(int(name[1:])): BundleStats(one / 100, 0.0, one, 0.0, 4, consumer_count=2, producer_count=3)
        for name, one in throughput.items()
    }
    total = sum(throughput.values())
    return BrokerReport(
        cpu=ResourceUsage(cpu, 200.0),
        bandwidth_in=ResourceUsage(total / 125 + 8, 1e6),
        msg_throughput_in=total,
        msg_rate_in=total / 100,
        bundles=tuple(stats),
        last_stats=stats,
    )


def test_usage_is_shared_out_by_throughput_and_the_rest_stays_with_the_broker() -> None:
    """150 % of a core for 3:1 of the traffic; limits become cores and bytes per second, none is infinite."""
    tick = ReportTick(1000.0, {"h1:8080": report(150.0, b0=3e5, b1=1e5)})
    snapshot = snapshot_of_ticks([tick], REFERENCE)
    cpu, into, out, rate = range(4)
    assert snapshot.bundles.load[0, :, cpu].tolist() == pytest.approx([1.125, 0.375])
    assert snapshot.bundles.load[0, :, rate].tolist() == pytest.approx([3000.0, 1000.0])
    assert snapshot.brokers.capacity[0].tolist() == [2.0, 125e6, np.inf, np.inf]
    assert snapshot.broker_load()[0, 0, into] == pytest.approx(4e5 + 1000)
    assert snapshot.brokers.base[0, out] == 0.0
    assert snapshot.bundles.sessions.tolist() == [5, 5]


def test_previous_ticks_become_views_with_departed_bundles() -> None:
    """The newest first; a bundle that had another owner has departed from it."""
    ticks = [
        ReportTick(60.0, {"h1:8080": report(40.0, b0=1e5, b1=1e5), "h2:8080": report(10.0)}),
        ReportTick(120.0, {"h1:8080": report(60.0, b0=1e5), "h2:8080": report(20.0, b1=1e5)}),
    ]
    snapshot = snapshot_of_ticks(ticks, REFERENCE)
    assert snapshot.views == ("window 0", "window -1")
    assert snapshot.bundles.load[:, 0, RESOURCES.index("cpu")].tolist() == pytest.approx([0.6, 0.2])
    assert [(one.bundle, one.broker, one.at) for one in snapshot.departures] == [(key(1), "h1:8080", 120.0)]


def test_trim_balances_a_stream_and_returns_no_bundle_within_the_grace_time() -> None:
    """In the simulated world: what was uneven for three ticks is balanced, and then left alone."""
    loads = {f"b{number}": 1e5 for number in range(8)}
    recorded = {"h1:8080": report(160.0, **loads), "h2:8080": report(0.0)}
    ticks = [ReportTick(60.0 * minute, recorded) for minute in range(6)]
    scenario = ShedderScenario(shedder("trim"), make_options({}), world_answers=True)
    waited, waited_too, acted, *rest = (decision for _, decision, _ in replay(ticks, scenario))
    assert not waited.unloads
    assert waited_too.facts["trigger"] == 0.3
    assert len(acted.destinations) == 4
    assert set(acted.destinations.values()) == {"h2:8080"}
    assert all(not decision.unloads for decision in rest)
    assert acted.facts["clients"] == 20
    assert set(acted.facts["reasons"]) == set(acted.destinations)


def test_alternating_load_causes_no_moves() -> None:
    """Every third tick is even: no three in a row are not, and nothing moves."""
    uneven = {"h1:8080": report(150.0, b0=1e5, b1=1e5, b2=1e5), "h2:8080": report(50.0, b3=1e5)}
    even = {"h1:8080": report(100.0, b0=1e5, b1=1e5, b2=1e5), "h2:8080": report(100.0, b3=1e5)}
    ticks = [ReportTick(60.0 * minute, even if minute % 3 == 2 else uneven) for minute in range(9)]
    decided = [
        decision for _, decision, _ in replay(ticks, ShedderScenario(shedder("trim"), make_options({})))
    ]
    assert all(not decision.unloads for decision in decided)


def test_one_decision_does_not_depend_on_the_seed() -> None:
    """Other seeds, same decision."""
    loads = {f"b{number}": 1e5 * (1 + number) for number in range(6)}
    recorded = {"h1:8080": report(150.0, **loads), "h2:8080": report(10.0)}
    ticks = [ReportTick(60.0 * minute, recorded) for minute in range(3)]
    scenario = ShedderScenario(shedder("trim"), make_options({}))
    first, second = (
        list(replay(ticks, dataclasses.replace(scenario, seed=seed)))[-1][1].destinations for seed in (0, 7)
    )
    assert first
    assert first == second


def test_a_bundle_that_two_brokers_report_is_known_and_not_moved() -> None:
    """It counts at the broker that has figures of it, both are named, and the plan leaves it alone."""
    stale = dataclasses.replace(report(10.0), bundles=(key(0),))
    tick = ReportTick(60.0, {"h1:8080": stale, "h2:8080": report(150.0, b0=1e5, b1=1e5)})
    snapshot = snapshot_of_ticks([tick], REFERENCE)
    assert snapshot.claims == {key(0): ("h1:8080", "h2:8080")}
    assert snapshot.bundles.owner.tolist() == [1, 1]
    plan = plan_bundles(snapshot, BundlesSettings())
    assert [move.bundle for move in plan.moves] == [key(1)]
    (found,) = (one for one in plan.problems if one.kind == "several_owners")
    assert f"{key(0)} reported by h1:8080 and h2:8080" in found.text
    assert snapshot_of_ticks([ReportTick(60.0, {"h1:8080": report(10.0, b0=1e5)})], REFERENCE).claims == {}
