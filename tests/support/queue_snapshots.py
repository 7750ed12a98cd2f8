"""Snapshots of the balancer `queues`, small enough to be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.queues import ClassLoad, QueueLoad, QueuesSnapshot

TICK = "2026-11-23T04:00:00Z"


def a_class(name: str, **figures: Any) -> ClassLoad:
    """A class of which nothing is known but what is said."""
    nothing: dict[str, Any] = {
        "samples": 0, "sent_per_second": 0.0, "processed_per_second": 0.0, "refused_per_second": 0.0
    }  # fmt: skip
    return ClassLoad(message_class=name, **{**nothing, **figures})


def a_queue(number: int, messages: int, work: float, **figures: Any) -> QueueLoad:
    """A queue with a worker, of 100 messages at most."""
    usual: dict[str, Any] = {
        "held_messages": 0, "held_work_seconds": 0.0, "paused": False, "alive": True, "capacity": 100
    }  # fmt: skip
    return QueueLoad(queue=number, messages=messages, work_seconds=work, **{**usual, **figures})


def a_snapshot(*queues: QueueLoad, classes: tuple[ClassLoad, ...] = (), **head: Any) -> QueuesSnapshot:
    """A snapshot of those, with one class of a second if none is given."""
    found = QueuesSnapshot(
        SnapshotReference("queues", TICK, "0" * 64),
        Quality(cpu="absent"),
        version=0,
        default_weight=1.0,
        policy="least_work_left",
        queues=queues,
        classes=classes,
    )
    return replace(found, **head)
