"""Snapshots of the level `keys` in files: `trimtab/keys-snapshot/1`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from trimtab.files.records import record_of
from trimtab.files.snapshot_format import Contents, SnapshotFormat
from trimtab.files.snapshot_source import Source
from trimtab.model.keys.snapshot import GroupLoad, HotKey, KeysSnapshot, PartitionLoad
from trimtab.model.values import Amount, Count, Name

KINDS: Final[dict[str, Any]] = {"partitions": PartitionLoad, "groups": GroupLoad, "keys": HotKey}
RECORDS: Final = {name: record_of(kind) for name, kind in KINDS.items()}
HEAD: Final[dict[str, Any]] = {
    "topic": Name,
    "topic_id": Name,
    "consumers": str,
    "version": Count,
    "base": Count,
    "hashed": bool,
    "capacity": Amount | None,
    "consumer_capacity": Amount | None,
    "added_seconds": Amount | None,
}
"""The level's own fields of the head, with their types."""


def _build(source: Source) -> KeysSnapshot:
    head = {name: source.document.part(name, kind) for name, kind in HEAD.items()}
    rows: dict[str, Any] = {
        name: tuple(msgspec.convert(one, kind, from_attributes=True) for one in source.records[name])
        for name, kind in KINDS.items()
    }
    for name, field in (("partitions", "partition"), ("groups", "group"), ("keys", "key")):
        source.check_unique(name, [str(getattr(one, field)) for one in rows[name]])
    return KeysSnapshot(source.reference, source.quality, **head, **rows)


def _contents(snapshot: KeysSnapshot) -> Contents:
    return Contents(
        {name: getattr(snapshot, name) for name in HEAD},
        {
            name: [msgspec.convert(one, record, from_attributes=True) for one in getattr(snapshot, name)]
            for name, record in RECORDS.items()
        },
        {},
    )


def _described(one: KeysSnapshot) -> str:
    where = f"{one.reference.cluster}, {one.reference.taken_at}"
    return f"{len(one.partitions)} partitions and {len(one.keys)} hot keys of {where}"


FORMAT: Final = SnapshotFormat(
    name="trimtab/keys-snapshot/1",
    kind=KeysSnapshot,
    head=tuple(HEAD),
    records=RECORDS,
    columns={},
    build=_build,
    contents=_contents,
    described=_described,
)
