"""Six brokers on three hosts, two log dirs each, under a load uneven over all three: balanced, measured.

    python experiments/hosts_and_disks/run.py             # some minutes; writes result.json
    python experiments/hosts_and_disks/run.py --tables    # prints the tables of README.md

The load is that of `experiments/replica_roles`, on a placement in which the first host leads about half of
all partitions, and with most replicas in the first log dir of their broker.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
KIT = FOLDER.parent / "replica_roles"
sys.path[1:1] = [str(KIT), str(FOLDER.parents[1] / "examples")]

from cluster import loaded_cluster, say, scratch  # noqa: E402 - beside this folder
from measure import clients_between, figures_of, look_for_records, validity_of  # noqa: E402

from demos.machine import MachineLog  # noqa: E402
from demos.replicas import balance_kafka  # noqa: E402
from demos.run import DemoInterrupted, orderly  # noqa: E402
from demos.sampling import SampledSandbox as World  # noqa: E402
from demos.turn import DemoPipeline  # noqa: E402
from trimtab.act.replicas.port import TopicPartition  # noqa: E402
from trimtab.act.replicas.state import ReplicasExecutionSettings  # noqa: E402
from trimtab.files.replicas.snapshot import read_snapshot  # noqa: E402
from trimtab.lab.sandbox.kafka.placement import SandboxPlacement  # noqa: E402
from trimtab.lab.sandbox.kafka.workload import KafkaWorkload, read_workload  # noqa: E402
from trimtab.model.load import sigma_threshold  # noqa: E402
from trimtab.model.replicas.log_dirs import dir_balance  # noqa: E402
from trimtab.model.replicas.settings import (  # noqa: E402
    GOALS,
    RESOURCES,
    ReplicasSettings,
)
from trimtab.model.replicas.snapshot import ReplicasSnapshot  # noqa: E402
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings  # noqa: E402
from trimtab.plan.replicas import trim  # noqa: E402
from trimtab.plan.replicas.trim import warm_up  # noqa: E402
from trimtab.systems.kafka.client import admin_client  # noqa: E402
from trimtab.systems.kafka.port import KafkaAdminPort  # noqa: E402
from trimtab_common.files import write_atomically  # noqa: E402

INTERVAL_SECONDS, SAMPLES, WARM_UP_SECONDS, SETTLE_SECONDS = 4.0, 8, 20.0, 6.0
PIPELINE = ReplicasPipelineSettings(window_seconds=8.0, slide_seconds=8.0, windows=4)
SEED = 3
FIRST_HOST, FIRST_DIR = 0.45, 0.75
"""Shares of the partitions that the first host leads, and of the replicas in their broker's first dir."""
DISK = 2.0
"""Of the usual size, so that a dir which holds most of a full broker still fits."""
ASKED = ("host", "theta", "epsilon", "log_dirs", *(("host_load",) if "host_load" in GOALS else ()))
SETTINGS = ReplicasSettings(goals=ASKED)
HOST_OF = {broker: (broker - 1) // 2 for broker in range(1, 7)}


def uneven(workload: KafkaWorkload, draw: random.Random) -> SandboxPlacement:
    """Leaders mostly on broker 1 and 2 (host h1); the other replica on another host."""
    replicas = {}
    for topic in workload.topics:
        lists = []
        for _ in range(topic.partitions):
            leader = draw.choice([1, 1, 2]) if draw.random() < FIRST_HOST else draw.randint(1, 6)
            others = [broker for broker in HOST_OF if HOST_OF[broker] != HOST_OF[leader]]
            lists.append((leader, *draw.sample(others, topic.replication_factor - 1)))
        replicas[topic.name] = tuple(lists)
    return SandboxPlacement(replicas, "by hand", SEED)


def pile_up(world: World, placement: SandboxPlacement, draw: random.Random) -> None:
    """Put most replicas into the first log dir of their broker, and wait until they lie there."""
    admin = admin_client(world.sandbox.connection)
    try:
        port = KafkaAdminPort(admin, time.time)
        names = [TopicPartition(t, n) for t, lists in placement.replicas.items() for n in range(len(lists))]
        dirs = port.observe(names, tuple(HOST_OF), wide=True).log_dirs
        targets = {
            (name, broker): dirs[broker][0 if draw.random() < FIRST_DIR else 1].path
            for name in names
            for broker in placement.replicas[name.topic][name.partition]
        }
        port.move_log_dirs(targets)
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            copies = port.observe(names, tuple(HOST_OF), wide=True).copies
            if all([c.path for c in copies.get(at, ())] == [path] for at, path in targets.items()):
                return
            time.sleep(1.0)
        raise SystemExit("replicas are not in their first log dirs after 180 s")
    finally:
        admin.close()


def dirs_of(snapshot: ReplicasSnapshot) -> dict[str, Any]:
    """σ, worst deviation from the broker's mean, and peak of the log dirs, and each one's usage."""
    balance = dir_balance(snapshot)
    counted = balance.counted
    share = balance.usage[counted] / balance.mean[counted] / 2
    return {
        "sigma": float(np.sqrt(((share - 0.5) ** 2).mean())),
        "worst_deviation": float(balance.deviation[counted].max()),
        "peak_usage": float(balance.usage[counted].max()),
        "usage": [round(float(one), 4) for one in balance.usage[counted]],
    }


def hosts_of(figures: dict[str, Any]) -> dict[str, Any]:
    """Worst deviation and peak of the hosts' mean usage, from that of their brokers, which are all alike."""
    found: dict[str, Any] = {"sigma": figures["host_sigma"], "worst_deviation": {}, "peak_usage": {}}
    for name, usage in figures["samples"]["usage_by_broker"].items():
        host = np.array(usage).reshape(3, 2).mean(axis=1)
        found["worst_deviation"][name] = float(np.abs(host - host.mean()).max() / host.mean())
        found["peak_usage"][name] = float(host.max())
    return found


def observed(world: World, pipeline: DemoPipeline, processor: MachineLog) -> tuple[dict[str, Any], Any]:
    """Samples through the pipeline: figures of hosts, brokers and log dirs, and the snapshot."""
    time.sleep(SETTLE_SECONDS)
    period = world.sample(SAMPLES)
    pipeline.run(world.lake, say)
    brokers = figures_of(world, period, validity_of(world, period, processor))
    snapshot = read_snapshot(world.lake.newest_snapshot())
    return {"hosts": hosts_of(brokers), "brokers": brokers, "log_dirs": dirs_of(snapshot)}, snapshot


def measure() -> dict[str, Any]:
    """Start, load, measure, level, measure again, and read every record back."""
    draw = random.Random(SEED)
    workload = read_workload(KIT / "workload.json")
    placement = uneven(workload, draw)
    processor = MachineLog()
    with loaded_cluster(
        workload, placement, interval_seconds=INTERVAL_SECONDS, disks=(DISK,) * len(HOST_OF)
    ) as world:
        pipeline = DemoPipeline(scratch(world), PIPELINE)
        try:
            with processor.running():
                begun = time.monotonic()
                warm_up()
                pile_up(world, placement, draw)
                while not pipeline.started or time.monotonic() - begun < WARM_UP_SECONDS:
                    time.sleep(0.2)
                calm = time.time()
                before, snapshot = observed(world, pipeline, processor)
                clients_before = clients_between(world, calm, time.time(), processor, moved=False)
                plan = trim.plan(snapshot, SETTINGS)
                say(f"{plan.verdict}: {plan.cost}")
                started = time.time()
                state = world.sandbox.state.folder / "state"
                receipt = balance_kafka(
                    world.sandbox, plan, snapshot, state, ReplicasExecutionSettings(throttle="none")
                )
                seconds = time.time() - started
                meanwhile = clients_between(world, started, time.time() + 1.0, processor)
                after, _ = observed(world, pipeline, processor)
                records = look_for_records(world, say)
        finally:
            pipeline.close()
    done = {kind: [one for one in receipt.done if one.kind == kind] for kind in ("copy", "lead", "log_dir")}
    return {
        "before": before,
        "after": after,
        "plan": {
            "verdict": str(plan.verdict),
            "bound_bytes": plan.bound.bytes,
            "problems": [problem.text for problem in plan.problems],
        },
        "cost": {
            "status": str(receipt.status),
            "network_bytes": sum(one.bytes for one in done["copy"]),
            "log_dir_bytes": sum(one.bytes for one in done["log_dir"]),
            "copies": len(done["copy"]),
            "leader_moves": len(done["lead"]),
            "log_dir_moves": len(done["log_dir"]),
            "seconds": round(seconds, 1),
        },
        "clients_before": clients_before,
        "clients_while_moving": meanwhile,
        "records": records,
    }


def tables(result: dict[str, Any]) -> Iterator[str]:
    """The tables of README.md."""
    before, after = result["measured"]["before"], result["measured"]["after"]
    yield "| of | σ | after | worst γ | after | peak | after |"
    yield "|---|---|---|---|---|---|---|"
    for level in ("hosts", "brokers"):
        for name in RESOURCES:
            cells = [
                form.format(one[level][figure][name])
                for figure, form in (
                    ("sigma", "{:.4f}"),
                    ("worst_deviation", "{:.1%}"),
                    ("peak_usage", "{:.1%}"),
                )
                for one in (before, after)
            ]
            yield f"| {level}: {name} | " + " | ".join(cells) + " |"
    dirs = [
        form.format(one["log_dirs"][figure])
        for figure, form in (("sigma", "{:.4f}"), ("worst_deviation", "{:.1%}"), ("peak_usage", "{:.1%}"))
        for one in (before, after)
    ]
    yield "| log dirs: disk | " + " | ".join(dirs) + " |"
    yield ""
    cost, measured = result["measured"]["cost"], result["measured"]
    calm, moving = measured["clients_before"], measured["clients_while_moving"]
    yield "| | |"
    yield "|---|---|"
    yield f"| verdict | `{measured['plan']['verdict']}`, execution {cost['status']} |"
    network, disks = cost["network_bytes"] / 1e6, cost["log_dir_bytes"] / 1e6
    yield f"| copied between brokers | {cost['copies']} steps, {network:.1f} MB |"
    yield f"| copied between log dirs of a broker | {cost['log_dir_moves']} steps, {disks:.1f} MB |"
    yield f"| leader roles handed over | {cost['leader_moves']} steps |"
    yield f"| seconds | {cost['seconds']:.1f} |"
    for what, key in (("median", "latency_p99_ms_median"), ("worst", "latency_p99_ms_worst")):
        yield f"| clients' p99, {what} second | {calm[key]:.0f} ms before, {moving[key]:.0f} ms meanwhile |"
    failed = calm["errors"] + moving["errors"]
    late = calm["late_records"] + moving["late_records"]
    yield f"| records failed, late | {failed}, {late} |"
    yield f"| records confirmed, found once and in order | {measured['records']['confirmed']:,} |"


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", action="store_true", help="print the tables made of result.json")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where result.json goes")
    parser.add_argument(
        "--beside", default="nothing", help="what else ran on the machine, kept in result.json"
    )
    given = parser.parse_args()
    path = given.out / "result.json"
    if given.tables:
        print("\n".join(tables(json.loads(path.read_text(encoding="utf-8")))))
        return 0
    document: dict[str, Any] = {
        "format": "trimtab/experiment/1",
        "experiment": "hosts_and_disks",
        "machine": {
            "system": f"{platform.system()} {platform.release()}",
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "beside": given.beside,
        },
        "method": {
            "goals": list(ASKED),
            "theta": SETTINGS.theta[0],
            "epsilon": SETTINGS.epsilon[0],
            "eta_brokers": sigma_threshold(SETTINGS.epsilon[0], len(HOST_OF)),
            "samples": SAMPLES,
            "interval_seconds": INTERVAL_SECONDS,
            "seed": SEED,
        },
    }
    try:
        with orderly():
            document["measured"] = measure()
    except DemoInterrupted as interrupted:
        print("interrupted; nothing is written", file=sys.stderr)
        return interrupted.exit_code
    given.out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())
    print("\n".join(tables(document)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
