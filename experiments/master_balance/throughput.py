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
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
from looking import median
from page import tell

from trimtab.lab.sandbox.cgroups import MEMBERS, NodeCgroup, make_control_group, remove
from trimtab.lab.sandbox.masters.clients import topics_of
from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab.model.errors import SandboxError
from trimtab.model.load import imbalance
from trimtab_common.files import write_atomically
from trimtab_store.clients.cluster import StoreConfig
from trimtab_store.clients.consumer import Consumer
from trimtab_store.clients.producer import Producer

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
FLUSH_SECONDS = 20.0
"""After the measured time, for what is still unacknowledged."""
END_SECONDS = 1.0
"""A reader that gets nothing for so long, or for half of it, has read all there is."""
FILL_BYTES, FILL_MESSAGES = 12 << 20, 8000
"""Of each topic, before anything is read: whichever is less."""


class _Client:
    """A producer, a consumer or both, of one topic, and what they counted.

    Parameters
    ----------
    still
        Whether nobody sends: what stood last in the topic when a reader came to its end stays the last.

    Attributes
    ----------
    stored, read
        Messages acknowledged, and messages that a reader got for the first time, in the measured time.
    given, sent, acknowledged
        Messages given to the producer in all its life, how often it sent any, and how many were stored.
    twice
        Messages that a reader got for a second time in its life, or that stand in the topic twice.
    """

    def __init__(self, cluster: StoreConfig, topic: str, size: int, begin: float, *, still: bool) -> None:
        self._cluster, self._topic, self._payload = cluster, topic, b"." * size
        self._begin, self._end = begin, begin + SECONDS
        self._still, self._last = still, -2
        self.stored = self.read = self.given = self.sent = self.acknowledged = self.twice = 0

    @property
    def _measured(self) -> bool:
        return self._begin <= time.time() < self._end

    def _absorb_result(self, future: asyncio.Future[int]) -> None:
        if not future.cancelled():
            self.acknowledged += 1
            self.stored += self._measured

    async def produce(self) -> None:
        """Send as fast as messages are acknowledged, then wait until all are."""
        async with Producer(self._cluster, self._topic, timeout_seconds=None) as producer:
            while time.time() < self._end:
                future = await producer.post(self._payload)
                future.add_done_callback(self._absorb_result)
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await producer.flush()
            self.given, self.sent = producer.counts

    async def consume(self) -> None:
        """Read all of the topic, by one reader after another, each under a name of its own."""
        while time.time() < self._end:
            name = f"reader-{time.time()}"
            async with Consumer(self._cluster, self._topic, name, timeout_seconds=None) as consumer:
                await self._consume(consumer)

    async def _consume(self, consumer: Consumer) -> None:
        lasts, offset, loop = dict[str, int](), -1, asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS) as limit:
                while time.time() < self._end and offset != self._last:
                    message = await consumer.receive()
                    new = message.offset > offset and message.sequence > lasts.get(message.producer, 0)
                    offset, lasts[message.producer] = message.offset, message.sequence
                    self.twice += not new
                    self.read += new and self._measured
                    if loop.time() + END_SECONDS / 2 > (limit.when() or 0.0):
                        limit.reschedule(loop.time() + END_SECONDS)
        if limit.expired() and self._still and offset >= 0:
            self._last = offset

    async def work(self, work: str) -> dict[str, int]:
        """Do it, and tell the counts."""
        works = {"produce": self.produce, "consume": self.consume}
        tasks = [asyncio.create_task(one()) for name, one in works.items() if work in (name, "both")]
        await asyncio.gather(*tasks)
        names = ("stored", "read", "given", "sent", "acknowledged", "twice")
        return {name: getattr(self, name) for name in names}


def _client(cluster: StoreConfig, topic: str, size: int, work: str, begin: float, told: Any) -> None:
    client = _Client(cluster, topic, size, begin, still=work == "consume")
    told.put(asyncio.run(client.work(work)))


async def _filled(cluster: StoreConfig, topic: str, size: int) -> None:
    """Store so many messages in a topic that readers have something to read."""
    async with Producer(cluster, topic) as producer:
        for _ in range(min(FILL_MESSAGES, FILL_BYTES // size)):
            await producer.post(b"." * size)
        await producer.flush()


def measured(sandbox: MastersSandbox, groups: list[NodeCgroup], size: int, work: str) -> dict[str, Any]:
    """One turn: messages a second over all groups, and what each node used of its share."""
    cluster, told = sandbox.state.cluster, multiprocessing.Queue()
    begin = time.time() + WARM_SECONDS
    clients = [
        multiprocessing.Process(target=_client, args=(cluster, topic, size, work, begin, told))
        for topic in topics_of(cluster, prefix=str(size))
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
    sums = {name: sum(one[name] for one in counts) for name in counts[0]}
    return {
        "stored_per_second": sums.pop("stored") / SECONDS,
        "read_per_second": sums.pop("read") / SECONDS,
        **sums,
        "of_topics": sorted(one["stored"] + one["read"] for one in counts),
        "used": [round(one, 3) for one in used],
    }


def _used_seconds(group: NodeCgroup) -> float:
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


def sent_again(turns: list[dict[str, Any]]) -> str:
    """Messages that producers sent beyond one each, as a share of those that were given to them."""
    given = sum(one["given"] for one in turns)
    return f"{sum(one['sent'] for one in turns) / given - 1:.2%}" if given else ""


def table(result: dict[str, Any]) -> str:
    """A row for each size and kind of work; medians of the turns."""
    lines = [
        "| message | work | balanced, messages/s | concentrated | ratio, least and most | turns "
        "| sent again, balanced | concentrated | unacknowledged | read twice | busiest node, balanced "
        "| concentrated | load average |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in sorted(result["rows"], key=lambda one: (one["size"], WORKS.index(one["work"]))):
        rates = {
            layout: [one["stored_per_second"] + one["read_per_second"] for one in row[layout]]
            for layout in LAYOUTS
        }
        turns = [one for layout in LAYOUTS for one in row[layout]]
        ratios = [a / max(b, 1e-9) for a, b in zip(rates["balanced"], rates["concentrated"], strict=True)]
        busy = {
            layout: median(busiest(one["used"], result["share"]) for one in row[layout]) for layout in LAYOUTS
        }
        middle = median(rates["balanced"]) / max(1e-9, median(rates["concentrated"]))
        lines.append(
            f"| {row['size']:,} B | {row['work']} | {median(rates['balanced']):,.0f} "
            f"| {median(rates['concentrated']):,.0f} "
            f"| {middle:.2f} ({min(ratios):.2f}, {max(ratios):.2f}) | {len(ratios)} "
            f"| {sent_again(row['balanced'])} | {sent_again(row['concentrated'])} "
            f"| {sum(one['given'] - one['acknowledged'] for one in turns):,} "
            f"| {sum(one['twice'] for one in turns):,} "
            f"| {busy['balanced']:.0%} | {busy['concentrated']:.0%} | {row['load_average']:.1f} |"
        )
    return "\n".join(lines)


def compared(sandbox: MastersSandbox, groups: list[NodeCgroup], given: argparse.Namespace) -> None:
    """Measure every size and kind of work under both layouts, in turns, and write the result after each."""
    rows: list[dict[str, Any]] = []
    if given.add and RESULT.exists():
        measured_now = {(size, work) for size in given.sizes for work in given.works}
        before = json.loads(RESULT.read_text())["rows"]
        rows = [one for one in before if (one["size"], one["work"]) not in measured_now]
    for size in given.sizes:
        for topic in topics_of(sandbox.state.cluster, prefix=str(size)):
            asyncio.run(_filled(sandbox.state.cluster, topic, size))
        of_size: list[dict[str, Any]] = [
            {"size": size, "work": work, **{layout: [] for layout in LAYOUTS}} for work in given.works
        ]
        for _ in range(given.turns):
            for layout in LAYOUTS:
                laid_out(sandbox, layout)
                for row in of_size:
                    row[layout].append(measured(sandbox, groups, size, row["work"]))
                    row["load_average"] = os.getloadavg()[0]
            result: dict[str, Any] = {"share": given.share, "seconds": SECONDS, "cores": os.cpu_count()}
            result["rows"] = [*rows, *of_size]
            write_atomically(RESULT, (json.dumps(result, indent=1) + "\n").encode())
            print(table({**result, "rows": of_size}), file=sys.stderr, flush=True)
        rows += of_size


def main() -> int:
    """Measure, or tell what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument(
        "--add", action="store_true", help="keep the rows that are there and not measured now"
    )
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
