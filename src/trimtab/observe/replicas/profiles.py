"""Profiles of partitions: what each of their roles carried in an hour of the week, for the day to come.

A profile is made of hours that end a day or more before its own: for every hour of the coming day it is there
already, and what then came can be held against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.model.replicas.resources import RESOURCES
from trimtab.observe.replicas.schemas import ARRIVALS, HOURS, PROFILES, ROLE_LOAD
from trimtab.observe.seasons import DAY, MIN_DAYS, MIN_WEEKS, WEEK, hour_end, mean_load
from trimtab.observe.spark_columns import conform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trimtab.observe.balancer_pipeline import Reach
    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings

DAYS: Final = 7
"""Over as many days the mean of an hour of the day is taken, where there are too few weeks."""

_PARTITION: Final = ("cluster", "topic", "partition")
_ROLES: Final = ("leader_load", "follower_load")


def hours(attributed: DataFrame) -> DataFrame:
    """Mean loads of each partition's roles over the windows that end in an hour; `window_end` is its end.

    `replicas` are those of its last window.
    """
    end = F.timestamp_micros(hour_end(F.unix_micros("window_end")))
    return conform(
        attributed.withColumn("hour", end)
        .groupBy(*_PARTITION, F.col("hour"))
        .agg(
            *(mean_load(role, RESOURCES).cast(ROLE_LOAD).alias(role) for role in _ROLES),
            F.max_by("replicas", "window_end").alias("replicas"),
            F.count(F.lit(1)).alias("windows"),
        )
        .withColumnRenamed("hour", "window_end"),
        HOURS,
    )


def arrivals(hours: DataFrame) -> DataFrame:
    """Replicas that were not on their broker in the hour seen before, whoever moved them.

    That hour is a day back at most; of a partition that was not seen then, nothing is told.
    """
    before = Window.partitionBy(*_PARTITION).orderBy("window_end")
    last = F.lag(F.struct("window_end", "replicas")).over(before)
    seen = hours.where(F.col("replicas").isNotNull()).withColumn("last", last)
    apart = F.unix_micros("window_end") - F.unix_micros("last.window_end")
    came = F.explode(F.array_except("replicas", "last.replicas"))
    return conform(seen.where(apart <= DAY).withColumn("broker", came), ARRIVALS)


def profile_reach(settings: ReplicasPipelineSettings) -> Reach:
    """How long before an hour the hours lie that its profile is made of."""
    return tuple((lag, lag) for lag in _lags(settings))


def profiles(hours: DataFrame, settings: ReplicasPipelineSettings) -> DataFrame:
    """Mean loads of each partition's roles at an hour of the week, over the weeks before; `by` is `week`.

    Where there are too few weeks it is the mean of that hour over the days before (`by` is `day`), and where
    there are too few days, or nothing was seen the day before, there is no profile. `count` says of how many
    hours it is the mean.
    """
    lag = F.explode(F.array(*(F.lit(one) for one in _lags(settings))))
    weekly, daily = F.col("lag") % F.lit(WEEK) == 0, F.col("lag") <= F.lit(DAYS * DAY)
    weeks, days = F.count_if(weekly), F.count_if(daily)
    by_week = weeks >= MIN_WEEKS
    found = (
        hours.withColumn("lag", lag)
        .withColumn("hour", F.timestamp_micros(F.unix_micros("window_end") + F.col("lag")))
        .groupBy(*_PARTITION, F.col("hour"))
        .agg(
            *(
                F.when(by_week, mean_load(role, RESOURCES, weekly).cast(ROLE_LOAD))
                .otherwise(mean_load(role, RESOURCES, daily).cast(ROLE_LOAD))
                .alias(role)
                for role in _ROLES
            ),
            F.when(by_week, F.lit("week")).otherwise(F.lit("day")).alias("by"),
            F.when(by_week, weeks).otherwise(days).alias("count"),
            # Hours more than a day ahead are not told: they would be told anew day after day.
            F.count_if(F.col("lag") == F.lit(DAY)).alias("yesterday"),
        )
        .where((F.col("yesterday") > 0) & ((F.col("by") == "week") | (F.col("count") >= MIN_DAYS)))
    )
    return conform(found.withColumnRenamed("hour", "window_end"), PROFILES)


def _lags(settings: ReplicasPipelineSettings) -> tuple[int, ...]:
    """From how long before the hours come, microseconds: days of the last week, and whole weeks."""
    days = {day * DAY for day in range(1, DAYS + 1)}
    return tuple(sorted(days | {week * WEEK for week in range(1, settings.profile_weeks + 1)}))
