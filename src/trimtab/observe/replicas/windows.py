"""Tables of windows of configurable length and slide: statistics of brokers and partitions; role loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from trimtab.observe.columns import SECOND, SampleFlag
from trimtab.observe.cpu_fit import by_fixed_shares
from trimtab.observe.cpu_model import fitted, with_costs
from trimtab.observe.replicas.schemas import ATTRIBUTED, CAUSES, CPU_MODEL, FIXED_SHARES, ROLE_LOAD, WINDOWS
from trimtab.observe.spark_columns import conform, coverage, is_flagged, statistics, with_window_ends

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from trimtab.observe.settings import PipelineSettings

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
    return (
        rows.groupBy("cluster", "window_end", "topic", "partition")
        .agg(
            F.max_by("leader", "tick").alias("leader"),
            F.max_by("replicas", "tick").alias("replicas"),
            F.max_by("in_sync", "tick").alias("in_sync"),
            _intercept("size_bytes").alias("disk"),
            _best(_rate, "bytes_in", counted).alias("network_in"),
            _best(_rate, "bytes_out", counted).alias("network_out"),
            _best(_mean_rate, "bytes_in", counted).alias("leader_in"),
            _mean_rate("log_bytes").alias("follower_in"),
            *_trust("bytes_in", measured, counted, settings),
            F.coalesce(F.bool_or("extrapolated"), F.lit(False)).alias("extrapolated"),
        )
        .withColumn("kind", F.lit("partition"))
    )


def _of_brokers(rows: DataFrame, settings: PipelineSettings) -> DataFrame:
    summed = rows.withColumn("bytes_in", F.col("leader_bytes_in") + F.col("follower_bytes_in"))
    counted = F.col("network_measured") & F.col("bytes_in").isNotNull()
    measured = F.when(counted & ~is_flagged(SampleFlag.MISSED), F.col("elapsed_us"))
    return (
        summed.groupBy("cluster", "window_end", "broker")
        .agg(
            F.coalesce(_cores(counted), _cores(F.lit(True))).alias("cpu"),
            _intercept("disk_bytes").alias("disk"),
            _best(_rate, "bytes_in", counted).alias("network_in"),
            _best(_rate, "bytes_out", counted).alias("network_out"),
            _best(_mean_rate, "leader_bytes_in", counted).alias("leader_in"),
            _best(_mean_rate, "follower_bytes_in", counted).alias("follower_in"),
            _mean_rate("requests").alias("requests"),
            *_trust("bytes_in", measured, counted, settings),
            F.lit(False).alias("extrapolated"),
        )
        .withColumn("kind", F.lit("broker"))
    )


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
