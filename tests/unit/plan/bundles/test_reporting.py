"""When a broker's report is written anew, at the edges of Pulsar's comparisons."""

import math

import pytest

from support.bundle_views import key, report, stats
from trimtab.model.bundles import BrokerReport
from trimtab.plan.bundles.options import make_options
from trimtab.plan.bundles.reporting import percent_change, report_due

OPTIONS = make_options({})


def broker(
    cpu: float = 50.0, throughput: float = 100.0, rate: float = 100.0, bundles: int = 10
) -> BrokerReport:
    """A broker with so many bundles."""
    held = {key(number): stats() for number in range(bundles)}
    return report(held, cpu=cpu, throughput=throughput, rate=rate)


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (broker(), None),
        (broker(cpu=59.9), None),
        (broker(cpu=60.1), "usage"),
        (broker(cpu=39.9), "usage"),
        (broker(rate=110), None),
        (broker(rate=110.1), "message rate"),
        (broker(throughput=90), None),
        (broker(throughput=89.9), "throughput"),
        (broker(bundles=11), None),
        (broker(bundles=12), "bundles"),
    ],
)
def test_more_than_a_tenth_is_a_change(now: BrokerReport, reason: str | None) -> None:
    """Ten points of usage, or ten percent of rate, throughput or bundles, are not enough yet: more is."""
    assert report_due(broker(), now, 5.0, OPTIONS) == reason


def test_after_a_quarter_of_an_hour_it_is_written_anyway() -> None:
    """More than 15 minutes, to the millisecond."""
    assert report_due(broker(), broker(), 900.0, OPTIONS) is None
    assert report_due(broker(), broker(), 900.001, OPTIONS) == "the longest interval is over"


def test_from_nothing_to_something_is_a_change() -> None:
    """The first message on an idle broker is reported at once; nothing to nothing is no change."""
    assert percent_change(0, 0) == 0
    assert percent_change(0, 1e-9) == math.inf
    assert report_due(broker(rate=0), broker(rate=0.001), 5.0, OPTIONS) == "message rate"


def test_the_extensible_manager_weighs_all_alike_and_never_the_heap() -> None:
    """Its reporter asks `getMaxResourceUsage`: direct memory counts whatever its weight, heap memory not."""
    bundles = {key(number): stats() for number in range(10)}
    direct = report(bundles, cpu=50, throughput=100, rate=100, direct_memory=61)
    assert report_due(broker(), direct, 5.0, OPTIONS) is None
    assert report_due(broker(), direct, 5.0, OPTIONS, extensible=True) == "usage"
    heap = report(bundles, cpu=50, throughput=100, rate=100, memory=99)
    heavy = make_options({"loadBalancerMemoryResourceWeight": 1.0})
    assert report_due(broker(), heap, 5.0, heavy, extensible=True) is None


def test_heap_memory_makes_no_report_in_pulsar_4() -> None:
    """It swings with every collection; the article counts it."""
    now = report({key(n): stats() for n in range(10)}, cpu=50, throughput=100, rate=100, memory=90)
    assert report_due(broker(), now, 5.0, OPTIONS) is None
    assert report_due(broker(), now, 5.0, make_options({}, "article")) == "usage"
