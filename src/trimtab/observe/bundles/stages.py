"""Transformations of the balancer `bundles`, from cleaned samples to the tables of snapshots.

Those of windows are here; those of single ticks are in `reports`, those of hours and forecasts in
`forecasts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from pyspark.sql import functions as F

from trimtab.model.bundles.reports import TRAFFIC
from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.observe.bundles.forecasts import forecast_errors, forecasts, hour_reach, hours
from trimtab.observe.bundles.pipeline import ATTRIBUTED, CPU_MODEL, IMBALANCE, LOAD, WINDOWS
from trimtab.observe.bundles.reports import averages, brokers, bundles, departures
from trimtab.observe.lake.balancer_pipeline import TableStage, here
from trimtab.observe.lake.columns import SampleFlag
from trimtab.observe.spark.expressions import (
    HOUR,
    conform,
    coverage,
    is_flagged,
    statistics,
    with_statistics,
    with_window_ends,
)
from trimtab.observe.steps import clean as counts
from trimtab.observe.steps import imbalance as measures
from trimtab.observe.steps.cpu_fit import fitted, with_costs

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.model.load import FloatArray
    from trimtab.observe.lake.balancer_pipeline import PipelineSettings


PER_UNIT: Final = {"cpu": 1e9, "message_rate": 1e6, "msg_rate_in": 1e6, "msg_rate_out": 1e6}
"""Rates are added up as whole numbers of a fraction of their unit, so that they add up alike in any order:
cores as billionths, messages as millionths, bytes as thousandths."""


def windows(
    cleaned: DataFrame, brokers: DataFrame, bundles: DataFrame, settings: PipelineSettings
) -> DataFrame:
    """Statistics of every kind per window (end - length, end], ends at multiples of the slide.

    Pulsar tells rates, means of its last minute: those of a window's ticks count alike. `valid_share` is the
    share of the window that sound samples stand for, each for the time since the cluster's tick before; a
    window in which some tick had no sound sample is `extrapolated`: the others speak for it.
    """
    wrong = is_flagged(SampleFlag.NOT_A_NUMBER | SampleFlag.NEGATIVE | SampleFlag.CLOCK_BACK)
    # While a bundle changes hands two brokers tell of its topics: those of its owner count.
    owners = bundles.select("cluster", "tick", "bundle", "owner", "elapsed_us")
    topics = (
        cleaned.where("accepted and kind = 'pulsar_topic' and topic is not null")
        .join(owners, on=["cluster", "tick", "bundle", "owner"], how="inner")
        .withColumns(
            {
                "broker": F.col("owner"),
                "is_known": ~wrong,
                "topics": F.lit(1).cast("bigint"),
                "sessions": F.coalesce("producers", F.lit(0)) + F.coalesce("consumers", F.lit(0)),
                **{name: F.when(~wrong, F.coalesce(name, F.lit(0.0))) for name in TRAFFIC},
            }
        )
    )
    bundles = bundles.withColumns({"broker": F.col("owner"), "topic": F.lit(None).cast("string")})
    brokers = brokers.withColumn("is_known", F.col("message_rate").isNotNull())
    common = ("cluster", "tick", "broker", "bundle", "topic", "is_known", "elapsed_us", *TRAFFIC, "topics",
              "sessions")  # fmt: skip
    entities = topics.select(F.lit("topic").alias("kind"), *common).unionByName(
        bundles.select(F.lit("bundle").alias("kind"), *common)
    )
    carried = _summed(entities, ("cluster", "window_end", "kind", "bundle", "topic"), False, settings)
    measured = _summed(
        brokers.withColumn("kind", F.lit("broker")),
        ("cluster", "window_end", "kind", "broker"),
        True,
        settings,
    )
    return conform(carried.unionByName(measured, allowMissingColumns=True), WINDOWS)


def _summed(
    rows: DataFrame, keys: tuple[str, ...], own_counters: bool, settings: PipelineSettings
) -> DataFrame:
    """Statistics of rows by some keys; of brokers (`own_counters`) those that they measured themselves."""
    values: dict[str, Column] = (
        {name: F.col(name) for name in ("cpu", "bandwidth_in", "bandwidth_out", "message_rate")}
        if own_counters
        else {
            "bandwidth_in": F.col("msg_throughput_in"),
            "bandwidth_out": F.col("msg_throughput_out"),
            "message_rate": F.col("msg_rate_in") + F.col("msg_rate_out"),
        }
    )
    newest = (
        {}
        if own_counters
        else {
            "broker": F.max_by("broker", "tick"),
            "topics": F.max_by("topics", F.when(F.col("is_known"), F.col("tick"))),
            "sessions": F.max_by("sessions", F.when(F.col("is_known"), F.col("tick"))),
        }
    )
    is_known = F.coalesce(F.col("is_known"), F.lit(False))
    grouped = (
        with_window_ends(rows, settings)
        .groupBy(*keys)
        .agg(
            *(statistics(value, _mean(name, value)).alias(name) for name, value in values.items()),
            *(_mean(name, F.col(name)).alias(name) for name in TRAFFIC),
            *(column.alias(name) for name, column in newest.items()),
            F.count_if(is_known).alias("samples"),
            coverage(F.when(is_known, F.col("elapsed_us")), settings).alias("valid_share"),
            F.coalesce(F.bool_or(~is_known), F.lit(False)).alias("extrapolated"),
        )
    )
    return with_statistics(grouped, tuple(values))


def _mean(name: str, value: Column) -> Column:
    per_unit = PER_UNIT.get(name, 1e3)
    return F.sum(F.round(value * per_unit).cast("bigint")) / F.count(value) / per_unit


_RATES = np.array([name.startswith("msg_rate") for name in TRAFFIC])


def by_messages(total: FloatArray) -> FloatArray:
    """The costs where a fit is impossible: every message costs the same, in or out; bytes cost nothing."""
    return np.where(_RATES, total, 0.0)


def cpu_model(windows: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Cores per message and per byte, each way, for every cluster and window."""
    return fitted(windows, {name: F.col(name) for name in TRAFFIC}, CPU_MODEL, settings, by_messages)


def attributed(windows: DataFrame, cpu_model: DataFrame) -> DataFrame:
    """Load of every bundle and topic per window; CPU is null where a window has no model.

    What a broker takes beyond its bundles' loads (an idle broker's CPU, replication to bookies) is its base:
    no bundle carries it along.
    """
    carriers = windows.where("kind in ('bundle', 'topic')")
    joined = with_costs(carriers, cpu_model, TRAFFIC)
    cpu = F.lit(0.0)
    for name in TRAFFIC:
        cpu = cpu + F.col(f"_per_{name}") * F.col(name)
    load = F.struct(cpu, F.col("bandwidth_in.mean"), F.col("bandwidth_out.mean"), F.col("message_rate.mean"))
    known = F.col("message_rate").isNotNull()
    return conform(joined.withColumn("load", F.when(known, load.cast(LOAD))), ATTRIBUTED)


def imbalance(brokers: DataFrame) -> DataFrame:
    """The measures per (cluster, tick, resource), with where the brokers' usage came from.

    Every broker that the cluster names is live: a tick counts only if all of them answered.
    `traffic_collapse` is null.
    """
    loaded = brokers.withColumns({f"{name}_load": F.col(name) for name in RESOURCES})
    measured = measures.imbalance(loaded, RESOURCES, "string")
    # One broker that is only declared makes the whole picture a declared one.
    source = brokers.groupBy("cluster", "tick").agg(F.min("usage_source").alias("usage_source"))
    joined = measured.join(source, on=["cluster", "tick"], how="left")
    return conform(joined.withColumn("traffic_collapse", F.lit(None).cast("boolean")), IMBALANCE)


def quality(cleaned: DataFrame, brokers: DataFrame, bundles: DataFrame) -> DataFrame:
    """Counts of each flag per (cluster, tick, kind)."""
    flags = (SampleFlag.GAP, SampleFlag.CLOCK_BACK, SampleFlag.MISSED)
    return counts.quality(
        cleaned,
        (brokers.withColumn("kind", F.lit("pulsar_broker")), flags),
        (bundles.withColumn("kind", F.lit("pulsar_bundle")), flags),
    )


STAGES: Final = (
    TableStage(brokers, {"cleaned": lambda s: s.gap}),
    TableStage(bundles, {"cleaned": lambda s: s.gap}),
    TableStage(averages, {"cleaned": here}, carries=True),
    TableStage(departures, {"bundles": lambda s: s.departure}),
    TableStage(imbalance, {"brokers": here}),
    TableStage(windows, {name: lambda s: s.window for name in ("cleaned", "brokers", "bundles")}),
    TableStage(cpu_model, {"windows": lambda s: s.cpu_fit_windows * s.slide}, is_computed_here=True),
    TableStage(attributed, {"windows": here, "cpu_model": here}),
    TableStage(hours, {"attributed": lambda _: HOUR}),
    TableStage(forecasts, {"attributed": lambda s: s.trend_windows * s.slide, "hours": hour_reach}),
    TableStage(
        forecast_errors,
        {
            "forecasts": lambda s: ((s.horizon, s.horizon),),
            "attributed": lambda s: ((0, 0), (s.horizon, s.horizon)),
        },
    ),
    TableStage(quality, {"cleaned": here, "brokers": here, "bundles": here}),
)
