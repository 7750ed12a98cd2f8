"""The load of every broker in an interval, from its own counters and disks, and what clients asked of the
cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.observe.lake.columns import SECOND
from trimtab.observe.replicas.pipeline import BROKERS, CLIENTS
from trimtab.observe.spark.expressions import conform, is_valid_interval, scaled

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings

_COUNTED = (
    "cpu_ns",
    "bytes_in",
    "bytes_out",
    "replication_bytes_in",
    "produce_requests",
    "fetch_requests",
)
_MILLI = 1000
"""Estimates are summed as whole thousandths of bytes per second, which add up alike in any order."""
_ESTIMATES = {"led_in": "log_bytes", "led_out": "read_bytes", "followed_in": "log_bytes"}
"""Columns of `traffic`, by what brokers carry of them. Topic counters stay out: not all brokers have them."""
_REPORTED = ("host", "rack", "broker_state", "flags", "previous_tick")
_CAPACITIES = ("cpu_capacity", "network_in_capacity", "network_out_capacity")


def brokers(rates: DataFrame, traffic: DataFrame) -> DataFrame:
    """Load and capacity of each broker per tick, as whole numbers over `elapsed_us`.

    One row per broker that is a member at that tick or in sync for a partition. Where some broker's counters
    are not to be had, all brokers' bytes are the growth of the logs it holds and what groups commit of those
    it leads, which its disks and offsets tell; CPU then stays absent. What a partition of a broker carried
    may not be known; then neither is what the broker carried.
    """
    gathered = _gathered(_own(rates), _carried(traffic))
    live = F.coalesce(F.col("broker_state") != "fenced", F.lit(True))
    reached = F.coalesce(F.col("broker_state") == "alive", F.lit(False))
    told = reached & F.col("flags").isNotNull() & is_valid_interval()
    measured = F.col("bytes_in").isNotNull() & F.col("replication_bytes_in").isNotNull()
    # Counters of some brokers beside estimates of others would show a skew that is none: all by one way.
    everyone = Window.partitionBy("cluster", "tick")
    metered = F.min(F.when(live, measured)).over(everyone)

    def counted_or(counter: str, estimate: str) -> Column:
        # A member without any partition carries nothing; one whose own sample is missing is not known to.
        interval = F.unix_micros("tick") - F.unix_micros("previous_tick")
        pace = F.when(~F.coalesce(F.col(f"{estimate}_unknown"), F.lit(False)), F.coalesce(estimate, F.lit(0)))
        estimated = F.round(pace * (interval / (SECOND * _MILLI)))
        return F.when(told, F.when(F.col("metered"), F.col(counter)).otherwise(estimated))

    return conform(
        gathered.withColumn("metered", F.coalesce(metered, F.lit(False))).withColumns(
            {
                "live": live,
                "elapsed_us": F.when(told, F.unix_micros("tick") - F.unix_micros("previous_tick")),
                "cpu_ns": F.when(told, F.col("cpu_ns")),
                "requests": F.when(told, F.col("produce_requests") + F.col("fetch_requests")),
                "leader_bytes_in": counted_or("bytes_in", "led_in"),
                "follower_bytes_in": counted_or("replication_bytes_in", "followed_in"),
                "bytes_out": counted_or("bytes_out", "led_out"),
                "disk_bytes": F.when(F.col("dirs") > 0, F.coalesce("held_bytes", F.lit(0))),
                "disk_capacity": F.when(F.col("disk_capacity") > 0, F.col("disk_capacity")),
                "network_measured": F.col("metered"),
                "flags": F.coalesce("flags", F.lit(0)),
            }
        ),
        BROKERS,
    )


def _own(rates: DataFrame) -> DataFrame:
    """Samples of the brokers themselves, of the replicas they hold and of their log dirs."""
    return rates.where("kind in ('broker', 'replica', 'log_dir') and broker is not null").select(
        "cluster",
        "tick",
        "broker",
        "kind",
        *_REPORTED,
        F.coalesce("cpu_capacity_cores", "processors").alias("cpu_capacity"),
        F.col("network_in_capacity_bytes_per_second").alias("network_in_capacity"),
        F.col("network_out_capacity_bytes_per_second").alias("network_out_capacity"),
        *(scaled(name).alias(name) for name in _COUNTED),
        "size_bytes",
        "disk_total_bytes",
    )


def _carried(traffic: DataFrame) -> DataFrame:
    """Paces of the partitions that each broker leads and follows, and whether some are not known."""
    paces = {
        f"_{name}": F.round(F.col(name) * (SECOND * _MILLI / F.col("elapsed_us"))).cast("bigint")
        for name in sorted(set(_ESTIMATES.values()))
    }
    # A partition without a leader lists its last in-sync replica although that broker is gone.
    holder = traffic.where("leader is not null").select(
        "cluster",
        "tick",
        "leader",
        *(pace.alias(name) for name, pace in paces.items()),
        F.explode("in_sync").alias("broker"),
    )
    leads = F.col("broker") == F.col("leader")
    carries = {"led_in": leads, "led_out": leads, "followed_in": ~leads}
    return holder.groupBy("cluster", "tick", "broker").agg(
        *(F.sum(F.when(carries[name], F.col(f"_{of}"))).alias(name) for name, of in _ESTIMATES.items()),
        *(
            F.max(carries[name] & F.col(f"_{of}").isNull()).alias(f"{name}_unknown")
            for name, of in _ESTIMATES.items()
        ),
    )


def _gathered(own: DataFrame, carried: DataFrame) -> DataFrame:
    """One row per broker and tick: its own sample, sums over its disks and replicas, and what it carries."""
    # Replicas are summed first: an aggregate that keeps text sorts all its rows.
    held = (
        own.where("kind = 'replica'")
        .groupBy("cluster", "tick", "broker")
        .agg(F.lit("replica").alias("kind"), F.sum("size_bytes").alias("size_bytes"))
    )
    return (
        own.where("kind <> 'replica'")
        .unionByName(held, allowMissingColumns=True)
        .unionByName(carried.withColumn("kind", F.lit("carried")), allowMissingColumns=True)
        .groupBy("cluster", "tick", "broker")
        .agg(
            *(
                F.first(F.when(F.col("kind") == "broker", F.col(name)), ignorenulls=True).alias(name)
                for name in (*_REPORTED, *_CAPACITIES, *_COUNTED)
            ),
            F.sum(F.when(F.col("kind") == "replica", F.col("size_bytes"))).alias("held_bytes"),
            F.sum(F.when(F.col("kind") == "log_dir", F.col("disk_total_bytes"))).alias("disk_capacity"),
            F.count(F.when(F.col("kind") == "log_dir", F.lit(1))).alias("dirs"),
            *(
                F.first(name, ignorenulls=True).alias(name)
                for estimate in _ESTIMATES
                for name in (estimate, f"{estimate}_unknown")
            ),
        )
    )


def clients(rates: DataFrame, settings: ReplicasPipelineSettings) -> DataFrame:
    """Traffic that clients wanted and got, per cluster and tick, and whether it collapsed.

    Collapsed means: served less than half of the usual while offered not less than half of its usual; the
    usual is the mean over the last `settings.collapse` before this tick.
    """
    interval = F.unix_micros("tick") - F.unix_micros("previous_tick")
    totals = (
        rates.where("kind = 'client'")
        .groupBy("cluster", "tick")
        .agg(
            F.count(F.lit(1)).alias("clients"),
            F.max(interval).alias("_elapsed"),
            F.sum(scaled("offered_bytes")).alias("_offered"),
            F.sum(scaled("served_bytes")).alias("_served"),
            F.sum("errors").alias("errors"),
            F.sum("late").alias("late"),
            F.max("latency_p99_ms").alias("latency_p99_ms_max"),
        )
    )
    before = Window.partitionBy("cluster").orderBy(F.unix_micros("tick")).rangeBetween(-settings.collapse, -1)

    def usual(name: str) -> Column:
        known = F.col(name).isNotNull()
        return F.sum(name).over(before) * float(SECOND) / F.sum(F.when(known, F.col("_elapsed"))).over(before)

    rated = totals.withColumns(
        {
            "offered_bytes_per_second": F.col("_offered") * float(SECOND) / F.col("_elapsed"),
            "served_bytes_per_second": F.col("_served") * float(SECOND) / F.col("_elapsed"),
            "usual_offered_bytes_per_second": usual("_offered"),
            "usual_served_bytes_per_second": usual("_served"),
        }
    )
    fell = F.col("served_bytes_per_second") < 0.5 * F.col("usual_served_bytes_per_second")
    wanted = F.col("offered_bytes_per_second") >= 0.5 * F.col("usual_offered_bytes_per_second")
    return conform(rated.withColumn("traffic_collapse", F.coalesce(fell & wanted, F.lit(False))), CLIENTS)
