"""The table `cpu_model` of any balancer: made from its brokers' windows, and joined to what causes CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from trimtab.observe.columns import ddl
from trimtab.observe.cpu_fit import fits_of
from trimtab.observe.spark_columns import conform, frame_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column, DataFrame

    from trimtab.observe.columns import Columns
    from trimtab.observe.cpu_fit import Divide
    from trimtab.observe.settings import PipelineSettings


def fitted(
    windows: DataFrame,
    causes: Mapping[str, Column],
    columns: Columns,
    settings: PipelineSettings,
    divide: Divide,
) -> DataFrame:
    """The cost in cores of each cause, for every cluster and window, fitted over its brokers and windows.

    The only place where the pipeline leaves Spark: a fit has a few hundred rows of a few numbers.

    Parameters
    ----------
    windows
        With `cluster`, `window_end`, `kind`, `broker` and `cpu`, reaching `cpu_fit_windows` further back than
        the windows wanted; and `counted`, where a balancer tells counters from estimates.
    causes
        What brokers carry, per second, by the name of its column in the table made.
    columns
        Of the table made. It has no row for windows in whose reach no broker tells its CPU.
    divide
        As in `cpu_fit.fits_of`.
    """
    told = windows.where("kind = 'broker' and cpu is not null").select(
        "cluster",
        F.unix_micros("window_end").alias("end"),
        "broker",
        F.col("cpu.mean").alias("cores"),
        (F.col("counted") if "counted" in windows.columns else F.lit(True)).alias("counted"),
        *(carried.alias(name) for name, carried in causes.items()),
    )
    order = [(name, "ascending") for name in ("cluster", "end", "broker")]
    reach = settings.cpu_fit_windows * settings.slide
    fits = fits_of(told.toArrow().sort_by(order), tuple(causes), reach, divide)
    by_number = ddl(columns).replace("`window_end` timestamp", "`end` bigint")
    frame = frame_of(told.sparkSession, fits, by_number)
    return conform(frame.withColumn("window_end", F.timestamp_micros("end")), columns)


def with_costs(rows: DataFrame, model: DataFrame, causes: Iterable[str]) -> DataFrame:
    """Rows of windows with their window's model: `cpu_method`, and the cost `_per_<cause>` of each cause.

    Where a window has no model, the method is `absent` and costs are null.
    """
    costs = model.select(
        "cluster",
        "window_end",
        F.col("method").alias("cpu_method"),
        *(F.col(cause).alias(f"_per_{cause}") for cause in causes),
    )
    joined = rows.join(F.broadcast(costs), on=["cluster", "window_end"], how="left")
    return joined.withColumn("cpu_method", F.coalesce("cpu_method", F.lit("absent")))
