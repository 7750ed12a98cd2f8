"""How many samples of each kind and tick were dirty, and in which way: nothing is dropped silently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.observe.flags import Flag
from trimtab.observe.schemas import QUALITY, conform

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OF_SAMPLES = (Flag.UNREADABLE, Flag.NOT_A_NUMBER, Flag.NEGATIVE)
_OF_INTERVALS = (Flag.RESET, Flag.GAP, Flag.CLOCK_BACK, Flag.MISSED)
_OF_PARTITIONS = (Flag.CUT, Flag.COPYING, Flag.LEADER_CHANGED)


def quality(cleaned: DataFrame, rates: DataFrame, traffic: DataFrame) -> DataFrame:
    """Counts of each flag per (cluster, tick, kind).

    Parameters
    ----------
    cleaned, rates, traffic
        Columns of `schemas.CLEANED`, `RATES` and `TRAFFIC`.

    Returns
    -------
    DataFrame
        Columns of `schemas.QUALITY`.
    """
    from pyspark.sql import functions as F

    keys = ("cluster", "tick", "kind")
    samples = cleaned.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("entities"),
        F.sum(F.col("accepted").cast("int")).alias("accepted"),
        F.sum(F.col("copies") - 1).alias("duplicates"),
        F.sum("late_copies").alias("late"),
        *_counted(_OF_SAMPLES),
    )
    intervals = rates.groupBy(*keys).agg(*_counted(_OF_INTERVALS))
    partitions = traffic.withColumn("kind", F.lit("partition")).groupBy(*keys).agg(*_counted(_OF_PARTITIONS))
    counts = [name for name, _ in QUALITY if name not in keys]
    together = (
        samples.unionByName(intervals, allowMissingColumns=True)
        .unionByName(partitions, allowMissingColumns=True)
        .groupBy(*keys)
        .agg(*(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in counts))
    )
    return conform(together, QUALITY)


def _counted(flags: tuple[Flag, ...]) -> list[Column]:
    from pyspark.sql import functions as F

    return [
        F.count_if(F.col("flags").bitwiseAND(int(flag)) != 0).alias(flag.name.lower())
        for flag in flags
        if flag.name is not None
    ]
