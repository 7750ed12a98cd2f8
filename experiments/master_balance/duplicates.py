"""How many messages come twice when a consumer does not hand in its offset in a takeover.

`python experiments/master_balance/duplicates.py` writes `duplicates.json`; `--tables` prints its table,
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from looking import MESSAGE_BYTES, Watch, ended, look, share

sys.path.insert(0, str(Path(__file__).parents[1]))
from page import tell

from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab_common.files import write_atomically
from trimtab_store.clients.consumer import Consumer, StoredMessage
from trimtab_store.clients.producer import Producer
from trimtab_store.core.messages import OffsetUpload, RequestOffset, SendMessage

FOLDER = Path(__file__).parent
RESULT = FOLDER / "duplicates.json"
NODES = 3
LEASE_SECONDS = 10.0
SEND_SECONDS = 0.01
LOOK_SECONDS = 0.01
BEFORE_SECONDS = 2.0
"""Consumers read for so long before a takeover, and up to a second longer."""
BEHIND_SECONDS = 1.5
"""And for so long behind it: what comes again comes at once."""
PATIENCE_SECONDS = 90.0
CHANCE = random.Random(1)
WAYS = {
    "hands it in": "answers the question for its offset",
    "drops the question": "does not hear it, and hands its offset in every half second as ever",
    "is paused": "from the question on hears and says nothing until the takeover is over",
}


class Reader(Consumer):
    """A consumer that may leave the question for its offset unanswered.

    Attributes
    ----------
    got
        Producer and sequence of each message, in the order in which they came.
    deaf_to
        A node of which it hears nothing.
    """

    def __init__(self, *values: Any, method: str, **named: Any) -> None:
        super().__init__(*values, **named)
        self.method, self.paused, self.asked, self.deaf_to = method, False, False, -1
        self.got: list[tuple[str, int]] = []

    def _on_connected(self, node: int, told: Any) -> None:
        if isinstance(told[1], RequestOffset):
            self.asked = True
            self.paused = self.paused or self.method == "is paused"
            if self.method == "drops the question":
                return
        if not self.paused and node != self.deaf_to:
            super()._on_connected(node, told)

    def _carry_out(self, orders: Sequence[SendMessage]) -> None:
        # A pause keeps what it would say about its offset; a question that is lost is asked again.
        super()._carry_out(
            [one for one in orders if not (self.paused and isinstance(one.message, OffsetUpload))]
        )

    async def read(self) -> None:
        """Read for good, and be done with each message at once."""
        async for message in self:
            self.note(message)

    def note(self, message: StoredMessage) -> None:
        """Take note of a message."""
        self.got.append((message.producer, message.sequence))
        self.done(message)


def twice(before: Sequence[tuple[str, int]], got: Sequence[tuple[str, int]]) -> int:
    """How many messages came that had come before."""
    had, count = set(before), 0
    for one in got:
        count += one in had
        had.add(one)
    return count


def fresh(before: Sequence[tuple[str, int]], got: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """What is left if whoever reads drops what is not newer than what it has had of its producer."""
    highest: dict[str, int] = {}
    for producer, sequence in before:
        highest[producer] = max(sequence, highest.get(producer, 0))
    left = []
    for producer, sequence in got:
        if sequence > highest.get(producer, 0):
            highest[producer] = sequence
            left.append((producer, sequence))
    return left


async def one(sandbox: MastersSandbox, watch: Watch, method: str) -> dict[str, int]:
    """A takeover with two consumers: one that goes on, and one behind which another of its name begins."""
    # The names stay the same: a master asks a name that has gone for its offset too, and waits for it.
    cluster, ideal = sandbox.state.cluster, (watch.master + 1) % NODES
    async with Reader(cluster, "t", "stays", method=method) as stays:
        reading = [asyncio.create_task(stays.read())]
        try:
            async with Reader(cluster, "t", "leaves", method=method) as leaves:
                reading.append(asyncio.create_task(leaves.read()))
                await asyncio.sleep(BEFORE_SECONDS + CHANCE.random())
                # It ends before the next master serves it: what that hands out is another matter.
                leaves.deaf_to = ideal
                sandbox.publish([ideal])
                until = time.monotonic() + PATIENCE_SECONDS
                while watch.master != ideal:
                    look(reading)
                    if time.monotonic() > until:
                        raise SystemExit(f"no takeover within {PATIENCE_SECONDS:g} s")
                    await asyncio.sleep(LOOK_SECONDS)
                assert stays.asked and leaves.asked, "the master did not ask for offsets"
                await ended([reading.pop()])
            stays.paused = False
            async with Reader(cluster, "t", "leaves", method="hands it in") as later:
                reading.append(asyncio.create_task(later.read()))
                await asyncio.sleep(BEHIND_SECONDS)
            look([task for task in reading if not task.done()])
        finally:
            await ended(reading)
    return {
        "same": twice([], stays.got),
        "later": twice(leaves.got, later.got),
        "dropped": twice(leaves.got, fresh(leaves.got, later.got)),
        "read": len(later.got),
    }


async def measured(sandbox: MastersSandbox, takeovers: int, method: str) -> dict[str, Any]:
    """Takeovers one after another."""
    watch = Watch(LOOK_SECONDS)
    tasks = watch.begin(sandbox)
    rows: list[dict[str, int]] = []
    try:
        async with Producer(sandbox.state.cluster, "t") as producer:

            async def produce() -> None:
                while True:
                    await producer.post(b"." * MESSAGE_BYTES)
                    await asyncio.sleep(SEND_SECONDS)

            tasks.append(asyncio.create_task(produce()))
            while watch.master < 0:
                await asyncio.sleep(LOOK_SECONDS)
            while len(rows) < takeovers:
                look(tasks)
                rows.append(await one(sandbox, watch, method))
                print(f"{method} {len(rows)}: {rows[-1]}", file=sys.stderr, flush=True)
    finally:
        await ended(tasks)
    return {"takeovers": len(rows), **{name: [row[name] for row in rows] for name in rows[0]}}


def table(result: dict[str, Any]) -> str:
    """A row for each method."""
    lines = [
        "| the consumer | takeovers | twice to itself | twice to the next of its name "
        "| of that, behind dropping by (producer, sequence) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for method, found in result["ways"].items():
        cells = [
            " / ".join(f"{share(found[what], percent):.0f}" for percent in (50, 100))
            for what in ("same", "later", "dropped")
        ]
        lines.append(f"| {method}: {WAYS[method]} | {found['takeovers']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Measure, or tell what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transfers", type=int, default=20, help="of each method")
    parser.add_argument("--tables", action="store_true", help="print the table of the result")
    parser.add_argument("--write", action="store_true", help="put it into the page")
    given = parser.parse_args()
    if given.tables or given.write:
        told = {"duplicates": table(json.loads(RESULT.read_text()))}
        tell(told, FOLDER / "README.md" if given.write else None)
        return 0
    ways = {}
    with MastersSandbox.start(NODES, 1, lease_seconds=LEASE_SECONDS) as sandbox:
        for method in WAYS:
            ways[method] = asyncio.run(measured(sandbox, given.transfers, method))
    result = {"cores": os.cpu_count(), "load_average": os.getloadavg()[0], "ways": ways}
    write_atomically(RESULT, (json.dumps(result, indent=1) + "\n").encode())
    print(table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
