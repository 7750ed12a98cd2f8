"""Tables of windows of configurable length and slide: statistics and loads of brokers, bundles and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from pyspark.sql import functions as F

from trimtab.model.bundles.reports import TRAFFIC
from trimtab.observe.bundles.schemas import ATTRIBUTED, CPU_MODEL, LOAD, WINDOWS
from trimtab.observe.columns import SampleFlag
from trimtab.observe.cpu_model import fitted, with_costs
from trimtab.observe.spark_columns import conform, coverage, is_flagged, statistics, with_window_ends

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.model.load import FloatArray
    from trimtab.observe.settings import PipelineSettings

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
    return (
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
