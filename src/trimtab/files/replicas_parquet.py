"""The partitions of a snapshot folder: a Parquet table of any sound types to columns."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from trimtab.files.columns import LEFT_OUT, Lists
from trimtab.files.parquet_columns import counts, flat, loads, numbers, without_gaps, words
from trimtab.files.replicas_columns import PartitionColumns
from trimtab.model.errors import InputError
from trimtab.model.load import RESOURCES


def partition_columns(path: Path, table: pa.Table) -> PartitionColumns:
    """The columns as arrays, refused where a type does not fit or a null stands where a value must."""
    column = {name: table.column(name).combine_chunks() for name in table.column_names}
    topics, topic = words(path, "topic", without_gaps(path, "topic", column["topic"]))
    paths, log_dir = words(path, "log_dirs", flat(path, "log_dirs", column["log_dirs"]))
    if "" in topics or "" in paths:
        raise InputError(f"{path}: a topic or log dir has an empty name; correct it")
    number = numbers(path, "partition", without_gaps(path, "partition", column["partition"]))
    leader = numbers(path, "leader", column["leader"])
    for name, values in (("partition", number), ("leader", leader)):
        low = np.flatnonzero(values < (0 if name == "partition" else LEFT_OUT))
        if len(low):
            raise InputError(
                f"{path}: row {low[0]}, {name} is {values[low[0]]}, expected 0 or more; correct it there"
            )
    replicas = without_gaps(path, "replicas", column["replicas"])
    flattened = {name: flat(path, name, column[name]) for name in ("replicas", "in_sync")}
    return PartitionColumns(
        topics=topics,
        topic=topic,
        number=number,
        leader=leader,
        replicas=Lists(counts(path, "replicas", replicas), numbers(path, "replicas", flattened["replicas"])),
        in_sync=Lists(
            counts(path, "in_sync", column["in_sync"]), numbers(path, "in_sync", flattened["in_sync"])
        ),
        log_dirs=Lists(counts(path, "log_dirs", column["log_dirs"]), log_dir),
        paths=paths,
        leader_load=loads(path, "leader_load", column["leader_load"], RESOURCES),
        follower_load=loads(path, "follower_load", column["follower_load"], RESOURCES),
    )


def place_in_table(row: int, field: str, item: int | None) -> str:
    """Name a place for a message: row, column, and index in its list."""
    place = f"row {row}" + (f", {field}" if field else "")
    return place if item is None else f"{place}[{item}]"
