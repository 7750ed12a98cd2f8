"""Recordings in files that anybody may write: CSV, JSON Lines or Parquet, rows with a time in any order.

CSV and JSON Lines may be compressed, as `.csv.gz`. Further columns are passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.files.head import unit_seconds
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    import pyarrow

    from trimtab.model.load import FloatArray

MICROSECONDS: Final = 1e6
KINDS: Final = {".csv": "csv", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}


def read_rows(path: Path, columns: Sequence[str], noun: str, texts: Sequence[str] = ()) -> pyarrow.Table:
    """The rows of a file.

    Parameters
    ----------
    columns
        That it must have.
    noun
        What a row is, in the plural, for people.
    texts
        Columns that are texts even where they look like numbers, as 007.

    Raises
    ------
    InputError
        If it cannot be read, lacks a column, or has no row.
    """
    table = _table(path, texts)
    for name in columns:
        if name not in table.column_names:
            raise InputError(f'{path}: has no column "{name}", expected {", ".join(columns)}; add it')
    if not len(table):
        raise InputError(f"{path}: holds no {noun}; name a recording with some")
    return table


def require_finite(
    path: Path, table: pyarrow.Table, name: str, values: FloatArray, least: float, expected: str
) -> None:
    """Refuse values that are no numbers, or too small.

    Raises
    ------
    InputError
        With the first row of them, and what was expected.
    """
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= least)))
    if len(wrong):
        found = table[name][int(wrong[0])].as_py()
        raise InputError(
            f"{path}: row {wrong[0]}: {name} is {found!r}, expected {expected}; correct it there"
        )


def numbers(path: Path, name: str, column: Any) -> FloatArray:
    """Numbers; NaN where there is none."""
    import pyarrow as pa

    try:
        # Nanoseconds since 1970 have more digits than a float; a fault of 128 ns is none.
        exact = not pa.types.is_integer(column.type)
        return np.asarray(column.cast(pa.float64(), safe=exact).fill_null(np.nan))
    except pa.ArrowException as error:
        raise InputError(f"{path}: {name} holds what is no number ({error}); correct it there") from None


def times(path: Path, column: Any) -> FloatArray:
    """Seconds; of times without a zone since 1970, as UTC.

    Numbers are seconds, or since 1970 milliseconds, microseconds or nanoseconds (`unit_seconds`).

    Raises
    ------
    InputError
        If there is what is no time, or if numbers are of different units.
    """
    import pyarrow as pa

    if pa.types.is_string(column.type):
        for zone in ("UTC", None):
            try:
                column = column.cast(pa.timestamp("us", zone))
                break
            except pa.ArrowException:
                continue
        else:
            raise InputError(
                f"{path}: time holds what is none, expected seconds or times as 2026-11-21T05:00:00Z; "
                "correct it there"
            )
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
        return np.asarray(micros.cast(pa.float64(), safe=False).fill_null(np.nan)) / MICROSECONDS
    values = numbers(path, "time", column)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return values
    least, most = float(finite.min()), float(finite.max())
    unit = unit_seconds(most)
    if unit != unit_seconds(least):
        raise InputError(
            f"{path}: time goes from {least:.15g} to {most:.15g}, expected one unit, seconds or milliseconds "
            "since 1970; correct it there"
        )
    return values * unit if unit == 1.0 else values / round(1 / unit)


def _table(path: Path, texts: Sequence[str]) -> pyarrow.Table:
    import pyarrow as pa

    kind = KINDS.get(Path(path.name.removesuffix(".gz")).suffix)
    try:
        if kind == "csv":
            from pyarrow import csv

            types: Any = dict.fromkeys(texts, pa.string())
            return csv.read_csv(str(path), convert_options=csv.ConvertOptions(column_types=types))
        if kind == "json":
            from pyarrow import json

            return json.read_json(str(path))
        if kind == "parquet":
            from pyarrow import parquet

            return parquet.read_table(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error}); name a file that is there") from None
    except pa.ArrowException as error:
        raise InputError(f"{path}: is no sound {kind} ({error}); correct it") from None
    raise InputError(f"{path}: is of no kind that is read, expected one of {', '.join(KINDS)}; rename it")
