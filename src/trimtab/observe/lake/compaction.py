"""Many small files into few, in tables and among raw samples, and removal of files that nothing names.

A stream leaves a file per table and micro-batch, a collector one per tick. Whoever does this holds the
writer lock of the lake. Samples that a stream has not taken in yet stay in the files they were written to,
since it remembers files by their names. Nothing here needs Spark.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote

from trimtab.files.object_store import StoreError
from trimtab.files.store import files_in, remove_folder, size_of, written_at
from trimtab.observe.lake.columns import DAY, arrow_schema
from trimtab.observe.lake.lake import INDEX, RAW, RawIndex, publish_index, read_entries
from trimtab.observe.lake.manifest import Manifest, ManifestEntry, new_path
from trimtab.observe.lake.parquet import finished_files, source_of, writer_of
from trimtab.observe.lake.rebuild import named_by_unfinished

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow

    from trimtab.files.store import Location
    from trimtab.observe.lake.lake import Lake


_STREAM_FILE = re.compile(r"stream-(?P<stream>[0-9a-f-]{36})-(?P<batch>\d{9})(-\d+)?\.parquet")


def is_published(path: Location, manifest: Manifest) -> bool:
    """True if a raw file may be read as history: one that a stream landed, but has not published, may not
    yet.

    The stream does that micro-batch again; read from here as well, its samples would be counted twice.
    """
    match = _STREAM_FILE.fullmatch(path.name)
    return match is None or int(match["batch"]) <= manifest.streams.get(match["stream"], -1)


MIN_FOLDERS = 8
"""Fewer neighbours than this are not worth a new file."""

LARGEST_BYTES = 32 * 2**20
"""Files that are larger together stay apart."""

ROWS_PER_GROUP = 10_000
"""A reader of the newest ticks reads the last row groups of a file, which may hold a month."""

GRACE_SECONDS = 3600
"""Files that no manifest names any more are kept so long for readers that still hold the manifest before."""


@dataclass(frozen=True)
class TableCompaction:
    """Number of a table's folders before and after."""

    table: str
    before: int
    after: int


def compacted_tables(lake: Lake, manifest: Manifest) -> Manifest:
    """The manifest after every run of small neighbouring folders was written as one file; not yet published.

    The old folders stay for readers that still hold the manifest before, until they are swept.
    """
    for table, entries in manifest.tables.items():
        kept: list[ManifestEntry] = []
        for run in _folder_runs(lake, entries):
            kept += [_joined(lake, table, run)] if len(run) >= MIN_FOLDERS else run
        manifest = replace(manifest, tables={**manifest.tables, table: tuple(kept)})
    return manifest


def table_compactions(before: Manifest, after: Manifest) -> list[TableCompaction]:
    """The tables that a compaction changed."""
    return [
        TableCompaction(table, len(entries), len(after.tables[table]))
        for table, entries in before.tables.items()
        if len(after.tables[table]) != len(entries)
    ]


def remove_unnamed_folders(lake: Lake, manifest: Manifest, grace_seconds: float = GRACE_SECONDS) -> int:
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


def _folder_runs(lake: Lake, entries: tuple[ManifestEntry, ...]) -> list[list[ManifestEntry]]:
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
    import pyarrow.parquet

    column, path = lake.balancer.time_column(table), new_path(table)
    files = [file for entry in run for file in finished_files(lake.tables / entry.path)]
    # Other versions may have written other columns: all are kept.
    schemas = [pyarrow.parquet.read_schema(source_of(file)).remove_metadata() for file in files]
    schema = pyarrow.unify_schemas(schemas, promote_options="default")
    waiting: list[pyarrow.Table] = []
    times: list[int] = []
    with writer_of(lake.tables / path / "compacted.parquet", schema) as writer:
        for rows in _in_order_of_time(lake, column, run):
            found = rows[column].cast("int64")
            times += [found[0].as_py(), found[-1].as_py()]
            waiting.append(_in_form(rows, schema))
            if sum(one.num_rows for one in waiting) >= ROWS_PER_GROUP:
                _write(writer, waiting, ROWS_PER_GROUP)
        if waiting:
            _write(writer, waiting, ROWS_PER_GROUP)
    return ManifestEntry(path, run[0].begin, run[-1].end, times[0], times[-1])


PART_BYTES = 2**20
"""Bytes of a table's folder that are in memory at a time while it is joined, about."""


def _in_order_of_time(lake: Lake, column: str, run: list[ManifestEntry]) -> Iterator[pyarrow.Table]:
    """Rows of entries that follow one another, a part of the time after the other."""
    for entry in run:
        parts = size_of(lake.tables / entry.path) // PART_BYTES + 1
        span = entry.last + 1 - entry.first
        cuts = {entry.first + span * number // parts for number in range(1, parts)}
        for low, high in pairwise(sorted({entry.begin, *cuts, entry.end})):
            if (rows := read_entries(lake.tables, column, (entry,), None, low, high)).num_rows:
                yield rows.sort_by(column)


BATCH_ROWS = 200_000
"""Rows in memory while files are joined, about: a row group of the joined one."""


@dataclass(frozen=True)
class JoinedFiles:
    """Landed files of a day that became one, or would."""

    day: str
    files: int
    bytes: int


def join_raw(
    lake: Lake, manifest: Manifest, now: float, most: int | None = None, dry: bool = False
) -> list[JoinedFiles]:
    """Join landed files of all days but the newest.

    Parameters
    ----------
    lake, manifest
        The lake, and its tables as published.
    now
        Seconds since 1970.
    most
        Files to write at most; None: as many as there are.
    dry
        Only tell what would be joined.

    Raises
    ------
    ObserveError
        If somebody else does the same at this time.
    """
    index = lake.raw_index()
    done: list[JoinedFiles] = []
    taken = consumed_by_stream(lake, manifest)
    for day in lake.raw_retention_days()[:-1]:
        for run in _file_runs(free_files(day, index, manifest, taken)):
            if most is not None and len(done) == most:
                return done
            if not dry:
                name = f"joined-{secrets.token_hex(8)}.parquet"
                landed = _write_joined(lake, lake.joined / day.name / name, [path for path, _ in run])
                if not landed:
                    continue
                index = publish_index(lake.folder, index.with_joined(day.name, name, landed, now))
            done.append(JoinedFiles(day.name, len(run), sum(size for _, size in run)))
    return done


def remove_doomed(lake: Lake, now: float, grace_seconds: float = GRACE_SECONDS) -> int:
    """Remove files that have not counted for so long that nobody can still read them; returns how many."""
    index = lake.raw_index()
    ripe = [path for path, since in index.doomed.items() if since <= now - grace_seconds]
    for path in ripe:
        (lake.folder / path).unlink(missing_ok=True)
    if ripe:
        left = {path: since for path, since in index.doomed.items() if path not in set(ripe)}
        index = publish_index(lake.folder, replace(index, doomed=left))
    return len(ripe) + _remove_abandoned(lake, index, now - grace_seconds)


def _remove_abandoned(lake: Lake, index: RawIndex, oldest: float) -> int:
    """Remove joined files that were written, but not published before their writer was killed."""
    removed = 0
    for folder in lake.joined.iterdir() if lake.joined.is_dir() else ():
        if folder.name == INDEX:
            continue
        named = {*index.joined.get(folder.name, ())}
        for path, _, at in files_in(folder):
            told = f"{lake.joined.name}/{folder.name}/{path.name}"
            if path.name not in named and told not in index.doomed and at < oldest:
                path.unlink(missing_ok=True)
                removed += 1
    return removed


def consumed_by_stream(lake: Lake, manifest: Manifest) -> set[str] | None:
    """Landed files that the stream over them needs no longer; None where there is no such stream.

    Names relative to the balancer's folder, of the micro-batches before the last one published: Spark may
    still ask for the files of that one.
    """
    stream = stream_over_raw(lake)
    if stream is None:
        return None
    last = manifest.streams.get(stream, -1)
    taken = set()
    log = lake.checkpoints / "lake" / "sources" / "0"
    for path in log.iterdir() if log.is_dir() else ():
        if path.name[0] in "._":
            continue
        for line in path.read_text().splitlines()[1:]:
            told = json.loads(line)
            if told["batchId"] < last:
                taken.add("/".join([RAW, *unquote(told["path"]).rsplit("/", 2)[-2:]]))
    return taken


def stream_over_raw(lake: Lake) -> str | None:
    """The id of the stream over raw files, as Spark's checkpoint has it; None where there is none."""
    try:
        found = json.loads((lake.checkpoints / "lake" / "metadata").read_text())["id"]
    except FileNotFoundError:
        return None
    return str(found)


def free_files(
    day: Location, index: RawIndex, manifest: Manifest, taken: set[str] | None
) -> list[tuple[Location, int]]:
    """Landed files of a day, with their bytes, that count and that no stream needs."""
    found = []
    for path, size, _ in files_in(day):
        told = f"{RAW}/{day.name}/{path.name}"
        if path.name[0] in "._" or not path.name.endswith(".parquet") or told in index.doomed:
            continue
        if (taken is None or told in taken) and is_published(path, manifest):
            found.append((path, size))
    return found


def _file_runs(files: list[tuple[Location, int]]) -> list[list[tuple[Location, int]]]:
    """Neighbours by name that fit into one file together, where they are not too few."""
    runs: list[list[tuple[Location, int]]] = []
    room = 0
    for path, size in files:
        if not runs or size > room:
            runs.append([])
            room = LARGEST_BYTES
        runs[-1].append((path, size))
        room -= size
    return [run for run in runs if len(run) >= MIN_FOLDERS]


def _write_joined(lake: Lake, target: Location, paths: list[Location]) -> list[str]:
    """Write the rows of some files into one; returns the names of those whose rows it holds.

    Left out are files that are no sound Parquet, or not of the balancer's form, as a later trimtab may land.
    """
    schema = arrow_schema(lake.balancer.raw.columns)
    held: list[str] = []
    with contextlib.ExitStack() as open_file:
        writer = None
        waiting: list[pyarrow.Table] = []
        for path in paths:
            rows = _rows_as(path, schema)
            if rows is None:
                continue
            if writer is None:
                writer = open_file.enter_context(writer_of(target, schema))
            held.append(path.name)
            waiting.append(rows)
            if sum(one.num_rows for one in waiting) >= BATCH_ROWS:
                _write(writer, waiting)
        if writer is not None and waiting:
            _write(writer, waiting)
    return held


def _write(writer: pyarrow.parquet.ParquetWriter, waiting: list[pyarrow.Table], size: int = 2**20) -> None:
    import pyarrow

    writer.write_table(pyarrow.concat_tables(waiting).combine_chunks(), size)
    waiting.clear()


def _in_form(rows: pyarrow.Table, schema: pyarrow.Schema) -> pyarrow.Table:
    """Rows with the columns of a schema; those that they lack are null."""
    import pyarrow

    columns = [
        rows[item.name].cast(item.type)
        if item.name in rows.column_names
        else pyarrow.nulls(rows.num_rows, item.type)
        for item in schema
    ]
    return pyarrow.Table.from_arrays(columns, schema=schema)


def _rows_as(path: Location, schema: pyarrow.Schema) -> pyarrow.Table | None:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(source_of(path)) as file:
            rows = file.read(use_threads=False)
        return _in_form(rows, schema) if set(rows.column_names) <= set(schema.names) else None
    except StoreError:
        raise
    except (pyarrow.ArrowException, OSError):
        return None
