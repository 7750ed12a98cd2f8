"""One tick of a set of queues: counters of the server, newest reports of processes, and what is published."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from trimtab.observe.collect.sampler import RequestError, SystemSampler, TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.collect.sinks import RowBatch, RowBatchBuilder
from trimtab.observe.queues.pipeline import COLUMNS
from trimtab.systems.redis.client import QueueCounters, QueueServerClient, RedisConnection, open_server
from trimtab_common.errors import ConnectError, InputError
from trimtab_queues.format.documents import ProcessReport, PublishedWeights

MICROSECONDS: Final = 1e6


class QueuesCollector:
    """Samples one set of queues."""

    def __init__(self, server: QueueServerClient, settings: CollectSettings) -> None:
        self._server, self._settings = server, settings

    def sample(self) -> TickSample:
        """Sample the queues and workers once."""
        begun = time.perf_counter()
        server, problems = self._server, []
        published: PublishedWeights | None = None
        try:
            counters, reports = server.counters(), server.reports()
            try:
                published = server.published()
            except InputError as error:
                problems.append(str(error))
            memory = server.about().get("used_memory")
            if letters := server.dead_letter_count():
                problems.append(f"{letters} dead letters: trimtab queues dead-letters lists them")
        except ConnectError as error:
            raise RequestError(str(error)) from error
        if not counters.queues:
            name = server.connection.name
            problems.append(
                f"no queues named {name!r} lie there: start a broker of that name, or correct the name in "
                "[clusters.NAME]"
            )
        elif not reports:
            problems.append("no process has told anything of late: is one of this version at work?")
        batches = (
            queue_batch(counters, reports),
            process_batch(reports),
            *class_batches(reports),
            server_batch(counters, published, memory),
        )
        alive = sum(one.get("until", 0) / 1000 > counters.at for one in counters.queues.values())
        return TickSample(
            cluster=self._settings.cluster or server.connection.name,
            batches=tuple(one for one in batches if len(one)),
            answered=alive,
            brokers=len(counters.queues),
            scraped=0,
            endpoints=0,
            dropped_values=0,
            problems=tuple(problems),
            seconds=time.perf_counter() - begun,
        )


def queue_batch(counters: QueueCounters, reports: list[ProcessReport]) -> RowBatch:
    """One row per queue; how much it may hold is told by processes."""
    newest = max(reports, key=lambda one: one.at, default=None)
    capacity = None if newest is None else newest.capacity
    writer = RowBatchBuilder(
        "queue",
        *("queue", "capacity", "messages", "work_seconds", "held_messages", "held_work_seconds"),
        *("arrived_seconds_total", "served_seconds_total", "paused", "alive"),
        sampled_at=_instant(counters.at),
    )
    for queue, one in counters.queues.items():
        writer.add(
            queue,
            capacity,
            one.get("length", 0),
            one.get("work", 0) / MICROSECONDS,
            one.get("held", 0),
            one.get("held_work", 0) / MICROSECONDS,
            one.get("arrived", 0) / MICROSECONDS,
            one.get("served", 0) / MICROSECONDS,
            one.get("paused", 0) == 1,
            one.get("until", 0) / 1000 > counters.at,
        )
    return writer.batch()


def process_batch(reports: list[ProcessReport]) -> RowBatch:
    """One row per process, with the settings that it goes by."""
    writer = RowBatchBuilder(
        "queue_process",
        *("process", "queue", "sampled_at", "version", "policy", "scheduling", "default_weight"),
    )
    for one in reports:
        scheduling = None if one.scheduling is None else json.dumps(one.scheduling, sort_keys=True)
        writer.add(
            one.process, one.queue, _instant(one.at), one.version, one.policy, scheduling, one.default_weight
        )
    return writer.batch()


def class_batches(reports: list[ProcessReport]) -> Iterator[RowBatch]:
    """A batch per process, a row per class that it has sent or processed."""
    for report in reports:
        writer = RowBatchBuilder(
            "queue_class",
            *("message_class", "weight", "processed_total", "busy_seconds_total", "busy_squares_total"),
            *("waited_seconds_total", "waits", "accepted_total", "refused_total"),
            process=report.process,
            queue=report.queue,
            sampled_at=_instant(report.at),
        )
        for name, one in sorted(report.classes.items()):
            # The columns are named in the order of the report's fields.
            writer.add(name, *msgspec.structs.astuple(one))
        yield writer.batch()


def server_batch(counters: QueueCounters, published: PublishedWeights | None, memory: int | None) -> RowBatch:
    """One row: what is published, and how full the server is."""
    writer = RowBatchBuilder("queue_server", "sampled_at", "version", "published", "memory_bytes")
    told = None if published is None else json.dumps(published.weights, sort_keys=True)
    writer.add(_instant(counters.at), 0 if published is None else published.version, told, memory)
    return writer.batch()


def _instant(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


@contextmanager
def open_collector(
    connection: RedisConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[QueuesCollector]:
    """A collector on a connection of its own, as `SystemSampler.open`; capacities are told by processes."""
    with open_server(connection) as server:
        server.about()
        yield QueuesCollector(server, settings)


COLLECTING: Final = SystemSampler(COLUMNS, open_collector)
