"""Messages a second by the number of queues: one sender, 100 messages on their way at once, one server.

Numbers of queues take turns, for several rounds, so that what the machine does beside them meets all alike;
told are the medians and their ratio to the first. No worker takes anything: what is measured is what a sender
and the server spend on a message, and what the server spends on a worker that stands by and asks for a queue.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from redis.asyncio import Redis
from results import write_result

from trimtab.lab.sandbox.queues.sandbox import RedisServerProcess
from trimtab_queues import BalancedBroker
from trimtab_queues.broker.backend import Backend
from trimtab_queues.format.documents import RedisKeys

QUEUES = (4, 32, 100, 1000)
AT_ONCE = 100
CLAIMS = 200
LEAST_SHARE = 0.5
"""Of the rate at 4 queues that is wanted at 100."""


async def measured(url: str, queues: int, messages: int) -> dict[str, float]:
    """Messages a second, and milliseconds of the sender's and of the server's processor for each."""
    broker = BalancedBroker(url, name="count", queues=queues, capacity=10 * messages, scheduling=None)

    async def vote(number: int) -> None: ...

    task = broker.register_task(vote, task_name="vote")
    left = iter(range(messages))

    async def send() -> None:
        for number in left:
            await task.kiq(number)

    async with Redis.from_url(url) as client:
        await client.flushall()
        await broker.startup()
        await task.kiq(-1)
        of_server = await _cpu_seconds(client)
        begun, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(send() for _ in range(AT_ONCE)))
        seconds, of_sender = time.perf_counter() - begun, time.process_time() - used
        of_server = await _cpu_seconds(client) - of_server
        claim_seconds = await _claims(broker.backend, client, queues)
    lengths = [one.length for one in (await broker.backend.counts()).queues]
    await broker.shutdown()
    if sum(lengths) != messages + 1:
        raise RuntimeError(f"{sum(lengths)} of {messages + 1} messages lie in {queues} queues")
    return {
        "messages_per_second": messages / seconds,
        "sender_milliseconds": of_sender / messages * 1000,
        "server_milliseconds": of_server / messages * 1000,
        "claim_milliseconds": claim_seconds / CLAIMS * 1000,
        "longest_queue_over_mean": max(lengths) / (sum(lengths) / queues),
    }


async def _claims(backend: Backend, client: Redis, queues: int) -> float:
    """Seconds of the server's processor for claims where every queue has a living worker."""
    until, life = round(time.time() * 1000) + 3_600_000, 3_600_000
    marks = {"owner": "somebody", "until": until, "life": life}
    await client.hset(
        RedisKeys("count").counts,
        mapping={f"{name}:{queue}": value for name, value in marks.items() for queue in range(queues)},
    )
    before = await _cpu_seconds(client)
    for _ in range(CLAIMS):
        if await backend.claim("stands by") is not None:
            raise RuntimeError("a queue was free that has a worker")
    return await _cpu_seconds(client) - before


async def _cpu_seconds(client: Redis) -> float:
    about = await client.info("cpu")
    return float(about["used_cpu_user"]) + float(about["used_cpu_sys"])


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--messages", type=int, default=4000)
    given = options.parse_args()
    found: dict[int, list[dict[str, float]]] = {queues: [] for queues in QUEUES}
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServerProcess(
            Path(folder), options=("--appendonly", "yes", "--appendfsync", "everysec")
        )
        try:
            for _ in range(given.rounds):
                for queues, each in found.items():
                    each.append(asyncio.run(measured(server.url, queues, given.messages)))
        finally:
            server.stop()
    rows = {
        str(queues): {name: round(statistics.median(one[name] for one in each), 4) for name in each[0]}
        for queues, each in found.items()
    }
    most = rows[str(QUEUES[0])]["messages_per_second"]
    for size, row in rows.items():
        row["share_of_rate"] = round(row["messages_per_second"] / most, 3)
        print(f"{size:>5} queues", *(f"{name} {value:,.3f}" for name, value in row.items()), sep="  ")
    write_result("queues_count", {"queues": rows, "at_once": AT_ONCE, "least_share_at_100": LEAST_SHARE})


if __name__ == "__main__":
    main()
