"""Redis and Valkey behind the ports of the balancer `queues`: published documents, and the live status."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from trimtab.act.execution.port import calling
from trimtab.act.queues import PublishedObservation, Table, Value
from trimtab.model.errors import Finding, broken, fine, missing
from trimtab.model.load import FloatArray
from trimtab.observe.collect.sampler import TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.lake.status import signed_deviation
from trimtab.systems.redis.client import QueueServerClient, RedisConnection, open_server
from trimtab.systems.redis.collector import QueuesCollector, open_collector
from trimtab_common.errors import ConnectError
from trimtab_queues.format.documents import PublishedWeights


class RedisPort:
    """An adapter for one client; closing that is the caller's."""

    claim_rights = "let the user write keys of the queues, and run scripts"

    def __init__(self, server: QueueServerClient, clock: Callable[[], float]) -> None:
        self._server, self._clock = server, clock

    def observe(self) -> PublishedObservation:
        """Read the published weights and settings."""
        found, history = calling(lambda: (self._server.published(), self._server.history()))
        return PublishedObservation(
            self._server.id,
            self._server.connection.name,
            0 if found is None else found.version,
            {} if found is None else _table(found),
            {one.version: _table(one) for one in history},
        )

    def publish(self, base: int, changes: Mapping[str, Value | None]) -> int | None:
        """Publish changes if `base` is still the newest version; returns the new version or None."""

        def publish() -> int | None:
            found = self._server.published()
            if (0 if found is None else found.version) != base:
                return None
            tables: dict[str, dict[str, Any]] = {
                "weight": {} if found is None else dict(found.weights),
                "setting": {} if found is None else dict(found.settings),
            }
            for key, value in changes.items():
                kind, _, name = key.partition("/")
                if value is None:
                    tables[kind].pop(name, None)
                else:
                    tables[kind][name] = value
            new = PublishedWeights(
                version=base + 1,
                published_at=self._clock(),
                weights=tables["weight"],
                settings=tables["setting"],
            )
            return new.version if self._server.publish(new) else None

        return calling(publish)

    def read_claims(self) -> frozenset[str]:
        """Read the claims of all trimtabs on this server."""
        return calling(self._server.claims)

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """Add and remove claims in one change."""
        calling(lambda: self._server.change_claims(added, removed))


def _table(found: PublishedWeights) -> Table:
    weights = {f"weight/{name}": value for name, value in found.weights.items()}
    return {**weights, **{f"setting/{name}": value for name, value in found.settings.items()}}


@contextmanager
def open_port(connection: RedisConnection, clock: Callable[[], float]) -> Iterator[RedisPort]:
    """A set of queues to act on, on a connection of its own."""
    with open_server(connection) as server:
        yield RedisPort(server, clock)


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
