"""A replicas snapshot as a folder: `meta.json`, `brokers.parquet`, `partitions.parquet`.

The columns are the fields of the JSON form, nested ones as Parquet structs and lists; null stands for a
field left out.
"""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from trimtab.files.parquet_columns import records_of, table_of
from trimtab.files.replicas_brokers import broker_records, checked_brokers
from trimtab.files.replicas_columns import checked_partitions
from trimtab.files.replicas_parquet import partition_columns, place_in_table
from trimtab.files.replicas_records import FORMAT, NAMES, BrokerRecord
from trimtab.files.snapshot_folder import folder_digest, open_folder, write_folder
from trimtab.files.snapshot_head import checked_head, checked_quality, quality_record
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
    meta = open_folder(folder, FILES, FORMAT, NAMES)
    where = str(meta.path)
    meta.require(META)
    cluster, taken_at = checked_head(where, meta.part("cluster", object), meta.part("taken_at", object))
    quality = checked_quality(where, meta.part("quality", object))
    brokers_path, partitions_path = folder / "brokers.parquet", folder / "partitions.parquet"
    records = records_of(
        brokers_path,
        table_of(brokers_path, BROKER_SCHEMA, ("host", "rack", "capacity", "log_dirs")),
        BrokerRecord,
    )
    brokers, log_dirs = checked_brokers(str(brokers_path), "row {}", records)
    columns = partition_columns(
        partitions_path, table_of(partitions_path, PARTITION_SCHEMA, ("in_sync", "log_dirs"))
    )
    partitions = checked_partitions(partitions_path, place_in_table, columns, brokers, log_dirs)
    reference = SnapshotReference(cluster, taken_at, folder_digest(folder, FILES))
    return ReplicasSnapshot(reference, quality, brokers, log_dirs, partitions, meta.extra)


def write_snapshot_folder(snapshot: ReplicasSnapshot, folder: Path) -> str:
    """Write the three files beside the place, force them to disk, and rename the folder into it.

    Returns
    -------
    str
        The folder's digest.
    """
    from trimtab.files.replicas_json import partition_records

    def tables(making: Path) -> None:
        brokers = msgspec.to_builtins(broker_records(snapshot.brokers, snapshot.log_dirs))
        pq.write_table(pa.Table.from_pylist(brokers, BROKER_SCHEMA), making / "brokers.parquet")
        partitions = msgspec.to_builtins(partition_records(snapshot))
        pq.write_table(pa.Table.from_pylist(partitions, PARTITION_SCHEMA), making / "partitions.parquet")

    meta = {
        "format": FORMAT,
        "cluster": snapshot.reference.cluster,
        "taken_at": snapshot.reference.taken_at,
        "quality": quality_record(snapshot.quality),
        **dict(snapshot.extra),
    }
    return write_folder(folder, FILES, meta, tables)
