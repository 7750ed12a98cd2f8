"""How long a group has no master in a takeover, as a client sees it, scheme by scheme, on real processes.

`python experiments/master_balance/takeovers.py` writes `takeovers.json`; `--tables` prints its table,
`--write` puts it into the page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from page import tell

from trimtab.dataplane.masters.consumer import Consumer
from trimtab.dataplane.masters.handshake import Speaker
from trimtab.dataplane.masters.links import Link
from trimtab.dataplane.masters.producer import Producer
from trimtab.files.atomic import write_atomically
from trimtab.files.masters.frames import encoded
from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab.online.masters.engines import EMBEDDED, ENGINES
from trimtab.online.masters.messages import AskStanding
from trimtab.online.masters.settings import Scheme

FOLDER = Path(__file__).parent
RESULT = FOLDER / "takeovers.json"
NODES = 3
LEASE_SECONDS = 10.0
LOOK_SECONDS = 0.001
"""From a node's answer to the next question to it."""
SEND_SECONDS = 0.01
QUIET_SECONDS = 0.5
"""Before and after a takeover, in which clients are looked at, too."""
PATIENCE_SECONDS = 90.0


@dataclass
class Watch:
    """Asks all nodes in turn, as often as they answer, whether they count themselves as master.

    Attributes
    ----------
    asked, held
        When each node was asked last, and when the question was sent to which it answered last that it is.
    first
        When a node said so first, after it had said no.
    """

    asked: dict[int, float] = field(default_factory=dict)
    held: dict[int, float] = field(default_factory=dict)
    first: dict[int, float] = field(default_factory=dict)
    holds: dict[int, bool] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)

    def begin(self, sandbox: MastersSandbox) -> list[asyncio.Task[None]]:
        """Connect to all nodes."""
        cluster = sandbox.state.cluster
        speaker = Speaker(cluster.cluster, "watch", cluster.guard.opened())
        for node, address in enumerate(cluster.addresses):
            link = Link(address, speaker, node, heard=partial(self.heard, node))
            self.links.append(link)
            self.ask(node)
        return [asyncio.create_task(link.run()) for link in self.links]

    def ask(self, node: int) -> None:
        """Ask a node."""
        self.asked[node] = time.monotonic()
        self.links[node].send(encoded((0, AskStanding("watch"))))

    def heard(self, node: int, told: Any) -> None:
        """Hear its answer."""
        standing, now = told[1], time.monotonic()
        if standing.holds:
            self.held[node] = self.asked[node]
            if not self.holds.get(node):
                self.first[node] = now
        self.holds[node] = standing.holds
        asyncio.get_running_loop().call_later(LOOK_SECONDS, self.ask, node)

    @property
    def master(self) -> int:
        """Who said so last; -1 if nobody does."""
        return next((node for node, holds in self.holds.items() if holds), -1)


@dataclass
class Clients:
    """A producer and a consumer at work, with when each message was sent, acknowledged and read."""

    acknowledged: list[tuple[float, float]] = field(default_factory=list)
    read: list[tuple[float, float]] = field(default_factory=list)
    sent: dict[int, float] = field(default_factory=dict)
    errors: int = 0

    async def produce(self, sandbox: MastersSandbox) -> None:
        """Send for good."""
        async with Producer(sandbox.state.cluster, "t") as producer:
            while True:
                sent = time.monotonic()
                future = await producer.post(b"." * 128)
                self.sent[len(self.sent) + 1] = sent

                def done(future: asyncio.Future[int], sent: float = sent) -> None:
                    if future.cancelled():
                        return
                    self.errors += future.exception() is not None
                    self.acknowledged.append((time.monotonic(), time.monotonic() - sent))

                future.add_done_callback(done)
                await asyncio.sleep(SEND_SECONDS)

    async def consume(self, sandbox: MastersSandbox) -> None:
        """Read for good."""
        async with Consumer(sandbox.state.cluster, "t", "reader") as consumer:
            expected = 1
            async for message in consumer:
                assert message.sequence == expected, f"got {message.sequence}, expected {expected}"
                expected += 1
                self.read.append((time.monotonic(), time.monotonic() - self.sent[message.sequence]))
                consumer.done(message)


def longest(waits: list[tuple[float, float]], since: float) -> float:
    """The longest wait of those that ended since then."""
    return max((wait for at, wait in waits if at >= since), default=0.0)


async def measured(sandbox: MastersSandbox, takeovers: int, scheme: Scheme) -> dict[str, Any]:
    """Move one group from node to node."""
    watch, clients = Watch(), Clients()
    tasks = watch.begin(sandbox)
    tasks += [asyncio.create_task(clients.produce(sandbox)), asyncio.create_task(clients.consume(sandbox))]
    rows: list[dict[str, float]] = []
    unclear = 0
    try:
        while len(rows) < takeovers:
            until = time.monotonic() + PATIENCE_SECONDS
            while watch.master < 0 and time.monotonic() < until:
                await asyncio.sleep(0.05)
            incumbent = watch.master
            ideal = (incumbent + 1) % NODES
            begun = time.monotonic()
            sandbox.publish([ideal])
            while watch.master != ideal and time.monotonic() < until:
                for task in tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.01)
            if watch.master != ideal:
                raise SystemExit(f"{scheme.name}: no takeover within {PATIENCE_SECONDS:g} s")
            await asyncio.sleep(QUIET_SECONDS)
            gap = watch.first[ideal] - watch.held[incumbent]
            if watch.first[ideal] < begun or gap < 0:
                unclear += 1
                continue
            since = watch.held[incumbent] - QUIET_SECONDS
            rows.append(
                {
                    "without_master": gap,
                    "produce": longest(clients.acknowledged, since),
                    "consume": longest(clients.read, since),
                    "from_map": watch.first[ideal] - begun,
                }
            )
            print(f"{scheme.name.lower()} {len(rows)}: {gap * 1000:.1f} ms", file=sys.stderr, flush=True)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    usual = sorted(wait for _, wait in clients.acknowledged)
    return {
        "takeovers": len(rows),
        "unclear": unclear,
        "messages": len(clients.acknowledged),
        "errors": clients.errors,
        "usual_produce": usual[len(usual) // 2],
        **{name: [round(row[name], 5) for row in rows] for name in rows[0]},
    }


def shares(values: list[float]) -> str:
    """Median, 99th percentile and most, in milliseconds."""
    found = sorted(values)
    picked = found[len(found) // 2], found[min(len(found) - 1, len(found) * 99 // 100)], found[-1]
    return " / ".join(f"{value * 1000:,.0f}" if value >= 0.1 else f"{value * 1000:.1f}" for value in picked)


def table(result: dict[str, Any]) -> str:
    """A row for each scheme."""
    lines = [
        "| scheme | takeovers | without a master | longest wait of a producer | of a consumer "
        "| usual wait | errors |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in result["schemes"].items():
        lines.append(
            f"| `{name}` | {found['takeovers']} | {shares(found['without_master'])} "
            f"| {shares(found['produce'])} | {shares(found['consume'])} "
            f"| {found['usual_produce'] * 1000:.1f} | {found['errors']} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, or tell what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--takeovers", type=int, default=100)
    parser.add_argument("--schemes", nargs="+", default=["expire", "instate", "advance"])
    parser.add_argument("--engine", choices=sorted(ENGINES), default=EMBEDDED.name, help="what chooses")
    parser.add_argument("--tables", action="store_true", help="print the table of the result")
    parser.add_argument("--write", action="store_true", help="put it into the page")
    given = parser.parse_args()
    if given.tables or given.write:
        result = json.loads(RESULT.read_text())
        tell({"takeovers": table(result)}, FOLDER / "README.md" if given.write else None)
        return 0
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {"schemes": {}}
    for name in given.schemes:
        scheme, before = Scheme[name.upper()], os.getloadavg()[0]
        with MastersSandbox.start(
            NODES, 1, lease_seconds=LEASE_SECONDS, scheme=scheme, engine=given.engine
        ) as sandbox:
            found = asyncio.run(measured(sandbox, given.takeovers, scheme))
        row = name if given.engine == EMBEDDED.name else f"{name}, {given.engine}"
        result["schemes"][row] = {**found, "load_before": before, "load_after": os.getloadavg()[0]}
        result["cores"] = os.cpu_count()
        write_atomically(RESULT, json.dumps(result, indent=1).encode())
    print(table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
