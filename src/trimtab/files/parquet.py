"""Tables of snapshot folders: Parquet of any sound types to columns and records, and columns to Parquet.

Numbers go from pyarrow to numpy by the protocol DLPack, and no Python value that is read goes to pyarrow: its
own conversions load pandas first, which takes longer than reading 100,000 partitions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trimtab.files.columns import (
    LEFT_OUT,
    ColumnField,
    Columns,
    ListColumn,
    LongArray,
    TextColumn,
    fields_of,
    members,
)
from trimtab.model.load import FloatArray
from trimtab_common.documents import format_error
from trimtab_common.errors import InputError


def read_columns(path: Path, record: Any) -> Columns:
    """The columns of a large table.

    Raises
    ------
    InputError
        If a column is missing, unknown or of a type that does not fit, or a null stands where a value must.
    """
    table = _table(path, record)
    columns: dict[str, object] = {}
    for field in fields_of(record):
        name, column = field.name, table.column(field.name).combine_chunks()
        if not field.optional and (field.listed or not field.null):
            column = _without_gaps(path, name, column)
        if field.listed:
            columns[name] = ListColumn(
                _counts(path, name, column), _read(path, field, _flat(path, name, column))
            )
        else:
            columns[name] = _read(path, field, column)
    return columns


def read_records(path: Path, record: Any) -> list[Any]:
    """The rows of a small table as records; null stands for a field left out."""
    records = []
    for number, row in enumerate(_without_nulls(one) for one in _table(path, record).to_pylist()):
        try:
            records.append(msgspec.convert(row, type=record))
        except msgspec.ValidationError as fault:
            raise format_error(str(path), f"row {number}", fault, row, record) from None
    return records


def write_columns(path: Path, columns: Columns, record: Any) -> None:
    """Write columns as one Parquet file, without building records."""
    schema = _schema(record)
    arrays = [_written(field, columns[field.name], schema) for field in fields_of(record)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)


def write_records(path: Path, records: Sequence[Any], record: Any) -> None:
    """Write a few records as one Parquet file."""
    pq.write_table(pa.Table.from_pylist(msgspec.to_builtins(records), _schema(record)), path)


def _schema(record: Any) -> pa.Schema:
    fields = msgspec.inspect.type_info(record).fields  # type: ignore[attr-defined]
    return pa.schema([(field.encode_name, _arrow_type(field.type)) for field in fields])


def _arrow_type(kind: Any) -> pa.DataType:
    """The Arrow type of a type of msgspec's; whether null may stand there is not part of it."""
    for one in members(kind).values():
        match one:
            case msgspec.inspect.StrType() | msgspec.inspect.EnumType():
                return pa.string()
            case msgspec.inspect.BoolType():
                return pa.bool_()
            case msgspec.inspect.FloatType():
                return pa.float64()
            case msgspec.inspect.IntType(le=highest):
                return pa.int32() if highest is not None and highest < 2**31 else pa.int64()
            case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.VarTupleType(item_type=item):
                return pa.list_(_arrow_type(item))
            case msgspec.inspect.StructType(fields=fields):
                return pa.struct([(field.encode_name, _arrow_type(field.type)) for field in fields])
    raise AssertionError(f"no column of a snapshot has the type {kind}")


def _table(path: Path, record: Any) -> pa.Table:
    """Read a file whose columns must be the fields of `record`; their types are not looked at yet."""
    schema = _schema(record)
    fields = msgspec.inspect.type_info(record).fields  # type: ignore[attr-defined]
    optional = [field.encode_name for field in fields if not field.required]
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


def _without_nulls(value: Any) -> Any:
    """Null stands for a field left out; fields of the user's own are left aside."""
    if isinstance(value, dict):
        return {
            name: _without_nulls(inner)
            for name, inner in value.items()
            if inner is not None and not name.startswith("x_")
        }
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value


def _without_gaps(path: Path, name: str, column: pa.Array) -> pa.Array:
    """The column itself, refused if a value is null."""
    if column.null_count:
        row = np.flatnonzero(~_present(column))[0]
        raise InputError(f"{path}: row {row}, {name} is null; fill it in")
    return column


def _counts(path: Path, name: str, column: pa.Array) -> LongArray:
    """Length of every list, `LEFT_OUT` for null."""
    if pa.types.is_null(column.type):
        return np.full(len(column), LEFT_OUT, dtype=np.int64)
    return _filled(pc.list_value_length(column), LEFT_OUT)


def _flat(path: Path, name: str, column: pa.Array) -> pa.Array:
    """The elements of all lists, one after the other."""
    if pa.types.is_null(column.type):
        return pa.nulls(0)
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise InputError(f"{path}: column {name} is {column.type}, expected a list; export it again")
    return pc.list_flatten(column)


def _numbers(path: Path, name: str, column: pa.Array) -> LongArray:
    """Whole numbers; null becomes `LEFT_OUT`."""
    if pa.types.is_null(column.type):
        return np.full(len(column), LEFT_OUT, dtype=np.int64)
    if not pa.types.is_integer(column.type):
        raise InputError(f"{path}: column {name} is {column.type}, expected whole numbers; export it again")
    if pa.types.is_uint64(column.type):
        column = column.cast(pa.int64(), safe=False)
    return _filled(column, LEFT_OUT)


def _type_name(path: Path, name: str, column: pa.Array) -> tuple[tuple[str, ...], LongArray]:
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
    return ordered, new_code[_filled(coded.indices, len(words))]


def _loads(path: Path, name: str, column: pa.Array, resources: tuple[str, ...]) -> FloatArray:
    """Shape (rows, resources), from a column of structs that have a number for every resource."""
    _without_gaps(path, name, column)
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
        values = _without_gaps(path, f"{name}.{resource}", pc.struct_field(column, resource))
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            raise InputError(
                f"{path}: column {name}.{resource} is {values.type}, expected numbers; export it again"
            )
        load[:, index] = np.from_dlpack(values)
    return load


def _flags(path: Path, name: str, column: pa.Array) -> NDArray[np.bool_]:
    """Values of a Boolean column, or an error that names the column."""
    if not pa.types.is_boolean(column.type):
        raise InputError(f"{path}: column {name} is {column.type}, expected true or false; export it again")
    found: NDArray[np.bool_] = np.from_dlpack(column.cast(pa.int8())).astype(np.bool_)
    return found


def _read(path: Path, field: ColumnField, column: pa.Array) -> Any:
    """A column, or the elements of its lists."""
    name = field.name
    if field.kind == "text":
        distinct, code = _type_name(path, name, column)
        if "" in distinct:
            raise InputError(f"{path}: column {name} holds an empty text; correct it there")
        return TextColumn(coded=(distinct, code))
    if field.kind == "flag":
        return _flags(path, name, column)
    if field.kind == "load":
        return _loads(path, name, column, field.resources)
    found = _numbers(path, name, column)
    low = np.flatnonzero(found < (LEFT_OUT if field.null or field.listed else 0))
    if len(low):
        raise InputError(
            f"{path}: row {low[0]}, {name} is {found[low[0]]}, expected 0 or more; correct it there"
        )
    return found


def _written(field: ColumnField, column: Any, schema: pa.Schema) -> pa.Array:
    """A column as Arrow has it."""
    kind = schema.field(field.name).type
    if not field.listed:
        return _array(field, column, kind)
    offsets = np.concatenate([[0], np.cumsum(np.maximum(column.count, 0))]).astype(np.int32)
    left_out = column.count == LEFT_OUT
    return pa.ListArray.from_arrays(
        pa.array(offsets),
        _array(field, column.values, kind.value_type),
        mask=pa.array(left_out) if left_out.any() else None,
    ).cast(kind)


def _array(field: ColumnField, column: Any, kind: pa.DataType) -> pa.Array:
    if field.kind == "text" and column.is_coded:
        words, code = column.coded
        indices = pa.array(code, mask=code == LEFT_OUT)
        return pa.DictionaryArray.from_arrays(indices, pa.array(words, kind)).cast(kind)
    if field.kind == "text":
        return pa.array(column.values, kind)
    if field.kind == "load":
        parts = [pa.array(np.ascontiguousarray(column[:, index])) for index in range(column.shape[1])]
        return pa.StructArray.from_arrays(parts, fields=list(kind))
    return pa.array(column, kind, mask=column == LEFT_OUT if field.null else None)


def _filled(column: pa.Array, missing: int) -> LongArray:
    """Whole numbers as an array, with `missing` in place of null."""
    if not column.null_count:
        return np.from_dlpack(column).astype(np.int64)
    values = np.full(len(column), missing, dtype=np.int64)
    values[_present(column)] = np.from_dlpack(column.drop_null())
    return values


def _present(column: pa.Array) -> NDArray[np.bool_]:
    """Shape (rows,): whether the value is there."""
    return np.from_dlpack(column.is_valid().cast(pa.int8())).astype(np.bool_)
