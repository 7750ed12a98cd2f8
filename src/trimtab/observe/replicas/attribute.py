"""The cost to a broker of holding a partition: a load vector for its leader and one for its followers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from trimtab.observe.cpu_fit import by_fixed_shares
from trimtab.observe.cpu_model import fitted, with_costs
from trimtab.observe.replicas.schemas import ATTRIBUTED, CAUSES, CPU_MODEL, FIXED_SHARES, ROLE_LOAD
from trimtab.observe.spark_columns import conform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trimtab.observe.settings import PipelineSettings


def cpu_model(windows: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Cores per byte for every cluster and window, fitted over the last `fit_windows` windows."""
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
    leader = F.struct(
        led, disk, F.col("leader_in"), F.coalesce("out", F.when(F.col("leader_in").isNotNull(), 0.0))
    )
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
