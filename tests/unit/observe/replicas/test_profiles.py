"""Profiles of an hour of the week, from hours worked out by hand."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trimtab.observe.lake.columns import ddl
from trimtab.observe.replicas.pipeline import ATTRIBUTED, HOURS, PROFILES, ReplicasPipelineSettings
from trimtab.observe.replicas.windows import arrivals, hours, profile_reach, profiles
from trimtab.observe.spark.expressions import DAY, HOUR, WEEK
from trimtab.observe.spark.tables import rows_in_ranges
from trimtab.observe.steps.step import backward, forward

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime.datetime(2026, 11, 2, tzinfo=datetime.UTC)
SETTINGS = ReplicasPipelineSettings(profile_weeks=3)


def load(network_in: float, **others: float | None) -> dict[str, float | None]:
    """A role's load."""
    return {"cpu": 0.5, "disk": 8.0, "network_in": network_in, "network_out": 2.0, **others}


def hour(number: int, network_in: float, partition: int = 0) -> dict[str, Any]:
    """The hour of partition t:0 that ends so many hours after the start."""
    return {
        "cluster": "c", "window_end": START + datetime.timedelta(hours=number), "topic": "t",
        "partition": partition, "replicas": [1, 2], "leader_load": load(network_in),
        "follower_load": load(network_in / 2), "windows": 60,
    }  # fmt: skip


def profiled(spark: SparkSession, rows: list[dict[str, Any]], weeks: int = 3) -> dict[int, Any]:
    """Profiles by the hour's number after the start."""
    frame = spark.createDataFrame([tuple(row[name] for name, _ in HOURS) for row in rows], ddl(HOURS))
    found = profiles(frame, ReplicasPipelineSettings(profile_weeks=weeks))
    assert [name for name, _ in PROFILES] == found.columns
    return {
        round((row.window_end.replace(tzinfo=datetime.UTC) - START).total_seconds() / 3600): row
        for row in found.collect()
    }


def test_an_hour_is_the_mean_of_its_windows(spark: SparkSession) -> None:
    """Windows at 10, 20 and 60 minutes past make one hour: (4 + 6 + 11) / 3; that at 61 is of the next.

    Unknown CPU is left out of the mean, and unknown where no window has it.
    """
    rows = []
    for minute, rate, cpu, held in (
        (10, 4.0, None, [1, 2]),
        (20, 6.0, 0.25, [1, 2]),
        (60, 11.0, 0.75, [1, 3]),
        (61, 50.0, None, [3, 1]),
    ):
        one = dict.fromkeys((name for name, _ in ATTRIBUTED), None)
        one |= {
            "cluster": "c", "window_end": START + datetime.timedelta(minutes=minute), "topic": "t",
            "partition": 0, "replicas": held, "leader_load": load(rate, cpu=cpu),
            "follower_load": load(rate / 2, network_out=0.0),
        }  # fmt: skip
        rows.append(tuple(one.values()))
    first, second = hours(spark.createDataFrame(rows, ddl(ATTRIBUTED))).orderBy("window_end").collect()
    assert first.window_end.replace(tzinfo=datetime.UTC) == START + datetime.timedelta(hours=1)
    assert first.leader_load.asDict() == {"cpu": 0.5, "disk": 8.0, "network_in": 7.0, "network_out": 2.0}
    assert first.follower_load.asDict() == {"cpu": 0.5, "disk": 8.0, "network_in": 3.5, "network_out": 0.0}
    assert (first.windows, first.replicas) == (3, [1, 3])
    assert (second.leader_load.network_in, second.leader_load.cpu) == (50.0, None)


def test_two_weeks_make_a_profile_of_the_hour_of_the_week(spark: SparkSession) -> None:
    """Hour 5 had 10 and 30 in two weeks: 20 in the third, independent of the days between."""
    rows = [hour(5, 10.0), hour(5 + 168, 30.0), *(hour(5 + 24 * day, 1000.0) for day in range(8, 14))]
    found = profiled(spark, rows)[5 + 2 * 168]
    assert (found.by, found["count"]) == ("week", 2)
    assert found.leader_load.network_in == 20.0
    assert found.follower_load.network_in == 10.0


def test_days_stand_in_for_weeks(spark: SparkSession) -> None:
    """Hour 5 had 6, 9 and 3 on three days: 6 on the fourth. One day alone makes no profile."""
    found = profiled(spark, [hour(5, 6.0), hour(29, 9.0), hour(53, 3.0)])
    assert set(found) == {53, 77}, "hours with nothing the day before have none"
    assert (found[53].by, found[53]["count"], found[53].leader_load.network_in) == ("day", 2, 7.5)
    assert (found[77].by, found[77]["count"], found[77].leader_load.network_in) == ("day", 3, 6.0)
    once = profiled(spark, [hour(5, 10.0), hour(5 + 6 * 24, 30.0)])[5 + 168]
    assert (once.by, once["count"], once.leader_load.network_in) == ("day", 2, 20.0), "one week is no profile"


def test_no_more_weeks_than_requested(spark: SparkSession) -> None:
    """Of four observed weeks and two requested ones, the newest two count."""
    rows = [hour(5 + 168 * week, 10.0 * 2**week) for week in range(4)] + [hour(5 + 4 * 168 - 24, 0.0)]
    found = profiled(spark, rows, weeks=2)[5 + 4 * 168]
    assert (found["count"], found.leader_load.network_in) == (2, (40.0 + 80.0) / 2)


def test_a_profile_is_known_a_day_before(spark: SparkSession) -> None:
    """Nothing less than a day before an hour is in its profile, and that is what the stage declares."""
    reach = profile_reach(SETTINGS)
    assert isinstance(reach, tuple)
    assert min(near for _, near in reach) == DAY
    assert max(far for far, _ in reach) == 3 * WEEK
    before = [hour(5, 6.0), hour(29, 9.0)]
    later = [hour(number, 77.0) for number in range(30, 53)]
    assert profiled(spark, before + later)[53] == profiled(spark, before)[53]


@given(rate=st.floats(0, 1e9), days=st.integers(2, 20), gaps=st.sets(st.integers(0, 20), max_size=4))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_profile_of_a_constant_load_is_constant(
    spark: SparkSession, rate: float, days: int, gaps: set[int]
) -> None:
    """Days may be missing: every profile equals every hour."""
    seen = [day for day in range(days) if day not in gaps]
    if not seen:
        return
    for row in profiled(spark, [hour(24 * day, rate) for day in seen]).values():
        assert row.leader_load.network_in == pytest.approx(rate, rel=1e-15)
        assert row.leader_load.network_in >= 0


def test_a_day_computed_from_the_declared_reach_equals_the_whole(spark: SparkSession) -> None:
    """Three weeks at once equal a day computed from the hours in its reach alone, to the last bit. So stream
    and batch agree: the reach determines which rows a step reads and writes.
    """
    rows = [
        hour(number, 0.1 * (number % 37) + 1e7 / (number + 1), part)
        for number in range(0, 500, 4)
        for part in (0, 1)
    ]
    frame = spark.createDataFrame([tuple(row[name] for name, _ in HOURS) for row in rows], ddl(HOURS))
    reach = profile_reach(SETTINGS)
    begin = round(START.timestamp() * 1e6)
    wanted = [(begin + 400 * HOUR, begin + 424 * HOUR)]

    def made(frame: Any) -> list[str]:
        return sorted(
            repr(row) for row in rows_in_ranges(profiles(frame, SETTINGS), "window_end", wanted).collect()
        )

    whole = made(frame)
    assert len(whole) == 12
    assert made(rows_in_ranges(frame, "window_end", backward(wanted, reach))) == whole
    changed = [(begin + 260 * HOUR, begin + 260 * HOUR + 1)]
    assert (begin + (260 + 168) * HOUR, begin + (260 + 168) * HOUR + 1) in forward(changed, reach)


def test_an_arrived_replica_is_reported_once(spark: SparkSession) -> None:
    """Broker 3 arrives in hour 2, replacing 2; after a gap of a day and an hour the arrival is unknown."""
    held = {1: [1, 2], 2: [3, 1], 3: [1, 3], 28: [4, 5], 29: [4, 5, 1]}
    rows = [hour(number, 1.0) | {"replicas": those} for number, those in held.items()]
    frame = spark.createDataFrame([tuple(row[name] for name, _ in HOURS) for row in rows], ddl(HOURS))
    found = arrivals(frame).orderBy("window_end", "broker").collect()
    at = [row.window_end.replace(tzinfo=datetime.UTC) - START for row in found]
    hours_after = [round(one.total_seconds() / 3600) for one in at]
    assert [(one, row.partition, row.broker) for one, row in zip(hours_after, found, strict=True)] == [
        (2, 0, 3),
        (29, 0, 1),
    ]
