"""A replicas snapshot as a folder: `meta.json`, `brokers.parquet`, `partitions.parquet`.

The columns are the fields of the JSON form, nested ones as Parquet structs and lists; null stands for a
field left out.
"""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trimtab.files.atomic import in_the_making, sync_folder, writing
from trimtab.files.document import JsonDocument, shape_of
from trimtab.files.reading import read_bytes
from trimtab.files.replicas_columns import LEFT_OUT, Lists, LongArray, PartitionColumns, checked_partitions
from trimtab.files.replicas_records import (
    FORMAT,
    NAMES,
    BrokerRecord,
    broker_records,
    checked_brokers,
    checked_format,
    checked_head,
    checked_quality,
    quality_record,
)
from trimtab.model.errors import InputError
from trimtab.model.load import RESOURCES, FloatArray
from trimtab.model.replicas import ReplicasSnapshot
from trimtab.model.snapshot import SnapshotReference

FILES = ("brokers.parquet", "meta.json", "partitions.parquet")
META = ("format", "cluster", "taken_at", "quality")

_CAPACITY = pa.struct([(name, pa.float64()) for name in RESOURCES])
_LOG_DIR = pa.struct([("path", pa.string()), ("state", pa.string()), ("capacity", pa.float64())])
BROKER_SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("host", pa.string()),
        ("rack", pa.string()),
        ("state", pa.string()),
        ("capacity", _CAPACITY),
        ("log_dirs", pa.list_(_LOG_DIR)),
    ]
)
PARTITION_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("replicas", pa.list_(pa.int32())),
        ("leader", pa.int32()),
        ("in_sync", pa.list_(pa.int32())),
        ("log_dirs", pa.list_(pa.string())),
        ("leader_load", _CAPACITY),
        ("follower_load", _CAPACITY),
    ]
)


def snapshot_from_folder(folder: Path) -> ReplicasSnapshot:
    """Read and check a snapshot folder.

    Raises
    ------
    InputError
        If a file or column is missing or of the wrong type, or the content contradicts itself.
    """
    for name in FILES:
        if not (folder / name).is_file():
            expected = "meta.json, brokers.parquet and partitions.parquet"
            raise InputError(f"{folder}: has no {name}; a snapshot folder holds {expected}")
    meta = JsonDocument(folder / "meta.json", read_bytes(folder / "meta.json"), NAMES)
    _ = meta.tree  # small: read strictly at once
    where = str(meta.path)
    meta.require(("format",), tuple(meta.parts))
    checked_format(where, meta.part("format", object), FORMAT)
    meta.require(META)
    cluster, taken_at = checked_head(where, meta.part("cluster", object), meta.part("taken_at", object))
    quality = checked_quality(where, meta.part("quality", object))
    brokers_path, partitions_path = folder / "brokers.parquet", folder / "partitions.parquet"
    records = _broker_records(
        brokers_path, _table(brokers_path, BROKER_SCHEMA, ("host", "rack", "capacity", "log_dirs"))
    )
    brokers, log_dirs = checked_brokers(str(brokers_path), "row {}", records)
    columns = _columns(partitions_path, _table(partitions_path, PARTITION_SCHEMA, ("in_sync", "log_dirs")))
    partitions = checked_partitions(partitions_path, _place, columns, brokers, log_dirs)
    reference = SnapshotReference(cluster, taken_at, folder_digest(folder))
    return ReplicasSnapshot(reference, quality, brokers, log_dirs, partitions, meta.extra)


def write_snapshot_folder(snapshot: ReplicasSnapshot, folder: Path) -> str:
    """Write the three files beside the place, force them to disk, and rename the folder into it.

    Returns
    -------
    str
        The folder's digest.
    """
    from trimtab.files.replicas_json import partition_records

    making = in_the_making(folder)
    if folder.exists() and not (folder / "meta.json").is_file():
        raise InputError(f"{folder}: is there already and is no snapshot folder; name another place")
    with writing(folder):
        try:
            making.mkdir()
            meta = {
                "format": FORMAT,
                "cluster": snapshot.reference.cluster,
                "taken_at": snapshot.reference.taken_at,
                "quality": quality_record(snapshot.quality),
                **dict(snapshot.extra),
            }
            (making / "meta.json").write_bytes(
                msgspec.json.format(msgspec.json.encode(meta), indent=1) + b"\n"
            )
            brokers = msgspec.to_builtins(broker_records(snapshot.brokers, snapshot.log_dirs))
            pq.write_table(pa.Table.from_pylist(brokers, BROKER_SCHEMA), making / "brokers.parquet")
            partitions = msgspec.to_builtins(partition_records(snapshot))
            pq.write_table(pa.Table.from_pylist(partitions, PARTITION_SCHEMA), making / "partitions.parquet")
            for name in FILES:
                with open(making / name, "rb") as file:
                    os.fsync(file.fileno())
            sync_folder(making)
            digest = folder_digest(making)
            if folder.exists():
                old = in_the_making(folder)
                os.rename(folder, old)
                os.rename(making, folder)
                shutil.rmtree(old)
            else:
                os.rename(making, folder)
            sync_folder(folder.parent)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
    return digest


def folder_digest(folder: Path) -> str:
    """SHA-256 of what `sha256sum brokers.parquet meta.json partitions.parquet` prints in the folder."""
    lines = [f"{hashlib.sha256(read_bytes(folder / name)).hexdigest()}  {name}\n" for name in FILES]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _table(path: Path, schema: pa.Schema, optional: tuple[str, ...]) -> pa.Table:
    """Read a file whose columns must be those of `schema`; their types are not looked at yet."""
    try:
        table = pq.read_table(path, memory_map=False, partitioning=None)
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


def _broker_records(path: Path, table: pa.Table) -> list[BrokerRecord]:
    rows = [_without_nulls(row) for row in table.to_pylist()]
    records = []
    for number, row in enumerate(rows):
        try:
            records.append(msgspec.convert(row, type=BrokerRecord))
        except msgspec.ValidationError as fault:
            expected, below = shape_of(fault)
            place = f"{path}: row {number}{', ' if below else ''}{below.lstrip('.')}"
            raise InputError(f"{place}: {expected}; correct it there") from None
    return records


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


def _columns(path: Path, table: pa.Table) -> PartitionColumns:
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


def _place(row: int, field: str, item: int | None) -> str:
    place = f"row {row}" + (f", {field}" if field else "")
    return place if item is None else f"{place}[{item}]"


def _without_gaps(path: Path, name: str, column: pa.Array) -> pa.Array:
    if column.null_count:
        row = column.is_null().to_numpy(zero_copy_only=False).argmax()
        raise InputError(f"{path}: row {row}, {name} is null; fill it in")
    return column


def _counts(path: Path, name: str, column: pa.Array) -> LongArray:
    if pa.types.is_null(column.type):
        return np.full(len(column), LEFT_OUT, dtype=np.int64)
    return np.asarray(pc.fill_null(pc.list_value_length(column), LEFT_OUT).to_numpy(), dtype=np.int64)


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
    return np.asarray(pc.fill_null(column, LEFT_OUT).to_numpy(zero_copy_only=False), dtype=np.int64)


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
    code = pc.fill_null(coded.indices.cast(pa.int64()), len(words)).to_numpy(zero_copy_only=False)
    return ordered, new_code[code]


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
        load[:, index] = values.to_numpy(zero_copy_only=False)
    return load
