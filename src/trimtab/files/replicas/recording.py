"""Recorded loads of the balancer `replicas`: a folder `trimtab/replicas-recording/1`.

`snapshot.json.gz` says which brokers there are and who held what at the beginning (format
`trimtab/replicas-snapshot/1`), `loads.parquet` what each partition's roles carried in every window.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.files.replicas.snapshot import read_snapshot, write_snapshot
from trimtab.model.replicas.settings import RESOURCES
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    import pyarrow

    from trimtab.model.load import FloatArray
    from trimtab.model.replicas.snapshot import ReplicasSnapshot

SNAPSHOT: Final = "snapshot.json.gz"
LOADS: Final = "loads.parquet"
COLUMNS: Final = ("window_end", "topic", "partition", "leader_load", "follower_load")
"""Of `loads.parquet`: the end of the window, UTC; the partition; the mean load of each role, structs of
`RESOURCES`."""


def write_recording(
    folder: Path, snapshot: ReplicasSnapshot, windows: Iterator[tuple[float, FloatArray, FloatArray]]
) -> None:
    """Write a recording, window after window.

    Parameters
    ----------
    folder
        Made, if it is not there.
    snapshot
        The brokers, and the placement at the beginning.
    windows
        The end of each (seconds since 1970), and the loads of leaders and followers, shape (partitions,
        resources).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    write_snapshot(snapshot, folder / SNAPSHOT)
    parts = snapshot.partitions
    topics = pa.array([parts.topics[one] for one in parts.topic.tolist()])
    load = pa.struct([(name, pa.float64()) for name in RESOURCES])
    kinds = (pa.timestamp("us", tz="UTC"), pa.string(), pa.int32(), load, load)
    schema = pa.schema(list(zip(COLUMNS, kinds, strict=True)))
    with pq.ParquetWriter(folder / LOADS, schema) as file:
        for at, *roles in windows:
            end = datetime.datetime.fromtimestamp(at, datetime.UTC)
            arrays = [pa.array([end] * len(parts), kinds[0]), topics, pa.array(parts.number, pa.int32())]
            arrays += [_structs(role) for role in roles]
            file.write_table(pa.table(arrays, schema=schema))


def _structs(load: FloatArray) -> pyarrow.Array:
    import pyarrow as pa

    return pa.StructArray.from_arrays([pa.array(column) for column in load.T], names=list(RESOURCES))


def opened_recording(folder: Path) -> tuple[ReplicasSnapshot, Path]:
    """The snapshot of a recording, and the file of its loads.

    Raises
    ------
    InputError
        If a part is missing or does not hold what it should.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    loads = folder / LOADS
    for path in (folder / SNAPSHOT, loads):
        if not path.is_file():
            raise InputError(
                f"{folder}: has no file {path.name}; a recording is a folder with {SNAPSHOT} and {LOADS}"
            )
    try:
        schema = pq.read_schema(loads)
    except (pa.ArrowException, OSError) as fault:
        raise InputError(f"{loads}: is not a sound Parquet file ({fault}); record it again") from None
    for name in COLUMNS:
        if name not in schema.names:
            raise InputError(f'{loads}: has no column "{name}", expected {", ".join(COLUMNS)}; add it')
    if not pa.types.is_timestamp(kind := schema.field(COLUMNS[0]).type):
        raise InputError(f"{loads}: {COLUMNS[0]} is of type {kind}, expected a timestamp; convert it")
    return read_snapshot(folder / SNAPSHOT), loads
