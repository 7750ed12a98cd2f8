"""Tables of a lake as streams of Arrow record batches, for engines of any kind; no Spark, bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trimtab.observe.arrow_types import arrow_schema
from trimtab.observe.lake import microseconds
from trimtab.observe.parquet import finished_files, source_of
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    import datetime

    import pyarrow

    from trimtab.files.store import Location
    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import ManifestEntry

BATCH_ROWS = 65_536


class OpenTables(Mapping[str, "pyarrow.RecordBatchReader"]):
    """A balancer's tables as they were published together, by name.

    What is published later is not seen: all tables fit together however long they are read, within the hour
    for which files that no longer count are kept.

    Attributes
    ----------
    lake, manifest
        The lake, seen from the balancer, and the files of its tables.
    """

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.manifest = lake.manifest()

    def __getitem__(self, name: str) -> pyarrow.RecordBatchReader:
        """A whole table, to be read once."""
        return self.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.lake.balancer.tables)

    def __len__(self) -> int:
        return len(self.lake.balancer.tables)

    def read(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        since: datetime.datetime | None = None,
        until: datetime.datetime | None = None,
    ) -> pyarrow.RecordBatchReader:
        """A table, or part of it, as a stream that is read once.

        Parameters
        ----------
        name, columns
            One of the tables, and which of its columns; None for all.
        since, until
            Half-open range of its `tick`, or of its `window_end` where it has no ticks; without a zone: UTC.

        Returns
        -------
        pyarrow.RecordBatchReader
            With the columns of the table, also where it has no rows; rows in no promised order.

        Raises
        ------
        InputError
            If there is no such table or column.
        """
        import pyarrow

        if name not in self.lake.balancer.tables:
            known = ", ".join(self)
            raise InputError(f"{name!r} is no table of balancer {self.lake.balancer.name}: there are {known}")
        schema = arrow_schema(self.lake.balancer.tables[name])
        missing = sorted({*(columns or ())} - {*schema.names})
        if missing:
            raise InputError(f"table {name} has no column {missing[0]!r}: it has {', '.join(schema.names)}")
        wanted = schema if columns is None else pyarrow.schema([schema.field(one) for one in columns])
        low = -(2**62) if since is None else microseconds(since)
        high = 2**62 if until is None else microseconds(until)
        entries = [
            entry
            for entry in self.manifest.tables.get(name, ())
            if max(entry.begin, entry.first, low) < min(entry.end, entry.last + 1, high)
        ]
        column = self.lake.balancer.time_column(name)
        batches = (
            batch
            for entry in entries
            for file in finished_files(self.lake.tables / entry.path)
            for batch in _batches(file, wanted, column, _range(entry, low, high))
        )
        return pyarrow.RecordBatchReader.from_batches(wanted, batches)


def _range(entry: ManifestEntry, low: int, high: int) -> tuple[int, int] | None:
    """The instants of an entry that count; None for all."""
    begin, end = max(entry.begin, low), min(entry.end, high)
    return None if begin <= entry.first and entry.last < end else (begin, end)


def _batches(
    path: Location, schema: pyarrow.Schema, time_column: str, span: tuple[int, int] | None
) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow
    import pyarrow.compute as pc
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(source_of(path)) as file:
        held = [name for name in schema.names if name in file.schema_arrow.names]
        groups = _groups(file, time_column, span)
        for batch in file.iter_batches(BATCH_ROWS, groups, list({*held, time_column}), use_threads=False):
            if span is not None:
                at = batch.column(time_column).cast(pyarrow.int64())
                batch = batch.filter(pc.and_(pc.greater_equal(at, span[0]), pc.less(at, span[1])))
            # Files from before a column was thought of have none of it.
            arrays = [
                batch.column(field.name).cast(field.type)
                if field.name in held
                else pyarrow.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _groups(file: Any, time_column: str, span: tuple[int, int] | None) -> list[int]:
    """Groups of rows that may hold some of a span, by what the file says of them."""
    footer = file.metadata
    every = range(footer.num_row_groups)
    if span is None:
        return list(every)
    place = next(at for at in range(footer.num_columns) if footer.schema.column(at).path == time_column)
    told = ((group, footer.row_group(group).column(place).statistics) for group in every)
    return [
        group
        for group, found in told
        if found is None
        or not found.has_min_max
        or (microseconds(found.min) < span[1] and span[0] <= microseconds(found.max))
    ]
