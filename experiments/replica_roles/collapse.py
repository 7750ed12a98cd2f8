"""The source's collapse at P5: a broker is driven past a disk that is really full, and a balanced one is not.

`python experiments/replica_roles/collapse.py` gives every broker a file system of its own, of one size, lets
the recorded load grow its logs without retention, once on Kafka's default placement and once balanced by
`trim` before, takes the ten samples, and writes `collapse.json` and a picture. File systems are mounted in a
namespace of this process (`unshare`), which needs no root and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from cluster import INTERVAL_SECONDS, loaded_cluster, say, scratch, usual_disk_bytes
from figures import draw_collapse
from run import GOALS, PIPELINE, machine

from demos.replicas import balance_kafka
from demos.run import DemoInterrupted, orderly
from demos.sampling import MeasuredPeriod
from demos.sampling import SampledSandbox as World
from demos.turn import DemoPipeline
from trimtab.act.replicas.state import ReplicasExecutionSettings
from trimtab.files.replicas.snapshot import read_snapshot
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.kafka.placement import SandboxPlacement, read_placement
from trimtab.lab.sandbox.kafka.workload import KafkaWorkload, read_workload
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.plan.replicas import trim
from trimtab.plan.replicas.trim import warm_up
from trimtab.report.replicas.renderer import spent
from trimtab.systems.kafka.client import admin_client
from trimtab_common.files import write_atomically

FOLDER = Path(__file__).parent
DRAW = "kafka-2-3"
SAMPLES, WARM_UP_SECONDS, LEVEL_SAMPLES = 10, 30.0, 4
BROKERS = 6
FULLEST_AT_FIRST = 0.80
"""Of its disk, before the samples: so that it is full between P5 and P10. The source's broker 1 was above
70 % from its first sample on, above 80 % at P4, and fell at P5; what its disk held then is not told."""
INSIDE = "TRIMTAB_EXPERIMENT_IN_NAMESPACE"


def fullest_bytes(workload: KafkaWorkload, placement: SandboxPlacement) -> float:
    """Bytes that the fullest broker begins with."""
    held: dict[int, float] = {}
    for topic in workload.topics:
        for brokers, size in zip(placement.replicas[topic.name], topic.preload_bytes, strict=True):
            for broker in brokers:
                held[broker] = held.get(broker, 0.0) + size
    return max(held.values())


def with_real_disks(sandbox: KafkaSandbox, disk_bytes: float) -> None:
    """Put every broker's folder on a file system of that size; the cluster must be empty."""
    say(f"a file system of {disk_bytes / 1e6:.0f} MB for every broker")
    for node in sandbox.brokers:
        sandbox.kill(node.id)
    for node in sandbox.brokers:
        home = sandbox.state.node_folder(node.id)
        aside = home.with_name(f"{home.name}-aside")
        home.rename(aside)
        home.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={int(disk_bytes)}", "tmpfs", str(home)], check=True
        )
        shutil.copytree(aside, home, dirs_exist_ok=True)
        shutil.rmtree(aside)
        sandbox.restart(node.id)
    for node in sandbox.brokers:
        # The controller takes a broker that was killed a moment ago for one that still serves.
        while True:
            with (
                contextlib.suppress(ConnectionRefusedError),
                socket.create_connection(("127.0.0.1", node.port)),
            ):
                break
            time.sleep(0.1)
    sandbox.wait_until_serving()


def without_retention(sandbox: KafkaSandbox, workload: KafkaWorkload) -> None:
    """From now on logs grow."""
    from kafka.admin import ConfigResource, ConfigResourceType

    admin = admin_client(sandbox.connection)
    try:
        admin.alter_configs(
            [
                ConfigResource(ConfigResourceType.TOPIC, topic.name, {"retention.bytes": "-1"})
                for topic in workload.topics
            ],
            incremental=True,
        )
    finally:
        admin.close()


def level(world: World, pipeline: DemoPipeline) -> dict[str, Any]:
    """Measure, plan, and carry the plan out, while disks are still as they began."""
    world.sample(LEVEL_SAMPLES)
    pipeline.run(world.lake, say)
    snapshot = read_snapshot(world.lake.newest_snapshot())
    plan = trim.plan(snapshot, ReplicasSettings(goals=GOALS))
    receipt = balance_kafka(
        world.sandbox,
        plan,
        snapshot,
        world.sandbox.state.folder / "state",
        ReplicasExecutionSettings(throttle="none"),
    )
    cost = spent(receipt)
    say(f"{plan.verdict}: {cost.replica_moves} replicas, {cost.bytes_copied / 1e6:.0f} MB, {receipt.status}")
    return {
        "verdict": str(plan.verdict),
        "replica_moves": cost.replica_moves,
        "leader_moves": cost.leader_moves,
        "bytes_copied": cost.bytes_copied,
        "status": receipt.status,
    }


def measure(balanced: bool) -> dict[str, Any]:
    """Ten samples of growing logs, on one of the two placements."""
    recorded = read_workload(FOLDER / "workload.json")
    # Kafka keeps files for a minute after it has deleted them: they would fill a disk that no log size tells.
    gone_at_once = {"file.delete.delay.ms": "1000"}
    workload = replace(
        recorded,
        topics=tuple(replace(one, configs={**one.configs, **gone_at_once}) for one in recorded.topics),
    )
    placement = read_placement(FOLDER / "draws" / f"{DRAW}.json")
    disk_bytes = fullest_bytes(workload, placement) / FULLEST_AT_FIRST
    share = disk_bytes / usual_disk_bytes(workload)
    with loaded_cluster(
        workload,
        placement,
        disks=(share,) * BROKERS,
        prepare=lambda sandbox: with_real_disks(sandbox, disk_bytes),
    ) as world:
        pipeline = DemoPipeline(scratch(world), PIPELINE)
        try:
            begun = time.monotonic()
            warm_up()
            while not pipeline.started or time.monotonic() - begun < WARM_UP_SECONDS:
                world.load.require_running()
                time.sleep(0.2)
            plan = level(world, pipeline) if balanced else None
            without_retention(world.sandbox, workload)
            say(f"no retention any more; {SAMPLES} samples, {INTERVAL_SECONDS:g} s apart")
            period = world.sample(SAMPLES)
            alive = sorted(world.sandbox.cpu_seconds())
            errors = dict(world.load.summary().causes)
            pipeline.run(world.lake, say)
            return {
                "plan": plan,
                "disk_bytes": int(disk_bytes),
                "samples": samples_of(world, period),
                "brokers_alive_at_the_end": alive,
                "client_errors": errors,
            }
        finally:
            pipeline.close()


def samples_of(world: World, period: MeasuredPeriod) -> list[dict[str, Any]]:
    """What the pipeline's tables say of each sample: fullest disk, traffic wanted and got, the detector."""
    until = period.last + timedelta(microseconds=1)
    clients = {
        row["tick"]: row for row in world.lake.table("clients", since=period.first, until=until).to_pylist()
    }
    disks: dict[Any, dict[int, float]] = {}
    for row in world.lake.table("imbalance", since=period.first, until=until).to_pylist():
        if row["resource"] == "disk":
            disks[row["tick"]] = {
                one["broker"]: one["usage"] for one in row["by_broker"] if one["usage"] is not None
            }
    return [
        {
            "sample": f"P{number}",
            "tick": tick.isoformat(timespec="milliseconds"),
            "disk_usage": disks.get(tick, {}),
            **{
                name: clients[tick][name] if tick in clients else None
                for name in (
                    "offered_bytes_per_second",
                    "served_bytes_per_second",
                    "usual_served_bytes_per_second",
                    "errors",
                    "traffic_collapse",
                )
            },
        }
        for number, tick in enumerate(period.each or sorted(clients), start=1)
    ]


def main() -> int:
    """Run from the command line; exit code 1 if the default did not collapse, or the balanced one did."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help="where collapse.json and its picture go")
    given = parser.parse_args()
    if INSIDE not in os.environ:
        # Mounts in a namespace of our own: no root, and gone with the last process in it.
        command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, *sys.argv]
        return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode
    try:
        with orderly():
            runs = {}
            for name, balanced in (("default", False), ("balanced", True)):
                say(name)
                runs[name] = measure(balanced)
                print_samples(name, runs[name])
    except DemoInterrupted as interrupted:
        return interrupted.exit_code
    document = {
        "format": "trimtab/experiment/1",
        "experiment": "replica_roles collapse",
        "method": {"draw": DRAW, "samples": SAMPLES, "interval_seconds": INTERVAL_SECONDS},
        "machine": machine(),
        "runs": runs,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    write_atomically(
        given.out / "collapse.json", (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()
    )
    draw_collapse(runs, given.out / "figures")
    return verdict_of(runs)


def print_samples(name: str, run: dict[str, Any]) -> None:
    """A line a sample."""
    print(f"\n{name}: brokers alive at the end {run['brokers_alive_at_the_end']}")
    for one in run["samples"]:
        fullest = max(one["disk_usage"].values(), default=float("nan"))
        offered, served = one["offered_bytes_per_second"], one["served_bytes_per_second"]
        rates = (
            "nothing told" if served is None else f"{served / 1e6:5.1f} MB/s, {offered / 1e6:.1f} to write"
        )
        seen = "  collapse" if one["traffic_collapse"] else ""
        print(
            f"{one['sample']:>4}  fullest disk {fullest:4.0%}  clients wrote and read {rates}{seen}",
            flush=True,
        )


def verdict_of(runs: dict[str, dict[str, Any]]) -> int:
    """0 if the detector saw the default collapse, and the balanced one stayed steady with all its disks."""
    for name, run in runs.items():
        lost = [one["sample"] for one in run["samples"] if len(one["disk_usage"]) < BROKERS]
        print(
            f"\n{name}: {f'a disk tells no size any more from {lost[0]} on' if lost else 'all disks there'}"
        )
    fell = any(one["traffic_collapse"] for one in runs["default"]["samples"])
    held = not any(
        one["traffic_collapse"] or len(one["disk_usage"]) < BROKERS for one in runs["balanced"]["samples"]
    )
    print(
        f"\nthe default {'collapsed' if fell else 'did not collapse'}; "
        f"the balanced one {'stayed steady' if held else 'collapsed too'}"
    )
    return 0 if fell and held else 1


if __name__ == "__main__":
    sys.exit(main())
