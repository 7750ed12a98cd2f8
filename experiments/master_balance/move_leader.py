"""What clients feel when etcd moves its own leader, beside our takeovers, on one machine in one run.

`python experiments/master_balance/move_leader.py` writes `move_leader.json`; `--tables` prints its table,
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
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import aetcd
from looking import MESSAGE_BYTES, Watch, ended, look, milliseconds, share

sys.path.insert(0, str(Path(__file__).parents[1]))
from page import tell

from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab_common.files import write_atomically
from trimtab_store.clients.producer import Producer
from trimtab_store.core.node import ETCD
from trimtab_store.core.settings import TransferScheme

FOLDER = Path(__file__).parent
RESULT = FOLDER / "move_leader.json"
NODES = 3
LEASE_SECONDS = 10.0
SEND_SECONDS = 0.002
"""From one message to the next; none waits for the one before it."""
AGAIN_SECONDS = 0.001
"""After a put that failed, until it is tried again."""
LOOK_SECONDS = 0.01
"""Between two questions who is master, which go on all the time."""
CALL_SECONDS = 2.0
"""What aetcd waits for an answer; etcd itself gives up after 5 s and two elections."""
QUIET_SECONDS = 0.5
PATIENCE_SECONDS = 60.0
OURS = (TransferScheme.EXPIRE, TransferScheme.INSTATE)


@dataclass
class Load:
    """Messages sent at a steady pace, each until it is acknowledged.

    Attributes
    ----------
    acknowledged
        When each was sent and acknowledged, in the order of acknowledgement.
    failed
        When each try was made that failed, and was made again.
    """

    acknowledged: list[tuple[float, float]] = field(default_factory=list)
    failed: list[float] = field(default_factory=list)
    open: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, send: Callable[[], Awaitable[object]], trouble: tuple[type[Exception], ...]) -> None:
        """Send until cancelled, and wait for what is open then."""
        due = time.monotonic()
        try:
            while True:
                task = asyncio.create_task(self._one(send, trouble))
                self.open.add(task)
                task.add_done_callback(self.open.discard)
                due += SEND_SECONDS
                await asyncio.sleep(max(0.0, due - time.monotonic()))
        finally:
            await asyncio.gather(*self.open)

    async def _one(self, send: Callable[[], Awaitable[object]], trouble: tuple[type[Exception], ...]) -> None:
        sent = time.monotonic()
        while True:
            tried = time.monotonic()
            try:
                await send()
                break
            except trouble:
                self.failed.append(tried)
                await asyncio.sleep(AGAIN_SECONDS)
        self.acknowledged.append((sent, time.monotonic()))

    def gap(self, since: float, until: float) -> float:
        """The longest time without an acknowledgement."""
        times = [since, *(at for _, at in self.acknowledged if since <= at < until), until]
        return max(later - earlier for earlier, later in pairwise(times))

    def wait(self, since: float, until: float) -> float:
        """The longest wait of what was sent then, whenever that ended."""
        return max(at - sent for sent, at in self.acknowledged if since <= sent < until)


async def moved(
    load: Load,
    moves: int,
    move: Callable[[], Awaitable[None]],
    send: Callable[[], Awaitable[object]],
    trouble: tuple[type[Exception], ...] = (),
) -> dict[str, Any]:
    """Move again and again; before each, as long without one."""
    working = asyncio.create_task(load.run(send, trouble))
    spans: list[tuple[float, float, float]] = []
    try:
        while len(spans) < moves:
            await asyncio.sleep(2 * QUIET_SECONDS)
            look([working])
            begun = time.monotonic()
            await move()
            await asyncio.sleep(QUIET_SECONDS)
            until = time.monotonic()
            # As long as that, and behind the quiet that the last move was given.
            spans.append((max(2 * begun - until, begun - 2 * QUIET_SECONDS), begun, until))
            print(f"{len(spans)}: {load.gap(begun, until) * 1000:.1f} ms", file=sys.stderr, flush=True)
    finally:
        # What nobody answers shows as late as its time-out: it counts where it was sent.
        await ended([working])
    return {
        "moves": moves,
        "messages": len(load.acknowledged),
        "gap": [round(load.gap(begun, until), 5) for _, begun, until in spans],
        "usual_gap": [round(load.gap(before, begun), 5) for before, begun, _ in spans],
        "wait": [round(load.wait(begun, until), 5) for _, begun, until in spans],
        "usual_wait": [round(load.wait(before, begun), 5) for before, begun, _ in spans],
        "failed": [sum(begun <= at < until for at in load.failed) for _, begun, until in spans],
        "failed_in_all": len(load.failed),
    }


async def of_etcd(sandbox: MastersSandbox, moves: int) -> dict[str, Any]:
    """The call of `etcdctl move-leader`, under puts to one member, which leads one time in three."""
    clients = [
        aetcd.Client("127.0.0.1", port, timeout=CALL_SECONDS) for port in sandbox.state.etcd_ports[::2]
    ]
    numbers, payload, load = count(), b"." * MESSAGE_BYTES, Load()
    try:
        for client in clients:
            await client.connect()
        ids = []
        for client in clients:
            told = await client.maintenancestub.Status(aetcd.rpc.StatusRequest(), timeout=CALL_SECONDS)
            ids.append(told.header.member_id)
        led = [told.leader]

        async def put() -> None:
            # Clients of etcd need not know who leads: a member forwards.
            await clients[0].put(f"/move/{next(numbers)}".encode(), payload)

        async def move() -> None:
            old = ids.index(led[0])
            led[0] = ids[(old + 1) % len(ids)]
            request = aetcd.rpc.MoveLeaderRequest(targetID=led[0])
            await clients[old].maintenancestub.MoveLeader(request, timeout=CALL_SECONDS)

        trouble = (aetcd.ClientError, aetcd.rpc.BaseError, TimeoutError)
        return await moved(load, moves, move, put, trouble)
    finally:
        for client in clients:
            await client.close()


async def of_ours(sandbox: MastersSandbox, moves: int) -> dict[str, Any]:
    """A new version of the map, under messages."""
    payload, load, watch = b"." * MESSAGE_BYTES, Load(), Watch(LOOK_SECONDS)
    tasks = watch.begin(sandbox)

    async def move() -> None:
        ideal = (await master() + 1) % NODES
        sandbox.publish([ideal])
        while await master() != ideal:
            await asyncio.sleep(LOOK_SECONDS / 2)

    async def master() -> int:
        until = time.monotonic() + PATIENCE_SECONDS
        while watch.master < 0:
            look(tasks)
            if time.monotonic() > until:
                raise SystemExit(f"no master within {PATIENCE_SECONDS:g} s")
            await asyncio.sleep(LOOK_SECONDS / 2)
        return watch.master

    try:
        async with Producer(sandbox.state.cluster, "t") as producer:
            return await moved(load, moves, move, lambda: producer.send(payload))
    finally:
        await ended(tasks)


def table(result: dict[str, Any]) -> str:
    """A row for each way, in milliseconds."""
    lines = [
        "| what moves | moves | longest time without an acknowledgement | as long before | longest wait "
        "| as long before | tries that failed, in all |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in result["ways"].items():
        cells = [
            " / ".join(milliseconds(share(found[what], percent)) for percent in (50, 100))
            for what in ("gap", "usual_gap", "wait", "usual_wait")
        ]
        lines.append(f"| {name} | {found['moves']} | {' | '.join(cells)} | {found['failed_in_all']} |")
    return "\n".join(lines)


def main() -> int:
    """Measure, or tell what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=20, help="of each")
    parser.add_argument("--tables", action="store_true", help="print the table of the result")
    parser.add_argument("--write", action="store_true", help="put it into the page")
    given = parser.parse_args()
    if given.tables or given.write:
        told = {"move-leader": table(json.loads(RESULT.read_text()))}
        tell(told, FOLDER / "README.md" if given.write else None)
        return 0
    before, ways = os.getloadavg()[0], {}
    with MastersSandbox.start(NODES, 1, engine=ETCD.name) as sandbox:
        # Its members alone: nobody else has work for them.
        for node in range(NODES):
            sandbox.kill(node)
        ways["etcd's leader, `move-leader`"] = asyncio.run(of_etcd(sandbox, given.moves))
    for scheme in OURS:
        with MastersSandbox.start(NODES, 1, lease_seconds=LEASE_SECONDS, scheme=scheme) as sandbox:
            ways[f"a mastership, `{scheme.name.lower()}`"] = asyncio.run(of_ours(sandbox, given.moves))
    result = {
        "cores": os.cpu_count(),
        "load_before": before,
        "load_after": os.getloadavg()[0],
        "ways": ways,
    }
    write_atomically(RESULT, (json.dumps(result, indent=1) + "\n").encode())
    print(table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
