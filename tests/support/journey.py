"""A scheduler that dies between the steps of a move: `python -m support.journey URL NAME STEP`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from trimtab_queues.broker.redis_streams.cluster import RedisClusterBackend
from trimtab_queues.broker.redis_streams.streams import RedisBackend
from trimtab_queues.core.scheduling import MoveMessages

CAPACITY = [50] * 4
SLOTS = 2


async def _move() -> None:
    url, name, step = sys.argv[1:]

    def dies_at(method: str, *, before: bool) -> None:
        does = getattr(RedisBackend, method)

        async def then_dies(*arguments: Any) -> Any:
            if not before:
                await does(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(RedisBackend, method, then_dies)

    backend = RedisClusterBackend(url, name, CAPACITY, SLOTS, heartbeat_timeout_seconds=2.0)
    fence = await backend.lease("dies", 1.0)
    assert fence is not None
    await backend.counts()
    dies_at(step.removeprefix("before_"), before=step.startswith("before_"))
    await backend.move(MoveMessages(0, 1, 5, None), fence)


if __name__ == "__main__":
    asyncio.run(_move())
