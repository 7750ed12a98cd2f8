"""One look at a set of queues without a lake: what lies in each, from a single tick."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from trimtab.model.load import FloatArray
from trimtab.observe.collect.sampler import TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.lake.status import signed_deviation
from trimtab.systems.redis.collector import open_collector
from trimtab.systems.redis.settings import RedisConnection


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
    """The queues now, straight from their server.

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
