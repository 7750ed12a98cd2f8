"""Counters compared with logs: what agrees, what only looks like a counter, and what proves nothing."""

import datetime

import pytest

from trimtab.systems.kafka.collector import (
    NOT_COUNTING,
    CounterCheck,
    CounterCheckResult,
    TrafficReading,
    compare_readings,
)
from trimtab.systems.kafka.metrics import BrokerCounters

NOON = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
MB = 1_000_000


def reading(
    tick: int,
    counted: float | None,
    size: int,
    *,
    records: int | None = None,
    start: int = 0,
    cpu: float | None = None,
    topic: str = "t",
) -> TrafficReading:
    """A broker that leads one partition; a record is of 1,000 bytes."""
    end = size // 1000 if records is None else records
    counters = {"cpu_time_ns": tick * 1e9 if cpu is None else cpu, "messages_in_total": 1.0}
    if counted is not None:
        counters["bytes_in_total"] = counted
    key = (topic, 0)
    at = NOON + datetime.timedelta(seconds=5 * tick)
    return TrafficReading(at, BrokerCounters(counters, {"t": {}}), {key: start}, {key: end}, {key: size})


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (reading(0, 7, 5 * MB), reading(1, 7 + MB, 6 * MB), CounterCheckResult.AGREES),
        (reading(0, 7, 5 * MB), reading(1, 7 + 0.8 * MB, 6 * MB), CounterCheckResult.AGREES),
        (reading(0, 7, 5 * MB), reading(1, 7 + 0.6 * MB, 6 * MB), CounterCheckResult.DIFFERS),
        (reading(0, 7, 5 * MB), reading(1, 7 + MB, 5 * MB), CounterCheckResult.DIFFERS),
        # A rate hovers: it stands still, rises by a little, or falls though nothing was restarted.
        (reading(0, MB, 5 * MB), reading(1, MB, 6 * MB), CounterCheckResult.NO_COUNTER),
        (reading(0, MB, 5 * MB), reading(1, MB + 99, 6 * MB), CounterCheckResult.NO_COUNTER),
        (reading(0, MB, 5 * MB), reading(1, MB - 99, 6 * MB), CounterCheckResult.NO_COUNTER),
        # A restart: CPU time falls as well.
        (reading(0, MB, 5 * MB, cpu=5e9), reading(1, 10, 6 * MB, cpu=1e9), CounterCheckResult.UNKNOWN),
        (reading(0, 7, 5 * MB), reading(1, 7, 5 * MB), CounterCheckResult.IDLE),
        (reading(0, 7, 5 * MB), reading(1, 300, 5 * MB + 300), CounterCheckResult.IDLE),
        (reading(0, None, 5 * MB), reading(1, None, 6 * MB), CounterCheckResult.UNKNOWN),
        (reading(0, 7, 5 * MB), reading(1, 7 + MB, 6 * MB, topic="u"), CounterCheckResult.UNKNOWN),
        # Retention took more than came: offsets times bytes per record.
        (
            reading(0, 7, 5 * MB, records=5000),
            reading(1, 7 + MB, 2 * MB, records=6000, start=4000),
            CounterCheckResult.AGREES,
        ),
    ],
)
def test_two_readings_decide(
    before: TrafficReading, after: TrafficReading, outcome: CounterCheckResult
) -> None:
    """Within a quarter they agree; what does not rise while logs do is no counter."""
    assert compare_readings(before, after).outcome is outcome


def test_missing_sizes_prove_nothing() -> None:
    """A user without the right to read log dirs gets no warning about counters."""
    before, after = (
        TrafficReading(one.sampled_at, one.counters, one.start_offsets, one.end_offsets, {})
        for one in (reading(0, 7, 5 * MB), reading(1, 7 + MB, 6 * MB))
    )
    assert compare_readings(before, after).outcome is CounterCheckResult.UNKNOWN


def test_a_rate_is_left_out_from_the_first_comparison_on() -> None:
    """Its second value never lands, so that no rate of it is ever computed; CPU goes on."""
    doubts = CounterCheck()
    kept = [doubts.checked(1, reading(tick, MB + tick % 2, 5 * MB + tick * MB)) for tick in range(5)]
    assert ["bytes_in_total" in one.broker for one in kept] == [True, False, False, False, False]
    assert all("cpu_time_ns" in one.broker for one in kept)
    assert "messages_in_total" not in kept[-1].broker
    assert kept[-1].topics == {}
    assert f"bytes_in_total ({NOT_COUNTING})" in kept[-1].lacking()


def test_a_burst_between_scrape_and_sizes_costs_a_true_counter_nothing() -> None:
    """One comparison against a counter that has followed the logs is not enough; the next one differs."""
    doubts = CounterCheck()
    steps = [(0, 5 * MB), (MB, 6 * MB), (MB, 9 * MB), (4 * MB, 9 * MB), (5 * MB, 10 * MB)]
    kept = [doubts.checked(1, reading(tick, *step)) for tick, step in enumerate(steps)]
    assert all("bytes_in_total" in one.broker for one in kept)


def test_a_correct_counter_that_started_with_a_burst_is_accepted_again() -> None:
    """It is left out for one tick."""
    doubts = CounterCheck()
    steps = [(0, 5 * MB), (0, 9 * MB), (4 * MB, 9 * MB), (5 * MB, 10 * MB)]
    kept = [doubts.checked(1, reading(tick, *step)) for tick, step in enumerate(steps)]
    assert ["bytes_in_total" in one.broker for one in kept] == [True, False, True, True]
