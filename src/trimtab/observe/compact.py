"""Housekeeping of tables: many small files into few, and removal of those that no table needs any more.

A stream leaves a file per table and micro-batch. Nothing here needs Spark.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from trimtab.files.store import remove_folder, size_of, written_at
from trimtab.observe.columns import DAY
from trimtab.observe.history import named_by_unfinished
from trimtab.observe.lake import read_entries
from trimtab.observe.manifest import Manifest, ManifestEntry, new_path
from trimtab.observe.parquet import write_rows

if TYPE_CHECKING:
    from trimtab.observe.lake import Lake

MIN_FOLDERS = 8
"""Fewer neighbours than this are not worth a new file."""

LARGEST_BYTES = 32 * 2**20
"""Files that are larger together stay apart: what is joined is in memory, some fifty times as large."""

ROWS_PER_GROUP = 10_000
"""Whoever wants the newest ticks reads the last groups of a file that may hold a month."""

GRACE_SECONDS = 3600
"""Files that no manifest names any more are kept so long for readers that still hold the manifest before."""


@dataclass(frozen=True)
class TableCompaction:
    """Number of a table's folders before and after."""

    table: str
    before: int
    after: int


def compacted(lake: Lake, manifest: Manifest) -> Manifest:
    """The manifest after every run of small neighbouring folders was written as one file; not yet published.

    The old folders stay for readers that still hold the manifest before, until they are swept.
    """
    for table, entries in manifest.tables.items():
        kept: list[ManifestEntry] = []
        for run in _runs(lake, entries):
            kept += [_joined(lake, table, run)] if len(run) >= MIN_FOLDERS else run
        manifest = replace(manifest, tables={**manifest.tables, table: tuple(kept)})
    return manifest


def differences(before: Manifest, after: Manifest) -> list[TableCompaction]:
    """The tables that a compaction changed."""
    return [
        TableCompaction(table, len(entries), len(after.tables[table]))
        for table, entries in before.tables.items()
        if len(after.tables[table]) != len(entries)
    ]


def sweep(lake: Lake, manifest: Manifest, grace_seconds: float = GRACE_SECONDS) -> int:
    """Delete folders that no entry of the manifest names and no reader can still hold; returns how many.

    None, unless the manifest is the newest: its publisher may have been succeeded since, and what the
    successor makes is no longer for it to judge.
    """
    named = {entry.path for entries in manifest.tables.values() for entry in entries}
    named |= named_by_unfinished(lake.tables)
    oldest = time.time() - grace_seconds
    doomed = []
    for table in lake.balancer.tables:
        root = lake.tables / table
        for folder in root.iterdir() if root.is_dir() else ():
            if f"{table}/{folder.name}" not in named and written_at(folder) < oldest:
                doomed.append(folder)
    if lake.manifest().version != manifest.version:
        return 0
    for folder in doomed:
        remove_folder(folder)
    return len(doomed)


def _runs(lake: Lake, entries: tuple[ManifestEntry, ...]) -> list[list[ManifestEntry]]:
    """Neighbours of one day that fit into one file; entries are in order of time and never overlap.

    Days stay apart: what is too old goes by whole folders.
    """
    runs: list[list[ManifestEntry]] = []
    room, day = 0, 0
    for entry in entries:
        size = size_of(lake.tables / entry.path)
        if not runs or size > room or entry.begin // DAY != day:
            runs.append([])
            day = entry.begin // DAY
            room = LARGEST_BYTES
        runs[-1].append(entry)
        room -= size
    assert all(one[-1].end <= other[0].begin for one, other in pairwise(runs))
    return runs


def _joined(lake: Lake, table: str, run: list[ManifestEntry]) -> ManifestEntry:
    column = lake.balancer.time_column(table)
    rows = read_entries(lake.tables, column, tuple(run), None, None, None)
    rows = rows.sort_by(column)
    path = new_path(table)
    write_rows(
        lake.tables / path / "compacted.parquet", rows, compression="zstd", row_group_size=ROWS_PER_GROUP
    )
    times = rows[column].cast("int64")
    return ManifestEntry(path, run[0].begin, run[-1].end, times[0].as_py(), times[-1].as_py())
