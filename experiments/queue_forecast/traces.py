"""Dispatch policies over recorded arrivals and processing times, in virtual time.

    python experiments/queue_forecast/traces.py --data FOLDER         # writes traces.json
    python experiments/queue_forecast/traces.py --data FOLDER --rest  # intervals between two moves: rest.json

The folder holds `azure_llm2023/requests.parquet` and `azure_vm_noise/worker_speed.parquet` (out of
Azure/AzurePublicDataset) and `google2011/jobs.parquet` (google/cluster-data), all CC BY 4.0; none of them is
part of this repository. The first half of a recording teaches the weights of its classes, the second is run.
Exit code 2: the data is not there.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from schemes import QUEUES

from trimtab.history.queues.simulation import DispatchScheme, QueuesWorld, ReplayedMessage
from trimtab_common.files import write_atomically
from trimtab_queues.core.catalogue import POLICIES, DispatchInputs
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policies import DispatchPolicy
from trimtab_queues.core.scheduling import SchedulingSettings

FOLDER = Path(__file__).parent
CAPACITY = 10_000
USE = 0.8
"""Of five workers of speed 1, by scaling all processing times of a recording."""
MOST = 40_000
"""Messages that are run of a recording, after as many that teach its weights."""
CONTEXT_SHARE = 0.1
"""What reading a token costs, of what writing one does: an assumption, for the recording tells no times."""

USUAL = [("submit_us", ">", 0), ("run_us", ">", 0)]
"""Jobs that were not there when the recording began, and ran."""

Recording = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Seconds of arrival, ascending; name of the class; processing time up to a factor: shape (messages,)."""


def requests(data: Path) -> Recording:
    """An hour of requests to language models: two services, one smooth and one in bursts."""
    table = pq.read_table(data / "azure_llm2023" / "requests.parquet").sort_by("ts")
    at = np.asarray(table["ts"]).astype("int64") / 1e6
    tokens = np.asarray(table["generated_tokens"]) + CONTEXT_SHARE * np.asarray(table["context_tokens"])
    return at, np.asarray(table["service"]).astype(str), tokens.astype(float)


def jobs(data: Path) -> Recording:
    """Jobs of a cluster, four scheduling classes; run times are long-tailed, and some end by a kill."""
    path, columns = data / "google2011" / "jobs.parquet", ["submit_us", "sched_class", "run_us"]
    table, after = pq.read_table(path, columns=columns), pq.filters_to_expression(USUAL)
    frame = table.filter(after).sort_by("submit_us")
    at = np.asarray(frame["submit_us"]) / 1e6
    return at, np.asarray(frame["sched_class"]).astype(str), np.asarray(frame["run_us"]).astype(float)


def speeds(data: Path) -> list[float]:
    """Median speed of five virtual machines of one kind, over their mean."""
    table = pq.read_table(data / "azure_vm_noise" / "worker_speed.parquet").to_pandas()
    one = table[(table.sku == "B8ms") & table.test.str.contains("GET")]
    medians = one.groupby(["region", "vm"]).value.median().sort_index()
    found = medians.to_numpy()[:QUEUES]
    return [float(speed) for speed in found / found.mean()]


def messages(
    recording: Recording, knowing: str
) -> tuple[list[ReplayedMessage], list[str], list[tuple[float, float]]]:
    """What is run, the class of each, and weight and rate of the classes.

    Parameters
    ----------
    knowing
        `class`: the dispatcher knows the mean of the class over what came before; `exact`: each message's
        own time.
    """
    at, names, costs = recording
    count = min(MOST, len(at) // 2)
    past, now = slice(0, count), slice(count, 2 * count)
    factor = USE * QUEUES * (at[now][-1] - at[now][0]) / costs[now].sum()
    seconds = costs * factor
    means = {name: float(seconds[past][names[past] == name].mean()) for name in np.unique(names[past])}
    usual = float(seconds[past].mean())
    made = [
        ReplayedMessage(
            number,
            float(due - at[now][0]),
            float(its) if knowing == "exact" else means.get(name, usual),
            seconds=float(its),
        )
        for number, (due, name, its) in enumerate(zip(at[now], names[now], seconds[now], strict=True))
    ]
    rates = [(weight, float((names[past] == name).mean())) for name, weight in means.items()]
    return made, list(names[now]), rates


def schemes(rates: list[tuple[float, float]], speed: list[float]) -> dict[str, DispatchScheme]:
    """Every policy, and the forecast over marked round-robin and over least-work-left."""

    def made(policy: str, scheduling: SchedulingSettings | None = None) -> DispatchScheme:
        def make(ledger: QueueLedger) -> DispatchPolicy:
            return POLICIES[policy](ledger, DispatchInputs(random.Random(1).random, rates, speed))

        return DispatchScheme(policy=make, scheduling=scheduling)

    # Limits of the paper's queues of 10,000 would call these light always: seconds of work are what counts.
    drain = SchedulingSettings(
        threshold_unit="seconds",
        light_threshold=1.0,
        overload_threshold=1e9,
        cycle_seconds=2.0,
        idle_transfer="nothing",
    )
    return {name: made(name) for name in POLICIES} | {
        "marked_round_robin, balanced every 2 s": made("marked_round_robin", drain),
        "least_work_left, balanced every 2 s": made("least_work_left", drain),
    }


def measured(
    scheme: DispatchScheme, name: str, loads: list[ReplayedMessage], names: list[str], speed: list[float]
) -> dict[str, Any]:
    """Waits and sojourns of one run, of all messages and of the class with the shortest mean."""
    capacity = [CAPACITY * (QUEUES if name == "central_queue" else 1)] * QUEUES
    mean = statistics.fmean(one.weight for one in loads)
    run = QueuesWorld(scheme, capacity, mean, speed=speed).run(loads)
    sojourn = np.array(run.finished_at) - np.array([one.deadline for one in loads])
    takes = np.array([one.takes_seconds for one in loads])
    # Slowness: how many times its own processing a message took, what short messages suffer from long ones.
    slowness = sojourn / takes
    means = {one: takes[np.array(names) == one].mean() for one in set(names)}
    short = np.array(names) == min(means, key=lambda one: means[one])
    return {
        "sojourn_mean_seconds": round(float(sojourn.mean()), 3),
        "sojourn_p99_seconds": round(float(np.quantile(sojourn, 0.99)), 3),
        "short_class_p99_seconds": round(float(np.quantile(sojourn[short], 0.99)), 3),
        "slowness_median": round(float(np.median(slowness)), 2),
        "busy_seconds": [round(one) for one in run.busy_seconds],
        "moved": run.moved,
        "stolen": run.stolen,
        "lost": run.lost,
    }


def measure(data: Path) -> dict[str, Any]:
    """Both recordings, on equal workers and on unequal ones, with weights by class and exact."""
    unequal = speeds(data)
    rows = []
    for name, recording in (("requests", requests(data)), ("jobs", jobs(data))):
        for knowing in ("class", "exact"):
            for workers, speed in (("equal", [1.0] * QUEUES), ("unequal", unequal)):
                print(f"  {name}, weights by {knowing}, {workers} workers", file=sys.stderr, flush=True)
                loads, names, rates = messages(recording, knowing)
                for policy, scheme in schemes(rates, speed).items():
                    row = {"recording": name, "weights": knowing, "workers": workers, "policy": policy}
                    rows.append(row | measured(scheme, policy, loads, names, speed))
    return {"format": "trimtab/experiment/1", "experiment": "queue_forecast traces", "speeds": unequal,
            "use": USE, "rows": rows}  # fmt: skip


def intervals(data: Path, most: int = 10_000) -> dict[str, Any]:
    """Intervals between two moves of a message, over so many jobs, balanced every two seconds."""
    at, names_of, costs = jobs(data)
    recording, rows = (at[: 2 * most], names_of[: 2 * most], costs[: 2 * most]), []
    for knowing in ("exact", "class"):
        loads, names, rates = messages(recording, knowing)
        for policy in ("marked_round_robin", "least_work_left"):
            balanced = schemes(rates, [1.0] * QUEUES)[f"{policy}, balanced every 2 s"]
            assert balanced.scheduling is not None
            for rest in (0.0, 20.0, 200.0, 2000.0, 20_000.0, inf):
                scheme = replace(
                    balanced, scheduling=replace(balanced.scheduling, move_cooldown_seconds=rest)
                )
                found = measured(scheme, policy, loads, names, [1.0] * QUEUES)
                row = {"recording": "jobs", "weights": knowing, "policy": policy}
                rows.append(row | {"rest_seconds": None if rest == inf else rest} | found)
                print(rows[-1], file=sys.stderr, flush=True)
    return {"format": "trimtab/experiment/1", "experiment": "queue_forecast, interval between two moves",
            "messages": most, "rows": rows}  # fmt: skip


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder of the recordings")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where traces.json goes")
    parser.add_argument("--rest", action="store_true", help="intervals between two moves, no more")
    given = parser.parse_args()
    if not (given.data / "azure_llm2023").is_dir():
        expected = "expected a folder with azure_llm2023/requests.parquet"
        print(f"--data is {given.data}, {expected}", file=sys.stderr)
        return 2
    if given.rest:
        document = intervals(given.data)
        write_atomically(given.out / "rest.json", (json.dumps(document, indent=1) + "\n").encode())
        return 0
    document = measure(given.data)
    write_atomically(given.out / "traces.json", (json.dumps(document, indent=1) + "\n").encode())
    for row in document["rows"]:
        figures = [row[f"sojourn_{one}_seconds"] for one in ("mean", "p99")]
        print(row["recording"], row["weights"], row["workers"], f"{row['policy']:40}", *figures, row["moved"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
