"""Four ways in which a real cluster becomes uneven, each balanced by `trim` and measured before and after.

`python experiments/replica_roles/scenarios.py` runs role skew, a new broker, a broker that died and came
back, and hot partitions with unequal disks, under the recorded load, and writes `scenarios.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from cluster import loaded_cluster, say, scratch
from measure import clients_between, figures_of, look_for_records, validity_of
from report import print_scenarios
from run import GOALS, machine

from demos.machine import MachineLog
from demos.replicas import balance_kafka
from demos.run import DemoInterrupted, orderly
from demos.sampling import SampledSandbox as World
from demos.turn import DemoPipeline
from trimtab.act.replicas.state import ReplicasExecutionSettings
from trimtab.files.replicas.snapshot import read_snapshot
from trimtab.lab.sandbox.kafka.placement import SandboxPlacement, draw_placement, read_placement
from trimtab.lab.sandbox.kafka.workload import KafkaTopicLoad, KafkaWorkload, read_workload
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.plan.replicas import trim
from trimtab.plan.replicas.trim import warm_up
from trimtab.report.replicas.renderer import spent
from trimtab_common.files import write_atomically

FOLDER = Path(__file__).parent
INTERVAL_SECONDS, SAMPLES, WARM_UP_SECONDS, SETTLE_SECONDS = 4.0, 6, 20.0, 6.0
PIPELINE = ReplicasPipelineSettings(window_seconds=8.0, slide_seconds=8.0, windows=3)
SETTINGS = ReplicasSettings(goals=GOALS)
DEAD = 6


@dataclass(frozen=True)
class Scenario:
    """One way of becoming uneven.

    Attributes
    ----------
    what
        In a sentence.
    workload, placement
        The load, and where its replicas begin.
    upset
        Done to the cluster after its warm-up, before anything is measured.
    absent
        Brokers that are not there at first.
    disks
        Size of each broker's disk, as a multiple of the usual one.
    """

    what: str
    workload: KafkaWorkload
    placement: SandboxPlacement
    upset: Callable[[World, DemoPipeline], dict[str, Any]] = lambda _world, _pipeline: {}
    absent: tuple[int, ...] = ()
    disks: tuple[float, ...] = (1.0,) * 6


def role_skew() -> Scenario:
    """As many replicas on each broker as in the recorded draw, led by the lowest id wherever that is."""
    placement = read_placement(FOLDER / "draws" / "kafka-2-1.json")
    sorted_lists = {
        topic: tuple(tuple(sorted(brokers)) for brokers in lists)
        for topic, lists in placement.replicas.items()
    }
    return Scenario(
        "equal replicas, unequal leaders: every partition is led by the lowest of its brokers",
        read_workload(FOLDER / "workload.json"),
        replace(placement, replicas=sorted_lists),
    )


def new_broker() -> Scenario:
    """Topics that were made for five brokers, and a sixth, empty one."""
    workload = read_workload(FOLDER / "workload.json")

    def start_the_sixth(world: World, _: DemoPipeline) -> dict[str, Any]:
        world.sandbox.restart(DEAD)
        world.sandbox.wait_until_serving()
        return {}

    return Scenario(
        "a new, empty broker beside topics that stay where they are",
        workload,
        draw_placement(workload.topics, range(1, 6), "kafka-2", 1),
        start_the_sixth,
        absent=(DEAD,),
    )


def dead_broker() -> Scenario:
    """A broker dies and its leaders scatter; it comes back, and they do not."""

    def die_and_return(world: World, pipeline: DemoPipeline) -> dict[str, Any]:
        world.sandbox.kill(DEAD)
        time.sleep(8.0)
        time.sleep(2 * INTERVAL_SECONDS)
        pipeline.run(world.lake, say)
        plan = trim.plan(read_snapshot(world.lake.newest_snapshot()), SETTINGS)
        world.sandbox.restart(DEAD)
        world.sandbox.wait_until_serving()
        return {
            "plan_while_dead": {
                "verdict": str(plan.verdict),
                "replica_moves": plan.cost.replica_moves,
                "leader_moves": plan.cost.leader_moves,
                "bytes": plan.cost.bytes,
            }
        }

    return Scenario(
        f"broker {DEAD} died, its leaders scattered, and it came back without them",
        read_workload(FOLDER / "workload.json"),
        read_placement(FOLDER / "draws" / "kafka-2-2.json"),
        die_and_return,
    )


def hot_partitions() -> Scenario:
    """Half of the traffic in four partitions, and two brokers with disks of half the size."""
    workload = read_workload(FOLDER / "workload.json")
    rates = sorted((rate for topic in workload.topics for rate in topic.bytes_per_second), reverse=True)
    total, hot = sum(rates), rates[3]
    share_hot, rest = total / 2 / 4, total - sum(rates[:4])

    def heated(topic: KafkaTopicLoad) -> KafkaTopicLoad:
        return replace(
            topic,
            bytes_per_second=tuple(
                share_hot if rate >= hot else rate * (total / 2) / rest for rate in topic.bytes_per_second
            ),
        )

    workload = replace(workload, topics=tuple(heated(topic) for topic in workload.topics))
    return Scenario(
        "half of all bytes in four hot partitions, and disks of 0.7 and 1.15 times the usual size",
        workload,
        read_placement(FOLDER / "draws" / "kafka-2-3.json"),
        disks=(0.7, 0.7, 1.15, 1.15, 1.15, 1.15),
    )


SCENARIOS = {
    "role skew": role_skew,
    "new broker": new_broker,
    "dead broker": dead_broker,
    "hot partitions": hot_partitions,
}


def measure(scenario: Scenario) -> dict[str, Any]:
    """Upset the cluster, measure, level, and measure again."""
    processor = MachineLog()
    with loaded_cluster(
        scenario.workload,
        scenario.placement,
        interval_seconds=INTERVAL_SECONDS,
        absent=scenario.absent,
        disks=scenario.disks,
    ) as world:
        pipeline = DemoPipeline(scratch(world), PIPELINE)
        try:
            with processor.running():
                begun = time.monotonic()
                warm_up()
                while not pipeline.started or time.monotonic() - begun < WARM_UP_SECONDS:
                    time.sleep(0.2)
                facts = scenario.upset(world, pipeline)
                before = _sample(world, pipeline, processor)
                snapshot = read_snapshot(world.lake.newest_snapshot())
                plan = trim.plan(snapshot, SETTINGS)
                say(f"{plan.verdict}: {plan.cost.replica_moves} replicas, {plan.cost.leader_moves} leaders")
                started = time.time()
                folder = world.sandbox.state.folder / "state"
                receipt = balance_kafka(
                    world.sandbox, plan, snapshot, folder, ReplicasExecutionSettings(throttle="none")
                )
                clients = clients_between(world, started, time.time() + 1.0, processor)
                after = _sample(world, pipeline, processor)
                found = look_for_records(world, say)
        finally:
            pipeline.close()
    return {
        "what": scenario.what,
        "before": before,
        "after": after,
        "plan": {
            "verdict": str(plan.verdict),
            "bound_bytes": plan.bound.bytes,
            "problems": [problem.text for problem in plan.problems],
        },
        "cost": asdict(spent(receipt)) | {"status": receipt.status},
        "clients_while_moving": clients,
        "records": found,
    } | facts


def _sample(world: World, pipeline: DemoPipeline, processor: MachineLog) -> dict[str, Any]:
    time.sleep(SETTLE_SECONDS)
    period = world.sample(SAMPLES)
    pipeline.run(world.lake, say)
    return figures_of(world, period, validity_of(world, period, processor))


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--out", type=Path, default=FOLDER, help="where scenarios.json goes")
    given = parser.parse_args()
    path = given.out / "scenarios.json"
    given.out.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text())["scenarios"] if path.exists() else {}
    try:
        with orderly():
            for name in given.scenarios.split(","):
                say(name)
                found[name] = {"machine": machine()} | measure(SCENARIOS[name]())
                document = {
                    "format": "trimtab/experiment/1",
                    "experiment": "replica_roles scenarios",
                    "method": {
                        "samples": SAMPLES,
                        "interval_seconds": INTERVAL_SECONDS,
                        "warm_up_seconds": WARM_UP_SECONDS,
                        "goals": list(GOALS),
                        "epsilon": SETTINGS.epsilon[0],
                    },
                    "scenarios": found,
                }
                write_atomically(path, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())
    except DemoInterrupted as interrupted:
        print("interrupted; the scenarios measured so far are kept", file=sys.stderr)
        return interrupted.exit_code
    print_scenarios(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
