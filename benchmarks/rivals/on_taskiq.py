"""The task on taskiq, over its own brokers for Redis and over ours: RIVAL_BROKER says which."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from taskiq_redis import ListQueueBroker, RedisStreamBroker

from rivals.workload import RECOVERY_SECONDS, TUNED, URL, occupy
from trimtab_queues import BalancedBroker
from trimtab_queues.core.scheduling import SchedulingSettings

if TYPE_CHECKING:
    from taskiq import AsyncBroker

WORKERS = int(os.environ.get("RIVAL_WORKERS", "4"))
FORECAST = SchedulingSettings(
    window_seconds=0.5,
    cycle_seconds=2.0,
    threshold_unit="seconds",
    light_threshold=0.25,
    overload_threshold=5.0,
)
"""Limits that bursts of 200 and the backlog of a killed worker reach; those of `BalancedBroker` are shares of
10,000 messages."""


def made(name: str) -> AsyncBroker:
    """One of the brokers."""
    if name == "list":
        return ListQueueBroker(URL)
    if name == "stream" and TUNED:
        return RedisStreamBroker(URL, xread_count=1, idle_timeout=RECOVERY_SECONDS * 1000)
    if name == "stream":
        return RedisStreamBroker(URL)
    if name == "forecast":
        return BalancedBroker(URL, queues=WORKERS, scheduling=FORECAST, wait_seconds=None)
    return BalancedBroker(URL, queues=WORKERS)


broker = made(os.environ["RIVAL_BROKER"])


@broker.task(task_name="work")
def work(number: int, seconds: float) -> None:
    """Occupy the worker."""
    occupy(number, seconds)


def send(messages: list[tuple[int, float]]) -> list[float]:
    """Send messages, one after another; when each was accepted. Weights are told to ours alone."""
    return _LOOP.run_until_complete(_send(messages))


async def _send(messages: list[tuple[int, float]]) -> list[float]:
    ours, accepted = isinstance(broker, BalancedBroker), []
    await broker.startup()
    for number, seconds in messages:
        kicker = work.kicker()
        if ours:
            kicker = kicker.with_labels(weight=max(seconds, 1e-4))
        await kicker.kiq(number, seconds)
        accepted.append(time.time())
    return accepted


_LOOP = asyncio.new_event_loop()


def arguments() -> list[str]:
    """Of a worker process, behind the interpreter."""
    most = ["--max-async-tasks", "1"] if TUNED else []
    return [
        "-m",
        "taskiq",
        "worker",
        "rivals.on_taskiq:broker",
        "--workers",
        "1",
        "--log-level",
        "ERROR",
        *most,
    ]
