"""Snapshots of the balancer `keys` in files: `trimtab/keys-snapshot/1`."""

from __future__ import annotations

from typing import Any, Final

from trimtab.files.small_snapshot import RowTable, small_format
from trimtab.model.keys.snapshot import HotKey, KeyGroupLoad, KeysSnapshot, PartitionLoad
from trimtab.model.values import Amount
from trimtab_common.documents import Count, Name

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
"""The balancer's own fields of the head, with their types."""


def _described(one: KeysSnapshot) -> str:
    where = f"{one.reference.cluster}, {one.reference.taken_at}"
    return f"{len(one.partitions)} partitions and {len(one.keys)} hot keys of {where}"


FORMAT: Final = small_format(
    "trimtab/keys-snapshot/1",
    KeysSnapshot,
    head=HEAD,
    tables={
        "partitions": RowTable(PartitionLoad, "partition"),
        "groups": RowTable(KeyGroupLoad, "group"),
        "keys": RowTable(HotKey, "key"),
    },
    described=_described,
)
