"""Answers that a server does not give, or not yet: waited for where a call may be made twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from redis.exceptions import (
    ClusterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as NoAnswer

from trimtab_common.errors import ConnectError

T = TypeVar("T")

AWAY: Final = (NoConnection, NoAnswer, OSError, ClusterDownError, TryAgainError)
"""Errors after which nobody knows whether a command was carried out."""


async def patiently(call: Callable[[], Awaitable[T]], seconds: float = float("inf")) -> T:
    """The answer of a call that may be made twice, waiting while the server is away.

    Raises
    ------
    ConnectError
        If it stays away for so long.
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
    """The same as an error that a program may catch."""
    return ConnectError(
        f"the server of the queues does not answer: {error}; start it or correct the url (a message that was "
        f"being sent may have arrived; with an idempotency_key it can be sent again)"
    )


def _passing(error: ResponseError) -> bool:
    """Whether a server that answers so may answer otherwise soon."""
    passing = (OutOfMemoryError, ReadOnlyError)
    return isinstance(error, passing) or str(error).startswith(("BUSY", "MASTERDOWN", "MISCONF"))
