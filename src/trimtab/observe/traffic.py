"""Bytes in and out of every partition, which stock Kafka does not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.observe.flags import Flag, flagged_where, scaled, sound
from trimtab.observe.schemas import GROWTH, TRAFFIC, conform

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.settings import PipelineSettings

_COMPACTED_BELOW = 0.5
"""Growth under this share of what the new records should weigh means that something was compacted away
meanwhile."""


def growth(rates: DataFrame) -> DataFrame:
    """What each partition's log gained in an interval, as its own and its replicas' samples tell.

    The largest growth over the replicas that are complete: a replica whose size was read early in the
    interval shows less, a future replica or one being copied shows the copy. Every figure is scaled from
    the time between its own two samples to the interval between the ticks, so that partitions add up.

    Parameters
    ----------
    rates
        Columns of `schemas.RATES`.

    Returns
    -------
    DataFrame
        Columns of `schemas.GROWTH`, one row per partition and tick.
    """
    from pyspark.sql import functions as F

    rows = rates.where("kind in ('replica', 'partition', 'group') and not coalesce(is_future, false)")
    is_partition = F.col("kind") == "partition"
    per_us = 1.0 / F.col("elapsed_us")
    replica = F.struct(
        "broker", "size_bytes", F.when(sound(), F.col("growth_bytes") * per_us).alias("growth_per_us")
    )
    gathered = rows.groupBy("cluster", "tick", "topic", "partition").agg(
        F.first(F.when(is_partition, F.col("previous_tick")), ignorenulls=True).alias("previous_tick"),
        F.first(F.when(is_partition, F.col("leader")), ignorenulls=True).alias("leader"),
        F.first(F.when(is_partition, F.col("previous_leader")), ignorenulls=True).alias("previous_leader"),
        F.first(F.when(is_partition, F.col("replicas")), ignorenulls=True).alias("replicas"),
        F.first(F.when(is_partition, F.col("in_sync")), ignorenulls=True).alias("in_sync"),
        F.first(F.when(is_partition, F.col("adding")), ignorenulls=True).alias("adding"),
        F.first(F.when(is_partition, F.col("end_offset") - F.col("start_offset")), ignorenulls=True).alias(
            "records_kept"
        ),
        F.first(F.when(is_partition, F.col("records_in") * per_us), ignorenulls=True).alias(
            "records_in_per_us"
        ),
        F.first(F.when(is_partition, F.col("records_dropped")), ignorenulls=True).alias("records_dropped"),
        F.first(F.when(is_partition, F.col("flags")), ignorenulls=True).alias("own_flags"),
        F.collect_list(F.when(F.col("kind") == "replica", replica)).alias("held"),
        # Doubles would add up differently in another order: groups are rounded before they are summed.
        F.sum(F.when(F.col("kind") == "group", scaled("records_out"))).alias("records_out"),
    )
    none = F.array().cast("array<int>")
    copying = F.coalesce("adding", none)
    in_sync = F.coalesce("in_sync", F.col("replicas"), none)
    complete = F.filter(
        "held",
        lambda it: (
            ~F.array_contains(F.col("_copying"), it["broker"])
            & F.array_contains(F.col("_in_sync"), it["broker"])
        ),
    )
    known = gathered.where("own_flags is not null").withColumns({"_copying": copying, "_in_sync": in_sync})
    chosen = known.withColumn("complete", complete)
    elapsed = F.unix_micros("tick") - F.unix_micros("previous_tick")
    grown = F.array_max(F.transform("complete", lambda it: it["growth_per_us"]))
    size = F.coalesce(
        F.array_max(F.transform("complete", lambda it: it["size_bytes"])),
        F.array_max(F.transform("held", lambda it: it["size_bytes"])),
    )
    outsider = F.exists("held", lambda it: ~F.array_contains(F.col("_in_sync"), it["broker"]))
    measured = chosen.withColumns({"elapsed_us": elapsed, "size_bytes": size, "_grown": grown})
    dropped = (F.col("records_dropped") > 0) | (F.col("_grown") < 0)
    flags = (
        F.col("own_flags")
        .bitwiseOR(flagged_where(dropped, Flag.CUT))
        .bitwiseOR(flagged_where((F.size("_copying") > 0) | outsider, Flag.COPYING))
        .bitwiseOR(
            flagged_where(
                F.col("previous_tick").isNotNull() & ~F.col("leader").eqNullSafe(F.col("previous_leader")),
                Flag.LEADER_CHANGED,
            )
        )
    )
    return conform(
        measured.withColumns(
            {
                "flags": flags,
                "growth_bytes": F.round(F.col("_grown") * F.col("elapsed_us")),
                "records_in": F.round(F.col("records_in_per_us") * F.col("elapsed_us")),
            }
        ),
        GROWTH,
    )


def traffic(growth: DataFrame, rates: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Bytes in and out of each partition in an interval.

    Bytes in are the log's growth; where retention or compaction cut the log, new records times the
    partition's learned bytes per record. Bytes out are the records that groups committed times bytes per
    record, a lower bound. Both are then weights by which the leader's own counters for the topic are split,
    where a metrics endpoint gives those.

    Parameters
    ----------
    growth
        Columns of `schemas.GROWTH`, reaching `settings.learning` further back than the ticks wanted.
    rates
        Columns of `schemas.RATES`; only kind `topic_broker` is used.
    settings
        Gives how long bytes per record are learned.

    Returns
    -------
    DataFrame
        Columns of `schemas.TRAFFIC`, one row per partition and tick.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    instant = F.unix_micros("tick")
    recent = (
        Window.partitionBy("cluster", "topic", "partition")
        .orderBy(instant)
        .rangeBetween(1 - settings.learning, 0)
    )
    cut = F.col("flags").bitwiseAND(int(Flag.CUT)) != 0
    teaches = ~cut & (F.col("growth_bytes") > 0) & (F.col("records_in") > 0)
    learned = F.sum(F.when(teaches, F.col("growth_bytes"))).over(recent) / F.sum(
        F.when(teaches, F.col("records_in"))
    ).over(recent)
    stock = F.when(F.col("records_kept") > 0, F.col("size_bytes") / F.col("records_kept"))
    weighed = growth.withColumn("bytes_per_record", F.coalesce(learned, stock))
    expected = F.round(F.col("records_in") * F.col("bytes_per_record"))
    compacted = F.coalesce((F.col("growth_bytes") < expected * _COMPACTED_BELOW), F.lit(False))
    weighed = weighed.withColumns(
        {"_expected": expected, "flags": F.col("flags").bitwiseOR(flagged_where(compacted, Flag.CUT))}
    )
    by_growth = F.when(~cut, F.col("growth_bytes"))
    weighed = weighed.withColumns(
        {
            "log_bytes": F.coalesce(by_growth, "_expected").cast("bigint"),
            "_out": F.round(F.col("records_out") * F.col("bytes_per_record")).cast("bigint"),
            "extrapolated": (by_growth.isNull() & F.col("_expected").isNotNull())
            | (F.col("flags").bitwiseAND(int(Flag.LEADER_CHANGED)) != 0),
        }
    )
    counted = rates.where("kind = 'topic_broker'").select(
        "cluster",
        "tick",
        "topic",
        F.col("broker").alias("leader"),
        scaled("bytes_in").alias("_counted_in"),
        scaled("bytes_out").alias("_counted_out"),
    )
    joined = weighed.join(counted, on=["cluster", "tick", "topic", "leader"], how="left")
    led = Window.partitionBy("cluster", "tick", "topic", "leader")
    shared = joined.withColumns(
        {
            "_all_in": F.sum("log_bytes").over(led),
            "_all_out": F.sum("_out").over(led),
            "_led": F.count(F.lit(1)).over(led),
        }
    )
    by_bytes_in = _share("log_bytes", "_all_in")
    return conform(
        shared.withColumns(
            {
                "bytes_in": F.coalesce(F.round(F.col("_counted_in") * by_bytes_in), "log_bytes"),
                # Consumers that commit nothing leave no weights: then what is written is what is read.
                "bytes_out": F.coalesce(
                    F.round(
                        F.col("_counted_out")
                        * F.when(F.col("_all_out") > 0, _share("_out", "_all_out")).otherwise(by_bytes_in)
                    ),
                    "_out",
                ),
            }
        ),
        TRAFFIC,
    )


def _share(part: str, whole: str) -> Column:
    """A partition's share of what its leader's partitions of the topic carry together; even where all are
    0.
    """
    from pyspark.sql import functions as F

    weighed = F.coalesce(F.col(part), F.lit(0)) / F.col(whole)
    return F.when(F.col(whole) > 0, weighed).otherwise(1.0 / F.col("_led"))
