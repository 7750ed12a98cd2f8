"""Counts of dirty samples of each kind and tick, by fault: nothing is dropped silently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from trimtab.observe.columns import QUALITY
from trimtab.observe.flags import Flag
from trimtab.observe.spark_columns import conform, is_flagged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OF_SAMPLES = (Flag.UNREADABLE, Flag.NOT_A_NUMBER, Flag.NEGATIVE)


def quality(cleaned: DataFrame, *judged: tuple[DataFrame, tuple[Flag, ...]]) -> DataFrame:
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
        Columns of `columns.QUALITY`.
    """
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
    return [F.count_if(is_flagged(flag)).alias(flag.name.lower()) for flag in flags if flag.name is not None]
