"""What the stages of the balancer `queues` make of a handful of rows, all of it worked out by hand."""

from __future__ import annotations

import datetime
from decimal import Decimal
from math import sqrt
from typing import TYPE_CHECKING, Any

import pytest

from trimtab.observe.lake.columns import Columns, SampleFlag, ddl
from trimtab.observe.queues import pipeline
from trimtab.observe.queues.pipeline import FORM, QueuesPipelineSettings
from trimtab.observe.queues.stages import (
    brokers,
    classes,
    forecast_errors,
    imbalance,
    speeds,
    weights,
    windows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

START = datetime.datetime(2026, 11, 21, 5, 0, tzinfo=datetime.UTC)
SETTINGS = QueuesPipelineSettings(
    window_seconds=20, slide_seconds=20, gap_seconds=15, horizon_seconds=10, weight_windows=2,
    weight_samples=30,
)  # fmt: skip


def at(tick: int) -> datetime.datetime:
    """A tick of ten seconds."""
    return START + datetime.timedelta(seconds=10 * tick)


def frame(spark: SparkSession, columns: Columns, *rows: dict[str, Any]) -> DataFrame:
    """Rows of a table; what is not said is null."""
    assert not {name for row in rows for name in row} - {name for name, _ in columns}
    return spark.createDataFrame([tuple(row.get(name) for name, _ in columns) for row in rows], ddl(columns))


def cleaned(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Samples that nothing is wrong with."""
    common = {"cluster": "c", "accepted": True, "flags": 0}
    return frame(spark, FORM.cleaned, *({**common, **row} for row in rows))


def queue(tick: int, number: int, work: float, arrived: float, served: float) -> dict[str, Any]:
    """A queue of a hundred messages at most, with a worker."""
    return {
        "kind": "queue", "tick": at(tick), "queue": number, "capacity": 100, "messages": 4,
        "work_seconds": work, "held_messages": 1, "held_work_seconds": 2.0,
        "arrived_seconds_total": arrived, "served_seconds_total": served, "paused": False, "alive": True,
    }  # fmt: skip


def test_rates_and_forecast_of_a_queue(spark: SparkSession) -> None:
    """5 s of work a second arrive and 4.6 are done: 12 s grow to 16 in ten; a draining queue ends at zero."""
    usual = [{"kind": "queue_process", "tick": at(tick), "default_weight": 2.0} for tick in (0, 1, 2, 5)]
    told = [
        {"kind": "queue_class", "tick": at(1), "process": process, "message_class": name, "weight": weight}
        for process, name, weight in (("p", "vote", 0.5), ("q", "vote", 0.5), ("q", "report", 1.5))
    ]
    rows = [
        queue(0, 0, 8.0, 100.0, 92.0), queue(1, 0, 12.0, 150.0, 138.0), queue(2, 0, 3.0, 160.0, 5.0),
        queue(5, 0, 3.0, 170.0, 15.0), queue(0, 1, 6.0, 10.0, 4.0), queue(1, 1, 1.0, 10.0, 9.0),
    ]  # fmt: skip
    found = brokers(cleaned(spark, *usual, *told, *rows), SETTINGS).orderBy("broker", "tick").collect()
    assert [(one.broker, one.arrived_seconds_per_second, one.served_seconds_per_second) for one in found] == [
        ("queue 0", None, None), ("queue 0", 5.0, 4.6), ("queue 0", None, None), ("queue 0", None, None),
        ("queue 1", None, None), ("queue 1", 0.0, 0.5),
    ]  # fmt: skip
    assert [one.flags for one in found[:4]] == [SampleFlag.GAP, 0, SampleFlag.RESET, SampleFlag.GAP]
    assert [one.forecast_seconds for one in found] == [None, pytest.approx(16.0), None, None, None, 0.0]
    # Full of messages of the classes' mean weight, (.5 + 1.5) / 2; of the default where none was told of.
    assert [one.work_capacity for one in found[:3]] == [200.0, 100.0, 200.0]
    assert (found[1].work_load, found[1].broker_state, found[1].elapsed_us) == (12.0, "alive", 10_000_000)


def told_of(tick: int, process: str, processed: int, busy: float, **more: Any) -> dict[str, Any]:
    """What a process tells of votes."""
    return {
        "kind": "queue_class", "tick": at(tick), "process": process, "message_class": "vote", "weight": 1.0,
        "processed_total": processed, "busy_seconds_total": busy, "busy_squares_total": 0.0,
        "waited_seconds_total": 0.0, "waits": [], "accepted_total": 0, "refused_total": 0, **more,
    }  # fmt: skip


def test_counters_of_processes_become_differences(spark: SparkSession) -> None:
    """A new process has done everything since the last sample; a restarted one yields no rate."""
    ticks = [{"kind": "queue_server", "tick": at(tick)} for tick in (0, 1, 2)]
    first = {"busy_squares_total": 0.25, "waited_seconds_total": 0.5, "waits": [3, 2], "accepted_total": 7}
    second = {
        "busy_squares_total": 1.0, "waited_seconds_total": 1.5, "waits": [4, 6, 1], "accepted_total": 10,
        "refused_total": 1,
    }  # fmt: skip
    rows = [
        told_of(0, "p", 10, 1.0, **first), told_of(1, "p", 25, 4.0, **second), told_of(2, "p", 2, 0.5),
        told_of(1, "q", 5, 2.0, waits=[5]),
    ]  # fmt: skip
    found = classes(cleaned(spark, *ticks, *rows), SETTINGS).orderBy("process", "tick").collect()
    assert [(one.process, one.processed, one.flags) for one in found] == [
        ("p", None, SampleFlag.GAP), ("p", 15, 0), ("p", None, SampleFlag.RESET), ("q", 5, 0),
    ]  # fmt: skip
    one = found[1]
    assert (one.busy_seconds, one.busy_squares, one.waited_seconds) == (3, Decimal("0.75"), 1)
    assert (one.waits, one.accepted, one.refused, one.elapsed_us) == ([1, 4, 1], 3, 1, 10_000_000)
    assert (found[3].busy_seconds, found[3].waits) == (2, [5])


def done(tick: int, process: str, number: int | None, processed: int, busy: float, **more: Any) -> Any:
    """What a process did of votes in the ten seconds before a tick."""
    nothing = {"busy_squares": Decimal(0), "waited_seconds": Decimal(0), "waits": [], "refused": 0}
    return {
        "cluster": "c", "tick": at(tick), "process": process, "queue": number, "message_class": "vote",
        "elapsed_us": 10_000_000, "weight": 1.0, "processed": processed, "busy_seconds": Decimal(busy),
        "accepted": 0, "flags": 0, **nothing, **more,
    }  # fmt: skip


def test_windows_of_a_class_over_all_queues_and_in_each(spark: SparkSession) -> None:
    """Twenty seconds: 30 votes in 8 s of work, 40 sent; nine waits of a millisecond and one of a second."""
    rows = [
        done(1, "p", 0, 10, 2.0, waits=[9] + [0] * 19 + [1], waited_seconds=Decimal("1.03")),
        done(2, "p", 0, 20, 6.0, weight=2.0),
        done(1, "s", None, 0, 0.0, accepted=40, refused=2),
    ]
    found = windows(frame(spark, pipeline.CLASSES, *rows), SETTINGS).orderBy("queue").collect()
    whole, each = found
    assert (whole.queue, each.queue, whole.window_end) == (None, 0, at(2).replace(tzinfo=None))
    assert (whole.processed, whole.accepted, whole.refused, whole.weight) == (30, 40, 2, 2.0)
    assert whole.mean_seconds == each.mean_seconds == pytest.approx(8 / 30)
    assert (whole.sent_per_second, whole.processed_per_second, whole.refused_per_second) == (2.0, 1.5, 0.1)
    assert whole.wait_seconds == pytest.approx(0.103)
    # The upper ends of bucket 0, 1 ms, and of bucket 20: √2 to the power 20.
    assert (whole.wait_p50_seconds, whole.wait_p99_seconds) == (0.001, pytest.approx(1.024))
    assert (each.accepted, each.sent_per_second) == (0, 0.0)


def window(end: int, name: str, processed: int, busy: float, squares: float, **more: Any) -> Any:
    """A window of a class over all queues, or in one."""
    return {
        "cluster": "c", "window_end": at(end), "message_class": name, "weight": 1.0, "processed": processed,
        "busy_seconds": Decimal(busy), "busy_squares": Decimal(squares), **more,
    }  # fmt: skip


def test_a_weight_is_the_mean_of_the_newest_windows_that_are_enough(spark: SparkSession) -> None:
    """Thirty messages are; a frequent class follows within a window, a rare one has two to gather them."""
    rows = [
        window(2, "vote", 30, 8.0, 4.0), window(4, "vote", 30, 24.0, 20.0),
        window(2, "report", 2, 2.0, 2.0), window(4, "report", 2, 6.0, 18.0),
        window(4, "report", 9, 99.0, 0.0, queue=0),
        window(2, "rare", 1, 7.0, 49.0), window(6, "vote", 0, 0.0, 0.0),
    ]  # fmt: skip
    found = weights(frame(spark, pipeline.WINDOWS, *rows), SETTINGS).orderBy("window_end", "message_class")
    told = {
        ((one.window_end - START.replace(tzinfo=None)).seconds // 10, one.message_class): one
        for one in found.collect()
    }
    assert {key: (one.samples, one.windows) for key, one in told.items()} == {
        (2, "rare"): (1, 1), (2, "report"): (2, 1), (2, "vote"): (30, 1),
        (4, "rare"): (1, 1), (4, "report"): (4, 2), (4, "vote"): (30, 1),
        (6, "report"): (2, 1), (6, "vote"): (30, 2),
    }  # fmt: skip
    assert told[4, "vote"].mean_seconds == pytest.approx(0.8)  # 24 / 30: the window before is not asked
    assert told[6, "vote"].mean_seconds == pytest.approx(0.8)
    # Two of one second and two of three: mean 2, variance 4/3, and √(4/3 / 4) of the mean.
    assert told[4, "report"].mean_seconds == 2.0
    assert told[4, "report"].standard_error_seconds == pytest.approx(sqrt(1 / 3))
    assert (told[2, "rare"].mean_seconds, told[2, "rare"].standard_error_seconds) == (7.0, None)


def test_the_speed_of_a_worker_is_the_weight_that_it_does_in_a_second(spark: SparkSession) -> None:
    """Ten votes of 0.1 s in 2 s of its time: half; and how sure that is, by the spread of votes."""
    done_there = [
        window(2, "vote", 10, 2.0, 0.0, queue=0), window(2, "report", 1, 1.0, 0.0, queue=0),
        window(2, "vote", 0, 0.0, 0.0, queue=1), window(2, "vote", 99, 9.0, 0.0),
    ]  # fmt: skip
    known = [
        {"message_class": "vote", "mean_seconds": 0.1, "standard_error_seconds": 0.01, "samples": 100},
        {"message_class": "report", "mean_seconds": 2.0, "standard_error_seconds": None, "samples": 1},
    ]
    of_classes = frame(
        spark, pipeline.WEIGHTS, *({"cluster": "c", "window_end": at(2), **one} for one in known)
    )
    (one,) = speeds(frame(spark, pipeline.WINDOWS, *done_there), of_classes).collect()
    assert (one.queue, one.samples, one.speed) == (0, 11, pytest.approx((10 * 0.1 + 2.0) / 3.0))
    # Variance of a vote .01² · 100, of ten votes .1; of the report nothing is known.
    assert one.standard_error == pytest.approx(1.0 * sqrt(0.1) / 3.0)


def test_forecasts_are_compared_with_actual_values(spark: SparkSession) -> None:
    """16 s were forecast for ten seconds later, and 15 lay there; no change would have been 3 s off.

    At the second tick nothing was forecast, so that there is nothing to hold against the third.
    """
    rows = [
        {"cluster": "c", "tick": at(tick), "broker": "queue 0", "work_load": work, "forecast_seconds": ahead}
        for tick, work, ahead in ((0, 12.0, 16.0), (1, 15.0, None), (2, 9.0, 1.0))
    ]
    found = forecast_errors(frame(spark, pipeline.BROKERS, *rows), SETTINGS).orderBy("tick").collect()
    assert [(one.actual, one.error, one.error_of_latest) for one in found] == [(15.0, 1.0, -3.0)]


def test_queues_without_a_worker_are_not_evaluated(spark: SparkSession) -> None:
    """6 and 2 s of work: half of their mean above and below it; the empty third has no worker."""
    rows = [
        {"cluster": "c", "tick": at(0), "broker": f"queue {number}", "work_load": work, "work_capacity": 10.0,
         "alive": number < 2}
        for number, work in enumerate((6.0, 2.0, 0.0))
    ]  # fmt: skip
    (one,) = imbalance(frame(spark, pipeline.BROKERS, *rows)).collect()
    assert [(each.broker, each.load, each.usage) for each in one.by_broker] == [
        ("queue 0", 6.0, 0.6), ("queue 1", 2.0, 0.2),
    ]  # fmt: skip
    assert [each.deviation for each in one.by_broker] == pytest.approx([0.5, 0.5])
