"""A server of queues checked before it is sampled: address, version, what survives its death, rights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trimtab.model.finding import Finding, broken, fine, missing
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.systems.redis.collector import QueuesCollector
from trimtab.systems.redis.server import open_server
from trimtab.systems.redis.settings import RedisConnection
from trimtab_common.errors import ConnectError

PART: Final = "Redis"
MIN_VERSION: Final = (6, 2)


def check(
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
