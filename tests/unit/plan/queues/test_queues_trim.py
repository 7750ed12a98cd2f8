"""Weights worth publishing, and the scheduler's next orders, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.queue_snapshots import a_class, a_queue, a_snapshot
from trimtab.model.plan import Verdict
from trimtab.plan.queues import is_new, plan_queues
from trimtab.report.queues import plan_text
from trimtab_queues.core.scheduling import SchedulingSettings
from trimtab_queues.format.documents import QueuesSettings

SETTINGS = QueuesSettings(min_change=0.2, confidence=3.0, min_samples=30)
FOUR = tuple(a_queue(number, 0, 0.0) for number in range(4))


@pytest.mark.parametrize(
    ("weight", "mean", "error", "samples", "new"),
    [
        (1.0, 1.25, 0.01, 100, True),  # exactly a quarter more, and sure
        (1.0, 1.24, 0.01, 100, False),  # hysteresis
        (1.0, 1.25, 0.084, 100, False),  # three errors of 0.084 are 0.252
        (1.0, 3.0, 0.01, 29, False),  # too few
        (1.0, 0.5, 0.01, 30, True),  # cheaper counts alike
        (None, 0.5, 0.1, 30, True),  # no weight at all: any is better
        (1.0, None, None, 0, False),  # not measured
    ],
)
def test_a_weight_is_published_for_more_than_chance_and_habit(
    weight: float | None, mean: float | None, error: float | None, samples: int, new: bool
) -> None:
    """A quarter of a change, three standard errors and thirty messages: each alone can hold it back."""
    one = a_class("vote", weight=weight, mean_seconds=mean, standard_error_seconds=error, samples=samples)
    assert is_new(one, replace(SETTINGS, min_change=0.25)) is new


def test_a_plan_lists_published_weights_and_retains_the_others() -> None:
    """One class has become three times as long; the other stays as it was published."""
    classes = (
        a_class("report", weight=0.1, published=0.1, mean_seconds=0.30004, standard_error_seconds=0.002,
                samples=200),
        a_class("vote", weight=0.01, published=0.01, mean_seconds=0.0101, standard_error_seconds=1e-4,
                samples=900),
    )  # fmt: skip
    plan = plan_queues(a_snapshot(*FOUR, classes=classes, version=4), SETTINGS)
    (move,) = plan.moves
    assert (move.kind, move.name, move.before, move.after) == ("weight", "report", 0.1, 0.3)
    assert move.reason.text == (
        "messages of report take 0.3 s (± 0.002 s over 200 messages), 3.00 times their weight of 0.1 s; "
        "publishes the measured weight (limits: 20% and 3 standard errors)"
    )
    assert [(one.name, one.before, one.after) for one in plan.assignments] == [
        ("report", 0.1, 0.3), ("vote", 0.01, 0.01)
    ]  # fmt: skip
    assert (plan.version, plan.cost.weights, plan.verdict) == (4, 1, Verdict.BALANCED)


def test_nothing_new_is_nothing_to_do() -> None:
    """Empty queues, unchanged weights: balanced."""
    plan = plan_queues(a_snapshot(*FOUR, classes=(a_class("vote", weight=1.0),)), SETTINGS)
    assert (plan.verdict, plan.moves, plan.orders) == (Verdict.BALANCED, (), ())


def test_an_overloaded_queue_gives_to_the_lightest_now() -> None:
    """90 of 100 messages of a second are above α = 0.8: paused, and the empty one gets half."""
    queues = (a_queue(0, 90, 90.0), a_queue(1, 0, 0.0), a_queue(2, 20, 20.0))
    plan = plan_queues(a_snapshot(*queues, classes=(a_class("vote", weight=1.0),)), SETTINGS)
    assert [one.state for one in plan.queues] == ["overload", "light", "moderate"]
    told = [(one.when, one.kind, one.queue, one.target, one.work_seconds) for one in plan.orders]
    assert told == [("now", "pause", 0, None, None), ("now", "move", 0, 1, 45.0)]
    assert plan.predicted.after.peak_usage["work"] == pytest.approx(0.45)
    assert plan.predicted.before.peak_usage["work"] == pytest.approx(0.9)
    assert plan.verdict is Verdict.IMPROVED


def test_growth_counts_to_the_end_of_the_cycle() -> None:
    """50 s of work and 4 s more each second: 50 + 4 × 9 = 86 after the other nine windows, overload."""
    queues = (
        a_queue(0, 50, 50.0, arrived_seconds_per_second=5.0, served_seconds_per_second=1.0),
        a_queue(1, 50, 50.0, arrived_seconds_per_second=1.0, served_seconds_per_second=1.0),
    )
    plan = plan_queues(a_snapshot(*queues, classes=(a_class("vote", weight=1.0),)), SETTINGS)
    first, second = plan.queues
    assert (first.trend, first.forecast_seconds, first.state) == (4.0, 86.0, "overload")
    assert (second.forecast_seconds, second.state) == (50.0, "moderate")


def test_uneven_queues_without_overload_wait_for_the_end_of_the_cycle() -> None:
    """Heaviest with lightest: 60 and 20 meet at 40."""
    queues = (a_queue(0, 60, 60.0), a_queue(1, 20, 20.0))
    plan = plan_queues(a_snapshot(*queues, classes=(a_class("vote", weight=1.0),)), SETTINGS)
    (order,) = plan.orders
    assert (order.when, order.kind, order.queue, order.target) == ("end of cycle", "move", 0, 1)
    assert order.work_seconds == 20.0


def test_orders_without_anything_to_publish_are_not_called_nothing_to_do() -> None:
    """The scheduler balances the queues: they are not balanced already."""
    queues = (a_queue(0, 60, 60.0), a_queue(1, 20, 20.0))
    plan = plan_queues(a_snapshot(*queues, classes=(a_class("vote", weight=1.0),)), SETTINGS)
    assert (plan.moves, len(plan.orders)) == ((), 1)
    balanced = replace(plan, verdict=Verdict.BALANCED, problems=())
    assert "balanced: every goal holds after these changes" in plan_text(balanced)
    assert "balanced: every goal holds already, nothing to do" in plan_text(replace(balanced, orders=()))


def test_settings_are_published_only_if_requested() -> None:
    """Processes use another cycle than the settings of the plan."""
    running = {name: getattr(SchedulingSettings(), name) for name in SchedulingSettings.__slots__}
    seen = a_snapshot(*FOUR, scheduling={**running, "cycle_seconds": 20.0})
    assert plan_queues(seen, SETTINGS).moves == ()
    asked = replace(SETTINGS, publish_settings=True, policy="join_shortest_queue")
    moves = plan_queues(seen, asked).moves
    assert [(one.kind, one.name, one.before, one.after) for one in moves] == [
        ("setting", "cycle_seconds", 20.0, 10.0),
        ("setting", "policy", "least_work_left", "join_shortest_queue"),
    ]
