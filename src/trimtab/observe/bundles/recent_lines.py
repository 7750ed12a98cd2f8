"""Straight lines through the last windows of every bundle.

Spark evaluates an aggregate over a sliding window row by row; here every row of a batch takes its step at
once. Sums run from the newest window back and hold nothing but the row's own windows: the line of a row is
the same to the bit in whichever batch it comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.observe.bundles.schemas import LOAD
from trimtab.observe.columns import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from pyarrow import Array, RecordBatch
    from pyspark.sql import DataFrame

    from trimtab.model.load import BoolArray, FloatArray

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


def _pass(most: int, reach: int) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """The function that Spark calls with a partition's sorted batches; a bundle's rows may lie in several."""

    def work(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
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
