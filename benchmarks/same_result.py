"""Comparison of the tables of two engines: whole numbers exactly, fractions but for the order of sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.observe.replicas.pipeline import KEYS as SAMPLE

if TYPE_CHECKING:
    from collections.abc import Iterator

# Spark alone orders sums of fractions; those of the others may differ in the last bits.
TOLERANCE = 1e-9
KEYS = {
    "cleaned": SAMPLE,
    "rates": SAMPLE,
    "growth": ("cluster", "tick", "topic", "partition"),
    "traffic": ("cluster", "tick", "topic", "partition"),
    "brokers": ("cluster", "tick", "broker"),
    "clients": ("cluster", "tick"),
    "windows": ("cluster", "window_end", "kind", "broker", "topic", "partition"),
    "imbalance": ("cluster", "tick", "resource"),
}
"""The tables compared, and the columns in which each row of one is unique."""


def difference(one: dict[str, pa.Table], other: dict[str, pa.Table]) -> str | None:
    """The first difference between two sets of tables, or None where they hold the same.

    Every column of the first set's tables is compared; the second may have more.
    """
    for table, keys in KEYS.items():
        first, second = (_ordered(tables[table], keys) for tables in (one, other))
        if len(first) != len(second):
            return f"{table}: {len(first)} and {len(second)} rows"
        for name in (*keys, *sorted(set(first.column_names) - set(keys))):
            if name not in second.column_names:
                return f"{table}: the second has no column {name}"
            rows = _different_rows(first[name], second[name])
            if len(rows):
                row = int(rows[0])
                key = tuple(str(first[column][row].as_py()) for column in keys)
                values = [table_[name][row].as_py() for table_ in (first, second)]
                return f"{table} {key} {name}: {values[0]} and {values[1]} ({len(rows)} rows differ)"
    return None


def _ordered(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    return table.sort_by([(key, "ascending") for key in keys]).combine_chunks()


def _different_rows(first: pa.ChunkedArray, second: pa.ChunkedArray) -> np.ndarray:
    """Numbers of the rows in which two columns differ, ascending."""
    different = np.zeros(len(first), dtype=bool)
    for one, other, row_of in _leaves(_whole(first), _whole(second), np.arange(len(first))):
        if len(one) != len(other):
            break  # Lengths of lists differ, which is found already: values are not side by side.
        different[row_of[_differs(one, other)]] = True
    return np.flatnonzero(different)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def _leaves(first: Any, second: Any, row_of: np.ndarray) -> Iterator[tuple[Any, Any, np.ndarray]]:
    """Columns of plain values: a list is its lengths and its values, a struct its presence and its fields."""
    if pa.types.is_nested(first.type):
        yield first.is_null(), second.is_null(), row_of
    if pa.types.is_struct(first.type):
        for field in first.type:
            yield from _leaves(
                pc.struct_field(first, field.name), pc.struct_field(second, field.name), row_of
            )
    elif pa.types.is_nested(first.type):
        lengths = [pc.fill_null(pc.list_value_length(lists), 0) for lists in (first, second)]
        yield pc.cast(lengths[0], pa.int64()), pc.cast(lengths[1], pa.int64()), row_of
        yield from _leaves(pc.list_flatten(first), pc.list_flatten(second), np.repeat(row_of, lengths[0]))
    else:
        yield first, second, row_of


def _differs(first: Any, second: Any) -> np.ndarray:
    """True where exactly one value is null or both are and are not equal."""
    null, other_null = (values.is_null().to_numpy(zero_copy_only=False) for values in (first, second))
    if pa.types.is_floating(first.type):
        one, other = (
            pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False) for values in (first, second)
        )
        equal = np.isclose(one, other, rtol=TOLERANCE, atol=1e-12, equal_nan=True)
    else:
        exact = pc.equal(first, pc.cast(second, first.type))
        equal = pc.fill_null(exact, True).to_numpy(zero_copy_only=False)
    found: np.ndarray = (null != other_null) | ~equal
    return found
