"""Forecasts of what each bundle will carry shortly, and how far such forecasts were off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.observe.bundles.recent_lines import with_recent_lines
from trimtab.observe.bundles.schemas import FORECAST_ERRORS, FORECASTS, HOURS, LOAD
from trimtab.observe.columns import SECOND
from trimtab.observe.seasons import HOUR, MIN_WEEKS, WEEK, hour_end, mean_load
from trimtab.observe.spark_columns import conform

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.balancer_pipeline import Reach
    from trimtab.observe.bundles.pipeline import BundlesPipelineSettings


def hour_reach(settings: BundlesPipelineSettings) -> Reach:
    """The stretches of `hours` that a forecast looks at: that hour of its target, week by week."""
    ahead = settings.horizon
    return tuple(
        (week * WEEK - ahead, week * WEEK - ahead - HOUR) for week in range(1, settings.profile_weeks + 1)
    )


def hours(attributed: DataFrame) -> DataFrame:
    """Mean load of each bundle over the windows that end in an hour; `window_end` is the hour's end."""
    end = F.timestamp_micros(hour_end(F.unix_micros("window_end")))
    told = _of_bundles(attributed).withColumn("window_end", end)
    return conform(
        told.groupBy("cluster", "window_end", "bundle").agg(
            mean_load("load", RESOURCES).cast(LOAD).alias("load"), F.count(F.lit(1)).alias("windows")
        ),
        HOURS,
    )


def forecasts(attributed: DataFrame, hours: DataFrame, settings: BundlesPipelineSettings) -> DataFrame:
    """Load of each bundle `settings.horizon` after each window.

    Intercept and trend are of a straight line through the last `trend_windows`, if it explains enough of
    them, else their mean; it is followed no longer than it is known, or a minute of a rising load would be
    drawn on to many times what it is. Where there are enough weeks, the forecast is the mean of that and of
    what the hour of the week had in them.
    """
    told = _of_bundles(attributed).select("cluster", "window_end", "bundle", "load")
    most = settings.trend_windows
    lines = with_recent_lines(told, most, (most - 1) * settings.slide)
    target = F.timestamp_micros(F.unix_micros("window_end") + settings.horizon)
    # From the loads, not from the lines: those would be drawn twice.
    wanted = told.select("cluster", "window_end", "bundle", target.alias("target"))
    seasonal = _hour_of_week(wanted, hours, settings)
    joined = lines.withColumn("target", target).join(
        seasonal, on=["cluster", "window_end", "bundle"], how="left"
    )
    known = F.col("windows") * F.lit(settings.slide / SECOND)
    ahead = F.least(F.lit(settings.horizon / SECOND), known)

    def expected(name: str) -> Column:
        line = F.col(f"intercept.{name}") + F.col(f"trend.{name}") * ahead
        mixed = (line + F.col(f"hour_of_week.{name}")) / 2.0
        return F.greatest(F.coalesce(mixed, line), F.when(line.isNotNull(), F.lit(0.0)))

    return conform(
        joined.withColumns(
            {
                "load": F.struct(*(expected(name) for name in RESOURCES)).cast(LOAD),
                # What comes from Python may be null to Spark; a table's files must all say the same of that.
                **{
                    line: F.struct(*(F.col(f"{line}.{name}") for name in RESOURCES)).cast(LOAD)
                    for line in ("intercept", "trend")
                },
                "windows": F.coalesce("windows", F.lit(0)),
                "weeks": F.coalesce("weeks", F.lit(0)),
            }
        ),
        FORECASTS,
    )


def forecast_errors(
    forecasts: DataFrame, attributed: DataFrame, settings: BundlesPipelineSettings
) -> DataFrame:
    """The error of each forecast once its time had come, against history it had not seen.

    Forecast minus actual, and, to be compared with, what the load at the time of the forecast would have been
    off.
    """
    actual = _of_bundles(attributed).select("cluster", "bundle", "window_end", F.col("load").alias("actual"))
    made = forecasts.select(
        "cluster",
        "bundle",
        F.col("target").alias("window_end"),
        F.col("window_end").alias("made"),
        F.col("load").alias("expected"),
    )
    latest = actual.select(
        "cluster",
        "bundle",
        F.timestamp_micros(F.unix_micros("window_end") + settings.horizon).alias("window_end"),
        F.col("actual").alias("latest"),
    )
    keys = ["cluster", "bundle", "window_end"]
    joined = actual.join(made, on=keys, how="inner").join(latest, on=keys, how="left")

    def off(what: str) -> Column:
        return F.struct(*(F.col(f"{what}.{name}") - F.col(f"actual.{name}") for name in RESOURCES)).cast(LOAD)

    return conform(
        joined.withColumns({"error": off("expected"), "error_of_latest": off("latest")}), FORECAST_ERRORS
    )


def _of_bundles(attributed: DataFrame) -> DataFrame:
    return attributed.where("kind = 'bundle' and load is not null")


def _hour_of_week(desired: DataFrame, hours: DataFrame, settings: BundlesPipelineSettings) -> DataFrame:
    """Mean of the target's hour over the weeks before, where there are enough of them."""
    hour = hour_end(F.unix_micros("target"))
    weeks = F.explode(F.sequence(F.lit(1), F.lit(max(1, settings.profile_weeks))))
    asked = desired.withColumn("week", weeks).select(
        "cluster", "bundle", F.col("window_end").alias("made"),
        F.timestamp_micros(hour - F.col("week") * F.lit(WEEK)).alias("window_end"),
    )  # fmt: skip
    found = asked.join(hours.drop("windows"), on=["cluster", "bundle", "window_end"], how="inner")
    return (
        found.groupBy("cluster", "bundle", F.col("made").alias("window_end"))
        .agg(mean_load("load", RESOURCES).cast(LOAD).alias("hour_of_week"), F.count(F.lit(1)).alias("weeks"))
        .where(F.col("weeks") >= MIN_WEEKS)
    )
