"""Tables of a lake for engines of any kind: streams of Arrow record batches, and Delta tables; no Spark.

Memory is bounded. Delta tables are written by delta-rs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trimtab.extras import missing_extra_named
from trimtab.files.store import make_folder
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.columns import arrow_schema
from trimtab.observe.lake.lake import instant, microseconds
from trimtab.observe.lake.parquet import finished_files, source_of
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    import datetime

    import pyarrow

    from trimtab.files.store import Location
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import ManifestEntry


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


DELTA_FORMAT = "trimtab/delta/1"
EXPORT_FILE = "trimtab.json"
"""Written last: which version of each Delta table belongs with which of the others."""

DELTA_ENTRIES = "trimtab.entries"
"""Of a commit: the files of the lake that the Delta table then held, and what of each."""


@dataclass(frozen=True)
class ExportedTable:
    """One table.

    Attributes
    ----------
    table
        Its name.
    version
        Of the Delta table.
    since
        Rows from here on were written anew, microseconds since 1970; None: none had changed.
    """

    table: str
    version: int
    since: int | None


@missing_extra_named()
def export_delta(tables: OpenTables, target: Location) -> list[ExportedTable]:
    """Bring Delta tables below `target` up to date with the tables of one manifest.

    Only rows from the first instant on are written at which a table's files differ from those of the last
    export; where nothing differs, nothing is written.

    Returns
    -------
    list of Exported
        One for each table of the balancer, also those without rows.

    Raises
    ------
    ObserveError
        If a Delta table cannot be written, or was written by somebody else.
    """
    from deltalake.exceptions import DeltaError

    exported = []
    make_folder(target)
    for name in tables:
        place = target / name
        try:
            exported.append(_export(tables, name, str(place)))
        except (DeltaError, OSError) as error:
            reason = str(error).strip().splitlines()[0][:300]
            raise ObserveError(
                f"{place}: cannot be written as a Delta table ({reason}); see that the place can be written "
                "and holds no tables of others, then export again: what is done is not done twice"
            ) from None
    told = {
        "format": DELTA_FORMAT,
        "lake": str(tables.lake.path),
        "balancer": tables.lake.balancer.name,
        "manifest": tables.manifest.version,
        "tables": {one.table: one.version for one in exported},
    }
    (target / EXPORT_FILE).write_bytes(json.dumps(told, indent=1).encode())
    return exported


def _export(tables: OpenTables, name: str, place: str) -> ExportedTable:
    from deltalake import CommitProperties, DeltaTable, write_deltalake

    options = _options(place)
    entries = tables.manifest.tables.get(name, ())
    now = CommitProperties(custom_metadata={DELTA_ENTRIES: json.dumps([asdict(one) for one in entries])})
    since, predicate = 0, None
    if DeltaTable.is_deltatable(place, storage_options=options):
        found = DeltaTable(place, storage_options=options)
        before = found.history(1)[0].get(DELTA_ENTRIES)
        if before is None:
            raise OSError("its last commit is not an export of trimtab's")
        first = first_difference(json.loads(before), [asdict(one) for one in entries])
        if first is None:
            return ExportedTable(name, found.version(), None)
        since = first
        column = tables.lake.balancer.time_column(name)
        predicate = f"{column} >= '{instant(since):%Y-%m-%dT%H:%M:%S.%fZ}'"
    write_deltalake(
        place,
        tables.read(name, since=instant(since)),
        mode="overwrite",
        predicate=predicate,
        commit_properties=now,
        storage_options=options,
    )
    return ExportedTable(name, DeltaTable(place, storage_options=options).version(), since)


def first_difference(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> int | None:
    """The first instant, microseconds, from which on rows may differ; None where all are the same."""
    apart = [one for one in before if one not in now] + [one for one in now if one not in before]
    return min((max(one["begin"], one["first"], 0) for one in apart), default=None)


def _options(place: str) -> dict[str, str]:
    """What the environment says of the store, as far as delta-rs does not ask for it itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    if not place.startswith("s3://") or not endpoint:
        return {}
    return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}
