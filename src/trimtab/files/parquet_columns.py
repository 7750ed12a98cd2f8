"""Tables of snapshot folders: Parquet columns of any sound types to arrays, and small tables to records.

Numbers go from pyarrow to numpy by the protocol DLPack, and no Python value goes to pyarrow: its own
conversions load pandas first, which takes longer than reading 100,000 partitions.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trimtab.files.columns import LEFT_OUT, LongArray
from trimtab.files.document import shape_of
from trimtab.model.errors import InputError
from trimtab.model.load import FloatArray

T = TypeVar("T")


def table_of(path: Path, schema: pa.Schema, optional: tuple[str, ...]) -> pa.Table:
    """Read a file whose columns must be those of `schema`; their types are not looked at yet."""
    try:
        # `read_table` goes through pyarrow's datasets, which load pandas.
        with pq.ParquetFile(path) as file:
            table = file.read()
    except (pa.ArrowException, OSError) as fault:
        reason = str(fault).splitlines()[0].rstrip(".")
        raise InputError(f"{path}: is not a sound Parquet file ({reason}); export it again") from None
    for name in table.column_names:
        if name not in schema.names and not name.startswith("x_"):
            raise InputError(f'{path}: has an unknown column "{name}"; columns of your own begin with x_')
        if table.column_names.count(name) > 1:
            raise InputError(f'{path}: has the column "{name}" twice; keep one of them')
    for field in schema:
        if field.name not in table.column_names:
            if field.name not in optional:
                raise InputError(f'{path}: has no column "{field.name}"; add it')
            table = table.append_column(field.name, pa.nulls(len(table), field.type))
    return table.select(schema.names)


def records_of(path: Path, table: pa.Table, kind: type[T]) -> list[T]:
    """The rows of a small table as records of a kind; null stands for a field left out."""
    records = []
    for number, row in enumerate(without_nulls(one) for one in table.to_pylist()):
        try:
            records.append(msgspec.convert(row, type=kind))
        except msgspec.ValidationError as fault:
            expected, below = shape_of(fault)
            place = f"{path}: row {number}{', ' if below else ''}{below.lstrip('.')}"
            raise InputError(f"{place}: {expected}; correct it there") from None
    return records


def without_nulls(value: Any) -> Any:
    """Null stands for a field left out; fields of the user's own are left aside."""
    if isinstance(value, dict):
        return {
            name: without_nulls(inner)
            for name, inner in value.items()
            if inner is not None and not name.startswith("x_")
        }
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value


def without_gaps(path: Path, name: str, column: pa.Array) -> pa.Array:
    """The column itself, refused if a value is null."""
    if column.null_count:
        row = np.flatnonzero(~present(column))[0]
        raise InputError(f"{path}: row {row}, {name} is null; fill it in")
    return column


def counts(path: Path, name: str, column: pa.Array) -> LongArray:
    """Length of every list, `LEFT_OUT` for null."""
    if pa.types.is_null(column.type):
        return np.full(len(column), LEFT_OUT, dtype=np.int64)
    return filled(pc.list_value_length(column), LEFT_OUT)


def flat(path: Path, name: str, column: pa.Array) -> pa.Array:
    """The elements of all lists, one after the other."""
    if pa.types.is_null(column.type):
        return pa.nulls(0)
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise InputError(f"{path}: column {name} is {column.type}, expected a list; export it again")
    return pc.list_flatten(column)


def numbers(path: Path, name: str, column: pa.Array) -> LongArray:
    """Whole numbers; null becomes `LEFT_OUT`."""
    if pa.types.is_null(column.type):
        return np.full(len(column), LEFT_OUT, dtype=np.int64)
    if not pa.types.is_integer(column.type):
        raise InputError(f"{path}: column {name} is {column.type}, expected whole numbers; export it again")
    if pa.types.is_uint64(column.type):
        column = column.cast(pa.int64(), safe=False)
    return filled(column, LEFT_OUT)


def words(path: Path, name: str, column: pa.Array) -> tuple[tuple[str, ...], LongArray]:
    """Distinct texts, ascending, and the index of each; null becomes `LEFT_OUT`."""
    if pa.types.is_null(column.type):
        return (), np.full(len(column), LEFT_OUT, dtype=np.int64)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise InputError(f"{path}: column {name} is {column.type}, expected text; export it again")
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    words = coded.dictionary.to_pylist()
    ordered = tuple(sorted({word for word in words if word is not None}))
    rank = {word: index for index, word in enumerate(ordered)}
    new_code = np.array([rank.get(word, LEFT_OUT) for word in words] + [LEFT_OUT], dtype=np.int64)
    return ordered, new_code[filled(coded.indices, len(words))]


def loads(path: Path, name: str, column: pa.Array, resources: tuple[str, ...]) -> FloatArray:
    """Shape (rows, resources), from a column of structs that have a number for every resource."""
    without_gaps(path, name, column)
    if not pa.types.is_struct(column.type):
        raise InputError(
            f"{path}: column {name} is {column.type}, expected a struct of {', '.join(resources)}"
        )
    found = [column.type.field(index).name for index in range(column.type.num_fields)]
    for inner in found:
        if inner not in resources and not inner.startswith("x_"):
            raise InputError(
                f'{path}: column {name} has an unknown field "{inner}"; fields of your own begin with x_'
            )
    load = np.empty((len(column), len(resources)))
    for index, resource in enumerate(resources):
        if resource not in found:
            raise InputError(f'{path}: column {name} has no field "{resource}"; add it')
        values = without_gaps(path, f"{name}.{resource}", pc.struct_field(column, resource))
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            raise InputError(
                f"{path}: column {name}.{resource} is {values.type}, expected numbers; export it again"
            )
        load[:, index] = np.from_dlpack(values)
    return load


def filled(column: pa.Array, missing: int) -> LongArray:
    """Whole numbers as an array, with `missing` in place of null."""
    if not column.null_count:
        return np.from_dlpack(column).astype(np.int64)
    values = np.full(len(column), missing, dtype=np.int64)
    values[present(column)] = np.from_dlpack(column.drop_null())
    return values


def present(column: pa.Array) -> NDArray[np.bool_]:
    """Which values are not null."""
    return np.from_dlpack(column.is_valid().cast(pa.int8())).astype(np.bool_)
