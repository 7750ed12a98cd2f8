"""Windows of what was done of each class; out of them the weight of each class and each worker's speed.

A weight is the mean processing time of the newest windows that hold enough messages, with its standard
error: whoever publishes weights can tell a change from chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from trimtab.observe.columns import SECOND
from trimtab.observe.queues.pipeline import SPEEDS, WEIGHTS, WINDOWS
from trimtab.observe.spark_columns import conform, with_window_ends
from trimtab_queues.format.exchange import WAIT_BUCKETS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.queues.pipeline import QueuesPipelineSettings


def windows(classes: DataFrame, settings: QueuesPipelineSettings) -> DataFrame:
    """What was done of each class per window (end - length, end], over all queues and in each.

    Rates are over the time that samples stand for; waits are told by the upper end of their length's bucket,
    which is at most 41 % above them.
    """
    told = with_window_ends(classes.where("processed is not null"), settings)
    whole = _summed(told, "cluster", "window_end", "message_class").withColumn(
        "queue", F.lit(None).cast("int")
    )
    each = _summed(told.where("queue is not null"), "cluster", "window_end", "message_class", "queue")
    return conform(whole.unionByName(each, allowMissingColumns=True), WINDOWS)


def _summed(rows: DataFrame, *keys: str) -> DataFrame:
    covered = F.aggregate(
        F.collect_set(F.struct("tick", "elapsed_us")),
        F.lit(0).cast("bigint"),
        lambda total, one: total + one["elapsed_us"],
    )
    nothing = F.array_repeat(F.lit(0).cast("bigint"), WAIT_BUCKETS)
    waits = F.aggregate(
        F.collect_list("waits"),
        nothing,
        lambda total, one: F.zip_with(total, one, lambda a, b: a + F.coalesce(b, F.lit(0).cast("bigint"))),
    )
    sums = rows.groupBy(*keys).agg(
        F.max_by("weight", F.struct("tick", "weight")).alias("weight"),
        *(F.sum(name).alias(name) for name in ("processed", "busy_seconds", "busy_squares")),
        *(F.sum(name).alias(name) for name in ("waited_seconds", "accepted", "refused")),
        (covered / SECOND).alias("_seconds"),
        waits.alias("_waits"),
    )
    waited = F.aggregate("_waits", F.lit(0).cast("bigint"), lambda total, one: total + one)
    counted = sums.withColumn("_waited", waited)
    done, begun = F.col("processed") > 0, F.col("_waited") > 0
    per_second = {"sent": "accepted", "processed": "processed", "refused": "refused"}
    return counted.withColumns(
        {
            "mean_seconds": F.when(done, F.col("busy_seconds").cast("double") / F.col("processed")),
            "wait_seconds": F.when(begun, F.col("waited_seconds").cast("double") / F.col("_waited")),
            "wait_p50_seconds": F.when(begun, _wait_of_share(0.5)),
            "wait_p99_seconds": F.when(begun, _wait_of_share(0.99)),
            **{
                f"{name}_per_second": F.when(F.col("_seconds") > 0, F.col(count) / F.col("_seconds"))
                for name, count in per_second.items()
            },
        }
    )


def _wait_of_share(share: float) -> Column:
    """The length of waits that a share of `_waits` does not exceed, seconds."""
    start = F.struct((F.col("_waited") * share).alias("left"), F.lit(-1).alias("at"))
    bucket = F.aggregate(
        "_waits",
        start,
        lambda state, one: F.struct(
            (state["left"] - one).alias("left"),
            F.when(state["left"] > 0, state["at"] + 1).otherwise(state["at"]).alias("at"),
        ),
    )["at"]
    return F.lit(0.001) * F.pow(F.lit(2.0), bucket / 2.0)


def weights(windows: DataFrame, settings: QueuesPipelineSettings) -> DataFrame:
    """Mean processing time of each class: of the newest windows that hold `weight_samples` messages.

    At most `weight_windows` of them, which do not overlap; a class that was not seen in any has no row.
    """
    whole = windows.where("queue is null")
    ends = whole.select("cluster", "window_end").distinct()
    steps = F.sequence(F.lit(0), F.lit(settings.weight_windows - 1))
    reached = whole.withColumn("_age", F.explode(steps)).withColumn(
        "window_end",
        F.timestamp_micros(F.unix_micros("window_end") + F.col("_age") * F.lit(settings.window)),
    )
    by_age = F.array_sort(
        F.collect_list(F.struct("_age", "processed", "busy_seconds", "busy_squares", "weight"))
    )
    pooled = (
        reached.join(F.broadcast(ends), on=["cluster", "window_end"], how="inner")
        .groupBy("cluster", "window_end", "message_class")
        .agg(by_age.alias("_windows"))
    )

    def added(state: Column, one: Column) -> Column:
        more = state["samples"] < settings.weight_samples

        def sum_of(name: str, part: str, kind: str) -> Column:
            return (state[name] + F.when(more, one[part]).otherwise(F.lit(0))).cast(kind).alias(name)

        return F.struct(
            sum_of("samples", "processed", "bigint"),
            sum_of("busy", "busy_seconds", "decimal(38,6)"),
            sum_of("squares", "busy_squares", "decimal(38,9)"),
            (state["windows"] + F.when(more, 1).otherwise(0)).alias("windows"),
        )

    start = F.struct(
        F.lit(0).cast("bigint").alias("samples"),
        F.lit(0).cast("decimal(38,6)").alias("busy"),
        F.lit(0).cast("decimal(38,9)").alias("squares"),
        F.lit(0).alias("windows"),
    )
    enough = F.aggregate("_windows", start, added)
    found = pooled.withColumns({"_sum": enough, "weight": F.element_at("_windows", 1)["weight"]})
    samples, busy = F.col("_sum.samples"), F.col("_sum.busy").cast("double")
    variance = (F.col("_sum.squares").cast("double") - busy * busy / samples) / (samples - 1)
    return conform(
        found.withColumns(
            {
                "samples": samples,
                "windows": F.col("_sum.windows"),
                "mean_seconds": F.when(samples > 0, busy / samples),
                "standard_error_seconds": F.when(
                    samples > 1, F.sqrt(F.greatest(variance, F.lit(0.0)) / samples)
                ),
            }
        ),
        WEIGHTS,
    )


def speeds(windows: DataFrame, weights: DataFrame) -> DataFrame:
    """Seconds of weight that the worker of each queue did in a second of the window, by measured weights.

    Its standard error is that of its own messages' processing times, taken as those of their classes.
    """
    ours = windows.where("queue is not null and processed > 0").select(
        "cluster", "window_end", "message_class", "queue", "processed", "busy_seconds"
    )
    known = weights.where("mean_seconds is not null").select(
        "cluster",
        "window_end",
        "message_class",
        "mean_seconds",
        (F.pow(F.coalesce("standard_error_seconds", F.lit(0.0)), F.lit(2.0)) * F.col("samples")).alias(
            "_variance"
        ),
    )
    joined = ours.join(known, on=["cluster", "window_end", "message_class"], how="inner")

    def exact(value: Column) -> Column:
        return F.sum(value.cast("decimal(28,9)")).cast("double")

    sums = joined.groupBy("cluster", "window_end", "queue").agg(
        exact(F.col("processed") * F.col("mean_seconds")).alias("_weight"),
        exact(F.col("processed") * F.col("_variance")).alias("_square"),
        F.sum("busy_seconds").cast("double").alias("_busy"),
        F.sum("processed").alias("samples"),
    )
    some = F.col("_busy") > 0
    speed = F.when(some, F.col("_weight") / F.col("_busy"))
    return conform(
        sums.withColumns(
            {"speed": speed, "standard_error": F.when(some, speed * F.sqrt("_square") / F.col("_busy"))}
        ),
        SPEEDS,
    )
