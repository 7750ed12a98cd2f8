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
import pyarrow as pa
import pyarrow.parquet as pq

from trimtab.files.atomic import in_the_making, sync_folder, writing
from trimtab.files.document import JsonDocument, shape_of
from trimtab.files.reading import read_bytes
from trimtab.files.replicas_brokers import broker_records, checked_brokers
from trimtab.files.replicas_columns import checked_partitions
from trimtab.files.replicas_parquet import partition_columns, place_in_table
from trimtab.files.replicas_records import FORMAT, NAMES, BrokerRecord
from trimtab.files.snapshot_head import checked_format, checked_head, checked_quality, quality_record
from trimtab.model.errors import InputError
from trimtab.model.load import RESOURCES
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
    columns = partition_columns(
        partitions_path, _table(partitions_path, PARTITION_SCHEMA, ("in_sync", "log_dirs"))
    )
    partitions = checked_partitions(partitions_path, place_in_table, columns, brokers, log_dirs)
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
