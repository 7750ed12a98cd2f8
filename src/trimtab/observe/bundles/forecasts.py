"""Forecasts of what each bundle will carry shortly, and how far such forecasts were off.

A forecast is a straight line through the last windows of a bundle. Spark evaluates an aggregate over a
sliding window row by row; here every row of a batch takes its step at once. Sums run from the newest
window back and hold nothing but the row's own windows: the line of a row is the same to the bit in
whichever batch it comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql import functions as F

from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.observe.bundles.pipeline import FORECAST_ERRORS, FORECASTS, HOURS, LOAD
from trimtab.observe.lake.columns import SECOND
from trimtab.observe.spark.expressions import HOUR, MIN_WEEKS, WEEK, conform, hour_end, mean_load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray
    from pyarrow import Array, RecordBatch
    from pyspark.sql import Column, DataFrame

    from trimtab.model.load import BoolArray, FloatArray
    from trimtab.observe.bundles.pipeline import BundlesPipelineSettings
    from trimtab.observe.lake.balancer_pipeline import Reach


if TYPE_CHECKING:
    LongArray = NDArray[np.int64]

CLEAR_TREND: Final = 0.5
"""Least share of the variance that a trend explains to be one: weaker ones are noise, and to follow noise for
as long again as it was looked at makes it twice as large."""

MIN_WINDOWS: Final = 3
"""Through two points there is always a line."""

_ROW: Final = (
    f"cluster string, bundle string, window_end timestamp, intercept {LOAD}, trend {LOAD}, windows bigint"
)


@dataclass(frozen=True)
class RecentTrends:
    """The line through the last windows of every row.

    Attributes
    ----------
    intercept
        Shape (rows, resources): the line at the row's own window, in the units of the load.
    trend
        Shape (rows, resources): the line's slope, per second; 0 where it is not clear.
    is_known
        Shape (rows, resources): whether any of the windows tells the load; intercept and trend mean nothing
        where not.
    windows
        Shape (rows,): how many there are.
    """

    intercept: FloatArray
    trend: FloatArray
    is_known: BoolArray
    windows: LongArray


def recent_lines(
    bundle: LongArray, end: LongArray, load: FloatArray, text: BoolArray, most: int, reach: int
) -> RecentTrends:
    """Least squares through the windows that end within `reach` before each row's own, and that one.

    Parameters
    ----------
    bundle
        Shape (rows,): a number for each bundle; its rows are neighbours.
    end
        Shape (rows,): when the window ends, microseconds; ascending within a bundle, none there twice.
    load, text
        Shape (rows, resources): the load, and where it is known; what is not known is left out.
    most
        How many rows `reach` can hold.
    reach
        Microseconds.

    Returns
    -------
    RecentLines
        A line that explains less than `CLEAR_TREND` of the variance, or has fewer windows than
        `MIN_WINDOWS`, is balanced at the mean.
    """
    rows = len(end)
    windows = np.zeros(rows, dtype=np.int64)
    count, x_mean, y_mean, x_spread, y_spread, both = np.zeros((6, *load.shape))
    for back, near, x in _steps(bundle, end, most, reach):
        known = near[:, None] & text[: rows - back]
        windows[back:] += near
        count[back:] += known
        x_mean[back:] += np.where(known, x[:, None], 0.0)
        y_mean[back:] += np.where(known, load[: rows - back], 0.0)
    some = np.maximum(count, 1.0)
    x_mean /= some
    y_mean /= some
    for back, near, x in _steps(bundle, end, most, reach):
        known = near[:, None] & text[: rows - back]
        dx = np.where(known, x[:, None] - x_mean[back:], 0.0)
        dy = np.where(known, load[: rows - back] - y_mean[back:], 0.0)
        x_spread[back:] += dx * dx
        y_spread[back:] += dy * dy
        both[back:] += dx * dy
    clear = (x_spread > 0) & (both * both >= CLEAR_TREND * x_spread * y_spread)
    clear &= (windows >= MIN_WINDOWS)[:, None]
    trend = np.where(clear, both / np.where(x_spread > 0, x_spread, 1.0), 0.0)
    return RecentTrends(y_mean - trend * x_mean, trend, count > 0, windows)


def with_recent_lines(loads: DataFrame, most: int, reach: int) -> DataFrame:
    """`recent_lines` of every bundle, in one pass of Python over sorted rows.

    Without any row Spark skips the pass, and starts no Python. `loads` has `cluster`, `bundle`, `window_end`
    and `load`, one row for each of the first three; the frame made has these three, `intercept`, `trend` and
    `windows`.
    """
    keys = ("cluster", "bundle")
    placed = loads.select(*keys, "window_end", *(f"load.{name}" for name in RESOURCES))
    placed = placed.repartition(*keys).sortWithinPartitions(*keys, "window_end")
    return placed.mapInArrow(_pass(most, reach), _ROW)


def _steps(
    bundle: LongArray, end: LongArray, most: int, reach: int
) -> Iterator[tuple[int, BoolArray, FloatArray]]:
    """Rows back, which of the rows that far on are near enough, and the seconds that lie between.

    Time is counted from each row's own window, not from 1970: squares would lose their last digits.
    """
    rows = len(end)
    for back in range(min(most, rows)):
        apart = end[back:] - end[: rows - back]
        near = (apart <= reach) & (bundle[back:] == bundle[: rows - back])
        if not near.any():
            return
        yield back, near, apart / -float(SECOND)


def _pass(most: int, reach: int) -> Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]]:
    """The function that Spark calls with a partition's sorted batches; a bundle's rows may lie in several."""

    def work(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        last: tuple[Any, Any] | None = None
        earlier: list[Any] | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            bundle = _numbered(batch, last, 0 if earlier is None else earlier[0][-1])
            last = (batch.column("cluster")[-1].as_py(), batch.column("bundle")[-1].as_py())
            columns = [batch.column(name) for name in RESOURCES]
            own = [
                bundle,
                batch.column("window_end").cast("int64").to_numpy(),
                np.column_stack([one.fill_null(0.0).to_numpy() for one in columns]),
                np.column_stack([one.is_valid().to_numpy(zero_copy_only=False) for one in columns]),
            ]
            if earlier is not None:
                own = [np.concatenate(pair) for pair in zip(earlier, own, strict=True)]
            begin = len(own[0]) - batch.num_rows
            yield _answer(batch, recent_lines(own[0], own[1], own[2], own[3], most, reach), begin)
            # What the next batch can reach; `most` is at least 2.
            earlier = [one[-(most - 1) :] for one in own]

    return work


def _numbered(batch: RecordBatch, last: tuple[Any, Any] | None, number: int) -> LongArray:
    """Numbers of the bundles of sorted rows, going on from the last row of the batch before."""
    from pyarrow import compute

    other = np.zeros(batch.num_rows, dtype=bool)
    for place, name in enumerate(("cluster", "bundle")):
        column = batch.column(name)
        other[1:] |= compute.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
        other[0] |= last is None or column[0].as_py() != last[place]
    numbers: LongArray = number + np.cumsum(other)
    return numbers


def _answer(batch: RecordBatch, lines: RecentTrends, begin: int) -> RecordBatch:
    """The rows of the batch with their lines, those before `begin` left out."""
    import pyarrow

    def struct(values: FloatArray) -> Array:
        unknown = ~lines.is_known
        fields = [
            pyarrow.array(values[begin:, place], mask=unknown[begin:, place])
            for place in range(len(RESOURCES))
        ]
        return pyarrow.StructArray.from_arrays(fields, names=list(RESOURCES))

    return pyarrow.RecordBatch.from_pydict(
        {
            **{name: batch.column(name) for name in ("cluster", "bundle", "window_end")},
            "intercept": struct(lines.intercept),
            "trend": struct(lines.trend),
            "windows": lines.windows[begin:],
        }
    )


def hour_reach(settings: BundlesPipelineSettings) -> Reach:
    """The stretches of `hours` that a forecast looks at: that hour of its target, week by week."""
    ahead = settings.horizon
    return tuple(
        (week * WEEK - ahead, week * WEEK - ahead - HOUR) for week in range(1, settings.profile_weeks + 1)
    )


def hours(attributed: DataFrame) -> DataFrame:
    """Mean load of each bundle over the windows that end in an hour; `window_end` is the hour's end."""
    end = F.timestamp_micros(hour_end(F.unix_micros("window_end")))
    told = _of_bundles(attributed).withColumn("window_end", end)
    return conform(
        told.groupBy("cluster", "window_end", "bundle").agg(
            mean_load("load", RESOURCES).cast(LOAD).alias("load"), F.count(F.lit(1)).alias("windows")
        ),
        HOURS,
    )


def forecasts(attributed: DataFrame, hours: DataFrame, settings: BundlesPipelineSettings) -> DataFrame:
    """Load of each bundle `settings.horizon` after each window.

    Intercept and trend are of a straight line through the last `trend_windows`, if it explains enough of
    them, else their mean; it is followed no longer than it is known, or a minute of a rising load would be
    drawn on to many times what it is. Where there are enough weeks, the forecast is the mean of that and of
    what the hour of the week had in them.
    """
    told = _of_bundles(attributed).select("cluster", "window_end", "bundle", "load")
    most = settings.trend_windows
    lines = with_recent_lines(told, most, (most - 1) * settings.slide)
    target = F.timestamp_micros(F.unix_micros("window_end") + settings.horizon)
    # From the loads, not from the lines: those would be drawn twice.
    wanted = told.select("cluster", "window_end", "bundle", target.alias("target"))
    seasonal = _hour_of_week(wanted, hours, settings)
    joined = lines.withColumn("target", target).join(
        seasonal, on=["cluster", "window_end", "bundle"], how="left"
    )
    known = F.col("windows") * F.lit(settings.slide / SECOND)
    ahead = F.least(F.lit(settings.horizon / SECOND), known)

    def expected(name: str) -> Column:
        line = F.col(f"intercept.{name}") + F.col(f"trend.{name}") * ahead
        mixed = (line + F.col(f"hour_of_week.{name}")) / 2.0
        return F.greatest(F.coalesce(mixed, line), F.when(line.isNotNull(), F.lit(0.0)))

    return conform(
        joined.withColumns(
            {
                "load": F.struct(*(expected(name) for name in RESOURCES)).cast(LOAD),
                # What comes from Python may be null to Spark; a table's files must all say the same of that.
                **{
                    line: F.struct(*(F.col(f"{line}.{name}") for name in RESOURCES)).cast(LOAD)
                    for line in ("intercept", "trend")
                },
                "windows": F.coalesce("windows", F.lit(0)),
                "weeks": F.coalesce("weeks", F.lit(0)),
            }
        ),
        FORECASTS,
    )


def forecast_errors(
    forecasts: DataFrame, attributed: DataFrame, settings: BundlesPipelineSettings
) -> DataFrame:
    """The error of each forecast once its time had come, against history it had not seen.

    Forecast minus actual, and, to be compared with, what the load at the time of the forecast would have been
    off.
    """
    actual = _of_bundles(attributed).select("cluster", "bundle", "window_end", F.col("load").alias("actual"))
    made = forecasts.select(
        "cluster",
        "bundle",
        F.col("target").alias("window_end"),
        F.col("window_end").alias("made"),
        F.col("load").alias("expected"),
    )
    latest = actual.select(
        "cluster",
        "bundle",
        F.timestamp_micros(F.unix_micros("window_end") + settings.horizon).alias("window_end"),
        F.col("actual").alias("latest"),
    )
    keys = ["cluster", "bundle", "window_end"]
    joined = actual.join(made, on=keys, how="inner").join(latest, on=keys, how="left")

    def off(what: str) -> Column:
        return F.struct(*(F.col(f"{what}.{name}") - F.col(f"actual.{name}") for name in RESOURCES)).cast(LOAD)

    return conform(
        joined.withColumns({"error": off("expected"), "error_of_latest": off("latest")}), FORECAST_ERRORS
    )


def _of_bundles(attributed: DataFrame) -> DataFrame:
    return attributed.where("kind = 'bundle' and load is not null")


def _hour_of_week(desired: DataFrame, hours: DataFrame, settings: BundlesPipelineSettings) -> DataFrame:
    """Mean of the target's hour over the weeks before, where there are enough of them."""
    hour = hour_end(F.unix_micros("target"))
    weeks = F.explode(F.sequence(F.lit(1), F.lit(max(1, settings.profile_weeks))))
    asked = desired.withColumn("week", weeks).select(
        "cluster", "bundle", F.col("window_end").alias("made"),
        F.timestamp_micros(hour - F.col("week") * F.lit(WEEK)).alias("window_end"),
    )  # fmt: skip
    found = asked.join(hours.drop("windows"), on=["cluster", "bundle", "window_end"], how="inner")
    return (
        found.groupBy("cluster", "bundle", F.col("made").alias("window_end"))
        .agg(mean_load("load", RESOURCES).cast(LOAD).alias("hour_of_week"), F.count(F.lit(1)).alias("weeks"))
        .where(F.col("weeks") >= MIN_WEEKS)
    )
