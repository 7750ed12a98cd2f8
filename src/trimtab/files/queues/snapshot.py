"""Snapshots of the level `queues` in files: `trimtab/queues-snapshot/1`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from trimtab.files.records import record_of
from trimtab.files.snapshot_format import Contents, SnapshotFormat
from trimtab.files.snapshot_source import Source
from trimtab.model.queues.snapshot import ClassLoad, QueueLoad, QueuesSnapshot
from trimtab.model.values import Amount, Count

QUEUE: Final = record_of(QueueLoad)
CLASS: Final = record_of(ClassLoad)
HEAD: Final[dict[str, Any]] = {
    "version": Count,
    "default_weight": Amount,
    "policy": str,
    "scheduling": dict[str, float | str],
}
"""The level's own fields of the head, with their types."""


def _build(source: Source) -> QueuesSnapshot:
    head = {name: source.document.part(name, kind) for name, kind in HEAD.items()}
    queues: list[Any] = source.records["queues"]
    classes: list[Any] = source.records["classes"]
    source.check_unique("queues", [str(one.queue) for one in queues])
    source.check_unique("classes", [one.message_class for one in classes])
    return QueuesSnapshot(
        source.reference,
        source.quality,
        **head,
        queues=tuple(msgspec.convert(one, QueueLoad, from_attributes=True) for one in queues),
        classes=tuple(msgspec.convert(one, ClassLoad, from_attributes=True) for one in classes),
    )


def _contents(snapshot: QueuesSnapshot) -> Contents:
    return Contents(
        {name: getattr(snapshot, name) for name in HEAD},
        {
            "queues": [msgspec.convert(one, QUEUE, from_attributes=True) for one in snapshot.queues],
            "classes": [msgspec.convert(one, CLASS, from_attributes=True) for one in snapshot.classes],
        },
        {},
    )


def _described(one: QueuesSnapshot) -> str:
    where = f"{one.reference.cluster}, {one.reference.taken_at}"
    return f"{len(one.queues)} queues and {len(one.classes)} classes of {where}"


FORMAT: Final = SnapshotFormat(
    name="trimtab/queues-snapshot/1",
    kind=QueuesSnapshot,
    head=tuple(HEAD),
    records={"queues": QUEUE, "classes": CLASS},
    columns={},
    build=_build,
    contents=_contents,
    described=_described,
)
