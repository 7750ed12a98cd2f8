"""The task on Dramatiq over Redis."""

from __future__ import annotations

import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from rivals.workload import RECOVERY_SECONDS, TUNED, URL, occupy

broker = RedisBroker(url=URL, heartbeat_timeout=RECOVERY_SECONDS * 1000) if TUNED else RedisBroker(url=URL)
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="work")
def work(number: int, seconds: float) -> None:
    """Occupy the worker."""
    occupy(number, seconds)


def send(messages: list[tuple[int, float]]) -> list[float]:
    """Send messages, one after another; when each was accepted."""
    accepted = []
    for number, seconds in messages:
        work.send(number, seconds)
        accepted.append(time.time())
    return accepted


def arguments() -> list[str]:
    """Of a worker process, behind the interpreter; tuned has dramatiq_queue_prefetch=1 besides."""
    threads = ["--threads", "1"] if TUNED else []
    return ["-m", "dramatiq", "rivals.on_dramatiq", "--processes", "1", *threads]
