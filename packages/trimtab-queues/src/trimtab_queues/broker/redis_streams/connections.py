"""Connections to a server of queues, its errors as one sentence, and entries of its streams."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from redis.asyncio import BlockingConnectionPool, Connection, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import (
    ClusterDownError,
    MovedError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as NoAnswer

from trimtab_common.errors import ConnectError
from trimtab_queues.broker.envelope import Delivery, Envelope
from trimtab_queues.format.server import credentials_of, is_cluster, nodes_of

T = TypeVar("T")

AWAY: Final = (NoConnection, NoAnswer, OSError, ClusterDownError, TryAgainError)
"""Errors after which nobody knows whether a command was carried out."""


async def patiently(call: Callable[[], Awaitable[T]], seconds: float = float("inf")) -> T:
    """The answer of a call that may be repeated; waits while the server is away.

    Raises
    ------
    ConnectError
        If the server stays away for this time.
    """
    clock = asyncio.get_running_loop().time
    until, pause = clock() + seconds, 0.05
    while True:
        try:
            return await call()
        except (*AWAY, RedisError) as error:
            if isinstance(error, ResponseError) and not isinstance(error, AWAY) and not _passing(error):
                raise
            if clock() >= until:
                raise no_answer(error) from error
        await asyncio.sleep(pause)
        pause = min(pause * 2, 1.0)


def no_answer(error: BaseException) -> ConnectError:
    """A `ConnectError` for an error of the client library."""
    return ConnectError(
        f"the server of the queues does not answer: {error}; start it or correct the url (a message that was "
        f"being sent may have arrived; with an idempotency_key it can be sent again)"
    )


def _passing(error: ResponseError) -> bool:
    """Whether the reason of an error answer may disappear soon."""
    passing = (OutOfMemoryError, ReadOnlyError)
    return isinstance(error, passing) or str(error).startswith(("BUSY", "MASTERDOWN", "MISCONF"))


def client_of(url: str, base: str, timeout_seconds: float) -> Redis:
    """A client that sends nothing twice; in a cluster, of the node that has the slot of `base`."""
    # In a burst, commands wait for one of 50 connections. The other pool of redis-py raises an error instead.
    settings: dict[str, Any] = {
        "max_connections": 50, "timeout": None, "socket_timeout": timeout_seconds,
        "retry": Retry(NoBackoff(), 0),
    }  # fmt: skip
    if not is_cluster(url):
        return Redis.from_pool(BlockingConnectionPool.from_url(url, **settings))
    return Redis.from_pool(
        BlockingConnectionPool(
            connection_class=SlotConnection,
            nodes=nodes_of(url),
            base=base,
            **settings,
            **credentials_of(url),
        )
    )


async def owner(
    nodes: list[tuple[str, int]], base: str, credentials: Mapping[str, Any] | None = None
) -> tuple[str, int]:
    """The node that has the slot of a name, as the first node that answers reports it.

    Parameters
    ----------
    credentials
        `username` and `password`.

    Raises
    ------
    redis.exceptions.ConnectionError
        If no node answers, or no node has the slot.
    """
    slot, last = key_slot(base.encode()), "no node was asked"
    for host, port in nodes:
        try:
            async with Redis(
                host=host, port=port, socket_timeout=2.0, retry=Retry(NoBackoff(), 0), **(credentials or {})
            ) as client:
                answer = await client.execute_command("CLUSTER SLOTS")  # type: ignore[no-untyped-call]
        except (RedisError, OSError) as error:
            last = f"{host}:{port}: {error}"
            continue
        for first, until, node, *_ in answer:
            if first <= slot <= until:
                return (node[0].decode() or host), int(node[1])
        last = f"{host}:{port} knows no owner of slot {slot}"
    raise NoConnection(f"no node of the cluster has the queues: {last}")


class SlotConnection(Connection):
    """A connection to the node that has the slot of the queues; it connects anew when the slot has moved."""

    def __init__(self, *, nodes: list[tuple[str, int]], base: str, **settings: Any) -> None:
        super().__init__(**settings)
        self._nodes, self._base, self._credentials = nodes, base, _credentials(settings)

    async def _connect(self) -> None:
        self.host, self.port = await owner(self._nodes, self._base, self._credentials)
        await super()._connect()  # type: ignore[no-untyped-call]

    async def read_response(self, *arguments: Any, **settings: Any) -> Any:
        """Read an answer. A moved slot counts as a lost connection."""
        try:
            return await super().read_response(*arguments, **settings)
        except MovedError as error:
            await self.disconnect()
            raise NoConnection(f"the slot of the queues has moved: {error}") from error


def _credentials(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings[name] for name in ("username", "password") if settings.get(name)}


QUICK: Final = ":quick"
"""Behind the name of a queue's stream: its quick lane."""


def delivery_of(queue: int, name: bytes, trace: bytes, flat: Sequence[bytes]) -> Delivery:
    """A delivered message, by its name in the queue, its trace of crashes and its fields."""
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    envelope = envelope_of_entry(fields, name.startswith(b"q"))
    return Delivery(int(queue), name.decode(), envelope, len(trace.split()), _waited_seconds(fields))


def envelope_of_entry(fields: dict[bytes, bytes], quick: bool = False) -> Envelope:
    """The message that `put.lua` has written."""
    return Envelope(
        task_id=fields[b"t"].decode(),
        body=fields[b"m"],
        class_name=fields[b"c"].decode(),
        weight_microseconds=int(fields[b"w"]),
        affinity_key=fields[b"k"].decode(),
        quick=quick,
    )


def _waited_seconds(fields: dict[bytes, bytes]) -> float | None:
    """Time from acceptance to delivery on the server's clock; None if an older version wrote the message."""
    accepted, taken = fields.get(b"a"), fields.get(b"n")
    return max(0, int(taken) - int(accepted)) / 1000 if accepted and taken else None
