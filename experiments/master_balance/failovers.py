"""How long a group has no master when its master is killed with -9, as clients see it, engine by engine.

`python experiments/master_balance/failovers.py` writes `failovers.json`; `--tables` prints its table,
`--write` puts it into the page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from looking import Clients, Watch, ended, longest, look, milliseconds, share

sys.path.insert(0, str(Path(__file__).parents[1]))
from page import tell

from trimtab.lab.sandbox.masters.sandbox import MastersSandbox, settings_for
from trimtab_common.files import write_atomically
from trimtab_store.core.node import ENGINES
from trimtab_store.core.settings import StoreSettings

FOLDER = Path(__file__).parent
RESULT = FOLDER / "failovers.json"
NODES = 3
LEASE_SECONDS = 10.0
LOOK_SECONDS = 0.005
"""A failover takes seconds, and whoever asks takes the processor from those who are asked."""
QUIET_SECONDS = 0.5
PATIENCE_SECONDS = 60.0


async def failed_over(
    sandbox: MastersSandbox, kills: int, settings: StoreSettings, chance: random.Random
) -> dict[str, Any]:
    """Kill the master again and again; the dead node is started again between."""
    watch, clients = Watch(LOOK_SECONDS), Clients()
    tasks = watch.begin(sandbox)
    tasks += [asyncio.create_task(clients.produce(sandbox)), asyncio.create_task(clients.consume(sandbox))]
    rows: list[dict[str, float]] = []
    try:
        while watch.master < 0 or not clients.read:
            look(tasks)
            await asyncio.sleep(0.05)
        while len(rows) < kills:
            # At any moment of a period of renewal.
            await asyncio.sleep(QUIET_SECONDS + chance.uniform(0.0, settings.renewal_seconds))
            victim = watch.master
            killed = time.monotonic()
            sandbox.kill(victim)
            heir = await _heir(watch, victim, tasks)
            await asyncio.sleep(QUIET_SECONDS)
            while clients.read[-1][0] < watch.first[heir] or len(clients.read) < len(clients.acknowledged):
                look(tasks)
                await asyncio.sleep(0.05)
            rows.append(
                {
                    "first_yes": watch.first[heir] - killed,
                    "produce": longest(clients.acknowledged, killed),
                    "consume": longest(clients.read, killed),
                }
            )
            print(f"{len(rows)}: {rows[-1]['first_yes']:.2f} s", file=sys.stderr, flush=True)
            sandbox.restart(victim)
            # It leaves the group to others for a lease, and tries at its turn behind that.
            while victim not in watch.holds:
                look(tasks)
                await asyncio.sleep(0.05)
            await asyncio.sleep(settings.lease_seconds + settings.renewal_seconds)
    finally:
        await ended(tasks)
    return {
        "kills": len(rows),
        "messages": len(clients.acknowledged),
        "errors": clients.errors,
        "propose_seconds": clients.usual(),
        **{name: [round(row[name], 4) for row in rows] for name in rows[0]},
    }


async def _heir(watch: Watch, victim: int, tasks: list[asyncio.Task[None]]) -> int:
    """The node that says first that it is master after another one is dead."""
    until = time.monotonic() + PATIENCE_SECONDS
    while watch.master in (-1, victim):
        look(tasks)
        if time.monotonic() > until:
            raise SystemExit(f"no other master within {PATIENCE_SECONDS:g} s after a kill")
        await asyncio.sleep(0.01)
    return watch.master


def table(result: dict[str, Any]) -> str:
    """A row for each engine, in seconds."""
    lines = [
        "| engine | kills | first yes of another node | L + R + P | within it | longest wait of a producer "
        "| of a consumer | P, ms | errors | load average |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in result["engines"].items():
        bound = result["lease_seconds"] + result["renewal_seconds"] + found["propose_seconds"]
        within = sum(seconds <= bound for seconds in found["first_yes"])
        waits = [
            " / ".join(f"{share(found[what], percent):.2f}" for percent in (0, 50, 100))
            for what in ("first_yes", "produce", "consume")
        ]
        lines.append(
            f"| `{name}` | {found['kills']} | {waits[0]} | {bound:.2f} | {within} | {waits[1]} | {waits[2]} "
            f"| {milliseconds(found['propose_seconds'])} | {found['errors']} | {found['load_average']:.1f} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, or tell what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="of each engine's masters")
    parser.add_argument("--engines", nargs="+", choices=sorted(ENGINES), default=sorted(ENGINES))
    parser.add_argument("--seed", type=int, default=1, help="of moments")
    parser.add_argument("--tables", action="store_true", help="print the table of the result")
    parser.add_argument("--write", action="store_true", help="put it into the page")
    given = parser.parse_args()
    if given.tables or given.write:
        result = json.loads(RESULT.read_text())
        tell({"failovers": table(result)}, FOLDER / "README.md" if given.write else None)
        return 0
    settings = settings_for(LEASE_SECONDS)
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {"engines": {}}
    for engine in given.engines:
        with MastersSandbox.start(NODES, 1, lease_seconds=LEASE_SECONDS, engine=engine) as sandbox:
            # Any node may be master: nobody takes the group back from whoever has it.
            sandbox.publish([-1])
            found = asyncio.run(failed_over(sandbox, given.kills, settings, random.Random(given.seed)))
        result["engines"][engine] = {**found, "load_average": os.getloadavg()[0]}
        result |= {
            "cores": os.cpu_count(),
            "lease_seconds": settings.lease_seconds,
            "renewal_seconds": settings.renewal_seconds,
        }
        write_atomically(RESULT, (json.dumps(result, indent=1) + "\n").encode())
    print(table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
