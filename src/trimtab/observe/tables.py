"""Tables as Spark sees them: reading what a manifest names, writing what the next one will name."""

from __future__ import annotations

import secrets
import shutil
import time
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.observe.lake import TIME_COLUMNS
from trimtab.observe.schemas import TABLES, ddl

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Entry, Manifest
    from trimtab.observe.ranges import Ranges

GRACE_SECONDS = 3600
"""How long files that no manifest names any more are kept for readers that still hold the manifest before."""


def within(frame: DataFrame, table: str, ranges: Ranges) -> DataFrame:
    """The rows of `table` whose time lies in `ranges`."""
    return frame.where(_in(table, ranges))


def read_table(
    session: SparkSession, lake: Lake, manifest: Manifest, table: str, ranges: Ranges
) -> DataFrame:
    """The published rows of a table within some ranges.

    Parameters
    ----------
    session, lake, manifest
        Where from.
    table
        A name of `schemas.TABLES`.
    ranges
        Which times are wanted.

    Returns
    -------
    DataFrame
        The table's columns; rows that a later step computed anew are there once.
    """
    reader = session.read.schema(ddl(TABLES[table]))
    wanted = [
        entry
        for entry in manifest.tables.get(table, ())
        if any(entry.begin < end and begin < entry.end for begin, end in ranges)
    ]
    if not wanted:
        return session.createDataFrame([], ddl(TABLES[table]))
    # Folders that are wholly valid are one scan; the few that a later step cut into need a filter of their
    # own.
    whole = [entry for entry in wanted if entry.whole]
    frames = [reader.parquet(*(_folder(lake, entry) for entry in whole))] if whole else []
    frames += [
        within(reader.parquet(_folder(lake, entry)), table, [(entry.begin, entry.end)])
        for entry in wanted
        if not entry.whole
    ]
    return within(reduce(lambda one, other: one.unionByName(other), frames), table, ranges)


def write_table(
    frame: DataFrame, lake: Lake, manifest: Manifest, table: str, ranges: Ranges
) -> tuple[Manifest, int]:
    """Write rows to a new folder and return the manifest in which they replace `ranges` of the table.

    Nothing is visible to readers until that manifest is published; a folder that never gets there is swept
    later.

    Returns
    -------
    tuple
        The manifest, and how many rows were written.
    """
    path = f"{table}/{time.time_ns():020d}-{secrets.token_hex(4)}"
    folder = lake.tables / path
    frame.write.parquet(str(folder))
    rows, first, last = written(folder, TIME_COLUMNS.get(table, "tick"))
    return manifest.replaced(table, ranges, path, (first, last) if rows else None), rows


def written(folder: Path, column: str) -> tuple[int, int, int]:
    """Rows of a folder of Parquet files, and the first and last time in them, from the files' own footers."""
    import pyarrow.parquet

    from trimtab.observe.lake import microseconds

    rows, times = 0, []
    for file in folder.glob("*.parquet"):
        footer = pyarrow.parquet.read_metadata(file)
        rows += footer.num_rows
        place = footer.schema.names.index(column)
        for group in range(footer.num_row_groups):
            statistics = footer.row_group(group).column(place).statistics
            if footer.row_group(group).num_rows:
                times += [microseconds(statistics.min), microseconds(statistics.max)]
    return rows, min(times, default=0), max(times, default=0)


def sweep(lake: Lake, manifest: Manifest, grace_seconds: float = GRACE_SECONDS) -> int:
    """Delete folders that no entry of the manifest names and no reader can still hold; returns how many."""
    named = {entry.path for entries in manifest.tables.values() for entry in entries}
    swept = 0
    for table in TABLES:
        root = lake.tables / table
        for folder in root.iterdir() if root.is_dir() else ():
            if f"{table}/{folder.name}" not in named and folder.stat().st_mtime < time.time() - grace_seconds:
                shutil.rmtree(folder, ignore_errors=True)
                swept += 1
    return swept


def _folder(lake: Lake, entry: Entry) -> str:
    return str(lake.tables / entry.path)


def _in(table: str, ranges: Ranges) -> Column:
    from pyspark.sql import functions as F

    time_column = F.col(TIME_COLUMNS.get(table, "tick"))

    def literal(value: int) -> Column:
        return F.timestamp_micros(F.lit(value))

    inside = [(time_column >= literal(begin)) & (time_column < literal(end)) for begin, end in ranges]
    return reduce(lambda one, other: one | other, inside, F.lit(False))
