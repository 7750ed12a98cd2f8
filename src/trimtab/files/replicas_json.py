"""A replicas snapshot as one JSON document."""

from collections.abc import Iterable
from itertools import chain
from operator import attrgetter
from pathlib import Path

import msgspec
import numpy as np
from msgspec import UNSET

from trimtab.files.columns import LEFT_OUT, Lists, LongArray
from trimtab.files.document import JsonDocument, has_repeated_key
from trimtab.files.json_lines import field_line, no_collections, record_lines
from trimtab.files.replicas_brokers import broker_records, checked_brokers
from trimtab.files.replicas_columns import PartitionColumns, checked_partitions
from trimtab.files.replicas_records import FORMAT, NAMES, TOP_LEVEL, BrokerRecord, LoadRecord, PartitionRecord
from trimtab.files.snapshot_head import checked_format, checked_head, checked_quality, quality_record
from trimtab.model.load import RESOURCES, FloatArray
from trimtab.model.replicas import NOBODY, ReplicasSnapshot
from trimtab.model.snapshot import SnapshotReference


def snapshot_from_json(path: Path, data: bytes, sha256: str) -> ReplicasSnapshot:
    """Read and check a snapshot.

    Parameters
    ----------
    path
        Where `data` comes from, for messages.
    data
        The JSON text.
    sha256
        Digest of the file, for the reference.

    Raises
    ------
    InputError
        If it is not a sound snapshot; names the JSON path, the value found and what was expected.
    """
    with no_collections():
        document = JsonDocument(path, data, NAMES)
        where = str(path)
        document.require(("format",), tuple(document.parts))
        checked_format(where, document.part("format", object), FORMAT)
        document.require(TOP_LEVEL)
        cluster, taken_at = checked_head(
            where, document.part("cluster", object), document.part("taken_at", object)
        )
        quality = checked_quality(where, document.part("quality", object))
        brokers, log_dirs = checked_brokers(
            where, "$.brokers[{}]", document.part("brokers", list[BrokerRecord])
        )
        records = document.part("partitions", list[PartitionRecord])
        if b"\\" in data or data.count(b":") != _colons(document, records):
            _ = document.tree  # slow, and refuses repeated keys
        partitions = checked_partitions(path, _place, _columns(records), brokers, log_dirs)
    reference = SnapshotReference(cluster, taken_at, sha256)
    return ReplicasSnapshot(reference, quality, brokers, log_dirs, partitions, document.extra)


def json_from_snapshot(snapshot: ReplicasSnapshot) -> bytes:
    """The JSON text of a snapshot, a broker or partition a line; the same bytes for the same snapshot."""
    head = {
        "format": FORMAT,
        "cluster": snapshot.reference.cluster,
        "taken_at": snapshot.reference.taken_at,
        "quality": quality_record(snapshot.quality),
        **dict(snapshot.extra),
    }
    with no_collections():
        parts = [b"{", *(field_line(name, value) + b",\n " for name, value in head.items())]
        parts.append(
            b'"brokers": ' + record_lines(broker_records(snapshot.brokers, snapshot.log_dirs)) + b",\n "
        )
        parts.append(b'"partitions": ' + record_lines(partition_records(snapshot)) + b"}\n")
        return b"".join(parts)


def partition_records(snapshot: ReplicasSnapshot) -> list[PartitionRecord]:
    """The partitions as they stand in files."""
    partitions = snapshot.partitions
    ids = snapshot.brokers.id
    known = partitions.log_dir != NOBODY
    paths = (*snapshot.log_dirs.path, None)
    in_sync_all = partitions.in_sync.tolist()
    rows = zip(
        partitions.topic.tolist(),
        partitions.number.tolist(),
        np.where(partitions.replicas != NOBODY, ids[partitions.replicas], NOBODY).tolist(),
        np.where(partitions.leader != NOBODY, ids[partitions.leader], NOBODY).tolist(),
        partitions.replication_factor.tolist(),
        in_sync_all,
        known.any(axis=1).tolist(),
        partitions.log_dir.tolist(),
        partitions.leader_load.tolist(),
        partitions.follower_load.tolist(),
        strict=True,
    )
    return [
        PartitionRecord(
            topic=partitions.topics[topic],
            partition=number,
            replicas=replicas[:factor],
            leader=None if leader == NOBODY else leader,
            in_sync=[broker for broker, sound in zip(replicas, in_sync, strict=True) if sound],
            log_dirs=[paths[place] for place in log_dir[:factor]] if knows_dirs else UNSET,
            leader_load=LoadRecord(*leader_load),
            follower_load=LoadRecord(*follower_load),
        )
        for (
            topic, number, replicas, leader, factor, in_sync, knows_dirs, log_dir, leader_load, follower_load,
        ) in rows
    ]  # fmt: skip


def _place(row: int, field: str, item: int | None) -> str:
    place = f"$.partitions[{row}]" + (f".{field}" if field else "")
    return place if item is None else f"{place}[{item}]"


def _columns(records: list[PartitionRecord]) -> PartitionColumns:
    names = list(map(attrgetter("topic"), records))
    topics = tuple(sorted(set(names)))
    code = {name: index for index, name in enumerate(topics)}
    dirs = [[] if record.log_dirs is UNSET else record.log_dirs for record in records]
    paths = tuple(sorted({path for path in set(chain.from_iterable(dirs)) if path is not None}))
    path_code: dict[str | None, int] = {path: index for index, path in enumerate(paths)}
    path_code[None] = LEFT_OUT
    dir_counts = _longs(
        (LEFT_OUT if record.log_dirs is UNSET else len(record.log_dirs) for record in records), len(records)
    )
    in_sync_counts = _longs(
        (LEFT_OUT if record.in_sync is UNSET else len(record.in_sync) for record in records), len(records)
    )
    replicas = list(map(attrgetter("replicas"), records))
    return PartitionColumns(
        topics=topics,
        topic=_longs(map(code.__getitem__, names), len(records)),
        number=_longs(map(attrgetter("partition"), records), len(records)),
        leader=_longs(
            (LEFT_OUT if record.leader is None else record.leader for record in records), len(records)
        ),
        replicas=Lists(_longs(map(len, replicas), len(records)), _longs(chain.from_iterable(replicas))),
        in_sync=Lists(
            in_sync_counts,
            _longs(chain.from_iterable(record.in_sync for record in records if record.in_sync is not UNSET)),
        ),
        log_dirs=Lists(dir_counts, _longs(map(path_code.__getitem__, chain.from_iterable(dirs)))),
        paths=paths,
        leader_load=_loads(list(map(attrgetter("leader_load"), records))),
        follower_load=_loads(list(map(attrgetter("follower_load"), records))),
    )


def _longs(values: Iterable[int], count: int = -1) -> LongArray:
    return np.fromiter(values, dtype=np.int64, count=count)


def _loads(records: list[LoadRecord]) -> FloatArray:
    amounts = chain.from_iterable(map(msgspec.structs.astuple, records))
    flat = np.fromiter(amounts, dtype=np.float64, count=len(records) * len(RESOURCES))
    return flat.reshape(len(records), len(RESOURCES))


def _colons(document: JsonDocument, records: list[PartitionRecord]) -> int:
    """How many colons the text must hold if no key stands twice in one object.

    A JSON text without backslashes holds one colon for each key, and those within strings. msgspec silently
    keeps the last of two equal keys; counting finds them far cheaper than reading the text again would.
    """
    small = [name for name in document.parts if name != "partitions"]
    raw = {name: bytes(document.parts[name]) for name in small}
    if any(has_repeated_key(text) for text in raw.values()):
        return -1
    head = sum(text.count(b":") for text in raw.values())
    top = len(document.parts) + sum(name.count(":") for name in document.parts)
    keys = sum(
        6 + 2 * len(RESOURCES) + (record.in_sync is not UNSET) + (record.log_dirs is not UNSET)
        for record in records
    )
    names = "".join(map(attrgetter("topic"), records)).count(":")
    dirs = chain.from_iterable(record.log_dirs for record in records if record.log_dirs is not UNSET)
    return head + top + keys + names + "".join(path or "" for path in dirs).count(":")
