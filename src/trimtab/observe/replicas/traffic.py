"""Bytes in and out of every partition, which stock Kafka does not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.observe.columns import Flag
from trimtab.observe.replicas.schemas import GROWTH, TRAFFIC
from trimtab.observe.spark_columns import conform, flagged_where, is_flagged, is_inside, scaled, sound

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings

_COMPACTED_BELOW = 0.5
"""Growth under this share of what the new records should weigh means that something was compacted away
meanwhile."""


_PARTITION: Final = ("cluster", "topic", "partition")

_OF_PARTITION = (
    "previous_tick",
    "leader",
    "previous_leader",
    "replicas",
    "in_sync",
    "adding",
    "records_dropped",
)


def growth(rates: DataFrame) -> DataFrame:
    """The growth of each partition's log in an interval, as its own and its replicas' samples tell.

    One row per partition and tick: the largest growth over the replicas that are complete. A replica whose
    size was read early in the interval shows less, a future replica or one being copied shows the copy. Every
    figure is scaled from the time between its own two samples to the interval between the ticks, so that
    partitions add up.
    """
    partitions = _gathered(rates).where("own_flags is not null")
    none = F.array().cast("array<int>")
    # Lambdas of Spark see columns only: what they compare with must be one.
    known = partitions.withColumns(
        {
            "_copying": F.coalesce("adding", none),
            "_in_sync": F.coalesce("in_sync", F.col("replicas"), none),
        }
    )
    complete = F.filter(
        "held",
        lambda it: (
            ~F.array_contains(F.col("_copying"), it["broker"])
            & F.array_contains(F.col("_in_sync"), it["broker"])
        ),
    )
    chosen = known.withColumn("complete", complete)
    size = F.coalesce(
        F.array_max(F.transform("complete", lambda it: it["size_bytes"])),
        F.array_max(F.transform("held", lambda it: it["size_bytes"])),
    )
    measured = chosen.withColumns(
        {
            "elapsed_us": F.unix_micros("tick") - F.unix_micros("previous_tick"),
            "size_bytes": size,
            "_grown": F.array_max(F.transform("complete", lambda it: it["growth_per_us"])),
        }
    )
    return conform(
        measured.withColumns(
            {
                "flags": _flags_of_growth(),
                "growth_bytes": F.round(F.col("_grown") * F.col("elapsed_us")),
                "records_in": F.round(F.col("records_in_per_us") * F.col("elapsed_us")),
            }
        ),
        GROWTH,
    )


def _gathered(rates: DataFrame) -> DataFrame:
    """One row per partition and tick: its own sample, the replicas that brokers hold, and its groups."""
    per_us = 1.0 / F.col("elapsed_us")
    replica = F.struct(
        "broker", "size_bytes", F.when(sound(), F.col("growth_bytes") * per_us).alias("growth_per_us")
    )
    own = {
        **{name: F.col(name) for name in _OF_PARTITION},
        "records_kept": F.col("end_offset") - F.col("start_offset"),
        "records_in_per_us": F.col("records_in") * per_us,
        "own_flags": F.col("flags"),
    }
    rows = rates.where("kind in ('replica', 'partition', 'group') and not coalesce(is_future, false)")
    return rows.groupBy("cluster", "tick", "topic", "partition").agg(
        *(
            F.first(F.when(F.col("kind") == "partition", column), ignorenulls=True).alias(name)
            for name, column in own.items()
        ),
        F.collect_list(F.when(F.col("kind") == "replica", replica)).alias("held"),
        # Doubles would add up differently in another order: groups are rounded before they are summed.
        F.sum(F.when(F.col("kind") == "group", scaled("records_out"))).alias("records_out"),
    )


def _flags_of_growth() -> Column:
    """Flags of a partition's own sample, and what the samples of its replicas tell besides."""
    outsider = F.exists("held", lambda it: ~F.array_contains(F.col("_in_sync"), it["broker"]))
    dropped = (F.col("records_dropped") > 0) | (F.col("_grown") < 0)
    moved = F.col("previous_tick").isNotNull() & ~F.col("leader").eqNullSafe(F.col("previous_leader"))
    return (
        F.col("own_flags")
        .bitwiseOR(flagged_where(dropped, Flag.CUT))
        .bitwiseOR(flagged_where((F.size("_copying") > 0) | outsider, Flag.COPYING))
        .bitwiseOR(flagged_where(moved, Flag.LEADER_CHANGED))
    )


def traffic(
    growth: DataFrame,
    rates: DataFrame,
    settings: ReplicasPipelineSettings,
    growth_before: DataFrame | None = None,
    span: tuple[int, int] | None = None,
) -> DataFrame:
    """Bytes in and out of each partition in an interval, one row per partition and tick.

    Bytes in are the log's growth; where retention or compaction cut the log, new records times the
    partition's learned bytes per record. Bytes out are the records that groups committed times bytes per
    record, a lower bound. Both are then weights by which the leader's own counters for the topic are split,
    where a metrics endpoint gives those.

    Parameters
    ----------
    growth, rates, settings
        Tables, and settings of the level.
    growth_before
        Rows of `growth` before those to be made, if they are not in it.
    span
        Two instants (microseconds since 1970) between which all rows to be made lie, both included.
    """
    weighed = _with_estimates(_with_weight(growth, settings, growth_before, span))
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
    # Consumers that commit nothing leave no weights: then what is written is what is read.
    by_bytes_out = F.when(F.col("_all_out") > 0, _share("_out", "_all_out")).otherwise(by_bytes_in)
    return conform(
        shared.withColumns(
            {
                "bytes_in": F.coalesce(F.round(F.col("_counted_in") * by_bytes_in), "log_bytes"),
                "bytes_out": F.coalesce(F.round(F.col("_counted_out") * by_bytes_out), "_out"),
            }
        ),
        TRAFFIC,
    )


def _with_weight(
    growth: DataFrame,
    settings: ReplicasPipelineSettings,
    before: DataFrame | None,
    span: tuple[int, int] | None,
) -> DataFrame:
    """Growth with `bytes_per_record`, null where nothing tells.

    It is learned where the log was not cut, over the time before; a partition that never grew in sight is
    taken by what it holds. Arguments as of `traffic`.
    """
    if before is None or span is None or span[1] - span[0] >= settings.learning:
        rows = _taught(growth if before is None else growth.unionByName(before))
        over = (1 - settings.learning, 0)
    else:
        rows = _with_sums_before(_taught(growth), _taught(before), span, settings.learning)
        over = (Window.unboundedPreceding, 0)
    recent = Window.partitionBy(*_PARTITION).orderBy(F.unix_micros("tick")).rangeBetween(*over)
    grown, records = (F.sum(name).over(recent) for name in _SUMMED)
    stock = F.when(F.col("records_kept") > 0, F.col("size_bytes") / F.col("records_kept"))
    weighed = rows.withColumn("bytes_per_record", F.coalesce(F.when(records > 0, grown / records), stock))
    return weighed.where("_kept")


_SUMMED: Final = ("_grown", "_records")


def _taught(growth: DataFrame) -> DataFrame:
    """Growth with what each row teaches: whole numbers, 0 where nothing."""
    teaches = ~is_flagged(Flag.CUT) & (F.col("growth_bytes") > 0) & (F.col("records_in") > 0)
    values = zip(_SUMMED, ("growth_bytes", "records_in"), strict=True)
    taught = {name: F.when(teaches, F.col(value)).otherwise(F.lit(0)) for name, value in values}
    return growth.withColumns({**taught, "_kept": F.lit(True)})


def _with_sums_before(
    growth: DataFrame, before: DataFrame, span: tuple[int, int], learning: int
) -> DataFrame:
    """Rows whose running sums are those over `learning`, with fewer rows to put in order than lie there.

    One row holds a partition's sum over all that the first instant still sees, and each row that a later one
    sees no more is taken off again when it is out of sight: whole numbers add up alike either way. In a
    stream that is a row or two a partition instead of sixty.
    """
    first, last = span
    seen = before.where(is_inside("tick", [(first - learning + 1, first)]))
    sums = seen.groupBy(*_PARTITION).agg(
        F.max("tick").alias("tick"), *(F.sum(name).alias(name) for name in _SUMMED)
    )
    rows = growth.unionByName(sums.withColumn("_kept", F.lit(False)), allowMissingColumns=True)
    if first == last:
        return rows
    out_of_sight = seen.where(is_inside("tick", [(first - learning + 1, last - learning + 1)])).select(
        *_PARTITION,
        F.timestamp_micros(F.unix_micros("tick") + F.lit(learning)).alias("tick"),
        *((-F.col(name)).alias(name) for name in _SUMMED),
        F.lit(False).alias("_kept"),
    )
    return rows.unionByName(out_of_sight, allowMissingColumns=True)


def _with_estimates(weighed: DataFrame) -> DataFrame:
    """Growth with `log_bytes`, `_out` and `extrapolated`, by what a record of the partition weighs."""
    cut = is_flagged(Flag.CUT)
    expected = F.round(F.col("records_in") * F.col("bytes_per_record"))
    compacted = F.coalesce((F.col("growth_bytes") < expected * _COMPACTED_BELOW), F.lit(False))
    judged = weighed.withColumns(
        {"_expected": expected, "flags": F.col("flags").bitwiseOR(flagged_where(compacted, Flag.CUT))}
    )
    by_growth = F.when(~cut, F.col("growth_bytes"))
    return judged.withColumns(
        {
            "log_bytes": F.coalesce(by_growth, "_expected").cast("bigint"),
            "_out": F.round(F.col("records_out") * F.col("bytes_per_record")).cast("bigint"),
            "extrapolated": (by_growth.isNull() & F.col("_expected").isNotNull())
            | is_flagged(Flag.LEADER_CHANGED),
        }
    )


def _share(part: str, whole: str) -> Column:
    """A partition's share of what its leader's partitions of the topic carry together; even where all are
    0.
    """
    weighed = F.coalesce(F.col(part), F.lit(0)) / F.col(whole)
    return F.when(F.col(whole) > 0, weighed).otherwise(1.0 / F.col("_led"))
