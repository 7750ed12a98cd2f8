"""Transformations of the balancer `keys`, from cleaned samples to the load of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.model.keys.snapshot import RESOURCES
from trimtab.observe.keys.pipeline import BROKERS, KeysPipelineSettings
from trimtab.observe.lake.balancer_pipeline import TableStage, here
from trimtab.observe.lake.columns import SECOND, SampleFlag
from trimtab.observe.spark.expressions import conform, flag_if, is_valid_interval
from trimtab.observe.steps import clean as counts
from trimtab.observe.steps.imbalance import imbalance_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


BUSY_SECONDS: Final = 5.0
"""A consumer with more work waiting than it does in so long is at its limit."""
CHANCE: Final = 3.0
"""Standard deviations of a count by which two rates may differ, and be the same; see `brokers`."""


def brokers(cleaned: DataFrame, settings: KeysPipelineSettings) -> DataFrame:
    """What arrives in each partition, waits there and is committed; and what its consumer can do.

    What arrives is told by two looks at offsets, some ten seconds apart: 130 records tell it to 9 %.
    Timestamps of the records that were read reach further back, and tell it better as long as nothing has
    changed: where the looks found what they would lead to expect, within chance, they count. Of n partitions
    the one furthest off is some sqrt(2 ln n) deviations away, so that the bound is the square root of
    `CHANCE`² + 2 ln n: else one in fifteen looks at 24 partitions takes chance for a change.

    Consumers are taken for alike. One can do what those did that had more than `BUSY_SECONDS` of work waiting
    in some partition at both ends of an interval, over all such intervals of `capacity_seconds`: the mean,
    since commits come in lumps and their maximum would promise too much. A partition has its share of a
    consumer. Where none was ever busy, each has the topic's whole load, the same for all. Offsets count
    markers of transactions too.
    """
    parts = cleaned.where("accepted and kind = 'key_partition' and partition is not null")
    history = Window.partitionBy("cluster", "partition").orderBy("tick")
    at = F.unix_micros("tick")
    paired = parts.withColumns(
        {f"_{name}": F.lag(name).over(history) for name in ("tick", "end_offset", "committed_offset")}
    ).withColumn("_elapsed", at - F.unix_micros("_tick"))
    near = F.coalesce(F.col("_elapsed") <= settings.gap, F.lit(False))
    fell = F.coalesce(near & (F.col("end_offset") < F.col("_end_offset")), F.lit(False))
    flags = (
        F.col("flags").bitwiseOR(flag_if(~near, SampleFlag.GAP)).bitwiseOR(flag_if(fell, SampleFlag.RESET))
    )
    judged = paired.withColumn("elapsed_us", F.when(near, F.col("_elapsed"))).withColumn("flags", flags)
    seconds = F.col("elapsed_us") / SECOND
    done = F.greatest(F.lit(0), F.col("committed_offset") - F.col("_committed_offset"))
    waited = F.col("_end_offset") - F.col("_committed_offset")
    waits = F.col("end_offset") - F.col("committed_offset")
    # What is received and not yet committed waits for nobody: an automatic commit comes every five seconds.
    busy = is_valid_interval() & (F.least(waited, waits) > done / seconds * BUSY_SECONDS) & (done > 0)
    came = F.col("end_offset") - F.col("_end_offset")
    steady = F.col("recent_records") / F.col("recent_seconds")
    expected = steady * seconds
    tick, consumer = (Window.partitionBy("cluster", "tick", *more) for more in ((), ("_member",)))
    deviations = F.sqrt(F.lit(CHANCE**2) + 2 * F.log("_partitions"))
    same = (F.col("recent_seconds") > seconds) & (
        F.abs(came - expected) <= deviations * F.sqrt(F.greatest(expected, F.lit(1.0)))
    )
    rated = judged.withColumn("_partitions", F.count(F.lit(1)).over(tick)).withColumns(
        {
            "records_load": F.when(is_valid_interval(), F.when(same, steady).otherwise(came / seconds)),
            "served_per_second": F.when(is_valid_interval(), done / seconds),
            "_done": F.when(is_valid_interval(), done),
            "_busy": F.coalesce(busy, F.lit(False)),
            "_seconds": F.when(is_valid_interval(), seconds),
            "_member": F.coalesce("member", F.col("partition").cast("string")),
        }
    )
    # Each row stands for a share of its consumer, so that sums over rows are sums over consumers.
    part = rated.withColumn("_part", 1 / F.count(F.lit(1)).over(consumer))
    some = F.max("_busy").over(consumer)
    worked = part.withColumns(
        {
            "_worked": F.when(some, F.sum("_done").over(consumer) * F.col("_part")),
            "_for_seconds": F.when(some, F.max("_seconds").over(consumer) * F.col("_part")),
        }
    )
    frame = Window.partitionBy("cluster").orderBy(at).rangeBetween(-settings.capacity, 0)
    one = F.sum("_worked").over(frame) / F.sum("_for_seconds").over(frame)
    if settings.capacity_per_second:
        one = F.lit(float(settings.capacity_per_second))
    measured = worked.withColumn("consumer_capacity", one)
    known = F.col("consumer_capacity") * F.sum("_part").over(tick) / F.col("_partitions")
    everything = F.greatest(F.lit(1.0), F.sum("records_load").over(tick))
    waiting = F.col("end_offset") - F.greatest(F.col("committed_offset"), F.col("begin_offset"))
    return conform(
        measured.withColumns(
            {
                "broker": F.concat(F.lit("partition "), F.col("partition").cast("string")),
                "broker_state": F.lit("alive"),
                # Where no group reads the topic, nothing waits for anybody.
                "backlog": F.when(F.col("consumers").isNotNull(), F.greatest(F.lit(0), waiting)).otherwise(0),
                "records_capacity": F.coalesce(known, everything),
            }
        ),
        BROKERS,
    )


def imbalance(brokers: DataFrame) -> DataFrame:
    """The measures per (cluster, tick) of the records that arrive; `traffic_collapse` is null."""
    return imbalance_table(brokers, RESOURCES)


def quality(cleaned: DataFrame, brokers: DataFrame) -> DataFrame:
    """Counts of each flag per (cluster, tick, kind)."""
    return counts.quality(
        cleaned, (brokers.withColumn("kind", F.lit("key_partition")), (SampleFlag.GAP, SampleFlag.RESET))
    )


STAGES: Final = (
    TableStage(brokers, {"cleaned": lambda s: s.capacity + s.gap}),
    TableStage(imbalance, {"brokers": here}),
    TableStage(quality, {"cleaned": here, "brokers": here}),
)
