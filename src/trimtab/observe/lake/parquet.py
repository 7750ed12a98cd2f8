"""Parquet files of a lake, by pyarrow, wherever the lake lies."""

from __future__ import annotations

import contextlib
import datetime
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trimtab.files.object_store import StoreError, StorePath
from trimtab.files.store import Location, make_folder
from trimtab_common.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_READAHEAD = {"batch_readahead": 1, "fragment_readahead": 1}
"""pyarrow's own holds sixteen batches of four files, decoded, of which a filter often keeps few rows."""


def source_of(path: Location) -> Any:
    """What pyarrow reads a file from: its path, or an object of which it fetches what it needs."""
    return path if isinstance(path, Path) else path.open_reader()


def rows_of_folder(folder: Location, columns: list[str] | None = None, context: Any = None) -> pyarrow.Table:
    """Rows of the files of a folder, as far as a `pyarrow.dataset` expression is true."""
    import pyarrow.dataset

    if isinstance(folder, Path):
        found = pyarrow.dataset.dataset(folder, format="parquet")
        return found.to_table(columns=columns, filter=context, **_READAHEAD)
    return _rows_of_objects(finished_files(folder), columns, context)


def rows_of_files(paths: Sequence[Location], columns: list[str], context: Any = None) -> pyarrow.Table:
    """Rows of some files, at least one, as far as a `pyarrow.dataset` expression is true."""
    import pyarrow.dataset

    objects = [path for path in paths if isinstance(path, StorePath)]
    if objects:
        return _rows_of_objects(objects, columns, context)
    found = pyarrow.dataset.dataset([str(path) for path in paths], format="parquet")
    return found.to_table(columns=columns, filter=context, **_READAHEAD)


def _rows_of_objects(paths: Sequence[Location], columns: list[str] | None, context: Any) -> pyarrow.Table:
    import pyarrow
    import pyarrow.dataset

    form = pyarrow.dataset.ParquetFileFormat()
    fragments = [form.make_fragment(pyarrow.PythonFile(source_of(path), mode="r")) for path in paths]
    parts = [fragment.to_table(columns=columns, filter=context, **_READAHEAD) for fragment in fragments]
    return pyarrow.concat_tables(parts, promote_options="default")


def finished_files(folder: Location) -> list[Location]:
    """Files of a folder that are not in the making, by name."""
    found: list[Location] = [path for path in folder.glob("*.parquet") if path.name[0] not in "._"]
    return sorted(found, key=lambda path: path.name)


ROWS_PER_GROUP: Final = 50_000
"""Spark's tasks read a row group each, and so a file of one group on one core."""


def write_rows(path: Location, rows: pyarrow.Table, rows_per_group: int = ROWS_PER_GROUP) -> None:
    """Write a file: there as a whole, or not under this name; its folder is made.

    Raises
    ------
    InputError
        If it cannot be written, as `StoreError` where it lies in a store.
    """
    from pyarrow.parquet import write_table

    make_folder(path.parent)
    if isinstance(path, Path):
        with replacing(path) as file:
            write_table(rows, file, compression="zstd", row_group_size=rows_per_group)
        return
    content = io.BytesIO()
    write_table(rows, content, compression="zstd", row_group_size=rows_per_group)
    path.write_bytes(content.getvalue())


@contextlib.contextmanager
def writer_of(path: Location, schema: pyarrow.Schema) -> Iterator[pyarrow.parquet.ParquetWriter]:
    """A writer of a file's rows, a part at a time; the file is there, safe, once that went well."""
    from pyarrow.parquet import ParquetWriter

    make_folder(path.parent)
    if isinstance(path, Path):
        with replacing(path) as file, ParquetWriter(file, schema, compression="zstd") as writer:
            yield writer
        return
    content = io.BytesIO()
    with ParquetWriter(content, schema, compression="zstd") as writer:
        yield writer
    path.write_bytes(content.getvalue())


@dataclass(frozen=True)
class ParquetFooter:
    """The end of a file of raw samples.

    Attributes
    ----------
    rows
        How many.
    span
        First and last tick, microseconds since 1970; None where the file does not say it of all rows.
    """

    rows: int
    span: tuple[int, int] | None


def footer_of(path: Location) -> ParquetFooter | None:
    """What a file says at its end; None if that is not the end of a sound Parquet file."""
    import pyarrow
    import pyarrow.parquet

    try:
        told = pyarrow.parquet.read_metadata(source_of(path))
    except StoreError:
        # That nobody answers says nothing of the file.
        raise
    except (pyarrow.ArrowException, OSError):
        return None
    times: list[int] = []
    place = next((at for at in range(told.num_columns) if told.schema.column(at).path == "tick"), None)
    for group in (told.row_group(number) for number in range(told.num_row_groups)):
        found = None if place is None else group.column(place).statistics
        if found is None or not found.has_min_max or found.null_count != 0:
            return ParquetFooter(told.num_rows, None)
        first, last = found.min, found.max
        if not isinstance(first, datetime.datetime) or first.tzinfo is None:
            return ParquetFooter(told.num_rows, None)
        times += [(one - _EPOCH) // _MICROSECOND for one in (first, last)]
    return ParquetFooter(told.num_rows, (min(times), max(times)) if times else None)


def sound_files(
    paths: Iterable[Location], print_progress: Callable[[str], None] = lambda _: None
) -> dict[Location, ParquetFooter]:
    """The sound files among some, each with its footer; what is left out, and why, is reported."""
    sound = {}
    for path in paths:
        footer = footer_of(path)
        if footer is not None:
            sound[path] = footer
        elif path.is_file():
            print_progress(f"left out {path}: not a sound Parquet file")
        else:
            print_progress(f"left out {path}: it is there no more")
    return sound
