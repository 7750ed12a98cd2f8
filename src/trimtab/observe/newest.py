"""The newest rows of a published table, for commands that must answer at once.

Neither Spark nor pyarrow's dataset module nor any conversion of Python values into Arrow happens here: the
latter two make pyarrow load pandas, which takes longer than all of `trimtab status` may.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow
    from numpy.typing import NDArray

    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Entry

Row = dict[str, Any]


def newest_rows(
    lake: Lake, entries: tuple[Entry, ...], columns: tuple[str, ...], cluster: str, ticks: int
) -> dict[int, list[Row]]:
    """A cluster's rows of its newest ticks.

    Parameters
    ----------
    entries
        Those of a table that has the columns `cluster` and `tick`.
    columns
        What each row holds.
    ticks
        At most so many.

    Returns
    -------
    dict of int to list of dict
        Rows by tick (microseconds since the epoch), ascending.
    """
    found: dict[int, list[Row]] = {}
    for entry in sorted(entries, key=lambda entry: entry.end, reverse=True):
        for path in sorted((lake.tables / entry.path).glob("*.parquet")):
            for tick, row in _newest_of(path, entry, columns, cluster, ticks):
                found.setdefault(tick, []).append(row)
        # Entries do not overlap: older ones cannot hold newer ticks.
        if len(found) >= ticks:
            break
    return {tick: found[tick] for tick in sorted(found)[-ticks:]}


def _newest_of(
    path: Path, entry: Entry, columns: tuple[str, ...], cluster: str, ticks: int
) -> Iterator[tuple[int, Row]]:
    import pyarrow
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        table = file.read(columns=["cluster", "tick", *columns])
    at = _whole_numbers(table["tick"].cast(pyarrow.int64()).combine_chunks())
    ours = np.array([name == cluster for name in table["cluster"].to_pylist()], dtype=np.bool_)
    ours &= (at >= entry.begin) & (at < entry.end)
    if ours.any():
        oldest = np.unique(at[ours])[-ticks:][0]
        index = np.flatnonzero(ours & (at >= oldest))
        yield from zip(at[index].tolist(), _plain(table.select(list(columns)), index), strict=True)


def _whole_numbers(array: pyarrow.Int64Array) -> NDArray[np.int64]:
    # From its buffer, because pyarrow's own conversion asks pandas first.
    values = np.frombuffer(array.buffers()[1], dtype=np.int64)
    return values[array.offset : array.offset + len(array)]


def _plain(table: pyarrow.Table, index: NDArray[np.intp]) -> list[Row]:
    import pyarrow

    # As a buffer, for the same reason.
    buffer = pyarrow.py_buffer(np.ascontiguousarray(index, dtype=np.int64))
    taken = table.take(pyarrow.Array.from_buffers(pyarrow.int64(), len(index), [None, buffer]))
    rows: list[Row] = taken.to_pylist()
    return rows
