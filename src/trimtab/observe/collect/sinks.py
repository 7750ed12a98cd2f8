"""Batches of raw samples, and the sink that writes them into a lake, one Parquet file per tick."""

from __future__ import annotations

import datetime
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from trimtab.model.errors import ObserveError
from trimtab.observe.lake.columns import arrow_schema as columns_schema
from trimtab.observe.lake.parquet import write_rows
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    import pyarrow

    from trimtab.files.store import Location


@dataclass(frozen=True)
class RowBatch:
    """Raw samples of one kind, not yet bound to a cluster and a tick.

    Attributes
    ----------
    kind
        One of the kinds that the raw form of the system names.
    columns
        Lists of equal length, by column name; None where a row has no value.
    common
        Values that all rows share, by column name.
    """

    kind: str
    columns: Mapping[str, list[object]]
    common: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> Iterator[dict[str, object]]:
        """One mapping per row, values that are not there left out."""
        names = tuple(self.columns)
        shared = {"kind": self.kind} | {
            name: value for name, value in self.common.items() if value is not None
        }
        for values in zip(*self.columns.values(), strict=True):
            yield shared | {
                name: value for name, value in zip(names, values, strict=True) if value is not None
            }


class RowBatchBuilder:
    """Collects rows of one kind; `columns` fixes which values a row has, in which order."""

    def __init__(self, kind: str, *columns: str, **common: object) -> None:
        self._kind = kind
        self._columns: dict[str, list[object]] = {name: [] for name in columns}
        self._appends = tuple(values.append for values in self._columns.values())
        self._common = common

    def add(self, *values: object) -> None:
        """Append one row; as many values as there are columns."""
        for append, value in zip(self._appends, values, strict=True):
            append(value)

    def batch(self) -> RowBatch:
        """The collected rows as one batch."""
        return RowBatch(self._kind, self._columns, self._common)


ABANDONED_SECONDS = 3600.0
"""A file that has been in the making for so long was left by a collector that was killed."""


def whole_number(value: float | None) -> int | None:
    """A counter as the whole number that it is."""
    return None if value is None else round(value)


class SampleSink(Protocol):
    """Takes one tick's samples; they are safe when `land` returns."""

    def write(self, batches: Sequence[RowBatch], cluster: str, tick: datetime.datetime) -> None:
        """Keep them, all or none where the target can do that.

        Raises
        ------
        ObserveError
            If they could not be kept.
        """
        ...

    def close(self) -> None:
        """Close all connections of the sink."""
        ...


Columns = Sequence[tuple[str, str]]


_KINDS = {"long": "bigint", "ints": "array<int>", "longs": "array<bigint>"}


def arrow_schema(columns: Columns) -> pyarrow.Schema:
    """Raw columns as pyarrow types."""
    return columns_schema(tuple((name, _KINDS.get(kind, kind)) for name, kind in columns))


def to_table(
    batches: Iterable[RowBatch],
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


class LakeSink:
    """Lands in `raw/date=YYYY-MM-DD/` of a lake.

    Parameters
    ----------
    raw
        The lake's folder of raw samples; made when the first samples land. Files of collectors that were
        killed while writing are removed from it.
    columns
        Of the system that the samples are of.
    """

    def __init__(self, raw: Location, columns: Columns) -> None:
        # Loading pyarrow, and what its first conversion loads, takes seconds: better before the first tick.
        import pyarrow.parquet

        pyarrow.array([0])
        self._raw = raw
        self._columns = columns
        if isinstance(raw, Path):
            _remove_abandoned(raw)

    def write(self, batches: Sequence[RowBatch], cluster: str, tick: datetime.datetime) -> None:
        """Write under a hidden name, force to disk, rename: a reader sees the whole file or none."""
        table = to_table(batches, cluster, tick, datetime.datetime.now(datetime.UTC), self._columns)
        folder = self._raw / f"date={tick:%Y-%m-%d}"
        safe = re.sub(r"[^A-Za-z0-9_-]", "-", cluster)
        # The random part: two collectors of one cluster must not overwrite each other's samples.
        name = f"{tick:%Y%m%dT%H%M%S}{tick.microsecond // 1000:03d}Z-{safe}-{secrets.token_hex(4)}.parquet"
        try:
            write_rows(folder / name, table)
        except (InputError, OSError) as error:
            reason = getattr(error.__context__ or error, "strerror", None) or error
            raise ObserveError(
                f"samples cannot be written into {folder} ({reason}): "
                "free space there, or name another lake with --lake"
            ) from error

    def close(self) -> None:
        """Nothing is held open between two ticks."""


def _remove_abandoned(raw: Path) -> None:
    oldest = time.time() - ABANDONED_SECONDS
    for path in raw.glob("date=*/.*.parquet.*"):
        try:
            if path.stat().st_mtime < oldest:
                path.unlink()
        except FileNotFoundError:
            # Its writer was alive after all, or another collector cleans up too.
            continue
