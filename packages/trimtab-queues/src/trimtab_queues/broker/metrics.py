"""Counters of queues as text for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from trimtab_queues.broker.backend import QueueCounts, QueuesCounts, ServerCounts
from trimtab_queues.broker.envelope import MICROSECONDS

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


_SERVER_COUNTS: Final[Sequence[tuple[str, str, str, Callable[[ServerCounts], float]]]] = (
    ("dead_letters", "gauge", "Messages that were given up.", lambda one: one.dead_letters),
    (
        "stranded_messages",
        "gauge",
        "Messages in queues beyond the number of queues.",
        lambda one: sum(one.stranded.values()),
    ),
    (
        "duplicates_total",
        "counter",
        "Messages that were not put in, since their idempotency key was known.",
        lambda one: one.duplicates,
    ),
    ("moved_messages_total", "counter", "Messages that went to another queue.", lambda one: one.moved),
    ("pauses_total", "counter", "How often a queue was paused.", lambda one: one.pauses),
)


def exposition(counts: QueuesCounts, others: ServerCounts) -> str:
    """The counters of every queue, by label `queue`, and of all together, in Prometheus' text format."""
    lines = []
    for name, kind, help_text, value in _METRICS:
        full = f"trimtab_queue_{name}"
        lines += [f"# HELP {full} {help_text}", f"# TYPE {full} {kind}"]
        lines += [f'{full}{{queue="{queue}"}} {value(one):.17g}' for queue, one in enumerate(counts.queues)]
    for name, kind, help_text, of_all in _SERVER_COUNTS:
        full = f"trimtab_queues_{name}"
        lines += [f"# HELP {full} {help_text}", f"# TYPE {full} {kind}", f"{full} {of_all(others):.17g}"]
    return "\n".join(lines) + "\n"


def unhealthy(counts: QueuesCounts, others: ServerCounts) -> list[str]:
    """What needs somebody's attention, a sentence each; empty where nothing does."""
    found = [
        f"queue {queue} has messages and no worker: they are about to be moved" for queue in counts.abandoned
    ]
    if counts.queues and not any(one.alive for one in counts.queues):
        found = ["no queue has a living worker: start some"]
    found += [
        f"queue {queue} holds {messages} messages and is beyond the {len(counts.queues)} queues: they are "
        f"about to be moved"
        for queue, messages in others.stranded.items()
    ]
    if others.dead_letters:
        found.append(
            f"{others.dead_letters} messages are dead letters: trimtab queues dead-letters lists them"
        )
    return found
