"""Many small files into few: a stream leaves a file per table and micro-batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from trimtab.observe.lake import TIME_COLUMNS, read_entries
from trimtab.observe.manifest import Entry, Manifest
from trimtab.observe.tables import new_path

if TYPE_CHECKING:
    from trimtab.observe.lake import Lake

FEWEST = 8
"""Fewer neighbours than this are not worth a new file."""

LARGEST_BYTES = 128 * 2**20
"""Files that are larger together stay apart."""


@dataclass(frozen=True)
class Compaction:
    """How many folders of a table became how many."""

    table: str
    before: int
    after: int


def compacted(lake: Lake, manifest: Manifest) -> Manifest:
    """The manifest after every run of small neighbouring folders was written as one file; not yet published.

    The old folders stay for readers that still hold the manifest before, until they are swept.
    """
    for table, entries in manifest.tables.items():
        kept: list[Entry] = []
        for run in _runs(lake, entries):
            kept += [_joined(lake, table, run)] if len(run) >= FEWEST else run
        manifest = replace(manifest, tables={**manifest.tables, table: tuple(kept)})
    return manifest


def differences(before: Manifest, after: Manifest) -> list[Compaction]:
    """What a compaction changed, table by table."""
    return [
        Compaction(table, len(entries), len(after.tables[table]))
        for table, entries in before.tables.items()
        if len(after.tables[table]) != len(entries)
    ]


def _runs(lake: Lake, entries: tuple[Entry, ...]) -> list[list[Entry]]:
    """Neighbours that fit into one file together; entries are in order of time and never overlap."""
    runs: list[list[Entry]] = []
    room = 0
    for entry in entries:
        size = sum(file.stat().st_size for file in (lake.tables / entry.path).glob("*.parquet"))
        if not runs or size > room:
            runs.append([])
            room = LARGEST_BYTES
        runs[-1].append(entry)
        room -= size
    assert all(one[-1].end <= other[0].begin for one, other in pairwise(runs))
    return runs


def _joined(lake: Lake, table: str, run: list[Entry]) -> Entry:
    import pyarrow.parquet

    rows = read_entries(lake.tables, table, tuple(run), None, None, None)
    column = TIME_COLUMNS.get(table, "tick")
    rows = rows.sort_by(column)
    path = new_path(table)
    (lake.tables / path).mkdir(parents=True)
    pyarrow.parquet.write_table(rows, lake.tables / path / "compacted.parquet", compression="zstd")
    times = rows[column].cast("int64")
    return Entry(path, run[0].begin, run[-1].end, times[0].as_py(), times[-1].as_py())
