"""What one message costs, and many at once: our two engines beside etcd's own put, on one machine in one run.

`python experiments/master_balance/latency.py` writes `latency.json`; `--tables` prints its table,
`--write` puts it into the page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import aetcd
from looking import median, milliseconds, share

sys.path.insert(0, str(Path(__file__).parents[1]))
from page import tell

from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab_common.files import write_atomically
from trimtab_store.clients.producer import Producer
from trimtab_store.core.node import EMBEDDED, ETCD

FOLDER = Path(__file__).parent
RESULT = FOLDER / "latency.json"
NODES = 3
SIZES = (128, 8192)
WINDOW = 256
"""Messages that are under way at once."""
TRANSACTION = 64
"""Puts of one transaction: etcd takes 128 operations and 1.5 MiB."""
WARM_SECONDS, SECONDS, TURNS = 1.0, 4.0, 3
TIMEOUT_SECONDS = 10.0
WAYS = (
    "trimtab, one at a time",
    f"trimtab, {WINDOW} at once",
    "trimtab on etcd, one at a time",
    f"trimtab on etcd, {WINDOW} at once",
    "etcd's put, one at a time",
    f"etcd's put, {WINDOW} at once",
    f"etcd's transactions of {TRANSACTION} puts, one at a time",
)


async def sent(
    send: Callable[[], Awaitable[object]], max_in_flight: int, messages: int = 1
) -> dict[str, float]:
    """How long a call takes, and messages a second, with so many under way at once.

    Parameters
    ----------
    messages
        Of one call.
    """
    waits: list[float] = []
    begin = time.monotonic() + WARM_SECONDS
    end = begin + SECONDS

    async def work() -> None:
        while (begun := time.monotonic()) < end:
            await send()
            now = time.monotonic()
            if begin <= now < end:
                waits.append(now - begun)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(max_in_flight):
            tasks.create_task(work())
    return {
        "p50": round(share(waits, 50), 6),
        "p99": round(share(waits, 99), 6),
        "per_second": round(len(waits) * messages / SECONDS, 1),
    }


async def of_ours(sandbox: MastersSandbox, size: int, max_in_flight: int) -> dict[str, float]:
    """Messages to one group."""
    payload = b"." * size
    async with Producer(sandbox.state.cluster, "t", window=max_in_flight) as producer:
        await producer.send(payload)
        return await sent(lambda: producer.send(payload), max_in_flight)


async def of_etcd(sandbox: MastersSandbox, size: int, max_in_flight: int, puts: int) -> dict[str, float]:
    """Puts of new keys, to the member that leads: no put is forwarded by another member first."""
    payload, numbers = b"." * size, count()
    async with aetcd.Client("127.0.0.1", await leading_port(sandbox), timeout=TIMEOUT_SECONDS) as client:
        prefix = f"/latency/{time.monotonic_ns()}"

        async def put() -> None:
            await client.put(f"{prefix}/{next(numbers)}".encode(), payload)

        async def transact() -> None:
            make = client.transactions.put
            keys = [f"{prefix}/{next(numbers)}".encode() for _ in range(puts)]
            held, _ = await client.transaction([], [make(key, payload) for key in keys], [])
            assert held

        return await sent(put if puts == 1 else transact, max_in_flight, puts)


async def leading_port(sandbox: MastersSandbox) -> int:
    """The client port of the member of etcd that leads."""
    for port in sandbox.state.etcd_ports[::2]:
        async with aetcd.Client("127.0.0.1", port, timeout=TIMEOUT_SECONDS) as client:
            told = await client.maintenancestub.Status(aetcd.rpc.StatusRequest(), timeout=TIMEOUT_SECONDS)
            if told.header.member_id == told.leader:
                return port
    raise SystemExit("no member of etcd leads: close what else keeps the processors busy")


def table(result: dict[str, Any]) -> str:
    """A row for each size and way; medians of the turns."""
    lines = [
        "| message | way | p50, ms | p99, ms | messages/s, least and most |",
        "| --- | --- | --- | --- | --- |",
    ]
    for size, ways in result["sizes"].items():
        for way, turns in ways.items():
            p50, p99 = (median(turn[name] for turn in turns) for name in ("p50", "p99"))
            rates = [turn["per_second"] for turn in turns]
            lines.append(
                f"| {int(size):,} B | {way} | {milliseconds(p50)} | {milliseconds(p99)} "
                f"| {median(rates):,.0f} ({min(rates):,.0f}, {max(rates):,.0f}) |"
            )
    return "\n".join(lines)


def compared(given: argparse.Namespace) -> dict[str, Any]:
    """All ways in turn, again and again."""
    with ExitStack() as stack:
        own, other = (
            stack.enter_context(MastersSandbox.start(NODES, 1, engine=engine.name))
            for engine in (EMBEDDED, ETCD)
        )
        calls = (
            partial(of_ours, own, max_in_flight=1),
            partial(of_ours, own, max_in_flight=WINDOW),
            partial(of_ours, other, max_in_flight=1),
            partial(of_ours, other, max_in_flight=WINDOW),
            partial(of_etcd, other, max_in_flight=1, puts=1),
            partial(of_etcd, other, max_in_flight=WINDOW, puts=1),
            partial(of_etcd, other, max_in_flight=1, puts=TRANSACTION),
        )
        sizes: dict[str, dict[str, list[dict[str, float]]]] = {}
        for size in given.sizes:
            ways = sizes[str(size)] = {way: [] for way in WAYS}
            for _ in range(given.turns):
                for way, call in zip(WAYS, calls, strict=True):
                    ways[way].append(asyncio.run(call(size=size)))
                    print(f"{size} B, {way}: {ways[way][-1]}", file=sys.stderr, flush=True)
        return {"seconds": SECONDS, "cores": os.cpu_count(), "sizes": sizes}


def main() -> int:
    """Measure, or tell what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="bytes of a message")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--tables", action="store_true", help="print the table of the result")
    parser.add_argument("--write", action="store_true", help="put it into the page")
    given = parser.parse_args()
    if given.tables or given.write:
        told = {"latency": table(json.loads(RESULT.read_text()))}
        tell(told, FOLDER / "README.md" if given.write else None)
        return 0
    before = os.getloadavg()[0]
    result = {**compared(given), "load_before": before, "load_after": os.getloadavg()[0]}
    write_atomically(RESULT, (json.dumps(result, indent=1) + "\n").encode())
    print(table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
