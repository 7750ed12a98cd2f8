"""The paper's experiment on six real brokers: Kafka's default placement against three strategies.

`python experiments/replica_roles/run.py` measures every recorded draw, prints the table, and writes
`result.json` and the figures; README.md tells the method. `--resume` goes on with what an interrupted run
left out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from cluster import CPU_CORES, INTERVAL_SECONDS, loaded_cluster, say, scratch
from figures import draw_figures
from measure import clients_between, figures_of, look_for_records, sample_period, validity_of
from placing import put_back
from report import print_table

from demos.machine import CONFIRMED_WITHIN_SECONDS, OUTSIDE_CORES, PRODUCED_WITHIN, MachineLog
from demos.replicas import balance_kafka
from demos.run import DemoInterrupted, orderly
from demos.sampling import MeasuredPeriod
from demos.sampling import SampledSandbox as World
from demos.turn import DemoPipeline
from trimtab.act.replicas.state import ReplicasExecutionSettings
from trimtab.balancers import BALANCERS
from trimtab.balancers.planning import planner_of
from trimtab.files.replicas.plan import write_plan
from trimtab.files.replicas.snapshot import read_snapshot
from trimtab.lab.sandbox.kafka.placement import (
    SandboxPlacement,
    draw_placement,
    read_placement,
    record_placement,
)
from trimtab.lab.sandbox.kafka.workload import read_workload
from trimtab.model.replicas.plan import Plan
from trimtab.model.replicas.settings import ReplicasSettings, RoleAwareSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.replicas.snapshot import write_newest_snapshots
from trimtab.plan.replicas.trim import warm_up
from trimtab.report.replicas.renderer import spent
from trimtab_common.errors import TrimtabError
from trimtab_common.files import write_atomically

FOLDER = Path(__file__).parent
WARM_UP_SECONDS = 30.0
THETA, EPSILON = 0.80, 0.10
ASKED = (0.10, 0.05, 0.02)
"""All strategies are asked for the same ε, the paper's first; all are judged by the paper's."""
GOALS = ("theta", "epsilon")
"""The paper knows no racks: all strategies are asked for its two goals, and for nothing else."""

_GOALS = ReplicasSettings(strategy="role_aware", goals=GOALS, theta=(THETA,) * 4)
_METHODS = {
    "role_aware literal": (replace(_GOALS, role_aware=RoleAwareSettings(literal=True)), "literal"),
    # Sections 2 and 3.2 of the source: brokers above the mean shed.
    "role_aware as meant": (
        replace(_GOALS, role_aware=RoleAwareSettings(repairs=("signed_deviation",))),
        "literal",
    ),
    "role_aware repaired": (_GOALS, "repaired"),
    "trim": (replace(_GOALS, strategy="trim"), "repaired"),
}
STRATEGIES = {
    f"{name}, ε = {epsilon:.2f}": (replace(settings, epsilon=(epsilon,) * 4), rule)
    for epsilon in ASKED
    for name, (settings, rule) in _METHODS.items()
}
"""Settings, and the rule for the value of B(j), of each row."""
PIPELINE = ReplicasPipelineSettings(
    window_seconds=INTERVAL_SECONDS,
    slide_seconds=INTERVAL_SECONDS,
    windows=10,
)


class Draw:
    """All runs on one draw of the default placement, one after the other on one cluster."""

    def __init__(self, name: str, strategies: list[str], samples: int, control: bool) -> None:
        self.name = name
        self.strategies = strategies
        self.samples = samples
        self.control = control
        self.plans: dict[str, Plan] = {}
        self._calm: dict[str, Any] = {}
        self._runs: list[tuple[str, MeasuredPeriod, list[Any], dict[str, Any]]] = []

    def measure(
        self, world: World, pipeline: DemoPipeline, placement: SandboxPlacement, processor: MachineLog
    ) -> list[Any]:
        """Default, control, and every strategy from the same start; figures from the pipeline's tables."""
        begun = time.time()
        self._sample("default", world, processor, {})
        # Nothing was copied then: what clients felt later is held against this.
        self._calm = clients_between(world, begun, time.time(), processor, moved=False)
        if self.control:
            self._sample("default again", world, processor, {})
        say("Spark: from samples to the snapshot that all strategies plan from")
        pipeline.run(world.lake, say)
        snapshots = {rule: self._snapshot(world, rule) for rule in ("repaired", "literal")}
        for place, strategy in enumerate(self.strategies):
            if place:
                say("putting the default placement back")
                put_back(world.sandbox.connection, placement)
            settings, rule = STRATEGIES[strategy]
            try:
                facts = self._apply(world, strategy, snapshots[rule], settings, processor)
                self._sample(strategy, world, processor, facts)
            except TrimtabError as error:
                # What was measured so far is worth more than a clean end.
                say(f"{strategy} is left out: {error}")
        found = look_for_records(world, say)
        say("Spark: from samples to the table imbalance")
        pipeline.run(world.lake, say)
        return [
            {
                "draw": self.name,
                "strategy": strategy,
                **figures_of(world, period, validity),
                **facts,
                "records_of_the_draw": found,
            }
            for strategy, period, validity, facts in self._runs
        ]

    def _sample(self, name: str, world: World, processor: MachineLog, facts: dict[str, Any]) -> None:
        say(f"{name}: {self.samples} samples, {INTERVAL_SECONDS:g} s apart")
        period = sample_period(world, self.samples, say)
        validity = validity_of(world, period, processor)
        bad = [one for one in validity if not one.valid]
        if bad:
            say(f"{len(bad)} of {self.samples} samples are not valid, the first for {bad[0]}")
        self._runs.append((name, period, validity, facts))

    def _snapshot(self, world: World, rule: str) -> ReplicasSnapshot:
        folders = write_newest_snapshots(
            world.lake, world.lake.manifest(), replace(PIPELINE, load_value=rule)
        )
        return read_snapshot(folders[0])

    def _apply(
        self,
        world: World,
        strategy: str,
        snapshot: ReplicasSnapshot,
        settings: ReplicasSettings,
        processor: MachineLog,
    ) -> dict[str, Any]:
        begun = time.perf_counter()
        plan = planner_of(BALANCERS["replicas"], settings.strategy)(snapshot, settings)
        planned = time.perf_counter() - begun
        self.plans[strategy] = plan
        cost = plan.cost
        say(f"{strategy}: {plan.verdict}, {cost.replica_moves} replicas, {cost.bytes / 1e6:.0f} MB")
        started = time.time()
        facts: dict[str, Any] = {"cost": None}
        if plan.moves:
            folder = world.sandbox.state.folder / "state" / strategy.replace(" ", "-")
            receipt = balance_kafka(
                world.sandbox, plan, snapshot, folder, ReplicasExecutionSettings(throttle="none")
            )
            dropped = sum(outcome.state == "dropped" for outcome in receipt.outcomes)
            facts["cost"] = asdict(spent(receipt)) | {"status": receipt.status, "steps_dropped": dropped}
        return facts | {
            "plan": {
                "asked_epsilon": settings.epsilon[0],
                "verdict": str(plan.verdict),
                "replica_moves": cost.replica_moves,
                "leader_moves": cost.leader_moves,
                "bytes": cost.bytes,
                "bound_bytes": plan.bound.bytes,
                "seconds": round(planned, 3),
                "predicted_sigma": plan.predicted.after.sigma,
                "predicted_worst_deviation": plan.predicted.after.worst_deviation,
                "problems": [problem.text for problem in plan.problems],
            },
            "bytes_held": int(sum(held_bytes(snapshot))),
            "clients_before": self._calm,
            # A little longer than the execution: what it disturbed may come to light afterwards.
            "clients_while_moving": clients_between(world, started, time.time() + 1.0, processor),
        }


def held_bytes(snapshot: ReplicasSnapshot) -> list[float]:
    """Bytes on each broker's disks."""
    return [float(value) for value in snapshot.broker_load()[:, 1]]


def measure_draw(name: str, strategies: list[str], samples: int, control: bool, kept: Path) -> list[Any]:
    """Start a cluster on one draw, measure all of it, and stop the cluster."""
    workload = read_workload(FOLDER / "workload.json")
    placement = read_placement(FOLDER / "draws" / f"{name}.json")
    processor = MachineLog()
    with loaded_cluster(workload, placement) as world:
        pipeline = DemoPipeline(scratch(world), PIPELINE)
        try:
            with processor.running():
                begun = time.monotonic()
                warm_up()
                while not pipeline.started or time.monotonic() - begun < WARM_UP_SECONDS:
                    world.load.require_running()
                    time.sleep(0.2)
                where = _recorded(world)
                draw = Draw(name, strategies, samples, control)
                runs = draw.measure(world, pipeline, where, processor)
            kept.mkdir(parents=True, exist_ok=True)
            for strategy, plan in draw.plans.items():
                write_plan(plan, kept / f"plan-{name}-{strategy.replace(' ', '-')}.json")
            shutil.copytree(world.lake.path, kept / f"lake-{name}", dirs_exist_ok=True)
            return runs
        finally:
            pipeline.close()


def _recorded(world: World) -> SandboxPlacement:
    """Where everything is now, the topic of consumers' offsets too: a strategy may move that as well."""
    from trimtab.systems.kafka.client import admin_client

    admin = admin_client(world.sandbox.connection)
    try:
        return record_placement(admin, [topic["name"] for topic in admin.describe_topics()])
    finally:
        admin.close()


def machine() -> dict[str, Any]:
    """What it was measured on."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def method(samples: int) -> dict[str, Any]:
    """What the figures depend on besides the recorded files."""
    return {
        "theta": THETA,
        "epsilon": EPSILON,
        "asked_for_epsilon": ASKED,
        "goals": list(GOALS),
        "samples": samples,
        "interval_seconds": INTERVAL_SECONDS,
        "warm_up_seconds": WARM_UP_SECONDS,
        "declared_cpu_cores_per_broker": CPU_CORES,
        "valid_if": {
            "produced_within": PRODUCED_WITHIN,
            "confirmed_within_seconds": CONFIRMED_WITHIN_SECONDS,
            "outside_cores_at_most": OUTSIDE_CORES,
        },
        "paper_formula_redraw_rate": redraw_rates(),
    }


def redraw_rates() -> dict[str, float]:
    """How often the paper's printed formula puts two copies on one broker, drawn for this load 200 times."""
    topics = read_workload(FOLDER / "workload.json").topics
    rates = {}
    for copies in (2, 3):
        asked = [replace(topic, replication_factor=copies) for topic in topics]
        partitions = sum(topic.partitions for topic in asked)
        redraws = sum(draw_placement(asked, range(1, 7), "paper", seed).redraws for seed in range(200))
        rates[f"{copies} copies"] = round(redraws / (redraws + 200 * partitions), 4)
    return rates


def write_result(path: Path, runs: list[Any], samples: int, machines: dict[str, Any]) -> None:
    """The whole result so far, in one step."""
    document = {
        "format": "trimtab/experiment/1",
        "experiment": "replica_roles",
        "method": method(samples),
        "machine": machines,
        "runs": runs,
    }
    write_atomically(path, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--draws", default="kafka-2-1,kafka-2-2,kafka-2-3,controller-1", help="names in draws/"
    )
    parser.add_argument("--strategies", default=";".join(STRATEGIES), help="separated by semicolons")
    parser.add_argument("--quick", action="store_true", help="three samples instead of ten")
    parser.add_argument("--resume", action="store_true", help="keep the draws that the result has already")
    parser.add_argument("--no-control", action="store_true", help="do not measure the default twice")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where result.json and figures go")
    parser.add_argument("--keep", type=Path, default=None, help="where lakes and plans go; default: nowhere")
    given = parser.parse_args()
    strategies = [name.strip() for name in given.strategies.split(";")]
    unknown = set(strategies) - set(STRATEGIES)
    if unknown:
        parser.error(f"unknown strategies {sorted(unknown)}: choose from {list(STRATEGIES)}")
    samples = 3 if given.quick else 10
    path = given.out / "result.json"
    given.out.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text()) if given.resume and path.exists() else {"runs": [], "machine": {}}
    runs, machines = found["runs"], found["machine"]
    try:
        with orderly():
            for name in given.draws.split(","):
                if any(run["draw"] == name for run in runs):
                    say(f"draw {name}: measured already")
                    continue
                say(f"draw {name}")
                with tempfile.TemporaryDirectory() as nowhere:
                    kept = given.keep or Path(nowhere)
                    runs += measure_draw(name, strategies, samples, not given.no_control, kept)
                machines[name] = machine()
                write_result(path, runs, samples, machines)
    except DemoInterrupted as interrupted:
        print("interrupted; --resume goes on with the draws that are left", file=sys.stderr)
        return interrupted.exit_code
    expected = json.loads((FOLDER / "expected.json").read_text())
    draw_figures(runs, expected, given.out / "figures")
    return print_table(runs, expected)


if __name__ == "__main__":
    sys.exit(main())
