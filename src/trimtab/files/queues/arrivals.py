"""Recorded arrivals in a file that anybody may write: CSV, JSON Lines or Parquet, a row a message.

Columns: `time` (a number of seconds, or a time as 2026-11-21T05:00:00Z), `class`, `seconds` of processing,
and, where messages of one user were kept in order, `key`. Rows may come in any order; further columns are
passed over. CSV and JSON Lines may be compressed, as `.csv.gz`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.model.errors import InputError
from trimtab.model.queues.arrivals import Arrivals

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

    from trimtab.model.load import FloatArray

COLUMNS: Final = ("time", "class", "seconds")
MICROSECONDS: Final = 1e6
KINDS: Final = {".csv": "csv", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}


def read_arrivals(path: Path) -> Arrivals:
    """The arrivals of a file.

    Raises
    ------
    InputError
        If it cannot be read, lacks a column, or a row holds no sound value.
    """
    import pyarrow as pa

    table = _table(path)
    for name in COLUMNS:
        if name not in table.column_names:
            raise InputError(f'{path}: has no column "{name}", expected {", ".join(COLUMNS)}; add it')
    if not len(table):
        raise InputError(f"{path}: holds no messages; name a recording with some")
    at, seconds = _times(path, table["time"]), _numbers(path, "seconds", table["seconds"])
    for name, values, least in (("time", at, -np.inf), ("seconds", seconds, 0.0)):
        wrong = np.flatnonzero(~(np.isfinite(values) & (values >= least)))
        if len(wrong):
            found = table[name][int(wrong[0])].as_py()
            expected = "a number of seconds, 0 or more" if least == 0 else "a time"
            raise InputError(
                f"{path}: row {wrong[0]}: {name} is {found!r}, expected {expected}; correct it there"
            )
    if table["class"].null_count:
        row = table["class"].is_null().index(True).as_py()
        raise InputError(f"{path}: row {row}: class is missing, expected a name; correct it there")
    order = np.argsort(at, kind="stable")
    classes, of_class = named_places(table["class"].cast(pa.string()))
    keys: tuple[str | None, ...] = ()
    if "key" in table.column_names:
        told = table["key"].cast(pa.string()).to_pylist()
        keys = tuple(told[one] or None for one in order.tolist())
    return Arrivals(
        at[order],
        classes,
        of_class[order],
        seconds[order],
        keys if any(keys) else (),
    )


def named_places(column: Any) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The different texts of a column in the order of the alphabet, and the place of each row's in them."""
    coded = column.combine_chunks().dictionary_encode()
    texts = coded.dictionary.to_pylist()
    place = {text: number for number, text in enumerate(sorted(texts))}
    return tuple(place), np.array([place[text] for text in texts], dtype=np.int64)[np.asarray(coded.indices)]


def _table(path: Path) -> pyarrow.Table:
    import pyarrow as pa

    kind = KINDS.get(Path(path.name.removesuffix(".gz")).suffix)
    try:
        if kind == "csv":
            from pyarrow import csv

            return csv.read_csv(str(path))
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


def _numbers(path: Path, name: str, column: Any) -> FloatArray:
    import pyarrow as pa

    try:
        return np.asarray(column.cast(pa.float64()).fill_null(np.nan))
    except pa.ArrowException as error:
        raise InputError(f"{path}: {name} holds what is no number ({error}); correct it there") from None


def _times(path: Path, column: Any) -> FloatArray:
    """Seconds; of times without a zone since 1970, as UTC."""
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
    return _numbers(path, "time", column)
