"""Hours, days and weeks of loads: what any balancer's profiles and forecasts are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from trimtab.observe.columns import SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY

MIN_WEEKS: Final = 2
"""A single week ago says as much of that day as of the hour."""

MIN_DAYS: Final = 2
"""The same of a single day."""


def hour_end(time: Column) -> Column:
    """The end, microseconds, of the hour that a time (microseconds) lies in: (end - 1 h, end]."""
    return (F.ceil(time / HOUR) * HOUR).cast("bigint")


def mean_of_list(values: Column) -> Column:
    """Mean of a list in its order; null where it is empty."""
    total = F.aggregate(values, F.lit(0.0), lambda total, value: total + value)
    return F.when(F.size(values) > 0, total / F.size(values))


def mean_load(load: str, resources: Sequence[str], context: Column | None = None) -> Column:
    """An aggregate: the mean of each field of a column of loads, over the rows that have it (and `where`).

    Over sorted lists: sums of fractions depend on the order, and rows come in any.
    """

    def counted(name: str) -> Column:
        value = F.col(f"{load}.{name}")
        return value if context is None else F.when(context, value)

    return F.struct(*(mean_of_list(F.array_sort(F.collect_list(counted(name)))) for name in resources))
