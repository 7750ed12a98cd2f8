"""What brokers publish under the extensible load manager."""

from dataclasses import replace
from typing import Any

from support.bundle_views import report, view_of
from trimtab.plan.pulsar.options import make_options
from trimtab.plan.pulsar.view import LeaderLoadView, PublishedLoad, publish

OPTIONS = make_options({})


def at(seconds: float, **usages: Any) -> LeaderLoadView:
    """One broker's report of some instant."""
    return view_of({"a:1": report(**usages)}, at=seconds)


def test_the_first_report_is_published_as_it_is() -> None:
    """There is no history to weigh it against."""
    found = publish(at(60, cpu=50, throughput=1000), {}, OPTIONS)
    assert found == {"a:1": PublishedLoad(0.5, 1000.0, 60.0)}


def test_the_second_counts_for_a_tenth_in_javas_arithmetic() -> None:
    """1 - 0.9 is a little less than 0.1 in doubles, and it decides what lies on a threshold."""
    before = publish(at(60, cpu=0, throughput=1000), {}, OPTIONS)
    after = publish(at(120, cpu=50, throughput=3000), before, OPTIONS)["a:1"]
    assert after.weighted_max_ema == (1 - 0.9) * 0.5
    assert after.weighted_max_ema < 0.05
    assert after.msg_throughput_ema == 1000 * 0.9 + (1 - 0.9) * 3000


def test_a_report_read_twice_is_one_sample() -> None:
    """The leader may decide more often than brokers report."""
    first = publish(at(0, cpu=0), {}, OPTIONS)
    view = at(60, cpu=50)
    old = replace(view, brokers={"a:1": replace(view.brokers["a:1"], updated_at=30.0)})
    before = publish(old, first, OPTIONS)
    assert before["a:1"].weighted_max_ema > 0
    assert publish(replace(old, at=120.0), before, OPTIONS) == before


def test_heap_memory_counts_with_its_weight() -> None:
    """The modular manager takes no notice of it, this one does once it weighs something."""
    view = at(60, cpu=25, memory=75)
    assert publish(view, {}, OPTIONS)["a:1"].weighted_max_ema == 0.25
    weighing = make_options({"loadBalancerMemoryResourceWeight": 0.5})
    assert publish(view, {}, weighing)["a:1"].weighted_max_ema == 0.375


def test_a_broker_that_was_away_starts_a_new_mean() -> None:
    """Its process keeps the mean, and a new process has none."""
    before = publish(at(60, cpu=100), {}, OPTIONS)
    away = publish(view_of({"b:1": report()}, at=120), before, OPTIONS)
    assert publish(at(180, cpu=50), away, OPTIONS)["a:1"].weighted_max_ema == 0.5
