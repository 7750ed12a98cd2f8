"""Cleaned samples to what lay in every queue, and what every process did of every class, at each tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.observe.columns import SECOND, SampleFlag
from trimtab.observe.queues.pipeline import BROKERS, CLASSES, FORECAST_ERRORS
from trimtab.observe.spark_columns import conform, flag_if, is_valid_interval

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.queues.pipeline import QueuesPipelineSettings

TOTALS: Final = {
    "processed": "bigint",
    "busy_seconds": "decimal(28,6)",
    "busy_squares": "decimal(28,9)",
    "waited_seconds": "decimal(28,6)",
    "accepted": "bigint",
    "refused": "bigint",
}
"""Counters of a process and class, and types in which sums do not depend on their order."""


def brokers(cleaned: DataFrame, settings: QueuesPipelineSettings) -> DataFrame:
    """Length, work and rates of each queue per tick, and its work as the forecast has it at the horizon.

    Capacity in work is what a queue holds when it is full of messages of the classes' mean weight.
    """
    queues = cleaned.where("accepted and kind = 'queue' and queue is not null")
    history = Window.partitionBy("cluster", "queue").orderBy("tick")
    before = {
        f"_before_{name}": F.lag(name).over(history)
        for name in ("tick", "arrived_seconds_total", "served_seconds_total")
    }
    paired = queues.withColumns(before).join(
        F.broadcast(_mean_weights(cleaned)), on=["cluster", "tick"], how="left"
    )
    elapsed = F.unix_micros("tick") - F.unix_micros("_before_tick")
    near = F.coalesce(elapsed <= settings.gap, F.lit(False))

    def grown(name: str) -> Column:
        return F.col(f"{name}_seconds_total") - F.col(f"_before_{name}_seconds_total")

    fell = F.coalesce(near & ((grown("arrived") < 0) | (grown("served") < 0)), F.lit(False))
    flags = (
        F.col("flags").bitwiseOR(flag_if(~near, SampleFlag.GAP)).bitwiseOR(flag_if(fell, SampleFlag.RESET))
    )
    judged = paired.withColumn("elapsed_us", F.when(near, elapsed)).withColumn("flags", flags)

    def rate(name: str) -> Column:
        return F.when(is_valid_interval(), grown(name) / (F.col("elapsed_us") / SECOND))

    rated = judged.withColumns({f"{name}_seconds_per_second": rate(name) for name in ("arrived", "served")})
    trend = F.col("arrived_seconds_per_second") - F.col("served_seconds_per_second")
    ahead = F.col("work_seconds") + trend * (settings.horizon / SECOND)
    # Where no rate is known nothing is forecast; Spark's greatest would pass over the null: 0.
    ahead = F.when(ahead.isNotNull(), F.greatest(F.lit(0.0), ahead))
    return conform(
        rated.withColumns(
            {
                "broker": F.concat(F.lit("queue "), F.col("queue").cast("string")),
                "broker_state": F.when(F.col("alive"), F.lit("alive")).otherwise(F.lit("without a worker")),
                "work_load": F.col("work_seconds"),
                "work_capacity": F.col("capacity") * F.col("mean_weight"),
                "forecast_seconds": ahead,
            }
        ),
        BROKERS,
    )


def _mean_weights(cleaned: DataFrame) -> DataFrame:
    """The mean weight of the classes that processes told of, per tick; that of the default where none did."""
    told = cleaned.where("accepted and kind = 'queue_class' and weight > 0")
    of_classes = (
        told.groupBy("cluster", "tick", "message_class")
        .agg(F.max("weight").cast("decimal(28,9)").alias("weight"))
        .groupBy("cluster", "tick")
        .agg((F.sum("weight") / F.count("weight")).cast("double").alias("_mean"))
    )
    usual = (
        cleaned.where("accepted and kind = 'queue_process'")
        .groupBy("cluster", "tick")
        .agg(F.max("default_weight").alias("_default"))
    )
    both = usual.join(of_classes, on=["cluster", "tick"], how="left")
    return both.select("cluster", "tick", F.coalesce("_mean", "_default").alias("mean_weight"))


def classes(cleaned: DataFrame, settings: QueuesPipelineSettings) -> DataFrame:
    """What each process did of each class since the tick before.

    A process that was not there at the cluster's tick before has done all that it tells since then.
    """
    told = cleaned.where("accepted and kind = 'queue_class' and process is not null")
    ticks = cleaned.where("accepted and kind = 'queue_server'").select("cluster", "tick").distinct()
    cluster = Window.partitionBy("cluster").orderBy("tick")
    ticks = ticks.withColumn("_cluster_before", F.lag("tick").over(cluster))
    history = Window.partitionBy("cluster", "process", "message_class").orderBy("tick")
    names = ("tick", "waits", *(f"{name}_total" for name in TOTALS))
    before = {f"_before_{name}": F.lag(name).over(history) for name in names}
    paired = told.withColumns(before).join(F.broadcast(ticks), on=["cluster", "tick"], how="left")

    def since(name: str) -> Column:
        return F.unix_micros("tick") - F.unix_micros(name)

    elapsed = F.coalesce(since("_before_tick"), since("_cluster_before"))
    near = F.coalesce(elapsed <= settings.gap, F.lit(False))
    fell = F.coalesce(F.col("processed_total") < F.col("_before_processed_total"), F.lit(False))
    flags = (
        F.col("flags")
        .bitwiseOR(flag_if(~near, SampleFlag.GAP))
        .bitwiseOR(flag_if(near & fell, SampleFlag.RESET))
    )
    judged = paired.withColumn("elapsed_us", F.when(near, elapsed)).withColumn("flags", flags)
    nothing = F.lit(0).cast("bigint")
    waits = F.zip_with(
        "waits",
        F.coalesce("_before_waits", F.array().cast("array<bigint>")),
        lambda now, then: F.coalesce(now, nothing) - F.coalesce(then, nothing),
    )
    grown = {
        name: F.when(
            is_valid_interval(),
            F.col(f"{name}_total").cast(kind)
            - F.coalesce(F.col(f"_before_{name}_total"), F.lit(0)).cast(kind),
        )
        for name, kind in TOTALS.items()
    }
    return conform(judged.withColumns({**grown, "waits": F.when(is_valid_interval(), waits)}), CLASSES)


def forecast_errors(brokers: DataFrame, settings: QueuesPipelineSettings) -> DataFrame:
    """The work of each queue beside what was forecast for then, at the last tick a horizon before or more."""
    at = F.unix_micros("tick")
    frame = (
        Window.partitionBy("cluster", "broker")
        .orderBy(at)
        .rangeBetween(-(settings.horizon + settings.gap), -settings.horizon)
    )
    found = F.last(F.struct("tick", "forecast_seconds", "work_load")).over(frame)
    held = brokers.withColumn("_made", found).where("_made.forecast_seconds is not null")
    return conform(
        held.withColumns(
            {
                "made": F.col("_made.tick"),
                "actual": F.col("work_load"),
                "error": F.col("_made.forecast_seconds") - F.col("work_load"),
                "error_of_latest": F.col("_made.work_load") - F.col("work_load"),
            }
        ),
        FORECAST_ERRORS,
    )
