"""Recorded arrivals of messages in a file that anybody may write (`trimtab.files.recorded_rows`).

Columns: `time` (seconds, milliseconds since 1970, or a time as 2026-11-21T05:00:00Z), `class`, `seconds` of
processing, and, where messages of one user were kept in order, `key`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.files.recorded_rows import numbers, read_rows, require_finite, times
from trimtab.model.queues.snapshot import Arrivals
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLUMNS: Final = ("time", "class", "seconds")


def read_arrivals(path: Path) -> Arrivals:
    """The arrivals of a file.

    Raises
    ------
    InputError
        If it cannot be read, lacks a column, or a row holds no sound value.
    """
    import pyarrow as pa

    table = read_rows(path, COLUMNS, "messages")
    at, seconds = times(path, table["time"]), numbers(path, "seconds", table["seconds"])
    require_finite(path, table, "time", at, -np.inf, "a time")
    require_finite(path, table, "seconds", seconds, 0.0, "a number of seconds, 0 or more")
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
