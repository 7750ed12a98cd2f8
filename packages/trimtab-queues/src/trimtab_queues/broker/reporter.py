"""Measurements of a process: a report on the server each second, and metrics for Prometheus."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from math import ceil, log2
from time import perf_counter, time
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from taskiq import TaskiqMessage, TaskiqMiddleware, TaskiqResult

from trimtab_common.errors import InputError, TrimtabError
from trimtab_queues.broker.backend import (
    MICROSECONDS,
    Backend,
    Delivery,
    QueueCounts,
    QueuesCounts,
    ServerCounts,
)
from trimtab_queues.core.catalogue import DispatchInputs, policy_named
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policies import DispatchPolicy, OwnQueue
from trimtab_queues.core.scheduling import SchedulingSettings
from trimtab_queues.format.documents import (
    CLASSES_MAX,
    OTHER_CLASSES,
    WAIT_BUCKETS,
    ClassReport,
    ProcessReport,
    PublishedWeights,
    document,
    read_published,
)

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
    """Problems that need attention, one sentence each; empty if there is none."""
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


_log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 1.0


class ReportedBroker(Protocol):
    """The broker of a process, as its reporter uses it."""

    backend: Backend
    default_weight: float
    policy: DispatchPolicy
    scheduling: SchedulingSettings | None

    @property
    def process(self) -> str:
        """A name that no other process has."""

    @property
    def queue(self) -> int | None:
        """The queue of the process; None if it has none."""

    def weight_of(self, class_name: str) -> float:
        """Processing time by which messages of a class are dispatched."""

    def apply_published(self, published: PublishedWeights) -> None:
        """Use the published document from now on."""


class MetricsReporter(TaskiqMiddleware):
    """Counts the messages that a process sends and processes, and exchanges the counts for the published
    document.

    As a middleware it measures from the start of a task to its end, with the hooks of other middlewares. That
    is the time for which a task occupies a worker. If a worker processes several messages at once, it is
    longer than each would take alone.

    Parameters
    ----------
    broker
        The broker of this process; it gets each newly published document.
    """

    def __init__(self, broker: ReportedBroker) -> None:
        super().__init__()
        self._of_process = broker
        self._classes: dict[str, ClassReport] = {}
        self._delivered: dict[str, tuple[Delivery, float]] = {}
        # By the asyncio task that runs it: a retry has the task id of its message, which has not ended yet.
        self._started: WeakKeyDictionary[asyncio.Task[Any], tuple[float, float | None]] = WeakKeyDictionary()
        self._version = self._refused = 0

    def accepted(self, class_name: str) -> None:
        """A message of this class was sent."""
        self._of(class_name).accepted += 1

    def refused(self, class_name: str) -> None:
        """A message of this class found no open queue."""
        self._of(class_name).refused += 1

    def delivered(self, delivery: Delivery) -> None:
        """A message came from a queue, and will be started."""
        self._delivered[delivery.envelope.task_id] = (delivery, perf_counter())

    def forget(self, delivery: Delivery) -> None:
        """A delivered message has ended, whether it was started or not."""
        found = self._delivered.get(delivery.envelope.task_id)
        if found is not None and found[0] is delivery:
            del self._delivered[delivery.envelope.task_id]

    def pre_execute(self, message: TaskiqMessage) -> TaskiqMessage:
        """Record the start time and waiting time of a task."""
        now, delivered = perf_counter(), self._delivered.get(message.task_id)
        waited = None
        if delivered is not None and delivered[0].waited_seconds is not None:
            waited = delivered[0].waited_seconds + now - delivered[1]
        if (task := asyncio.current_task()) is not None:
            self._started[task] = (now, waited)
        return message

    def post_execute(self, message: TaskiqMessage, result: TaskiqResult[object]) -> None:
        """The task has ended, successful or not."""
        task = asyncio.current_task()
        found = None if task is None else self._started.pop(task, None)
        if found is None:
            return
        begun, waited = found
        seconds = perf_counter() - begun
        one = self._of(str(message.labels.get("message_class") or message.task_name))
        one.processed += 1
        one.busy_seconds += seconds
        one.busy_squares += seconds * seconds
        if waited is not None:
            one.waited_seconds += waited
            one.waits = one.waits or [0] * WAIT_BUCKETS
            one.waits[_bucket(waited)] += 1

    async def run(self) -> None:
        """Exchange regularly until cancelled. A server that was away gets the missed counts later."""
        while True:
            await self.exchange()
            await asyncio.sleep(EVERY_SECONDS)

    async def exchange(self) -> None:
        """Store the report of this process, and apply a newly published document."""
        broker = self._of_process
        for name, one in self._classes.items():
            one.weight = broker.weight_of(name)
        report = ProcessReport(
            process=broker.process,
            at=time(),
            queue=broker.queue,
            queues=len(broker.backend.ledger),
            capacity=broker.backend.ledger.capacity[0],
            version=self._version,
            default_weight=broker.default_weight,
            policy=broker.policy.name,
            scheduling=None if broker.scheduling is None else asdict(broker.scheduling),
            classes=self._classes,
        )
        try:
            found = await broker.backend.exchange(broker.process, document(report))
            if found is None:
                return
            published = read_published(found, "the published weights")
            if published.version not in (self._version, self._refused):
                self._refused = published.version  # said once, not every second
                broker.apply_published(published)
                self._version = published.version
        except TrimtabError as error:
            _log.warning("published weights stay as they are: %s", error)

    def _of(self, class_name: str) -> ClassReport:
        found = self._classes.get(class_name)
        if found is None:
            name = class_name if len(self._classes) < CLASSES_MAX else OTHER_CLASSES
            found = self._classes.setdefault(name, ClassReport())
        return found


def _bucket(seconds: float) -> int:
    return min(WAIT_BUCKETS - 1, max(0, ceil(2 * log2(max(seconds, 1e-6) * 1000))))


def own_queues(policy: DispatchPolicy) -> DispatchPolicy:
    """The policy, if its workers take messages from their own queues only.

    Raises
    ------
    InputError
        If they take messages from others' queues.
    """
    if getattr(type(policy), "source", None) is not OwnQueue.source:
        raise InputError(
            f"policy is {policy.name}, whose workers take from others too; a worker here "
            f"has one queue: name one of the others, like least_work_left"
        )
    return policy


def apply_published(
    published: PublishedWeights,
    scheduling: SchedulingSettings | None,
    policy: DispatchPolicy,
    ledger: QueueLedger,
) -> tuple[SchedulingSettings | None, DispatchPolicy]:
    """Scheduling and policy as published; unchanged where the document has no value.

    Raises
    ------
    TrimtabError
        If a setting is unknown or out of range.
    """
    settings = dict(published.settings)
    name = str(settings.pop("policy", policy.name))
    if settings and scheduling is not None:
        try:
            scheduling = replace(scheduling, **settings)  # type: ignore[arg-type]
        except TypeError as error:
            raise InputError(f"published settings {sorted(settings)}: {error}; upgrade trimtab") from None
    if name != policy.name:
        classes = tuple((weight, 1.0) for weight in sorted(published.weights.values()))
        policy = own_queues(policy_named(name, ledger, DispatchInputs(random.Random().random, classes)))
    return scheduling, policy
