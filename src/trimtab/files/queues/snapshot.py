"""Snapshots of the balancer `queues` in files: `trimtab/queues-snapshot/1`."""

from __future__ import annotations

from typing import Any, Final

from trimtab.files.small_snapshot import RowTable, small_format
from trimtab.model.queues.snapshot import ClassLoad, QueueLoad, QueuesSnapshot
from trimtab.model.values import Amount
from trimtab_common.documents import Count

HEAD: Final[dict[str, Any]] = {
    "version": Count,
    "default_weight": Amount,
    "policy": str,
    "scheduling": dict[str, float | str],
}
"""The balancer's own fields of the head, with their types."""


def _described(one: QueuesSnapshot) -> str:
    where = f"{one.reference.cluster}, {one.reference.taken_at}"
    return f"{len(one.queues)} queues and {len(one.classes)} classes of {where}"


FORMAT: Final = small_format(
    "trimtab/queues-snapshot/1",
    QueuesSnapshot,
    head=HEAD,
    tables={"queues": RowTable(QueueLoad, "queue"), "classes": RowTable(ClassLoad, "message_class")},
    described=_described,
)
