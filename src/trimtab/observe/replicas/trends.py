"""Trends of partitions: profiles raised or lowered as whole weeks rose or fell, and how far off both were.

A profile is a mean over weeks, and so tells of a load that grows what it was weeks ago. The trend is a
straight line through the means of whole weeks, in which every day of the week weighs the same. It is damped:
the newest week's level counts, and from there on half of what the line says (Gardner and McKenzie 1985,
"Forecasting trends in time series", whose damping is over many steps; here it is over one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from trimtab.model.replicas.resources import RESOURCES
from trimtab.observe.replicas.schemas import DAYS, PROFILE_ERRORS, ROLE_LOAD, TRENDS
from trimtab.observe.seasons import DAY, MIN_WEEKS, mean_load, mean_of_list
from trimtab.observe.spark_columns import conform

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.balancer_pipeline import Reach
    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings

MIN_HOURS: Final = 20
"""A day of fewer hours says as much of these hours as of the day."""
DAYS_A_WEEK: Final = 7
DAMPING: Final = 0.5
"""Of the line's slope, beyond the newest week."""
MAX_CHANGE: Final = 2.0
"""No load is expected to be more than so many times its profile, or less than that part of it."""

_PARTITION: Final = ("cluster", "topic", "partition")
_ROLES: Final = ("leader_load", "follower_load")


def days(hours: DataFrame) -> DataFrame:
    """Mean loads of each partition's roles over the hours of a day (UTC); `window_end` is its end."""
    end = F.timestamp_micros((F.ceil(F.unix_micros("window_end") / DAY) * DAY).cast("bigint"))
    return conform(
        hours.withColumn("day", end)
        .groupBy(*_PARTITION, F.col("day"))
        .agg(
            *(mean_load(role, RESOURCES).cast(ROLE_LOAD).alias(role) for role in _ROLES),
            F.count(F.lit(1)).alias("hours"),
        )
        .withColumnRenamed("day", "window_end"),
        DAYS,
    )


def trend_reach(settings: ReplicasPipelineSettings) -> Reach:
    """How long before an hour the days end that its trend is made of: none less than a day before it."""
    return (((_days_of(settings) + 1) * DAY, DAY),)


def error_reach(_: object) -> Reach:
    """The hour itself, and the same hour of the day before."""
    return ((DAY, DAY), (0, 0))


def trends(profiles: DataFrame, days: DataFrame, settings: ReplicasPipelineSettings) -> DataFrame:
    """Profiles of hours of the week as the trend of the weeks before has them.

    Each load is multiplied by (newest week + `DAMPING` · slope a week) / mean of the weeks, within 1 /
    `MAX_CHANGE` and `MAX_CHANGE`; where weeks say nothing of it, by 1. There is no row where fewer than
    `MIN_WEEKS` whole weeks are known. `weeks` says of how many the line is.
    """
    day_begun = F.timestamp_micros(((F.ceil(F.unix_micros("window_end") / DAY) - 1) * DAY).cast("bigint"))
    raised = _raised(days, settings)
    joined = (
        profiles.where(F.col("by") == "week")
        .withColumn("day", day_begun)
        .join(raised, on=[*_PARTITION, "day"], how="inner")
    )

    def expected(role: str) -> Column:
        return F.struct(
            *(
                F.col(f"{role}.{name}") * F.coalesce(F.col(f"{role}_raised.{name}"), F.lit(1.0))
                for name in RESOURCES
            )
        ).cast(ROLE_LOAD)

    return conform(joined.withColumns({role: expected(role) for role in _ROLES}), TRENDS)


def profile_errors(profiles: DataFrame, trends: DataFrame, hours: DataFrame) -> DataFrame:
    """What each profile was off once its hour had come, as a leader's load: expected minus actual.

    `error_with_trend` is that of the trend where there is one, else of the profile; `error_of_yesterday` that
    of the same hour a day before. Disks are expected to stay as they are: all three are yesterday's.
    """
    keys = [*_PARTITION, "window_end"]
    later = F.timestamp_micros(F.unix_micros("window_end") + F.lit(DAY)).alias("window_end")
    actual = hours.select(*keys, F.col("leader_load").alias("actual"))
    told = profiles.select(*keys, F.col("leader_load").alias("profile"))
    with_trend = trends.select(*keys, F.col("leader_load").alias("trend"))
    joined = (
        actual.join(told, on=keys, how="inner")
        .join(with_trend, on=keys, how="left")
        .join(hours.select(*_PARTITION, later, F.col("leader_load").alias("before")), on=keys, how="left")
    )
    same = {name: F.col(f"before.{name}") for name in RESOURCES}
    plain = {name: F.col(f"profile.{name}") for name in RESOURCES} | {"disk": same["disk"]}
    raised = {name: F.coalesce(F.col(f"trend.{name}"), one) for name, one in plain.items()}
    raised["disk"] = same["disk"]

    def off(expected: dict[str, Column]) -> Column:
        return F.struct(*(one - F.col(f"actual.{name}") for name, one in expected.items())).cast(ROLE_LOAD)

    errors = {"error": off(plain), "error_with_trend": off(raised), "error_of_yesterday": off(same)}
    return conform(joined.withColumns(errors), PROFILE_ERRORS)


def _days_of(settings: ReplicasPipelineSettings) -> int:
    return DAYS_A_WEEK * settings.profile_weeks


def _raised(days: DataFrame, settings: ReplicasPipelineSettings) -> DataFrame:
    """By what each load of a partition is multiplied in the day that begins at `day`."""
    # The day that ends when `day` begins is not over yet when its hours are to be told, a day before.
    ago = F.explode(F.sequence(F.lit(1), F.lit(max(1, _days_of(settings)))))
    weekly = (
        days.where(F.col("hours") >= MIN_HOURS)
        .withColumn("ago", ago)
        .withColumn("day", F.timestamp_micros(F.unix_micros("window_end") + F.col("ago") * F.lit(DAY)))
        .withColumn("week", F.ceil(F.col("ago") / DAYS_A_WEEK))
        .groupBy(*_PARTITION, "day", "week")
        .agg(
            *(mean_load(role, RESOURCES).cast(ROLE_LOAD).alias(role) for role in _ROLES),
            F.count("*").alias("days"),
        )
        .where(F.col("days") == DAYS_A_WEEK)
    )
    lines = weekly.groupBy(*_PARTITION, "day").agg(
        F.sort_array(F.collect_list(F.struct("week", *_ROLES))).alias("by_week"), F.count("*").alias("weeks")
    )
    return lines.where(F.col("weeks") >= MIN_WEEKS).select(
        *_PARTITION,
        "day",
        "weeks",
        *(
            F.struct(*(_factor(role, name).alias(name) for name in RESOURCES)).alias(f"{role}_raised")
            for role in _ROLES
        ),
    )


def _factor(role: str, name: str) -> Column:
    """(newest + damped slope) / mean of one load's weeks, newest first; null where they do not say."""
    known = F.filter("by_week", lambda week: week[role][name].isNotNull())
    load = F.transform(known, lambda week: week[role][name])
    ago = F.transform(known, lambda week: week["week"].cast("double"))
    mean, middle = mean_of_list(load), mean_of_list(ago)
    # Weeks are counted backward.
    along = mean_of_list(F.zip_with(ago, load, lambda when, value: (middle - when) * (value - mean)))
    spread = mean_of_list(F.transform(ago, lambda when: (middle - when) * (middle - when)))
    slope = along / spread
    found = (F.get(load, F.lit(0)) + F.lit(DAMPING) * slope) / mean
    within = F.greatest(F.lit(1.0 / MAX_CHANGE), F.least(F.lit(MAX_CHANGE), found))
    return F.when((F.size(known) >= MIN_WEEKS) & (mean > 0), within)
