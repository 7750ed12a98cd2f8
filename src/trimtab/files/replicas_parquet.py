"""The partitions of a snapshot folder: a Parquet table of any sound types to columns.

Numbers go from pyarrow to numpy by the protocol DLPack, and no Python value goes to pyarrow: its own
conversions load pandas first, which takes longer than reading 100,000 partitions.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trimtab.files.replicas_columns import LEFT_OUT, Lists, LongArray, PartitionColumns
from trimtab.model.errors import InputError
from trimtab.model.load import RESOURCES, FloatArray


def partition_columns(path: Path, table: pa.Table) -> PartitionColumns:
    """The columns as arrays, refused where a type does not fit or a null stands where a value must."""
    column = {name: table.column(name).combine_chunks() for name in table.column_names}
    topics, topic = _words(path, "topic", _without_gaps(path, "topic", column["topic"]))
    paths, log_dir = _words(path, "log_dirs", _flat(path, "log_dirs", column["log_dirs"]))
    if "" in topics or "" in paths:
        raise InputError(f"{path}: a topic or log dir has an empty name; correct it")
    number = _numbers(path, "partition", _without_gaps(path, "partition", column["partition"]))
    leader = _numbers(path, "leader", column["leader"])
    for name, values in (("partition", number), ("leader", leader)):
        low = np.flatnonzero(values < (0 if name == "partition" else LEFT_OUT))
        if len(low):
            raise InputError(
                f"{path}: row {low[0]}, {name} is {values[low[0]]}, expected 0 or more; correct it there"
            )
    replicas = _without_gaps(path, "replicas", column["replicas"])
    flat = {name: _flat(path, name, column[name]) for name in ("replicas", "in_sync")}
    return PartitionColumns(
        topics=topics,
        topic=topic,
        number=number,
        leader=leader,
        replicas=Lists(_counts(path, "replicas", replicas), _numbers(path, "replicas", flat["replicas"])),
        in_sync=Lists(
            _counts(path, "in_sync", column["in_sync"]), _numbers(path, "in_sync", flat["in_sync"])
        ),
        log_dirs=Lists(_counts(path, "log_dirs", column["log_dirs"]), log_dir),
        paths=paths,
        leader_load=_loads(path, "leader_load", column["leader_load"]),
        follower_load=_loads(path, "follower_load", column["follower_load"]),
    )


def place_in_table(row: int, field: str, item: int | None) -> str:
    """Name a place for a message: row, column, and index in its list."""
    place = f"row {row}" + (f", {field}" if field else "")
    return place if item is None else f"{place}[{item}]"


def _without_gaps(path: Path, name: str, column: pa.Array) -> pa.Array:
    if column.null_count:
        row = np.flatnonzero(~_present(column))[0]
        raise InputError(f"{path}: row {row}, {name} is null; fill it in")
    return column


def _counts(path: Path, name: str, column: pa.Array) -> LongArray:
    if pa.types.is_null(column.type):
        return np.full(len(column), LEFT_OUT, dtype=np.int64)
    return _filled(pc.list_value_length(column), LEFT_OUT)


def _flat(path: Path, name: str, column: pa.Array) -> pa.Array:
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


def _words(path: Path, name: str, column: pa.Array) -> tuple[tuple[str, ...], LongArray]:
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


def _loads(path: Path, name: str, column: pa.Array) -> FloatArray:
    _without_gaps(path, name, column)
    if not pa.types.is_struct(column.type):
        raise InputError(
            f"{path}: column {name} is {column.type}, expected a struct of {', '.join(RESOURCES)}"
        )
    found = [column.type.field(index).name for index in range(column.type.num_fields)]
    for inner in found:
        if inner not in RESOURCES and not inner.startswith("x_"):
            raise InputError(
                f'{path}: column {name} has an unknown field "{inner}"; fields of your own begin with x_'
            )
    load = np.empty((len(column), len(RESOURCES)))
    for index, resource in enumerate(RESOURCES):
        if resource not in found:
            raise InputError(f'{path}: column {name} has no field "{resource}"; add it')
        values = _without_gaps(path, f"{name}.{resource}", pc.struct_field(column, resource))
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            raise InputError(
                f"{path}: column {name}.{resource} is {values.type}, expected numbers; export it again"
            )
        load[:, index] = np.from_dlpack(values)
    return load


def _filled(column: pa.Array, missing: int) -> LongArray:
    """Whole numbers as an array, with `missing` in place of null."""
    if not column.null_count:
        return np.from_dlpack(column).astype(np.int64)
    values = np.full(len(column), missing, dtype=np.int64)
    values[_present(column)] = np.from_dlpack(column.drop_null())
    return values


def _present(column: pa.Array) -> NDArray[np.bool_]:
    return np.from_dlpack(column.is_valid().cast(pa.int8())).astype(np.bool_)
