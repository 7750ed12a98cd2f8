"""The program that the demo of queues runs: short votes and long reports, all declared alike."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from typing import Final

from trimtab.dataplane.queues.broker import LevelledBroker

VOTE_SECONDS: Final = 0.01
REPORT_SECONDS: Final = 0.5
REPORTS: Final = 0.2
"""Share of the messages."""
WORKERS: Final = 4
USE: Final = 0.8
"""Share of the workers' time that the load takes."""
RATE: Final = WORKERS * USE / ((1 - REPORTS) * VOTE_SECONDS + REPORTS * REPORT_SECONDS)
"""Messages a second."""
TRIPLED: Final = "tripled"
"""A file: while it is there a vote takes three times as long."""


def program(url: str) -> LevelledBroker:
    """A broker with two tasks that take as long as their messages say."""
    broker = LevelledBroker(url, queues=WORKERS, default_weight=0.1, wait_seconds=None)

    async def take(seconds: float) -> None:
        await asyncio.sleep(seconds)

    for name in ("vote", "report"):
        broker.register_task(take, task_name=name)
    return broker


async def work(broker: LevelledBroker) -> None:
    """Be a worker until killed."""
    from taskiq.api import run_receiver_task

    broker.is_worker_process = True
    await run_receiver_task(broker, run_startup=True, max_async_tasks=1)


async def send(broker: LevelledBroker, folder: Path, seed: int, rate: float) -> None:
    """Send as from many users who know nothing of one another (a Poisson process), until killed."""
    draw, clock = random.Random(seed), asyncio.get_running_loop().time
    await broker.startup()
    due = clock()
    while True:
        due += draw.expovariate(rate)
        if due > clock():
            await asyncio.sleep(due - clock())
        if draw.random() < REPORTS:
            name, seconds = "report", REPORT_SECONDS
        else:
            name, seconds = "vote", VOTE_SECONDS * (3 if (folder / TRIPLED).exists() else 1)
        task = broker.find_task(name)
        assert task is not None
        await task.kiq(seconds)


if __name__ == "__main__":
    part, url, *words = sys.argv[1:]
    if part == "work":
        asyncio.run(work(program(url)))
    else:
        asyncio.run(send(program(url), Path(words[0]), int(words[1]), float(words[2])))
