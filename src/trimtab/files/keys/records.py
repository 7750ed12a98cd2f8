"""Recorded records of a topic in a file that anybody may write (`trimtab.files.recorded_rows`).

Columns: `time` (seconds, milliseconds since 1970, or a time as 2026-11-21T05:00:00Z) and `key`. A record
without a key has none there, or an empty field of a CSV file; only Parquet can hold keys that are no text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from trimtab.files.recorded_rows import read_rows, require_finite, times
from trimtab.model.keys.snapshot import KeyedRecords
from trimtab_common.errors import InputError

COLUMNS: Final = ("time", "key")


def read_records(path: Path) -> KeyedRecords:
    """The records of a file.

    Raises
    ------
    InputError
        If it cannot be read, lacks a column, a time is none, or no record has a key.
    """
    import pyarrow as pa

    table = read_rows(path, COLUMNS, "records", texts=("key",))
    at = times(path, table["time"])
    require_finite(path, table, "time", at, -np.inf, "a time")
    column = table["key"]
    binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    told = (column if binary else column.cast(pa.string())).to_pylist()
    keys: list[bytes | None] = [None if one is None else one if binary else one.encode() for one in told]
    if path.name.removesuffix(".gz").endswith(".csv"):
        keys = [one or None for one in keys]
    order = [one for one in np.argsort(at, kind="stable").tolist() if keys[one] is not None]
    if not order:
        raise InputError(f"{path}: no record has a key; name a recording of records with keys")
    place = {key: number for number, key in enumerate(sorted({one for one in keys if one is not None}))}
    which = np.array([place[keys[one] or b""] for one in order], dtype=np.int64)
    return KeyedRecords(at[order], which, tuple(place), len(keys) - len(order))
