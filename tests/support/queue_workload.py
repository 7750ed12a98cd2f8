"""A program of tasks for worker processes; run as a program it is one of them.

What a task did is written to the same server: a list of all runs, and one result for each task id. What a
trial did is written to a file, whether or not there is a server.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

from redis import Redis as Blocking
from redis.asyncio import Redis
from redis.exceptions import RedisError
from taskiq import Context, SimpleRetryMiddleware, TaskiqDepends

from trimtab_queues import BalancedBroker

URL = os.environ["QUEUES_URL"]
broker = BalancedBroker(
    URL,
    queues=int(os.environ.get("QUEUES", "3")),
    heartbeat_timeout_seconds=float(os.environ.get("LIFE_SECONDS", "2.5")),
    max_worker_crashes=int(os.environ.get("DEATHS_MAX", "50")),
    hang_timeout_seconds=float(os.environ.get("HANG_SECONDS", "60")),
    default_weight=0.01,
    enqueue_timeout_seconds=None,
)
broker.add_middlewares(SimpleRetryMiddleware())
CONTEXT: Any = TaskiqDepends()


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


def _note(*words: object) -> None:
    with open(os.environ["JOURNAL"], "a", encoding="utf-8") as journal:
        journal.write(" ".join(map(str, words)) + "\n")  # one write, which is whole


@broker.task(task_name="trial", retry_on_error=True, max_retries=10)
async def trial(name: str, seconds: float, failures: int, context: Context = CONTEXT) -> None:
    """Take some time; fail so many times first."""
    retry = int(context.message.labels.get("_retries", 0))
    _note("begins", name, retry, os.getpid())
    await asyncio.sleep(seconds)
    if retry < failures:
        raise ValueError(f"{name} fails for the {retry + 1}. time")
    _note("ends", name, retry, os.getpid())


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
    """Several workers in one process where many queues are to have one."""
    from taskiq.receiver import Receiver

    broker.is_worker_process = True
    await broker.startup()
    stop, tasks = asyncio.Event(), int(os.environ.get("TASKS", "4"))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    many = [
        Receiver(broker, run_startup=False, max_async_tasks=tasks)
        for _ in range(int(os.environ.get("RECEIVERS", "1")))
    ]
    await asyncio.gather(*(one.listen(stop) for one in many))
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(_work())
