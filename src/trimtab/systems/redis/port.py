"""A set of queues on its server, behind `trimtab.act.queues.executor.QueuesPort`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trimtab.act.execution.port import calling
from trimtab.act.queues.executor import PublishedObservation, Table, Value
from trimtab.systems.redis.client import QueueServerClient, RedisConnection, open_server
from trimtab_queues.format.exchange import PublishedWeights


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
