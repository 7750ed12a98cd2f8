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
from pathlib import Path
from typing import Any

from looking import Clients, Watch, ended, longest, look, shares

sys.path.insert(0, str(Path(__file__).parents[1]))
from page import tell

from trimtab.files.atomic import write_atomically
from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab.online.masters.engines import EMBEDDED, ENGINES
from trimtab.online.masters.settings import Scheme

FOLDER = Path(__file__).parent
RESULT = FOLDER / "takeovers.json"
NODES = 3
LEASE_SECONDS = 10.0
QUIET_SECONDS = 0.5
"""Before and after a takeover, in which clients are looked at, too."""
PATIENCE_SECONDS = 90.0


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
