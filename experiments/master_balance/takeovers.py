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
from functools import partial
from pathlib import Path
from typing import Any

from looking import Clients, Watch, ended, longest, look, share, shares

sys.path.insert(0, str(Path(__file__).parents[1]))
from page import tell

from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab_common.files import write_atomically
from trimtab_store.clients.cluster import masters_of, query_group_status
from trimtab_store.core.node import EMBEDDED, ENGINES
from trimtab_store.core.settings import TransferScheme

FOLDER = Path(__file__).parent
RESULT = FOLDER / "takeovers.json"
NODES = 3
LEASE_SECONDS = 10.0
SLOW = TransferScheme.AWAIT, TransferScheme.ADVANCE
QUIET_SECONDS = 0.5
"""Before and after a takeover, in which clients are looked at, too."""
PATIENCE_SECONDS = 90.0
GROUPS = 12
"""Of the maps that are followed as fast as nodes can."""
FOLLOW_SECONDS, FOLLOW_LOOK_SECONDS = 60.0, 0.1
SOURCE = {"await": "7.5 to 12.5 s", "advance": ".02 to 2.5 s", "expire": ".02 s", "instate": "one proposal"}
"""From the proposal to the next master, by the source: L = 10 s, R = 2.5 s, P = 10 ms."""


async def measured(sandbox: MastersSandbox, takeovers: int, scheme: TransferScheme) -> dict[str, Any]:
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
                look(tasks)
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
                    "forwarded": clients.forwarded(since),
                }
            )
            print(f"{scheme.name.lower()} {len(rows)}: {gap * 1000:.1f} ms", file=sys.stderr, flush=True)
    finally:
        await ended(tasks)
    return {
        "takeovers": len(rows),
        "unclear": unclear,
        "messages": len(clients.acknowledged),
        "errors": clients.errors,
        "usual_produce": clients.usual(),
        **{name: [round(row[name], 5) for row in rows] for name in rows[0]},
    }


async def followed(sandbox: MastersSandbox) -> dict[str, float]:
    """How many masterships move while one map of all groups follows the other; nobody sends or reads."""
    cluster = sandbox.state.cluster
    masters = masters_of(await query_group_status(cluster), cluster.groups)
    begun, maps = time.monotonic(), 0
    while (passed := time.monotonic() - begun) < FOLLOW_SECONDS:
        masters = [(master + 1) % NODES for master in masters]
        sandbox.publish(masters)
        maps += 1
        until = time.monotonic() + cluster.groups * PATIENCE_SECONDS
        while masters_of(await query_group_status(cluster), cluster.groups) != masters:
            if time.monotonic() > until:
                raise SystemExit(f"a map of {cluster.groups} groups is not followed in {until - begun:.0f} s")
            await asyncio.sleep(FOLLOW_LOOK_SECONDS)
    return {"maps": maps, "seconds": passed, "a_minute": 60 * maps * cluster.groups / passed}


def table(result: dict[str, Any]) -> str:
    """A row for each scheme."""
    lines = [
        "| scheme | by the source | takeovers | without a master | longest wait of a producer "
        "| of a consumer | usual wait | errors | messages forwarded | takeovers a minute |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    order = list(SOURCE)
    rows = sorted(result["schemes"].items(), key=lambda row: order.index(row[0].partition(",")[0]))
    for name, found in sorted(rows, key=lambda row: row[0].partition(",")[2]):
        # Rows that were measured before these were counted have neither.
        forwarded, rate = "", ""
        if "forwarded" in found:
            counts = [share(found["forwarded"], percent) for percent in (50, 100)]
            forwarded = " / ".join(f"{count:.0f}" for count in counts)
        if "followed" in found:
            rate = f"{found['followed']['a_minute']:,.0f}"
        lines.append(
            f"| `{name}` | {SOURCE[name.partition(',')[0]]} | {found['takeovers']} "
            f"| {shares(found['without_master'])} | {shares(found['produce'])} | {shares(found['consume'])} "
            f"| {found['usual_produce'] * 1000:.1f} | {found['errors']} | {forwarded} | {rate} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, or tell what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--transfers", type=int, help="of each scheme; 10 of those that take seconds, 40 of the others"
    )
    parser.add_argument("--schemes", nargs="+", choices=list(SOURCE), default=list(SOURCE))
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
        scheme, before = TransferScheme[name.upper()], os.getloadavg()[0]
        takeovers = given.transfers or (10 if scheme in SLOW else 40)
        start = partial(
            MastersSandbox.start, NODES, lease_seconds=LEASE_SECONDS, scheme=scheme, engine=given.engine
        )
        with start(1) as sandbox:
            found = asyncio.run(measured(sandbox, takeovers, scheme))
        with start(GROUPS) as sandbox:
            found["followed"] = asyncio.run(followed(sandbox))
        row = name if given.engine == EMBEDDED.name else f"{name}, {given.engine}"
        result["schemes"][row] = {**found, "load_before": before, "load_after": os.getloadavg()[0]}
        result["cores"] = os.cpu_count()
        write_atomically(RESULT, (json.dumps(result, indent=1) + "\n").encode())
    print(table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
