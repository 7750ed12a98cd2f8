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

    return quality_of(
        cleaned,
        (rates, _OF_INTERVALS),
        (traffic.withColumn("kind", F.lit("partition")), _OF_PARTITIONS),
    )


def quality_of(cleaned: DataFrame, *judged: tuple[DataFrame, tuple[Flag, ...]]) -> DataFrame:
    """Counts of any level's flags per (cluster, tick, kind).

    Parameters
    ----------
    cleaned
        A level's table `cleaned`.
    judged
        Tables with `cluster`, `tick`, `kind` and `flags`, and which flags are counted there.

    Returns
    -------
    DataFrame
        Columns of `schemas.QUALITY`.
    """
    from pyspark.sql import functions as F

    keys = ("cluster", "tick", "kind")
    together = cleaned.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("entities"),
        F.sum(F.col("accepted").cast("int")).alias("accepted"),
        F.sum(F.col("copies") - 1).alias("duplicates"),
        F.sum("late_copies").alias("late"),
        *_counted(_OF_SAMPLES),
    )
    for table, flags in judged:
        counted = table.groupBy(*keys).agg(*_counted(flags))
        together = together.unionByName(counted, allowMissingColumns=True)
    known = {flag.name.lower() for _, flags in judged for flag in flags if flag.name is not None}
    known |= {"entities", "accepted", "duplicates", "late"}
    known |= {flag.name.lower() for flag in _OF_SAMPLES if flag.name is not None}
    counts = {
        name: F.coalesce(F.sum(name), F.lit(0)) if name in known else F.lit(0)
        for name, _ in QUALITY
        if name not in keys
    }
    return conform(
        together.groupBy(*keys).agg(*(column.alias(name) for name, column in counts.items())), QUALITY
    )


def _counted(flags: tuple[Flag, ...]) -> list[Column]:
    from pyspark.sql import functions as F

    return [
        F.count_if(F.col("flags").bitwiseAND(int(flag)) != 0).alias(flag.name.lower())
        for flag in flags
        if flag.name is not None
    ]
