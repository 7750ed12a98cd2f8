"""Raw samples to cleaned ones: typed, one row a sample, dirt flagged and counted instead of passed on."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from trimtab.observe.flags import Flag, flagged_where
from trimtab.observe.raw import KEYS, KINDS
from trimtab.observe.schemas import CLEANED, RAW, conform, ddl

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.settings import PipelineSettings

_DOUBLES = tuple(name for name, kind in RAW if kind == "double")
_LONGS = tuple(name for name, kind in RAW if kind == "bigint")


def from_json(records: DataFrame) -> DataFrame:
    """Rows of a Kafka topic as raw rows.

    Parameters
    ----------
    records
        With `value` (bytes or text, one JSON object each) and `timestamp`.

    Returns
    -------
    DataFrame
        Columns of `schemas.RAW`. A value that is no JSON object becomes a row of nulls received at the
        record's own time, which `typed` flags as unreadable.
    """
    from pyspark.sql import functions as F

    # Timestamps come as text: Spark's JSON reader alone would take its own idea of their precision.
    text = tuple((name, "string" if kind == "timestamp" else kind) for name, kind in RAW)
    value = F.from_json(F.col("value").cast("string"), ddl(text))
    parsed = records.select(value.alias("row"), F.col("timestamp").alias("appended_at"))
    columns = []
    for name, kind in RAW:
        column = F.col(f"row.{name}")
        if kind == "timestamp":
            column = F.try_to_timestamp(column)
        if name == "received_at":
            column = F.coalesce(column, F.col("appended_at"))
        columns.append(column.alias(name))
    return conform(parsed.select(*columns), RAW)


def typed(raw: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Each raw row with its flags; whether it counts depends on the row alone, never on when or with what
    it came.

    Parameters
    ----------
    raw
        Columns of `schemas.RAW`.
    settings
        Gives the lateness allowed.

    Returns
    -------
    DataFrame
        Columns of `schemas.CLEANED`, one row per raw row.
    """
    from pyspark.sql import functions as F

    late = F.unix_micros("received_at") - F.unix_micros("tick") > settings.lateness
    unreadable = (
        F.col("cluster").isNull()
        | F.col("tick").isNull()
        | ~F.coalesce(F.col("kind").isin(*KINDS), F.lit(False))
    )
    bad_number = {name: F.isnan(name) | (F.abs(name) == float("inf")) for name in _DOUBLES}
    # Kafka writes -1 for "no offset"; below that, or a negative size, is dirt.
    negative = {name: F.col(name) < 0 for name in _LONGS if name not in ("committed_offset", "offset_lag")}
    negative |= {"committed_offset": F.col("committed_offset") < -1}
    flags = (
        flagged_where(late, Flag.LATE)
        .bitwiseOR(flagged_where(unreadable, Flag.UNREADABLE))
        .bitwiseOR(flagged_where(_any(bad_number.values()), Flag.NOT_A_NUMBER))
        .bitwiseOR(flagged_where(_any(negative.values()), Flag.NEGATIVE))
    )
    flagged = raw.withColumn("flags", flags)
    absent = {**bad_number, **negative, "committed_offset": F.col("committed_offset") < 0}
    cleaned = {name: F.when(~F.coalesce(bad, F.lit(False)), F.col(name)) for name, bad in absent.items()}
    # An unreadable row must lie somewhere to be counted: at the instant it was received.
    cleaned["tick"] = F.coalesce("tick", "received_at", F.timestamp_micros(F.lit(0)))
    cleaned["cluster"] = F.coalesce("cluster", F.lit(""))
    cleaned["kind"] = F.when(unreadable, F.lit("unreadable")).otherwise(F.col("kind"))
    is_late = F.col("flags").bitwiseAND(int(Flag.LATE)) != 0
    return conform(
        flagged.withColumns(
            {
                "accepted": F.col("flags").bitwiseAND(int(Flag.LATE | Flag.UNREADABLE)) == 0,
                "copies": F.lit(1),
                "late_copies": is_late.cast("int"),
                **cleaned,
            }
        ),
        CLEANED,
    )


def deduplicated(samples: DataFrame) -> DataFrame:
    """One row per sample: the one received first; the others are only counted.

    The choice is a minimum over a total order, so it does not matter how often, in which order and in which
    company the copies come: `deduplicated(deduplicated(a) + b)` is `deduplicated(a + b)`.

    Parameters
    ----------
    samples
        Columns of `schemas.CLEANED`.

    Returns
    -------
    DataFrame
        Columns of `schemas.CLEANED`, unique in `raw.KEYS`.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    same = Window.partitionBy(*KEYS)
    values = [name for name, _ in RAW if name not in KEYS]
    first = same.orderBy(
        F.col("accepted").desc(),
        F.col("received_at").asc_nulls_last(),
        F.col("sampled_at").asc_nulls_last(),
        F.xxhash64(*values),
    )
    ranked = samples.withColumns(
        {
            "place": F.row_number().over(first),
            "copies": F.sum("copies").over(same),
            "late_copies": F.sum("late_copies").over(same),
        }
    )
    return conform(ranked.where("place = 1"), CLEANED)


def _any(conditions: object) -> Column:
    from pyspark.sql import functions as F

    return reduce(or_, (F.coalesce(condition, F.lit(False)) for condition in conditions))  # type: ignore[attr-defined]
