"""The end of a task that talks to a server."""

from __future__ import annotations

import asyncio

AGAIN_SECONDS = 0.1


async def ended(task: asyncio.Task[None]) -> None:
    """Cancel a task, again and again until it is over; what it raised is not told.

    redis-py 8.1 loses a cancellation that comes while it has a connection checked: once is not enough.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_SECONDS)
    if not task.cancelled():
        task.exception()
