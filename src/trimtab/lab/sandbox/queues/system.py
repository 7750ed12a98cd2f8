"""Commands of a sandbox of queues: start, describe, load, kill and restart."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Final

from trimtab.jars import ProgressCallback
from trimtab.lab.sandbox.queues import program
from trimtab.lab.sandbox.queues.sandbox import SERVER_ID, QueuesSandbox, QueuesSandboxState, queues_of
from trimtab.lab.sandbox.systems import SandboxSystem
from trimtab.systems.redis.client import open_server

SECONDS_BETWEEN_PROGRESS: Final = 10.0
DRAIN_SECONDS: Final = 120.0


def describe(state: QueuesSandboxState) -> str:
    """The address of the sandbox and the state of each process, as lines of text."""
    queues = queues_of(state)
    lines = [f"address   {state.url}", f"settings  {state.settings}", f"folder    {state.folder}", ""]
    lines.append("process   pid      queue  state")
    for node in state.nodes:
        process = state.alive.get(node.id)
        name = node.role if node.id == SERVER_ID else f"{node.role} {node.id}"
        queue = queues.get(node.id)
        at_work = node.id == SERVER_ID or queue is not None
        condition = "not running" if process is None else "at work" if at_work else "has no queue yet"
        pid, shown = process.pid if process else "-", "-" if queue is None else queue
        lines.append(f"{name:8}  {pid:<7}  {shown:<5}  {condition}")
    return "\n".join(lines)


def kill(state: QueuesSandboxState, worker: int) -> str:
    """Kill a worker with -9; the consequences in one line."""
    QueuesSandbox(state).kill(worker)
    return (
        f"worker {worker} is killed; in about ten seconds other workers take over its messages, "
        "and none is lost"
    )


def restart(state: QueuesSandboxState, worker: int) -> str:
    """Restart a killed worker and wait until it has a queue; the result in one line."""
    sandbox = QueuesSandbox(state)
    sandbox.restart(worker)
    sandbox.wait_until_serving()
    return f"worker {worker} is back, with queue {queues_of(sandbox.state)[worker]}"


def load(
    state: QueuesSandboxState,
    seed: int,
    rate: float | None,
    seconds: float | None,
    slow: bool,
    print_progress: ProgressCallback,
) -> str:
    """Send votes and reports until time is up or Ctrl-C, and wait until all are processed.

    Parameters
    ----------
    rate
        Messages a second; None for as many as keep the workers busy for `program.USE` of their time.
    slow
        Votes take three times as long.

    Returns
    -------
    str
        A line on what was sent and how long the rest took.
    """
    rate = program.rate(state.workers) if rate is None else rate
    print_progress(f"{rate:.0f} messages a second, four of five are votes; Ctrl-C stops")
    begun = shown = time.monotonic()

    def sent(counts: Counter[str]) -> None:
        nonlocal shown
        if time.monotonic() >= shown + SECONDS_BETWEEN_PROGRESS:
            shown = time.monotonic()
            print_progress(
                f"{shown - begun:.0f} s: {counts.total():,} messages sent, {_waiting(state):,} in the queues"
            )

    counts = asyncio.run(program.send(state.settings, seed, rate, seconds, slow=slow, sent=sent))
    ended = time.monotonic()
    while left := _waiting(state):
        if time.monotonic() > ended + DRAIN_SECONDS:
            break
        time.sleep(0.1)
    done = time.monotonic() - ended
    told = f"{counts.total():,} messages sent in {ended - begun:.0f} s ({counts['vote']:,} votes, "
    told += f"{counts['report']:,} reports), all accepted; "
    if left:
        return told + f"{left:,} are still in the queues after {done:.0f} s: check that the workers run"
    return told + f"all were done {done:.1f} s later"


def _waiting(state: QueuesSandboxState) -> int:
    """The number of messages that wait or are being processed."""
    with open_server(state.connection) as server:
        return sum(one.get("length", 0) for one in server.counters().queues.values())


QUEUES: Final = SandboxSystem(
    state=QueuesSandboxState,
    start=lambda **options: QueuesSandbox.start(detached=True, **options).state,
    describe=describe,
    steps=(
        ("load", "send short votes and long reports, until Ctrl-C"),
        ("kill 2", "kill a worker while they are at it"),
    ),
    verbs={"load": load, "kill": kill, "restart": restart},
)
