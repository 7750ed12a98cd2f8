"""A program of tasks for worker processes; run as a program it is one of them.

What a task did is written to the same server: a list of all runs, and one result for each task id.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time

from redis import Redis as Blocking
from redis.asyncio import Redis
from redis.exceptions import RedisError
from taskiq import Context, TaskiqDepends

from trimtab.dataplane.queues import LevelledBroker

URL = os.environ["QUEUES_URL"]
broker = LevelledBroker(
    URL,
    queues=int(os.environ.get("QUEUES", "3")),
    life_seconds=float(os.environ.get("LIFE_SECONDS", "2.5")),
    deaths_max=int(os.environ.get("DEATHS_MAX", "50")),
    hang_seconds=float(os.environ.get("HANG_SECONDS", "60")),
    default_weight=0.01,
    wait_seconds=None,
)
CONTEXT = TaskiqDepends()


async def _write(user: str, number: int, context: Context) -> None:
    # A task's own trouble with the server is its own business: taskiq would take an error for an end.
    while True:
        try:
            async with Redis.from_url(URL) as client, client.pipeline(transaction=True) as both:
                both.rpush(f"runs:{user}", number)
                both.hsetnx("results", context.message.task_id, f"{user}/{number}")
                await both.execute()
                return
        except (RedisError, OSError):
            await asyncio.sleep(0.1)


@broker.task(task_name="vote")
async def vote(user: str, number: int, seconds: float = 0.0, context: Context = CONTEXT) -> None:
    """Take some time, then write."""
    await asyncio.sleep(seconds)
    await _write(user, number, context)


@broker.task(task_name="hang")
async def hang(user: str, number: int, context: Context = CONTEXT) -> None:
    """Take the event loop for oneself, as bad tasks do, until somebody lets it go."""
    with Blocking.from_url(URL) as client:
        client.set("hangs", 1)
        while not client.exists("let_go"):
            time.sleep(0.05)
    await _write(user, number, context)


@broker.task(task_name="poison")
async def poison() -> None:
    """Kill the worker."""
    os.kill(os.getpid(), signal.SIGKILL)


async def _work() -> None:
    from taskiq.api import run_receiver_task

    broker.is_worker_process = True
    await run_receiver_task(broker, run_startup=True, max_async_tasks=4)


if __name__ == "__main__":
    asyncio.run(_work())
