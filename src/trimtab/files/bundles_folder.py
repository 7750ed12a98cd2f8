"""A bundles snapshot as a folder: `meta.json`, `brokers.parquet`, `bundles.parquet`, `topics.parquet`.

The columns are the fields of the JSON form, nested ones as Parquet structs and lists; null stands for a field
left out, or for the null of an owner.
"""

from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trimtab.files.bundles_columns import BundleColumns, TopicColumns, snapshot_of
from trimtab.files.bundles_json import broker_records
from trimtab.files.bundles_records import FORMAT, HEAD, NAMES, BrokerRecord, Head, head_fields
from trimtab.files.columns import LEFT_OUT, LongArray
from trimtab.files.parquet_columns import (
    counts,
    flat,
    loads,
    numbers,
    records_of,
    table_of,
    without_gaps,
    words,
)
from trimtab.files.snapshot_folder import folder_digest, open_folder, write_folder
from trimtab.model.bundles_snapshot import NO_OWNER, RESOURCES, BundlesSnapshot
from trimtab.model.errors import InputError
from trimtab.model.load import FloatArray

FILES = ("brokers.parquet", "bundles.parquet", "meta.json", "topics.parquet")

_LOAD = pa.struct([(name, pa.float64()) for name in RESOURCES])
BROKER_SCHEMA = pa.schema(
    [("name", pa.string()), ("in_service", pa.bool_()), ("capacity", _LOAD), ("base", _LOAD)]
)
BUNDLE_SCHEMA = pa.schema(
    [
        ("bundle", pa.string()),
        ("owner", pa.string()),
        ("movable", pa.bool_()),
        ("sessions", pa.int64()),
        ("topics", pa.int64()),
        ("load", pa.list_(_LOAD)),
    ]
)
TOPIC_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("bundle", pa.string()),
        ("hash", pa.int64()),
        ("sessions", pa.int64()),
        ("load", _LOAD),
    ]
)


def snapshot_from_folder(folder: Path) -> BundlesSnapshot:
    """Read and check a snapshot folder.

    Raises
    ------
    InputError
        If a file or column is missing or of the wrong type, or the content contradicts itself.
    """
    meta = open_folder(folder, FILES, FORMAT, NAMES)
    meta.require(HEAD)
    head = Head(meta)
    paths = {part: folder / f"{part}.parquet" for part in ("brokers", "bundles", "topics")}
    brokers = table_of(paths["brokers"], BROKER_SCHEMA, ("capacity", "base"))

    def place(part: str, row: int, field: str, item: int | None) -> str:
        at = f"{part}.parquet, row {row}" + (f", {field}" if field else "")
        return at if item is None else f"{at}[{item}]"

    return snapshot_of(
        str(folder),
        place,
        head,
        folder_digest(folder, FILES),
        records_of(paths["brokers"], brokers, BrokerRecord),
        _bundle_columns(paths["bundles"], table_of(paths["bundles"], BUNDLE_SCHEMA, ())),
        _topic_columns(paths["topics"], table_of(paths["topics"], TOPIC_SCHEMA, ())),
    )


def write_snapshot_folder(snapshot: BundlesSnapshot, folder: Path) -> str:
    """Write the four files beside the place, force them to disk, and rename the folder into it.

    Returns
    -------
    str
        The folder's digest.
    """

    def tables(making: Path) -> None:
        brokers = msgspec.to_builtins(broker_records(snapshot.brokers))
        pq.write_table(pa.Table.from_pylist(brokers, BROKER_SCHEMA), making / "brokers.parquet")
        pq.write_table(_bundle_table(snapshot), making / "bundles.parquet")
        pq.write_table(_topic_table(snapshot), making / "topics.parquet")

    return write_folder(folder, FILES, head_fields(snapshot), tables)


def _bundle_table(snapshot: BundlesSnapshot) -> pa.Table:
    bundles = snapshot.bundles
    names = (*snapshot.brokers.name, None)
    assert NO_OWNER == -1  # so that it finds the None at the end
    offsets = np.arange(len(bundles) + 1, dtype=np.int32) * len(snapshot.views)
    load = np.ascontiguousarray(bundles.load.transpose(1, 0, 2)).reshape(-1, len(RESOURCES))
    columns = (
        pa.array(bundles.key, pa.string()),
        pa.array([names[owner] for owner in bundles.owner.tolist()], pa.string()),
        pa.array(bundles.movable),
        pa.array(bundles.sessions),
        pa.array(bundles.topics),
        pa.ListArray.from_arrays(pa.array(offsets), _structs(load)),
    )
    return pa.Table.from_arrays(columns, schema=BUNDLE_SCHEMA)


def _topic_table(snapshot: BundlesSnapshot) -> pa.Table:
    topics, key = snapshot.topics, snapshot.bundles.key
    columns = (
        pa.array(topics.name, pa.string()),
        pa.array([key[bundle] for bundle in topics.bundle.tolist()], pa.string()),
        pa.array(topics.hash),
        pa.array(topics.sessions),
        _structs(topics.load),
    )
    return pa.Table.from_arrays(columns, schema=TOPIC_SCHEMA)


def _structs(load: FloatArray) -> pa.StructArray:
    return pa.StructArray.from_arrays(
        [pa.array(np.ascontiguousarray(load[:, index])) for index in range(len(RESOURCES))],
        fields=list(_LOAD),
    )


def _bundle_columns(path: Path, table: pa.Table) -> BundleColumns:
    column = {name: table.column(name).combine_chunks() for name in table.column_names}
    owners, owner = words(path, "owner", column["owner"])
    lists = without_gaps(path, "load", column["load"])
    return BundleColumns(
        key=_names(path, "bundle", column["bundle"]),
        owner=[None if index == LEFT_OUT else owners[index] for index in owner.tolist()],
        movable=_flags(path, "movable", column["movable"]),
        sessions=_counts(path, "sessions", column["sessions"]),
        topics=_counts(path, "topics", column["topics"]),
        load_count=counts(path, "load", lists),
        load=loads(path, "load", flat(path, "load", lists), RESOURCES),
    )


def _topic_columns(path: Path, table: pa.Table) -> TopicColumns:
    column = {name: table.column(name).combine_chunks() for name in table.column_names}
    return TopicColumns(
        name=_names(path, "topic", column["topic"]),
        bundle=_names(path, "bundle", column["bundle"]),
        hash=_counts(path, "hash", column["hash"]),
        sessions=_counts(path, "sessions", column["sessions"]),
        load=loads(path, "load", column["load"], RESOURCES),
    )


def _names(path: Path, name: str, column: pa.Array) -> list[str]:
    distinct, index = words(path, name, without_gaps(path, name, column))
    return [distinct[one] for one in index.tolist()]


def _counts(path: Path, name: str, column: pa.Array) -> LongArray:
    found = numbers(path, name, without_gaps(path, name, column))
    low = np.flatnonzero(found < 0)
    if len(low):
        raise InputError(
            f"{path}: row {low[0]}, {name} is {found[low[0]]}, expected 0 or more; correct it there"
        )
    return found


def _flags(path: Path, name: str, column: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    without_gaps(path, name, column)
    if not pa.types.is_boolean(column.type):
        raise InputError(f"{path}: column {name} is {column.type}, expected true or false; export it again")
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.from_dlpack(column.cast(pa.int8())).astype(
        np.bool_
    )
    return found
