"""The live status of a server of queues, and the findings of `trimtab check`; neither needs a lake.

Findings tell of address, version, what survives the server's death, and rights. Nothing is changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.model.errors import Finding, broken, fine, missing
from trimtab.model.load import FloatArray
from trimtab.observe.collect.sampler import TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.lake.status import signed_deviation
from trimtab.systems.redis.client import RedisConnection, open_server
from trimtab.systems.redis.collector import QueuesCollector, open_collector
from trimtab_common.errors import ConnectError


@dataclass(frozen=True)
class QueueStatus:
    """A queue's name, whether a living worker empties it, and the scheduler's mark."""

    name: str
    alive: bool
    paused: bool


@dataclass(frozen=True, eq=False)
class QueuesStatus:
    """What lies in the queues of one set.

    Attributes
    ----------
    brokers
        The queues; the name is that of all balancers.
    values
        Messages, seconds of work, messages in work: shape (queues, 3).
    deviation
        Signed, of the mean, shape (queues, 3); NaN for queues without a worker.
    version, published
        What is published.
    weights, processed
        By class: seconds in force, and messages processed since those processes began.
    processes, behind
        How many told of themselves of late, and how many go by an older version.
    problems
        As `TickSample.problems`.
    """

    cluster: str
    brokers: tuple[QueueStatus, ...]
    values: FloatArray
    deviation: FloatArray
    version: int
    published: dict[str, float]
    weights: dict[str, float]
    processed: dict[str, int]
    processes: int
    behind: int
    problems: tuple[str, ...]


def read_status(connection: RedisConnection, settings: CollectSettings) -> QueuesStatus:
    """The queues now, read directly from their server.

    Raises
    ------
    TrimtabError
        If it does not answer.
    """
    with open_collector(connection, settings, CapacitySettings()) as collector:
        return queues_status(collector.sample())


def queues_status(sample: TickSample) -> QueuesStatus:
    """The queues by one tick's samples."""
    rows = list(sample.rows_of("queue"))
    brokers = tuple(QueueStatus(f"queue {one['queue']}", one["alive"], one["paused"]) for one in rows)
    figures = ("messages", "work_seconds", "held_messages")
    values = np.array([[one[name] for name in figures] for one in rows], dtype=np.float64).reshape(-1, 3)
    alive = np.array([one.alive for one in brokers], dtype=np.bool_)
    at_work = np.where(alive[:, None], values, np.nan)
    (server,) = sample.rows_of("queue_server")
    processes = list(sample.rows_of("queue_process"))
    weights: dict[str, float] = {}
    processed: dict[str, int] = {}
    for one in sample.rows_of("queue_class"):
        name = one["message_class"]
        weights[name] = one["weight"]
        processed[name] = processed.get(name, 0) + one["processed_total"]
    return QueuesStatus(
        sample.cluster,
        brokers,
        values,
        signed_deviation(at_work),
        server["version"],
        json.loads(server.get("published", "{}")),
        weights,
        processed,
        len(processes),
        sum(one["version"] != server["version"] for one in processes),
        sample.problems,
    )


PART: Final = "Redis"
MIN_VERSION: Final = (6, 2)


def server_findings(
    connection: RedisConnection, settings: CollectSettings, capacity: CapacitySettings
) -> Iterator[Finding]:
    """Findings on a server and its queues; changes nothing."""
    with open_server(connection) as server:
        try:
            about = server.about()
        except ConnectError as error:
            yield broken(PART, connection.safe_url, str(error))
            return
        name = "Valkey" if "valkey_version" in about else "Redis"
        version = str(about.get("valkey_version") or about["redis_version"])
        spoken = tuple(int(one) for one in str(about["redis_version"]).split(".")[:2])
        if spoken < MIN_VERSION:
            yield broken(PART, connection.safe_url, f"{name} {version} answers", "use 6.2 or newer")
        else:
            yield fine(PART, connection.safe_url, f"{name} {version} answers")
        try:
            kept = server.settings("appendonly", "appendfsync", "maxmemory-policy")
        except ConnectError:
            yield missing(
                PART, "settings", "may not be read", "allow CONFIG GET, or see to appendonly and appendfsync"
            )
        else:
            yield from _settings(kept)
        collector = QueuesCollector(server, settings)
        sample = collector.sample()
        for problem in sample.problems:
            yield missing(PART, "queues", problem)
        if not sample.problems:
            processes = len(list(sample.rows_of("queue_process")))
            told = f"{sample.brokers} queues, {sample.answered} with a worker; {processes} processes report"
            yield fine(PART, connection.name, told)


def _settings(retained: dict[str, str]) -> Iterator[Finding]:
    if retained.get("appendonly") == "yes" and retained.get("appendfsync") == "always":
        yield fine(PART, "append-only file", "every accepted message survives the server's death")
    else:
        told = f"appendonly {retained.get('appendonly', '?')}, appendfsync {retained.get('appendfsync', '?')}"
        yield missing(
            PART,
            "append-only file",
            f"{told}: the last moments before the server's death are lost",
            "set appendonly yes and appendfsync always",
        )
    policy = retained.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        yield broken(
            PART, "maxmemory-policy", f"{policy}: the server may throw messages away", "set noeviction"
        )
