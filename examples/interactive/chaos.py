"""Chaos: kill -9 of every part in turn while voters vote, and what is left of their votes."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable

from interactive.checking import check, wait_until_counted
from interactive.load import Book, burst
from interactive.system import System
from trimtab.model.errors import SandboxError


async def chaos(
    system: System,
    kills: int,
    *,
    votes_per_second: float,
    pause_seconds: tuple[float, float],
    seed: int,
    batch: int = 20,
    centres: int = 4,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, object]:
    """Kill parts in mid-burst, each as often as any other, in an order drawn anew each round.

    The dispatcher is a part of the gateway, and the scheduler one of the workers: it is killed by its lease.

    The voters go on until the last kill, then finish what they began.

    Parameters
    ----------
    pause_seconds
        Least and most between two kills.

    Returns
    -------
    dict
        What `check` found, kills by part, seconds, and what voters had to send again.
    """
    chance, stop, book = random.Random(seed), asyncio.Event(), Book()
    killed: Counter[str] = Counter()

    def kill_all() -> None:
        parts: list[str] = []
        for _ in range(kills):
            # None hits a system that stands still, nor a worker that has not begun yet.
            time.sleep(chance.uniform(*pause_seconds))
            parts = parts or chance.sample(system.names(), len(system.names()))
            part, seen, until = parts.pop(), len(book.accepted), time.monotonic() + 60.0
            while len(book.accepted) == seen or not system.works(part):
                if time.monotonic() > until:
                    raise SandboxError(
                        f"{part} does not work a minute after it was started: {system.log(part)}"
                    )
                time.sleep(0.02)
            system.kill(part)
            killed[part.split()[0]] += 1
            tell(f"{sum(killed.values())}/{kills}: {part}, {len(book.accepted):,} votes accepted")

    began = time.monotonic()
    voters = asyncio.create_task(
        burst(
            system.url, 50_000_000, batch=batch, centres=centres, votes_per_second=votes_per_second,
            stop=stop, book=book,
        )
    )  # fmt: skip
    killing = asyncio.create_task(asyncio.to_thread(kill_all))
    done, _ = await asyncio.wait([voters, killing], return_when=asyncio.FIRST_COMPLETED)
    if voters in done:
        await voters  # raises
    try:
        await killing
    finally:
        stop.set()
    await voters
    await asyncio.to_thread(wait_until_counted, system.server.url, book)
    seconds = time.monotonic() - began
    return {
        **check(system.server.url, book),
        "kills": dict(killed),
        "seconds": round(seconds),
        "sent_again": dict(book.again),
    }
