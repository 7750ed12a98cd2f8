"""How much a cluster stores and hands out, with masters balanced and all on one node, on real processes.

`python experiments/master_balance/throughput.py` writes `throughput.json`; `--tables` prints its table,
`--write` puts it into the page. Each node may use a share of one processor, by a control group.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
from looking import median
from page import tell

from trimtab.dataplane.masters.cluster import MastersCluster
from trimtab.dataplane.masters.consumer import Consumer
from trimtab.dataplane.masters.producer import Producer
from trimtab.files.atomic import write_atomically
from trimtab.lab.sandbox.control_groups import MEMBERS, ControlGroup, make_control_group, remove
from trimtab.lab.sandbox.masters.clients import topics_of
from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab.model.errors import SandboxError
from trimtab.model.imbalance import imbalance

FOLDER = Path(__file__).parent
RESULT = FOLDER / "throughput.json"
NODES, GROUPS = 3, 3
SIZES = (128, 1024, 8192, 65536 - 64)
"""Bytes of a message: the last is 64 below the most that one may have (65,536)."""
SHARE = 0.2
"""Of a processor, that each node may use."""
WARM_SECONDS, SECONDS, TURNS = 2.0, 8.0, 3
LAYOUTS = {"balanced": [0, 1, 2], "concentrated": [0, 0, 0]}
WORKS = ("produce", "consume", "both")
PATIENCE_SECONDS = 60.0


async def _worked(cluster: MastersCluster, topic: str, size: int, work: str, begin: float) -> tuple[int, int]:
    """Messages stored and read in the measured time."""
    stored, read = [0], [0]
    payload, loop = b"." * size, asyncio.get_running_loop()
    end = begin + SECONDS

    def counts(count: list[int]) -> None:
        if begin <= time.time() < end:
            count[0] += 1

    async def produce() -> None:
        async with Producer(cluster, topic, patience_seconds=None) as producer:
            while time.time() < end:
                future = await producer.post(payload)
                future.add_done_callback(lambda done: counts(stored))

    async def consume() -> None:
        # One reader after another, each under a name of its own, from what is there first.
        while time.time() < end:
            async with Consumer(cluster, topic, f"reader-{loop.time()}", patience_seconds=None) as consumer:
                got = 0
                while time.time() < end:
                    try:
                        async with asyncio.timeout(0.3):
                            await consumer.take()
                    except TimeoutError:
                        break
                    counts(read)
                    got += 1

    tasks = [asyncio.create_task(one()) for name, one in (("produce", produce), ("consume", consume))
             if work in (name, "both")]  # fmt: skip
    await asyncio.wait(tasks, timeout=max(0.1, end - time.time()) + 1.0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return stored[0], read[0]


def _client(cluster: MastersCluster, topic: str, size: int, work: str, begin: float, told: Any) -> None:
    told.put(asyncio.run(_worked(cluster, topic, size, work, begin)))


def measured(sandbox: MastersSandbox, groups: list[ControlGroup], size: int, work: str) -> dict[str, Any]:
    """One turn: messages a second over all groups, and what each node used of its share."""
    cluster, told = sandbox.state.cluster, multiprocessing.Queue()
    begin = time.time() + WARM_SECONDS
    clients = [
        multiprocessing.Process(target=_client, args=(cluster, topic, size, work, begin, told))
        for topic in topics_of(cluster)
    ]
    for client in clients:
        client.start()
    time.sleep(max(0.0, begin - time.time()))
    before = [_used_seconds(one) for one in groups]
    time.sleep(SECONDS)
    used = [(_used_seconds(one) - first) / SECONDS for one, first in zip(groups, before, strict=True)]
    counts = [told.get(timeout=PATIENCE_SECONDS) for _ in clients]
    for client in clients:
        client.join()
    stored, read = (sum(one[place] for one in counts) / SECONDS for place in (0, 1))
    return {"stored_per_second": stored, "read_per_second": read, "used": [round(one, 3) for one in used]}


def _used_seconds(group: ControlGroup) -> float:
    """Processor time of a control group."""
    for folder in group.folders:
        if (folder / "cpuacct.usage").exists():
            return int((folder / "cpuacct.usage").read_text()) / 1e9
        if (folder / "cpu.stat").exists() and "usage_usec" in (folder / "cpu.stat").read_text():
            told = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
            return int(told["usage_usec"]) / 1e6
    raise SandboxError("the control group does not tell what it has used")


def busiest(used: list[float], share: float) -> float:
    """The most that any node used of its share, as the pipeline measures the peak usage of any resource."""
    load = np.array(used)[:, None]
    found = imbalance(load, np.full(load.shape, share), np.ones(len(load), dtype=np.bool_), ("processor",))
    return float(found.peak_usage[0])


def laid_out(sandbox: MastersSandbox, layout: str) -> None:
    """Move the masterships, and wait until they are there."""
    sandbox.publish(LAYOUTS[layout])
    until = time.monotonic() + PATIENCE_SECONDS
    while sandbox.masters() != LAYOUTS[layout]:
        if time.monotonic() > until:
            raise SystemExit(f"masters are not {layout} after {PATIENCE_SECONDS:g} s")
        time.sleep(0.2)


def table(result: dict[str, Any]) -> str:
    """A row for each size and kind of work; medians of the turns."""
    lines = [
        "| message | work | balanced, messages/s | concentrated | ratio, least and most "
        "| busiest node, balanced "
        "| concentrated | load average |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in result["rows"]:
        rates = {
            layout: [one["stored_per_second"] + one["read_per_second"] for one in row[layout]]
            for layout in LAYOUTS
        }
        ratios = [a / max(b, 1e-9) for a, b in zip(rates["balanced"], rates["concentrated"], strict=True)]
        busy = {
            layout: median(busiest(one["used"], result["share"]) for one in row[layout]) for layout in LAYOUTS
        }
        middle = median(rates["balanced"]) / max(1e-9, median(rates["concentrated"]))
        lines.append(
            f"| {row['size']:,} B | {row['work']} | {median(rates['balanced']):,.0f} "
            f"| {median(rates['concentrated']):,.0f} "
            f"| {middle:.2f} ({min(ratios):.2f}, {max(ratios):.2f}) "
            f"| {busy['balanced']:.0%} | {busy['concentrated']:.0%} | {row['load_average']:.1f} |"
        )
    return "\n".join(lines)


def compared(sandbox: MastersSandbox, groups: list[ControlGroup], given: argparse.Namespace) -> None:
    """Measure every size and kind of work under both layouts, in turns, and write the result after each."""
    rows: list[dict[str, Any]] = []
    for size in given.sizes:
        for work in given.works:
            row: dict[str, Any] = {"size": size, "work": work, **{layout: [] for layout in LAYOUTS}}
            for _ in range(given.turns):
                for layout in LAYOUTS:
                    laid_out(sandbox, layout)
                    row[layout].append(measured(sandbox, groups, size, work))
            row["load_average"] = os.getloadavg()[0]
            rows.append(row)
            result = {"share": given.share, "seconds": SECONDS, "cores": os.cpu_count(), "rows": rows}
            print(table({**result, "rows": [row]}).splitlines()[-1], file=sys.stderr, flush=True)
            write_atomically(RESULT, (json.dumps(result, indent=1) + "\n").encode())


def main() -> int:
    """Measure, or tell what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--share", type=float, default=SHARE, help="of a processor, for each node")
    parser.add_argument("--tables", action="store_true", help="print the table of the result")
    parser.add_argument("--write", action="store_true", help="put it into the page")
    given = parser.parse_args()
    if given.tables or given.write:
        told = {"throughput": table(json.loads(RESULT.read_text()))}
        tell(told, FOLDER / "README.md" if given.write else None)
        return 0
    names = [f"trimtab-node-{node}-{os.getpid()}" for node in range(NODES)]
    groups = [make_control_group(name, given.share) for name in names]
    try:
        with MastersSandbox.start(NODES, GROUPS, lease_seconds=10.0) as sandbox:
            for node, group in enumerate(groups):
                for folder in group.folders:
                    (folder / MEMBERS).write_text(f"{sandbox.state.processes[node].pid}\n")
            compared(sandbox, groups, given)
    finally:
        remove(folder for group in groups for folder in group.folders)
    print(table(json.loads(RESULT.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
