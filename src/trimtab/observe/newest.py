"""The newest rows of a published table, for commands that must answer at once.

Neither Spark nor pyarrow's dataset module nor any conversion of Python values into Arrow happens here: the
latter two make pyarrow load pandas, which takes longer than all of `trimtab status` may.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.observe.lake import microseconds
from trimtab.observe.parquet import finished_files, source_of

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

    from trimtab.files.store import Location
    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import ManifestEntry

Row = dict[str, Any]


def newest_rows(
    lake: Lake,
    entries: tuple[ManifestEntry, ...],
    columns: tuple[str, ...],
    cluster: str,
    ticks: int,
    last: datetime.datetime | None = None,
) -> dict[int, list[Row]]:
    """A cluster's rows of its newest `ticks` at most, by tick (microseconds since the epoch), ascending.

    The entries are those of a table that has the columns `cluster` and `tick`; rows hold `columns`. Ticks
    after `last` do not count.
    """
    found: dict[int, list[Row]] = {}
    if last is not None:
        end = microseconds(last) + 1
        entries = tuple(replace(one, end=min(one.end, end)) for one in entries if one.begin < end)
    for entry in sorted(entries, key=lambda entry: entry.end, reverse=True):
        for path in finished_files(lake.tables / entry.path):
            for tick, row in _newest_of(path, entry, columns, cluster, ticks):
                found.setdefault(tick, []).append(row)
        # Entries do not overlap: older ones cannot hold newer ticks.
        if len(found) >= ticks:
            break
    return {tick: found[tick] for tick in sorted(found)[-ticks:]}


def _newest_of(
    path: Location, entry: ManifestEntry, columns: tuple[str, ...], cluster: str, ticks: int
) -> Iterator[tuple[int, Row]]:
    import pyarrow.parquet

    seen: set[int] = set()
    with pyarrow.parquet.ParquetFile(source_of(path)) as file:
        for newest, group in _groups(file):
            # A compacted file may hold a month: the groups of rows at its end are enough.
            if len(seen) >= ticks and newest < sorted(seen)[-ticks]:
                break
            # Starting threads costs more than they save on what a part holds.
            table = file.read_row_group(group, columns=["cluster", "tick", *columns], use_threads=False)
            at = _microseconds(table["tick"])
            ours = np.array([name == cluster for name in table["cluster"].to_pylist()], dtype=np.bool_)
            ours &= (at >= entry.begin) & (at < entry.end)
            if ours.any():
                seen |= set(at[ours].tolist())
                oldest = sorted(seen)[-ticks:][0]
                # Tables of an earlier version lack columns that came later.
                plain = table.select([name for name in columns if name in table.column_names])
                for row in np.flatnonzero(ours & (at >= oldest)).tolist():
                    # A slice at a time: taking rows by index would convert the indices.
                    yield int(at[row]), plain.slice(row, 1).to_pylist()[0]


def _groups(file: Any) -> list[tuple[float, int]]:
    """The newest tick, microseconds, and number of each group of rows, newest first."""
    footer = file.metadata
    place = next(at for at in range(footer.num_columns) if footer.schema.column(at).path == "tick")
    found = []
    for number in range(footer.num_row_groups):
        told = footer.row_group(number).column(place).statistics
        # As it is stored: making instants of it would load what is slow to load.
        known = told is not None and told.has_min_max and told.physical_type == "INT64"
        found.append((told.max_raw if known else float("inf"), number))
    return sorted(found, reverse=True)


def _microseconds(instants: pyarrow.ChunkedArray) -> NDArray[np.int64]:
    # Straight from the buffers, because pyarrow's own conversion asks pandas first.
    parts = [
        np.frombuffer(chunk.buffers()[1], dtype=np.int64)[chunk.offset : chunk.offset + len(chunk)]
        for chunk in instants.chunks
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
