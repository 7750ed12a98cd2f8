"""Counters of queues as text for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from trimtab.dataplane.queues.backend import Counts, QueueCounts
from trimtab.dataplane.queues.envelope import MICROSECONDS

_METRICS: Final[Sequence[tuple[str, str, str, Callable[[QueueCounts], float]]]] = (
    ("messages", "gauge", "Messages waiting or in work.", lambda one: one.length),
    ("work_seconds", "gauge", "Processing time of those.", lambda one: one.work_microseconds / MICROSECONDS),
    ("held_messages", "gauge", "Messages that a worker has.", lambda one: one.held),
    ("paused", "gauge", "1 where the scheduler lets the queue receive nothing.", lambda one: int(one.paused)),
    ("alive", "gauge", "1 where a living worker empties the queue.", lambda one: int(one.alive)),
    (
        "arrived_work_seconds_total",
        "counter",
        "Processing time that came in; moves left out.",
        lambda one: one.arrived_microseconds / MICROSECONDS,
    ),
    (
        "served_work_seconds_total",
        "counter",
        "Processing time that was finished or given up; moves left out.",
        lambda one: one.served_microseconds / MICROSECONDS,
    ),
)


def exposition(counts: Counts) -> str:
    """The counters of every queue, by label `queue`, in Prometheus' text format."""
    lines = []
    for name, kind, help_text, value in _METRICS:
        full = f"trimtab_queue_{name}"
        lines += [f"# HELP {full} {help_text}", f"# TYPE {full} {kind}"]
        lines += [f'{full}{{queue="{queue}"}} {value(one):.17g}' for queue, one in enumerate(counts.queues)]
    return "\n".join(lines) + "\n"


def unhealthy(counts: Counts) -> list[str]:
    """What needs somebody's attention, a sentence each; empty where nothing does."""
    if counts.queues and not any(one.alive for one in counts.queues):
        return ["no queue has a living worker: start some"]
    return [
        f"queue {queue} has messages and no worker: they are about to be moved" for queue in counts.abandoned
    ]
