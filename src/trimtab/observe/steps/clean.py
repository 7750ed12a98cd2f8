"""Raw samples to cleaned ones: typed, one row a sample; dirt is flagged and counted, not dropped silently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.observe.lake.columns import QUALITY, SampleFlag, ddl, numbers
from trimtab.observe.spark.expressions import conform, flag_if, is_flagged, is_in_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

    from trimtab.observe.lake.balancer_pipeline import PipelineSettings
    from trimtab.observe.lake.columns import RawSchema
    from trimtab.observe.lake.manifest import Ranges


def from_json(records: DataFrame, form: RawSchema) -> DataFrame:
    """Rows of a Kafka topic (`value`, one JSON object each, and `timestamp`) as raw rows of a form.

    A value that is no JSON object becomes a row of nulls received at the record's own time, which `typed`
    flags as unreadable.
    """
    # Timestamps come as text: Spark's JSON reader alone would take its own idea of their precision.
    text = tuple((name, "string" if kind == "timestamp" else kind) for name, kind in form.columns)
    value = F.from_json(F.col("value").cast("string"), ddl(text))
    parsed = records.select(value.alias("row"), F.col("timestamp").alias("appended_at"))
    columns = []
    for name, kind in form.columns:
        column = F.col(f"row.{name}")
        if kind == "timestamp":
            column = F.try_to_timestamp(column)
        if name == "received_at":
            column = F.coalesce(column, F.col("appended_at"))
        columns.append(column.alias(name))
    return conform(parsed.select(*columns), form.columns)


def typed(raw: DataFrame, settings: PipelineSettings, form: RawSchema) -> DataFrame:
    """Each raw row of a form with its flags, as `RawSchema.cleaned` has them.

    Whether it counts depends on the row alone, never on when or with what it came.
    """
    late = F.coalesce(F.unix_micros("received_at") - F.unix_micros("tick") > settings.lateness, F.lit(False))
    unreadable = (
        F.col("cluster").isNull()
        | F.col("tick").isNull()
        | ~F.coalesce(F.col("kind").isin(*form.kinds), F.lit(False))
    )
    # As text: made by calls, the conditions of forty columns would be a thousand messages to the JVM.
    doubles = numbers(form.columns, "double")
    infinite = (
        f"{_of('greatest', doubles)} = double('Infinity') or {_of('least', doubles)} = -double('Infinity')"
    )
    bad_number = F.expr(f"isnan({_of('greatest', doubles)}) or {infinite}")
    negative = F.expr(f"{_of('least', form.negative)} < 0 or {_of('least', form.minus_one)} < -1")
    flags = (
        flag_if(late, SampleFlag.LATE)
        .bitwiseOR(flag_if(unreadable, SampleFlag.UNREADABLE))
        .bitwiseOR(flag_if(bad_number, SampleFlag.NOT_A_NUMBER))
        .bitwiseOR(flag_if(negative, SampleFlag.NEGATIVE))
    )
    flagged = raw.withColumn("flags", flags)
    # Each is null of an absent value, which then stays so.
    sound = {name: [f"`{name}` >= 0"] for name in (*form.negative, *form.minus_one)}
    for name in doubles:
        sound.setdefault(name, [f"`{name}` > -double('Infinity')"]).append(f"`{name}` < double('Infinity')")
    cleaned = {
        name: F.expr(f"case when {' and '.join(conditions)} then `{name}` end")
        for name, conditions in sound.items()
    }
    # An unreadable row must lie somewhere to be counted: at the instant it was received.
    cleaned["tick"] = F.coalesce("tick", "received_at", F.timestamp_micros(F.lit(0)))
    cleaned["cluster"] = F.coalesce("cluster", F.lit(""))
    cleaned["kind"] = F.when(unreadable, F.lit("unreadable")).otherwise(F.col("kind"))
    return conform(
        flagged.withColumns(
            {
                # Not by the flags, which take all columns: whoever asks for no more reads no more.
                "accepted": ~(late | unreadable),
                "copies": F.lit(1),
                "late_copies": late.cast("int"),
                **cleaned,
            }
        ),
        form.cleaned,
    )


def deduplicated(samples: DataFrame, form: RawSchema, doubled: Ranges | None = None) -> DataFrame:
    """One row per sample (columns of `RawSchema.cleaned`, unique in the form's keys): the one received first.

    The others are only counted. The choice is a minimum over a total order, so it does not matter how often,
    in which order and in which company the copies come: `deduplicated(deduplicated(a) + b)` is
    `deduplicated(a + b)`.

    Parameters
    ----------
    samples
        Columns of `RawSchema.cleaned`.
    doubled
        Ticks in which a sample may come twice; None for any. All others are passed on as they are: to sort
        wide rows by their keys was nearly half of a whole batch.
    """
    if doubled is not None:
        single = conform(samples.where(~is_in_ranges("tick", doubled)), form.cleaned)
        if not doubled:
            return single
        return single.unionByName(deduplicated(samples.where(is_in_ranges("tick", doubled)), form))
    same = Window.partitionBy(*form.keys)
    values = [name for name, _ in form.columns if name not in form.keys]
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
    return conform(ranked.where("place = 1"), form.cleaned)


def _of(function: str, names: Iterable[str]) -> str:
    """Spark's `least` or `greatest` of some numbers and 0; absent ones do not count, NaN is above all."""
    return f"{function}({', '.join(['0', '0', *(f'`{name}`' for name in names)])})"


_OF_SAMPLES = (SampleFlag.UNREADABLE, SampleFlag.NOT_A_NUMBER, SampleFlag.NEGATIVE)


def quality(cleaned: DataFrame, *evaluated: tuple[DataFrame, tuple[SampleFlag, ...]]) -> DataFrame:
    """Counts of a balancer's flags per (cluster, tick, kind), as `columns.QUALITY` has them.

    Parameters
    ----------
    cleaned
        The balancer's table of that name.
    evaluated
        Tables with `cluster`, `tick`, `kind` and `flags`, and which flags are counted there.
    """
    keys = ("cluster", "tick", "kind")
    together = cleaned.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("entities"),
        F.sum(F.col("accepted").cast("int")).alias("accepted"),
        F.sum(F.col("copies") - 1).alias("duplicates"),
        F.sum("late_copies").alias("late"),
        *_counted(_OF_SAMPLES),
    )
    for table, flags in evaluated:
        counted = table.groupBy(*keys).agg(*_counted(flags))
        together = together.unionByName(counted, allowMissingColumns=True)
    known = {flag.name.lower() for _, flags in evaluated for flag in flags if flag.name is not None}
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


def _counted(flags: tuple[SampleFlag, ...]) -> list[Column]:
    return [F.count_if(is_flagged(flag)).alias(flag.name.lower()) for flag in flags if flag.name is not None]
