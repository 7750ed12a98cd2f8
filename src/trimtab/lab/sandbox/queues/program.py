"""Workers, and a sender of short votes and long reports with equal declared weights."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from trimtab_queues.broker.broker import BalancedBroker

VOTE_SECONDS: Final = 0.01
REPORT_SECONDS: Final = 0.5
REPORTS: Final = 0.2
"""Share of the messages."""
USE: Final = 0.8
"""Share of the workers' time that the load takes unless told otherwise."""
SLOWER: Final = 3
"""How many times as long a slow vote takes."""
SLOW: Final = "slow"
"""A file beside the settings: while it is there votes are slow."""


def rate(workers: int, use: float = USE) -> float:
    """The message rate that keeps the workers busy for a share of their time."""
    return workers * use / ((1 - REPORTS) * VOTE_SECONDS + REPORTS * REPORT_SECONDS)


def program(settings: Path) -> BalancedBroker:
    """A broker with two tasks that take as long as their messages say."""
    broker = BalancedBroker.from_settings(settings)

    async def take(seconds: float) -> None:
        await asyncio.sleep(seconds)

    for name in ("vote", "report"):
        broker.register_task(take, task_name=name)
    return broker


async def work(broker: BalancedBroker) -> None:
    """Be a worker until killed."""
    from taskiq.api import run_receiver_task

    broker.is_worker_process = True
    await run_receiver_task(broker, run_startup=True, max_async_tasks=1)


async def send(
    settings: Path,
    seed: int,
    messages_per_second: float,
    seconds: float | None = None,
    *,
    slow: bool = False,
    sent: Callable[[Counter[str]], None] = lambda counts: None,
) -> Counter[str]:
    """Send as from many users who know nothing of one another (a Poisson process), until told to stop.

    Parameters
    ----------
    seconds
        How long; None for ever. SIGINT and SIGTERM end it too.
    slow
        Votes take three times as long, as they do while the file `SLOW` lies beside the settings.
    sent
        Told of the messages so far, after each.

    Returns
    -------
    Counter
        Messages by class, all of them accepted.
    """
    broker, counts = program(settings), Counter[str]()
    draw, loop, mark = random.Random(seed), asyncio.get_running_loop(), settings.with_name(SLOW)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await broker.startup()
    begun = due = loop.time()
    while not stopped.is_set():
        due += draw.expovariate(messages_per_second)
        if seconds is not None and due > begun + seconds:
            break
        with suppress(TimeoutError):
            if due > loop.time():
                await asyncio.wait_for(stopped.wait(), due - loop.time())
                break
        if draw.random() < REPORTS:
            name, takes = "report", REPORT_SECONDS
        else:
            name, takes = "vote", VOTE_SECONDS * (SLOWER if slow or mark.exists() else 1)
        task = broker.find_task(name)
        assert task is not None
        await task.kiq(takes)
        counts[name] += 1
        sent(counts)
    await broker.shutdown()
    return counts


if __name__ == "__main__":
    part, file, *words = sys.argv[1:]
    if part == "work":
        asyncio.run(work(program(Path(file))))
    else:
        asyncio.run(send(Path(file), int(words[0]), float(words[1])))
