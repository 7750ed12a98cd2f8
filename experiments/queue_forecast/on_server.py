"""The same comparison on a real server with real worker processes, scaled down.

    python experiments/queue_forecast/on_server.py                    # the paper's load; writes server.json
    python experiments/queue_forecast/on_server.py --data recordings  # and a recorded trace, unequal workers

Five processes, each with one message in work, which sleeps for as long as the message takes. Counts are
a twentieth of the paper's 10,000 messages, weights a fifth: a hundredth of its time. Queues have room for all
of it, and none is overloaded. `overload` is 1,500 messages of a tenth of the weights over queues of 200: they
fill up, are paused, relieved and opened again. Schemes take turns, for several rounds: what a machine does
beside them meets all alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import numpy as np
from redis import Redis
from schemes import BY_COUNT, BY_WORK, QUEUES, THRESHOLD, WEIGHTS

from simulate.arrivals import ReplayedMessage, at_random, in_step
from trimtab.lab.sandbox.processes import SandboxProcess, kill, spawn
from trimtab.lab.sandbox.queues.sandbox import RedisServerProcess
from trimtab_common.files import write_atomically
from trimtab_queues import BalancedBroker
from trimtab_queues.broker.backend import end_task
from trimtab_queues.core.catalogue import POLICIES, DispatchInputs
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policies import DispatchPolicy
from trimtab_queues.core.scheduling import SchedulingSettings

FOLDER = Path(__file__).parent
MESSAGES, CAPACITY, SHRUNK = 500, 500, 5
"""Of the paper's 10,000 and 10,000; weights are divided by the last."""
OVERLOAD = {"messages": 1500, "capacity": 200, "shrunk": 10}
"""The same where queues overflow."""
LOOK_SECONDS = 0.05
PACE = {"window_seconds": 0.2, "cycle_seconds": 1.0}
"""ε and T: a fifth and a tenth of the paper's, for a look across a network needs its time."""


@dataclass(frozen=True)
class Made:
    """A policy, balance scheduling and whether quick messages go first."""

    policy: str
    scheduling: SchedulingSettings | None = None
    max_overtake_seconds: float = 0.0


SCHEMES = {
    "none": Made("round_robin"),
    "threshold": Made(
        "marked_round_robin",
        replace(
            THRESHOLD,
            threshold_unit="share",
            light_threshold=0.3,
            overload_threshold=0.3,
            window_seconds=1.0,
            cycle_seconds=1.0,
        ),
    ),
    "forecast by count": Made("marked_round_robin", replace(BY_COUNT, **PACE)),
    "forecast by work": Made("marked_round_robin", replace(BY_WORK, **PACE)),
    "least_work_left": Made("least_work_left"),
    "least_work_left, forecast by work, lanes": Made("least_work_left", replace(BY_WORK, **PACE), 30.0),
}


@dataclass(frozen=True)
class Load:
    """Messages, how fast the workers are, and how many a queue may hold."""

    messages: Sequence[ReplayedMessage]
    speed: Sequence[float]
    capacity: int = CAPACITY


def broker_of(name: str, url: str, capacity: int) -> BalancedBroker:
    """The broker of a scheme."""
    made = SCHEMES[name]

    def policy(ledger: QueueLedger) -> DispatchPolicy:
        return POLICIES[made.policy](ledger, DispatchInputs())

    return BalancedBroker(
        url,
        queues=QUEUES,
        capacity=capacity,
        policy=policy,
        scheduling=made.scheduling,
        max_overtake_seconds=made.max_overtake_seconds,
        enqueue_timeout_seconds=None,
        heartbeat_timeout_seconds=30.0,
    )


def task_of(broker: BalancedBroker) -> Any:
    """The only task: sleep, and write down when."""

    async def work(number: int, seconds: float) -> None:
        began = time.time()
        await asyncio.sleep(seconds / float(os.environ["SPEED"]))
        with Path(os.environ["RECORDS"]).open("a") as records:
            records.write(json.dumps([number, began, time.time()]) + "\n")

    return broker.register_task(work, task_name="work")


async def _work() -> None:
    from taskiq.api import run_receiver_task

    broker = broker_of(os.environ["SCHEME"], os.environ["URL"], int(os.environ["CAPACITY"]))
    task_of(broker)
    broker.is_worker_process = True
    await run_receiver_task(broker, run_startup=True, max_async_tasks=1)


async def _watch(broker: BalancedBroker, looks: list[bool]) -> None:
    while True:
        looks.append(any(one.paused for one in (await broker.backend.counts()).queues))
        await asyncio.sleep(LOOK_SECONDS)


async def _send(name: str, url: str, load: Load) -> tuple[list[float], dict[str, float]]:
    broker = broker_of(name, url, load.capacity)
    loads, looks = load.messages, list[bool]()
    task = task_of(broker)
    await broker.startup()
    async with asyncio.timeout(120):
        while not all(one.alive for one in (await broker.backend.counts()).queues):
            await asyncio.sleep(0.1)
    watching = asyncio.create_task(_watch(broker, looks))
    begun, due = time.time(), []
    for one in loads:
        await asyncio.sleep(max(0.0, begun + one.deadline - time.time()))
        due.append(begun + one.deadline)
        await task.kicker().with_labels(weight=one.weight).kiq(one.number, one.takes_seconds)
    sent = time.time() - begun
    await broker.drained()
    await end_task(watching)
    totals, queues = await broker.backend.server_counts(), (await broker.backend.counts()).queues
    await broker.shutdown()
    return due, {
        "sent_seconds": round(sent, 3),
        "looks_with_pause_share": round(sum(looks) / len(looks), 3),
        "pauses": totals.pauses,
        "moved": totals.moved,
        "still_paused": sum(one.paused for one in queues),
    }


def run(name: str, server: RedisServerProcess, load: Load) -> dict[str, Any]:
    """One scheme under a load; every message must have been done once."""
    server.empty()
    loads, speed = load.messages, load.speed
    with tempfile.TemporaryDirectory() as folder:
        records = [Path(folder) / f"{worker}.json" for worker in range(QUEUES)]
        workers: list[SandboxProcess] = []
        try:
            for worker, its in enumerate(speed):
                command = [sys.executable, str(Path(__file__).resolve()), "--work"]
                environment = {
                    "SCHEME": name, "URL": server.url, "SPEED": str(its),
                    "RECORDS": str(records[worker]), "PYTHONPATH": os.pathsep.join(sys.path),
                    "CAPACITY": str(load.capacity),
                }  # fmt: skip
                workers.append(
                    spawn(
                        [
                            which("env") or "",
                            *(f"{key}={value}" for key, value in environment.items()),
                            *command,
                        ],
                        Path(folder),
                        Path(folder) / f"{worker}.log",
                        outlive=False,
                    )
                )
            os.environ["SPEED"], os.environ["RECORDS"] = "1", "/dev/null"
            due, of_queues = asyncio.run(_send(name, server.url, load))
        finally:
            kill(workers)
        done = [
            [json.loads(line) for line in one.read_text().splitlines()] if one.exists() else []
            for one in records
        ]
    ends = {number: end for each in done for number, _, end in each}
    if sorted(number for each in done for number, *_ in each) != [one.number for one in loads]:
        raise RuntimeError(f"{name}: {len(ends)} of {len(loads)} messages were done, or some twice")
    sojourn = np.array([ends[one.number] - at for one, at in zip(loads, due, strict=True)])
    takes = np.array([one.takes_seconds for one in loads])
    quick = takes <= np.quantile(takes, 0.2)
    bound = max(sum(takes) / sum(speed), loads[-1].deadline + loads[-1].takes_seconds)
    return {
        "scheme": name,
        "makespan_seconds": round(max(ends.values()) - due[0], 3),
        "bound_seconds": round(float(bound), 3),
        "busy_seconds": [round(sum(end - began for _, began, end in each), 2) for each in done],
        "sojourn_mean_seconds": round(float(sojourn.mean()), 3),
        "sojourn_p99_seconds": round(float(np.quantile(sojourn, 0.99)), 3),
        "quick_p99_seconds": round(float(np.quantile(sojourn[quick], 0.99)), 3),
        **of_queues,
    }


def median_of(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians of the figures of several rounds, p99 of each beside; busy times are one round's."""
    found = {
        name: first if isinstance(first, str) else round(statistics.median(one[name] for one in rounds), 3)
        for name, first in rounds[0].items()
        if name != "busy_seconds"
    }
    typical = min(rounds, key=lambda one: abs(one["makespan_seconds"] - found["makespan_seconds"]))
    return {
        **found,
        "busy_seconds": typical["busy_seconds"],
        "p99_seconds_of_rounds": sorted(one["sojourn_p99_seconds"] for one in rounds),
    }


def loads_of(data: Path | None) -> dict[str, Load]:
    """The loads by name."""
    weights, apart, equal = [one / SHRUNK for one in WEIGHTS], 0.001, [1.0] * QUEUES
    found = {
        "in step": Load(in_step(MESSAGES, weights, apart), equal),
        "at random": Load(at_random(MESSAGES, weights, apart, 1), equal),
        "overload": Load(
            in_step(OVERLOAD["messages"], [one / OVERLOAD["shrunk"] for one in WEIGHTS], apart),
            equal,
            OVERLOAD["capacity"],
        ),
    }
    if data is not None:
        import traces

        traces.MOST = MESSAGES
        loads, _, _ = traces.messages(traces.requests(data), "class")
        # To a mean of a tenth of a second; the pauses between messages shrink alike.
        factor = 0.1 / float(np.mean([one.takes_seconds for one in loads]))
        found["requests, unequal workers"] = Load(
            [
                ReplayedMessage(
                    one.number, one.deadline * factor, one.weight * factor, seconds=one.takes_seconds * factor
                )
                for one in loads
            ],
            traces.speeds(data),
        )
    return found


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder of the recordings")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where server.json goes")
    parser.add_argument("--rounds", type=int, default=3, help="of all schemes in turn; medians are told")
    parser.add_argument("--only", nargs="*", help="loads; the rows of others stay as they are in server.json")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        asyncio.run(_work())
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServerProcess(
            Path(folder), options=("--appendonly", "yes", "--appendfsync", "everysec")
        )
        try:
            with Redis.from_url(server.url) as client:
                about = client.info("server")
            program = about.get("valkey_version") or about["redis_version"]
            for name_of_load, load in loads_of(given.data).items():
                if given.only and name_of_load not in given.only:
                    continue
                found: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMES}
                for _ in range(given.rounds):
                    for name, of_scheme in found.items():
                        of_scheme.append(run(name, server, load))
                        print(of_scheme[-1], flush=True)
                how = {"rounds": given.rounds, "load_average": round(os.getloadavg()[0], 1)}
                rows += [{"load": name_of_load, **median_of(each), **how} for each in found.values()]
        finally:
            server.stop()
    document = {"format": "trimtab/experiment/1", "experiment": "queue_forecast on a server",
                "server": program, "rows": rows}  # fmt: skip
    before = given.out / "server.json"
    if given.only and before.exists():
        others = json.loads(before.read_text())["rows"]
        document["rows"] = [one for one in others if one["load"] not in given.only] + rows
    write_atomically(given.out / "server.json", (json.dumps(document, indent=1) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
