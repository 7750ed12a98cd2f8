"""Raw files in order: those of days that are over joined into few, those that no longer count removed.

Whoever does this holds the writer lock of the lake. Samples that a stream has not taken in yet stay in the
files they were landed in, for it remembers files by their names.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from trimtab.files.object_store import StoreError
from trimtab.files.store import files_in
from trimtab.observe.arrow_types import arrow_schema
from trimtab.observe.compact import GRACE_SECONDS, LARGEST_BYTES, MIN_FOLDERS
from trimtab.observe.parquet import source_of, writer_of
from trimtab.observe.raw_index import INDEX, RAW, RawIndex, publish_index
from trimtab.observe.topic_rows import is_published

if TYPE_CHECKING:
    import pyarrow

    from trimtab.files.store import Location
    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Manifest

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
        for run in _runs(free_files(day, index, manifest, taken)):
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


def _runs(files: list[tuple[Location, int]]) -> list[list[tuple[Location, int]]]:
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


def _write(writer: pyarrow.parquet.ParquetWriter, waiting: list[pyarrow.Table]) -> None:
    import pyarrow

    writer.write_table(pyarrow.concat_tables(waiting).combine_chunks())
    waiting.clear()


def _rows_as(path: Location, schema: pyarrow.Schema) -> pyarrow.Table | None:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(source_of(path)) as file:
            rows = file.read(use_threads=False)
        if not set(rows.column_names) <= set(schema.names):
            return None
        return pyarrow.Table.from_arrays(
            [
                rows[item.name].cast(item.type)
                if item.name in rows.column_names
                else pyarrow.nulls(rows.num_rows, item.type)
                for item in schema
            ],
            schema=schema,
        )
    except StoreError:
        raise
    except (pyarrow.ArrowException, OSError):
        return None
