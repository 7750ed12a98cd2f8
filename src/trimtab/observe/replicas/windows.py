"""Windows of brokers and partitions, and what is made of them: CPU model, loads of roles, profiles, trends.

A profile says what each role of a partition carried in an hour of the week, for the day to come. It is
made of hours that end a day or more before its own: for every hour of the coming day it is there already,
and what then came can be compared with it.

A profile is a mean over weeks, and so tells of a load that grows what it was weeks ago. The trend is a
straight line through the means of whole weeks, in which every day of the week weighs the same. It is
damped: the newest week's level counts, and from there on half of what the line says (Gardner and McKenzie
1985, "Forecasting trends in time series", whose damping is over many steps; here it is over one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.model.replicas.settings import RESOURCES
from trimtab.observe.lake.columns import SECOND, SampleFlag
from trimtab.observe.replicas.pipeline import (
    ARRIVALS,
    ATTRIBUTED,
    CAUSES,
    CPU_MODEL,
    DAYS,
    FIXED_SHARES,
    HOURS,
    PROFILE_ERRORS,
    PROFILES,
    ROLE_LOAD,
    TRENDS,
    WINDOWS,
)
from trimtab.observe.spark.expressions import (
    DAY,
    MIN_DAYS,
    MIN_WEEKS,
    WEEK,
    conform,
    coverage,
    hour_end,
    is_flagged,
    mean_load,
    mean_of_list,
    statistics,
    with_statistics,
    with_window_ends,
)
from trimtab.observe.steps.cpu_fit import by_fixed_shares, fitted, with_costs

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from trimtab.observe.lake.balancer_pipeline import PipelineSettings, Reach
    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings


NANOSECONDS_PER_US = 1000


def windows(traffic: DataFrame, brokers: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Statistics of each partition and broker per window (end − length, end], ends at multiples of the slide.

    A mean is what was carried divided by the time it took, both whole numbers; the other statistics are over
    the rates of the ticks. Kind is `partition` or `broker`. Network figures of a window are those of the
    ticks with counters, where there is one (`counted`): estimates lack what a broker's compression saves, and
    a mean of both would be neither. `valid_share` is the share of the window that measured intervals cover.
    """
    partition = _of_partitions(with_window_ends(traffic, settings), settings)
    broker = _of_brokers(with_window_ends(brokers, settings), settings)
    return conform(partition.unionByName(broker, allowMissingColumns=True), WINDOWS)


def _of_partitions(rows: DataFrame, settings: PipelineSettings) -> DataFrame:
    counted = F.coalesce("counted", F.lit(False))
    known = (
        ~F.coalesce("extrapolated", F.lit(False))
        & F.col("bytes_in").isNotNull()
        & ~is_flagged(SampleFlag.MISSED)
    )
    measured = F.when(known, F.col("elapsed_us"))
    keys = ("cluster", "window_end", "topic", "partition")
    newest = F.struct("tick", "leader", "replicas", "in_sync")
    grouped = rows.groupBy(*keys).agg(
        # A maximum by tick, which Comet has of numbers and text alone.
        F.array_max(F.collect_list(newest)).alias("_newest"),
        _intercept("size_bytes").alias("disk"),
        _best(_rate, "bytes_in", counted).alias("network_in"),
        _best(_rate, "bytes_out", counted).alias("network_out"),
        _best(_mean_rate, "bytes_in", counted).alias("leader_in"),
        _mean_rate("log_bytes").alias("follower_in"),
        *_trust("bytes_in", measured, counted, settings),
        F.coalesce(F.bool_or("extrapolated"), F.lit(False)).alias("extrapolated"),
        F.lit("partition").alias("kind"),
    )
    told = with_statistics(grouped, ("disk", "network_in", "network_out"))
    return told.select("*", *(f"_newest.{name}" for name in ("leader", "replicas", "in_sync")))


def _of_brokers(rows: DataFrame, settings: PipelineSettings) -> DataFrame:
    summed = rows.withColumn("bytes_in", F.col("leader_bytes_in") + F.col("follower_bytes_in"))
    counted = F.col("network_measured") & F.col("bytes_in").isNotNull()
    measured = F.when(counted & ~is_flagged(SampleFlag.MISSED), F.col("elapsed_us"))
    grouped = summed.groupBy("cluster", "window_end", "broker").agg(
        F.coalesce(_cores(counted), _cores(F.lit(True))).alias("cpu"),
        _intercept("disk_bytes").alias("disk"),
        _best(_rate, "bytes_in", counted).alias("network_in"),
        _best(_rate, "bytes_out", counted).alias("network_out"),
        _best(_mean_rate, "leader_bytes_in", counted).alias("leader_in"),
        _best(_mean_rate, "follower_bytes_in", counted).alias("follower_in"),
        _mean_rate("requests").alias("requests"),
        *_trust("bytes_in", measured, counted, settings),
        F.lit(False).alias("extrapolated"),
        F.lit("broker").alias("kind"),
    )
    return with_statistics(grouped, ("cpu", "disk", "network_in", "network_out"))


def _trust(
    name: str, measured: Column, counted: Column, settings: PipelineSettings
) -> tuple[Column, Column, Column]:
    some = F.coalesce(F.bool_or(counted), F.lit(False))
    covered = F.when(some, coverage(F.when(counted, measured), settings)).otherwise(
        coverage(measured, settings)
    )
    return F.count(name).alias("samples"), covered.alias("valid_share"), some.alias("counted")


def _best(figure: Callable[[Column], Column], name: str, counted: Column) -> Column:
    """A figure of the values that are counted, or else of all."""
    return F.coalesce(figure(F.when(counted, F.col(name))), figure(F.col(name)))


def _rate(value: Column) -> Column:
    """Statistics of a change per second; its mean weighs every interval by its length."""
    return statistics(value * (SECOND / F.col("elapsed_us")), _mean_rate(value))


def _cores(counted: Column) -> Column:
    """Of the same ticks as the load that causes it."""
    spent = F.when(counted, F.col("cpu_ns"))
    known = F.when(spent.isNotNull(), F.col("elapsed_us"))
    mean = F.sum(spent) / (F.sum(known) * NANOSECONDS_PER_US)
    return statistics(spent / (F.col("elapsed_us") * NANOSECONDS_PER_US), mean)


def _intercept(name: str) -> Column:
    """Statistics of a size, as it stood at the ticks."""
    return statistics(F.col(name).cast("double"), F.sum(name) / F.count(name))


def _mean_rate(value: Column | str) -> Column:
    change = F.col(value) if isinstance(value, str) else value
    known = F.when(change.isNotNull(), F.col("elapsed_us"))
    return F.sum(change) * float(SECOND) / F.sum(known)


def cpu_model(windows: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Cores per byte for every cluster and window, fitted over the last `cpu_fit_windows` windows."""
    carried = {cause: F.col(cause) for cause in CAUSES} | {"leader_out": F.col("network_out.mean")}
    return fitted(windows, carried, CPU_MODEL, settings, by_fixed_shares(FIXED_SHARES))


def attributed(windows: DataFrame, cpu_model: DataFrame) -> DataFrame:
    """Leader and follower load of every partition per window.

    CPU is the model's cost of what the role carries; without a model it is absent (null). Disk is the same
    in both roles; so is network in, but for what the broker compresses on arrival; a follower has no
    network out. What leaders send to followers stands apart in `replication_out`: brokers' own counters of
    bytes out do not hold it either.
    """
    partitions = windows.where("kind = 'partition'").withColumn("out", F.col("network_out.mean"))
    joined = with_costs(partitions, cpu_model, CAUSES)
    led = F.col("_per_leader_in") * F.col("leader_in") + F.col("_per_leader_out") * F.coalesce(
        "out", F.lit(0.0)
    )
    followed = F.col("_per_follower_in") * F.col("follower_in")
    disk = F.col("disk.latest")
    leader = F.struct(led, disk, F.col("leader_in"), F.col("out"))
    follower = F.struct(followed, disk, F.col("follower_in"), F.when(F.col("follower_in").isNotNull(), 0.0))
    followers = F.greatest(F.size("in_sync") - 1, F.lit(0))
    return conform(
        joined.withColumns(
            {
                "leader_load": leader.cast(ROLE_LOAD),
                "follower_load": follower.cast(ROLE_LOAD),
                "replication_out": F.col("follower_in") * followers,
            }
        ),
        ATTRIBUTED,
    )


PROFILE_DAYS: Final = 7
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
    weekly, daily = F.col("lag") % F.lit(WEEK) == 0, F.col("lag") <= F.lit(PROFILE_DAYS * DAY)
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
    days = {day * DAY for day in range(1, PROFILE_DAYS + 1)}
    return tuple(sorted(days | {week * WEEK for week in range(1, settings.profile_weeks + 1)}))


MIN_HOURS: Final = 20
"""A day of fewer hours says as much of these hours as of the day."""
DAYS_A_WEEK: Final = 7
DAMPING: Final = 0.5
"""Of the line's slope, beyond the newest week."""
MAX_CHANGE: Final = 2.0
"""No load is expected to be more than so many times its profile, or less than that part of it."""


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
