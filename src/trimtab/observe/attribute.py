"""What holding a partition costs a broker: a load vector for its leader and one for its followers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.observe.cpu_fit import CAUSES, by_fixed_shares, fits_of
from trimtab.observe.schemas import ATTRIBUTED, CPU_MODEL, ROLE_LOAD, conform, ddl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from trimtab.observe.cpu_fit import Divide
    from trimtab.observe.schemas import Columns
    from trimtab.observe.settings import PipelineSettings


def cpu_model(windows: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Cores per byte for every cluster and window, fitted over its brokers and the last `fit_windows`
    windows.

    The only place where the pipeline leaves Spark: a fit has a few hundred rows of four numbers.

    Parameters
    ----------
    windows
        Columns of `schemas.WINDOWS`, reaching `fit_windows` further back than the windows wanted.
    settings
        Gives how many windows a fit looks back on.

    Returns
    -------
    DataFrame
        Columns of `schemas.CPU_MODEL`; no row for windows in whose reach no broker tells its CPU.
    """
    from pyspark.sql import functions as F

    told = windows.where("kind = 'broker' and cpu is not null").select(
        "cluster",
        F.unix_micros("window_end").alias("end"),
        "broker",
        F.col("cpu.mean").alias("cores"),
        "leader_in",
        F.col("network_out.mean").alias("leader_out"),
        "follower_in",
    )
    return fitted(told, CPU_MODEL, CAUSES, settings, by_fixed_shares)


def fitted(
    told: DataFrame,
    columns: Columns,
    causes: Sequence[str],
    settings: PipelineSettings,
    divide: Divide,
) -> DataFrame:
    """The table `cpu_model` of any level from what its brokers' windows tell.

    Parameters
    ----------
    told, causes, divide
        As in `cpu_fit.fits_of`, rows in any order.
    columns
        Of the table made.
    settings
        Gives how many windows a fit looks back on.
    """
    from pyspark.sql import functions as F

    order = [(name, "ascending") for name in ("cluster", "end", "broker")]
    reach = settings.fit_windows * settings.slide
    fits = fits_of(told.toArrow().sort_by(order), causes, reach, divide)
    by_number = ddl(columns).replace("`window_end` timestamp", "`end` bigint")
    frame = told.sparkSession.createDataFrame(fits, schema=by_number)
    return conform(frame.withColumn("window_end", F.timestamp_micros("end")), columns)


def attributed(windows: DataFrame, model: DataFrame) -> DataFrame:
    """Leader and follower load of every partition per window.

    CPU is the model's cost of what the role carries; without a model it is absent (null). Disk is the same
    in both roles; so is network in, but for what the broker compresses on arrival; a follower has no
    network out. What leaders send to followers stands apart in `replication_out`: brokers' own counters of
    bytes out do not hold it either.

    Parameters
    ----------
    windows
        Columns of `schemas.WINDOWS`; only kind `partition` is used.
    model
        Columns of `schemas.CPU_MODEL`.

    Returns
    -------
    DataFrame
        Columns of `schemas.ATTRIBUTED`.
    """
    from pyspark.sql import functions as F

    partitions = windows.where("kind = 'partition'").withColumn("out", F.col("network_out.mean"))
    costs = model.select(
        "cluster",
        "window_end",
        F.col("method").alias("cpu_method"),
        *(F.col(cause).alias(f"_per_{cause}") for cause in CAUSES),
    )
    joined = partitions.join(F.broadcast(costs), on=["cluster", "window_end"], how="left")
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
                "cpu_method": F.coalesce("cpu_method", F.lit("absent")),
            }
        ),
        ATTRIBUTED,
    )
