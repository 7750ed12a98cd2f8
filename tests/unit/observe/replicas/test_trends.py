"""Trends of weeks and the errors of what was expected, from hours worked out by hand."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.model.replicas.settings import DISK, NETWORK_IN, RESOURCES
from trimtab.observe.lake.columns import ddl
from trimtab.observe.replicas.loads import METHODS, Backtest, backtest_of, expected_loads
from trimtab.observe.replicas.pipeline import DAYS, HOURS, PROFILES, TRENDS, ReplicasPipelineSettings
from trimtab.observe.replicas.windows import (
    days,
    error_reach,
    profile_errors,
    profiles,
    trend_reach,
    trends,
)
from trimtab.observe.spark.expressions import DAY, HOUR, frame_of
from trimtab.observe.spark.tables import rows_in_ranges
from trimtab.observe.steps.step import backward

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime.datetime(2026, 11, 2, tzinfo=datetime.UTC)
SETTINGS = ReplicasPipelineSettings(profile_weeks=3)


def load(network_in: float | None, **others: float | None) -> dict[str, float | None]:
    """A role's load."""
    return {"cpu": 0.5, "disk": 8.0, "network_in": network_in, "network_out": 2.0, **others}


def at(hours_after: int) -> datetime.datetime:
    """So many hours after the start, a Monday's midnight."""
    return START + datetime.timedelta(hours=hours_after)


def row(number: int, network_in: float | None, **others: float | None) -> dict[str, Any]:
    """An hour, or a day, of partition t:0 that ends so many hours after the start."""
    follower = None if network_in is None else network_in / 2
    return {
        "cluster": "c", "window_end": at(number), "topic": "t", "partition": 0, "replicas": [1, 2],
        "leader_load": load(network_in, **others), "follower_load": load(follower, **others), "windows": 60,
        "hours": 24, "by": "week", "count": 3,
    }  # fmt: skip


def frame(spark: SparkSession, rows: list[dict[str, Any]], columns: Any) -> DataFrame:
    """Rows as a table of the pipeline."""
    return frame_of(spark, [tuple(one[name] for name, _ in columns) for one in rows], ddl(columns))


def by_hour(found: DataFrame) -> dict[int, Any]:
    """Rows by the hour's number after the start."""
    apart = ((one, one.window_end.replace(tzinfo=datetime.UTC) - START) for one in found.collect())
    return {round(seconds.total_seconds() / 3600): one for one, seconds in apart}


def weeks(*means: float, first: int = 0) -> list[dict[str, Any]]:
    """Days of whole weeks, oldest first; in each the days differ and the mean is as given."""
    around = (-3, 5, -1, 0, 2, -4, 1)
    return [
        row(24 * (1 + first + 7 * week + day), mean + around[day])
        for week, mean in enumerate(means)
        for day in range(7)
    ]


def of_nothing(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same days without any traffic, and without a signal of CPU."""
    nothing = load(0.0, cpu=None)
    return [one | {"leader_load": nothing, "follower_load": nothing} for one in rows]


def with_hours(rows: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """The same days, but of the fourth so many hours were seen."""
    return [one | ({"hours": number} if place == 3 else {}) for place, one in enumerate(rows)]


def in_units(rows: list[dict[str, Any]], unit: float) -> list[dict[str, Any]]:
    """Network in counted in another unit."""
    return [one | {"leader_load": load(one["leader_load"]["network_in"] * unit)} for one in rows]


HOUR_TOLD = 22 * 24 + 5
GROWING = weeks(10.0, 12.0, 14.0)
CASES: dict[str, list[dict[str, Any]]] = {
    "growing": GROWING,
    "halved": weeks(20.0, 10.0, first=7),
    "leaping": weeks(10.0, 10.0, 100.0),
    "there and back": weeks(10.0, 16.0, 10.0),
    "two weeks": weeks(14.0, 12.0, first=7),
    "a day of 19 hours": with_hours(weeks(99.0, 12.0, 14.0), 19),
    "a day of 20 hours": with_hours(GROWING, 20),
    "one week": GROWING[14:],
    "and the day before": [*GROWING, row(22 * 24, 1e6)],
    "another last day": [*GROWING[:-1], row(21 * 24, 1e6)],
    "a week too old": [*weeks(1e6, first=-7), *GROWING],
    "nothing": of_nothing(GROWING),
    "steady": weeks(1 / 3, 1 / 3, 1 / 3),
    "in other units": in_units(GROWING, 1 / 1024),
}
"""Days of a partition each."""


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> dict[str, Any]:
    """Trends of the fifth hour of day 23, whose profile is 100 network in; those that there are, by case."""
    daily, profile = [], []
    for number, rows in enumerate(CASES.values()):
        own = {"partition": number}
        profile.append(row(HOUR_TOLD, 100.0) | own)
        daily += [one | own for one in rows]
    by_day = row(HOUR_TOLD, 100.0) | {"partition": 0, "by": "day", "topic": "of days"}
    daily += [one | {"topic": "of days"} for one in GROWING]
    found = trends(frame(spark, [*profile, by_day], PROFILES), frame(spark, daily, DAYS), SETTINGS)
    assert [name for name, _ in TRENDS] == found.columns
    collected = found.collect()
    assert {one.topic for one in collected} == {"t"}, "means of an hour of the day have no trend"
    return {name: one for number, name in enumerate(CASES) for one in collected if one.partition == number}


@pytest.mark.spark
def test_a_day_is_the_mean_of_its_hours(spark: SparkSession) -> None:
    """Hours 1 and 24 are of the first day, 25 of the second."""
    found = by_hour(days(frame(spark, [row(1, 4.0), row(24, 6.0), row(25, 50.0)], HOURS)))
    assert set(found) == {24, 48}
    assert (found[24].leader_load.network_in, found[24].hours) == (5.0, 2)
    assert found[24].follower_load.network_in == 2.5
    assert (found[48].leader_load.network_in, found[48].hours) == (50.0, 1)


@pytest.mark.spark
def test_a_growing_week_raises_the_profile_by_a_damped_line(told: dict[str, Any]) -> None:
    """Weeks of 10, 12 and 14: mean 12, slope 2, so (14 + 1) / 12 of the profile's 100. Followers carry half
    of everything: the same factor. What stays the same stays the same.
    """
    found = told["growing"]
    assert found.leader_load.network_in == pytest.approx(125.0)
    assert found.follower_load.network_in == pytest.approx(62.5)
    assert (found.leader_load.cpu, found.leader_load.network_out) == (0.5, 2.0)
    assert found.weeks == 3


@pytest.mark.spark
@pytest.mark.parametrize(
    ("case", "factor"),
    [
        ("halved", 0.5),  # (10 - 5) / 15 is less
        ("leaping", 2.0),  # (100 + 22.5) / 40 is more
        ("there and back", 10.0 / 12.0),  # a flat line: the newest week's level counts
        ("two weeks", (12.0 - 1.0) / 13.0),
        ("a day of 19 hours", (14.0 + 1.0) / 13.0),  # spoils its week
        ("a day of 20 hours", 1.25),
        ("a week too old", 1.25),
        ("steady", 1.0),
        ("in other units", 1.25),
    ],
)
def test_the_factor_by_hand(told: dict[str, Any], case: str, factor: float) -> None:
    """(newest + half the slope) / mean, within a half and two."""
    assert told[case].leader_load.network_in == pytest.approx(100.0 * factor, rel=1e-12)


@pytest.mark.spark
def test_only_whole_weeks_count_and_two_make_a_line(told: dict[str, Any]) -> None:
    """Of one week there is no trend."""
    assert (told["a day of 19 hours"].weeks, told["a day of 20 hours"].weeks) == (2, 3)
    assert "one week" not in told


@pytest.mark.spark
def test_a_trend_uses_the_day_before_the_previous_one(told: dict[str, Any]) -> None:
    """Hours of day 23 (from 0 o'clock on) are forecast a day before: day 22 is not over then, day 21 is."""
    assert told["and the day before"].leader_load == told["growing"].leader_load
    assert told["another last day"].leader_load != told["growing"].leader_load
    reach = trend_reach(SETTINGS)
    assert isinstance(reach, tuple)
    (far, near), = reach  # fmt: skip
    assert (far, near) == (22 * DAY, DAY)


@pytest.mark.spark
def test_weeks_without_load_yield_no_trend(told: dict[str, Any]) -> None:
    """The profile stays, whether there was no load or no signal."""
    assert (told["nothing"].leader_load.cpu, told["nothing"].leader_load.network_in) == (0.5, 100.0)


@pytest.mark.spark
def test_errors_belong_to_the_forecast_hour(spark: SparkSession) -> None:
    """Expected 20, with the trend 26, yesterday 18; actual 24. A disk was expected to stay at 8."""
    hours = frame(spark, [row(5, 18.0), row(29, 24.0, disk=9.0), row(30, 7.0)], HOURS)
    told = frame(spark, [row(29, 20.0, disk=3.0), row(30, 5.0), row(31, 5.0)], PROFILES)
    raised = frame(spark, [row(29, 26.0, disk=8.5) | {"weeks": 2}], TRENDS)
    found = by_hour(profile_errors(told, raised, hours))
    assert set(found) == {29, 30}, "what has not come yet has no error"
    one = found[29]
    assert (one.actual.network_in, one.error.network_in, one.error_with_trend.network_in) == (24.0, -4.0, 2.0)
    assert one.error_of_yesterday.network_in == -6.0
    assert (one.error.disk, one.error_with_trend.disk, one.error_of_yesterday.disk) == (-1.0, -1.0, -1.0)
    assert found[30].error_with_trend.network_in == -2.0, "without a trend the profile is what is expected"
    assert found[30].error.disk is None, "nothing known of the day before"


@pytest.mark.spark
def test_a_day_computed_from_the_declared_reaches_equals_the_whole(spark: SparkSession) -> None:
    """Four weeks at once, and a day of it from the rows in reach alone: the same, to the last bit.

    It is what makes stream and batch agree.
    """
    rows = [row(number, 0.1 * (number % 37) + 1e5 / (number + 1)) for number in range(1, 24 * 25)]
    hours = frame(spark, rows, HOURS)
    profile, daily = profiles(hours, SETTINGS).cache(), days(hours).cache()
    begin = round(START.timestamp() * 1e6)
    wanted = [(begin + 560 * HOUR, begin + 584 * HOUR)]

    def only(table: DataFrame, reach: Any) -> DataFrame:
        return rows_in_ranges(table, "window_end", backward(wanted, reach))

    def made(found: DataFrame) -> list[str]:
        return sorted(repr(one) for one in rows_in_ranges(found, "window_end", wanted).collect())

    raised = trends(profile, daily, SETTINGS).cache()
    of_trends = made(raised)
    assert len(of_trends) == 24
    assert made(trends(only(profile, 0), only(daily, trend_reach(SETTINGS)), SETTINGS)) == of_trends
    of_errors = made(profile_errors(profile, raised, hours))
    assert len(of_errors) == 24
    assert (
        made(profile_errors(only(profile, 0), only(raised, 0), only(hours, error_reach(SETTINGS))))
        == of_errors
    )
    assert made(days(only(hours, DAY))) == made(daily) != []


def errors_of(rows: list[tuple[float, float, float]]) -> pa.Table:
    """Rows of the table of errors: what came of network in, and the errors of profile and trend."""
    kind = pa.struct([(name, pa.float64()) for name in RESOURCES])

    def structs(values: list[float]) -> pa.Array:
        return pa.array([load(one, cpu=None, disk=0.0) for one in values], kind)

    actual, plain, raised = ([one[place] for one in rows] for place in range(3))
    ways = (plain, raised, [1.0] * len(rows))
    return pa.table({"actual": structs(actual)} | dict(zip(METHODS, map(structs, ways), strict=True)))


def test_the_error_is_a_share_of_the_actual_load() -> None:
    """|−3| + |1| of 10 + 30 by the profile, |1| + |−4| with the trend: the trend is not used."""
    found = backtest_of(errors_of([(10.0, -3.0, 1.0), (30.0, 1.0, -4.0)]))
    assert found.share[:2, NETWORK_IN].tolist() == [0.1, 0.125]
    assert not found.trend.any()
    assert np.isnan(found.share[:, DISK]).all(), "of nothing there is no share"
    assert "cpu" not in found.document()["error"]  # type: ignore[operator]
    assert found.document()["trend"] == []


def test_equal_errors_leave_the_trend_out() -> None:
    """The simpler one is kept, also where nothing is known."""
    assert not backtest_of(errors_of([(10.0, 2.0, -2.0)])).trend.any()
    assert backtest_of(errors_of([(10.0, 2.0, -1.9)])).trend.tolist() == [False, False, True, False]
    assert not backtest_of(pa.table({})).trend.any()


@given(st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 3), min_size=1, max_size=9), st.randoms())
def test_the_choice_does_not_depend_on_the_order_of_rows(
    rows: list[tuple[float, float, float]], chance: Any
) -> None:
    """To the last bit: tables come in any order."""
    other = rows.copy()
    chance.shuffle(other)
    one, two = backtest_of(errors_of(rows)), backtest_of(errors_of(other))
    assert one.off.tobytes() == two.off.tobytes()
    assert one.actual.tobytes() == two.actual.tobytes()


def test_expected_loads_by_hand() -> None:
    """The trend where it counts and is known, else the profile, else the recent load."""
    nothing = np.nan
    profile = np.array([[[1.0, 5.0, 2.0, 3.0], [nothing] * 4]])
    trend = np.array([[[9.0, 50.0, 8.0, 7.0], [nothing, 5.0, nothing, nothing]]])
    recent = np.array([[0.1, 30.0, 0.2, 0.3]])
    none, some = np.array([False] * 4), np.array([False, True, True, False])
    np.testing.assert_array_equal(
        expected_loads(profile, trend, recent, none), [[[1, 30, 2, 3], [0.1, 30, 0.2, 0.3]]]
    )
    np.testing.assert_array_equal(
        expected_loads(profile, trend, recent, some), [[[1, 30, 8, 3], [0.1, 30, 0.2, 0.3]]]
    )


def test_a_share_is_of_the_sums() -> None:
    """Not the mean of shares."""
    found = Backtest(np.array([[1.0] * 4, [3.0] * 4, [2.0] * 4]), np.full(4, 10.0))
    assert found.share[:, 0].tolist() == [0.1, 0.3, 0.2]
