"""Destinations of samples; in the lake one Parquet file per tick, whole or not there."""

from __future__ import annotations

import datetime
import os
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trimtab.files.atomic import sync_folder
from trimtab.model.errors import ObserveError
from trimtab.observe.collect.batch import Batch

if TYPE_CHECKING:
    import pyarrow

ABANDONED_SECONDS = 3600.0
"""A file that has been in the making for so long was left by a collector that was killed."""


class Landing(Protocol):
    """Takes one tick's samples; they are safe when `land` returns."""

    def land(self, batches: Sequence[Batch], cluster: str, tick: datetime.datetime) -> None:
        """Keep them, all or none where the target can do that.

        Raises
        ------
        ObserveError
            If they could not be kept.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


Columns = Sequence[tuple[str, str]]


def arrow_schema(columns: Columns) -> pyarrow.Schema:
    """Raw columns as pyarrow types."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "int": pa.int32(),
        "long": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "ints": pa.list_(pa.field("element", pa.int32())),
        "longs": pa.list_(pa.field("element", pa.int64())),
    }
    return pa.schema([pa.field(name, types[kind]) for name, kind in columns])


def to_table(
    batches: Iterable[Batch],
    cluster: str,
    tick: datetime.datetime,
    received_at: datetime.datetime,
    columns: Columns,
) -> pyarrow.Table:
    """One wide table of all rows of a tick."""
    import pyarrow as pa

    schema = arrow_schema(columns)
    parts = []
    for batch in batches:
        common = {
            "cluster": cluster,
            "tick": tick,
            "received_at": received_at,
            "kind": batch.kind,
            **batch.common,
        }
        arrays = [
            pa.array(batch.columns[item.name], item.type)
            if item.name in batch.columns
            else pa.repeat(pa.scalar(common.get(item.name), item.type), len(batch))
            for item in schema
        ]
        parts.append(pa.Table.from_arrays(arrays, schema=schema))
    return pa.concat_tables(parts) if parts else schema.empty_table()


class LakeLanding:
    """Lands in `raw/date=YYYY-MM-DD/` of a lake.

    Parameters
    ----------
    raw
        The lake's folder of raw samples; made when the first samples land. Files of collectors that were
        killed while writing are removed from it.
    columns
        Of the system that the samples are of.
    """

    def __init__(self, raw: Path, columns: Columns) -> None:
        # Loading pyarrow, and what its first conversion loads, takes seconds: better before the first tick.
        import pyarrow.parquet

        pyarrow.array([0])
        self._raw = raw
        self._columns = columns
        _remove_abandoned(raw)

    def land(self, batches: Sequence[Batch], cluster: str, tick: datetime.datetime) -> None:
        """Write under a hidden name, force to disk, rename: a reader sees the whole file or none.

        Raises
        ------
        ObserveError
            If the lake cannot be written.
        """
        import pyarrow.parquet

        table = to_table(batches, cluster, tick, datetime.datetime.now(datetime.UTC), self._columns)
        folder = self._raw / f"date={tick:%Y-%m-%d}"
        safe = re.sub(r"[^A-Za-z0-9_-]", "-", cluster)
        # The random part: two collectors of one cluster must not overwrite each other's samples.
        name = f"{tick:%Y%m%dT%H%M%S}{tick.microsecond // 1000:03d}Z-{safe}-{secrets.token_hex(4)}.parquet"
        making = folder / f".{name}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                with making.open("wb") as file:
                    pyarrow.parquet.write_table(table, file, compression="zstd")
                    file.flush()
                    os.fsync(file.fileno())
                making.rename(folder / name)
            except BaseException:
                making.unlink(missing_ok=True)
                raise
            sync_folder(folder)
        except OSError as error:
            raise ObserveError(
                f"samples cannot be written into {folder} ({error.strerror or error}): "
                "free space there, or name another lake with --lake"
            ) from error

    def close(self) -> None:
        """Nothing is held open between two ticks."""


def _remove_abandoned(raw: Path) -> None:
    oldest = time.time() - ABANDONED_SECONDS
    for path in raw.glob("date=*/.*.parquet"):
        try:
            if path.stat().st_mtime < oldest:
                path.unlink()
        except FileNotFoundError:
            # Its writer was alive after all, or another collector cleans up too.
            continue
