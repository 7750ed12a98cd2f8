"""Windows of configurable length and slide, and the statistics of a value over one, for any level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from trimtab.observe.columns import STATISTICS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.settings import PipelineSettings

_SHARES: Final = (0.5, 0.95, 0.99)


def with_window_ends(rows: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Each row once for every window that its tick lies in."""
    slide = settings.slide
    first = (F.ceil(F.unix_micros("tick") / slide) * slide).cast("bigint")
    if settings.window == slide:
        return rows.withColumn("window_end", F.timestamp_micros(first))
    ends = F.array(*(F.timestamp_micros(first + step) for step in range(0, settings.window, slide)))
    return rows.withColumn("window_end", F.explode(ends))


def coverage(elapsed: Column, settings: PipelineSettings) -> Column:
    """Share of a window that intervals of so many microseconds cover, null counting as nothing; at most 1."""
    covered = F.coalesce(F.sum(elapsed), F.lit(0)) / settings.window
    return F.least(covered, F.lit(1.0))


def statistics(value: Column, mean: Column) -> Column:
    """Statistics of a value over a window; null where no tick has it.

    Parameters
    ----------
    value
        Of each tick.
    mean
        An aggregate of its own, so that whoever knows what the ticks weigh takes it.
    """
    shares = F.percentile(value, F.array(*(F.lit(share) for share in _SHARES)))
    latest = F.max_by(value, F.when(value.isNotNull(), F.col("tick")))
    fields = F.struct(
        mean, latest, *(F.get(shares, F.lit(place)) for place in range(len(_SHARES))), F.max(value)
    )
    return F.when(F.count(value) > 0, fields.cast(STATISTICS))
