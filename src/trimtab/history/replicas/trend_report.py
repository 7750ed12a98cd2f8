"""Trends along a course of loads, and how far off what was expected a day ahead was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from trimtab.model.load import FloatArray
from trimtab.model.replicas.resources import RESOURCES
from trimtab.observe.replicas.backtest import METHODS, Backtest
from trimtab.observe.seasons import DAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, eq=False)
class TrendReport:
    """Trends beside profiles, and the errors of both.

    Attributes
    ----------
    leader, follower
        Shape (hours, partitions, resources), of the hours of the profiles; NaN where there is none.
    end
        Shape (hours,): ends of the hours that errors are known of, ascending, microseconds.
    off
        Shape (hours, ways, resources), as in `Backtest`.
    actual
        Shape (hours, resources).
    """

    leader: FloatArray
    follower: FloatArray
    end: np.ndarray
    off: FloatArray
    actual: FloatArray

    def backtest(self, since: int, until: int) -> Backtest:
        """Of the hours that end after `since`, up to `until`, microseconds."""
        counts = (self.end > since) & (self.end <= until)
        return Backtest(self.off[counts].sum(axis=0), self.actual[counts].sum(axis=0))

    def errors(self, since: int, until: int) -> dict[str, FloatArray]:
        """Errors of hours that end after `since`, up to `until`, as fractions of what came.

        Shape (resources,), by what was expected a day before: the profile, the trend, which of the two was
        chosen by the errors that were known then, and the same hour of that day.
        """
        chosen = self.off[:, 0].copy()
        for row, end in enumerate(self.end.tolist()):
            uses = self.backtest(end - 2 * DAY, end - DAY).trend
            chosen[row, uses] = self.off[row, 1, uses]
        whole = self.backtest(since, until)
        counts = (self.end > since) & (self.end <= until)
        best = replace(whole, off=np.broadcast_to(chosen[counts].sum(axis=0), whole.off.shape))
        return {
            "profile": whole.share[0],
            "with the trend": whole.share[1],
            "as chosen": best.share[0],
            "as the day before": whole.share[2],
        }


def hourly_errors(errors: DataFrame) -> DataFrame:
    """Sums by hour, of what all ways tell of; over sorted lists, since rows come in any order."""

    def summed(column: str, name: str) -> Column:
        counts = reduce(and_, (F.col(f"{one}.{name}").isNotNull() for one in (*METHODS, "actual")))
        values = F.array_sort(F.collect_list(F.when(counts, F.abs(F.col(f"{column}.{name}")))))
        return F.aggregate(values, F.lit(0.0), lambda total, value: total + value).alias(name)

    return errors.groupBy(F.col("window_end").alias("end")).agg(
        *(F.struct(*(summed(way, name) for name in RESOURCES)).alias(way) for way in (*METHODS, "actual"))
    )
