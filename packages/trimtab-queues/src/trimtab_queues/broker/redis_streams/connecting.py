"""Clients of one server, or of the node of a cluster that has a slot at the time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from redis import Connection, ConnectionPool, Redis
from redis.asyncio import BlockingConnectionPool
from redis.asyncio import Connection as AsyncConnection
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import MovedError, RedisError
from redis.retry import Retry

from trimtab_queues.format.address import credentials_of, is_cluster, nodes_of


def client_of(url: str, base: str, timeout_seconds: float) -> Redis:
    """A client that sends nothing twice, for a thread; in a cluster of the node with the slot of `base`."""
    retry = Retry(NoBackoff(), 0)
    if not is_cluster(url):
        return Redis.from_url(url, socket_timeout=timeout_seconds, retry=retry)
    pool = ConnectionPool(
        connection_class=SlotConnection, nodes=nodes_of(url), base=base,
        socket_timeout=timeout_seconds, retry=retry, **credentials_of(url),
    )  # fmt: skip
    return Redis.from_pool(pool)


def async_client_of(url: str, base: str, timeout_seconds: float) -> AsyncRedis:
    """The same for asyncio."""
    # A burst waits for a connection; redis-py's other pool has an error for the hundred and first.
    settings: dict[str, Any] = {
        "max_connections": 50, "timeout": None, "socket_timeout": timeout_seconds,
        "retry": AsyncRetry(NoBackoff(), 0),
    }  # fmt: skip
    if not is_cluster(url):
        return AsyncRedis.from_pool(BlockingConnectionPool.from_url(url, **settings))
    return AsyncRedis.from_pool(
        BlockingConnectionPool(
            connection_class=AsyncSlotConnection,
            nodes=nodes_of(url),
            base=base,
            **settings,
            **credentials_of(url),
        )
    )


def owner(
    nodes: list[tuple[str, int]], base: str, credentials: Mapping[str, Any] | None = None
) -> tuple[str, int]:
    """The node that has the slot of a name now, by the first node that answers.

    Parameters
    ----------
    credentials
        As clients name them: `username`, `password`.

    Raises
    ------
    redis.exceptions.ConnectionError
        If none answers, or none has it.
    """
    slot, last = key_slot(base.encode()), "no node was asked"
    for host, port in nodes:
        try:
            with Redis(
                host=host, port=port, socket_timeout=2.0, retry=Retry(NoBackoff(), 0), **(credentials or {})
            ) as client:
                answer: Any = client.execute_command("CLUSTER SLOTS")
        except (RedisError, OSError) as error:
            last = f"{host}:{port}: {error}"
            continue
        for first, until, node, *_ in answer:
            if first <= slot <= until:
                return (node[0].decode() or host), int(node[1])
        last = f"{host}:{port} knows no owner of slot {slot}"
    raise NoConnection(f"no node of the cluster has the queues: {last}")


class SlotConnection(Connection):
    """A connection to the node that has a slot when it connects; where that has moved, it connects anew."""

    def __init__(self, *, nodes: list[tuple[str, int]], base: str, **settings: Any) -> None:
        super().__init__(**settings)  # type: ignore[no-untyped-call]
        self._nodes, self._base, self._credentials = nodes, base, _credentials(settings)

    def _connect(self) -> Any:
        self.host, self.port = owner(self._nodes, self._base, self._credentials)
        return super()._connect()  # type: ignore[no-untyped-call]

    def read_response(self, *arguments: Any, **settings: Any) -> Any:
        """An answer; that the slot is elsewhere counts as a connection that is gone."""
        try:
            return super().read_response(*arguments, **settings)
        except MovedError as error:
            self.disconnect()  # type: ignore[no-untyped-call]
            raise NoConnection(f"the slot of the queues has moved: {error}") from error


class AsyncSlotConnection(AsyncConnection):
    """The same for asyncio."""

    def __init__(self, *, nodes: list[tuple[str, int]], base: str, **settings: Any) -> None:
        super().__init__(**settings)
        self._nodes, self._base, self._credentials = nodes, base, _credentials(settings)

    async def _connect(self) -> None:
        self.host, self.port = await asyncio.to_thread(owner, self._nodes, self._base, self._credentials)
        await super()._connect()  # type: ignore[no-untyped-call]

    async def read_response(self, *arguments: Any, **settings: Any) -> Any:
        """An answer; that the slot is elsewhere counts as a connection that is gone."""
        try:
            return await super().read_response(*arguments, **settings)
        except MovedError as error:
            await self.disconnect()
            raise NoConnection(f"the slot of the queues has moved: {error}") from error


def _credentials(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings[name] for name in ("username", "password") if settings.get(name)}
