"""The demo, step by step: a skewed cluster under load, the cure, and whether it helped."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trimtab.demo.ending import goals_of, judgement, keep, show, show_map, spent
from trimtab.demo.filling import PROMPT_RETENTION, fill, with_flat_disk
from trimtab.demo.getting_ready import wait_until_ready
from trimtab.demo.measuring import measured
from trimtab.demo.screen import Screen, bar
from trimtab.demo.turn import Pipeline, carry_out, decide, newest
from trimtab.demo.warm_up import begin_warm_up
from trimtab.demo.world import World, level_capacity, watched
from trimtab.model.plan import Verdict
from trimtab.observe.lake import Lake
from trimtab.report.before_after import bytes_text, cost_text, judge
from trimtab.report.execution_text import progress_text
from trimtab.report.plan_text import plan_text
from trimtab.sandbox.processes import end

if TYPE_CHECKING:
    from trimtab.act.replicas.state import ExecutionState
    from trimtab.demo.sampling import Period
    from trimtab.model.plan import Plan
    from trimtab.model.receipt import ReplicasReceipt
    from trimtab.model.replicas import ReplicasSnapshot
    from trimtab.model.settings import ReplicasSettings
    from trimtab.observe.settings import PipelineSettings
    from trimtab.report.before_after import Outcome
    from trimtab.report.measured import Measured
    from trimtab.sandbox.kafka.workload import Workload

STEPS = 9
CPU_CORES = 0.25
"""Declared for each broker; they all share this machine."""
COPY_BYTES_PER_SECOND = "20000000"
"""What this machine stands; half of what is free of the small declared networks would take minutes."""
LIVE_BYTES = 8_000_000
"""What each partition that is written to keeps."""
PLACES = "hosts h1, h2, h3 with two brokers each, every host a rack, two log dirs a broker"


@dataclass(frozen=True)
class Pace:
    """How long the demo watches, and how much load there is.

    Attributes
    ----------
    interval_seconds
        Between two samples.
    warm_up_seconds
        Load before the first sample counts: freshly started brokers spend time on compiling themselves.
    ticks
        Samples of each of the two measurements.
    bytes_in_per_second
        What producers send, all together.
    """

    interval_seconds: float = 3.0
    warm_up_seconds: float = 20.0
    ticks: int = 12
    bytes_in_per_second: float = 8_000_000.0


QUICK = Pace(interval_seconds=2.0, warm_up_seconds=4.0, ticks=4, bytes_in_per_second=3_000_000.0)


@dataclass(frozen=True, eq=False)
class Told:
    """What came of it."""

    before: Measured
    after: Measured
    plan: Plan
    receipt: ReplicasReceipt | None
    outcome: Outcome
    files: tuple[Path, ...]

    @property
    def ok(self) -> bool:
        """Whether levelling helped by measurement, or there was nothing to level."""
        return self.outcome.helped or self.plan.verdict is Verdict.LEVEL


def tell(screen: Screen, out: Path, pace: Pace, seed: int, settings: ReplicasSettings) -> Told:
    """Run the whole demo; whatever happens, no process of it is left when this returns.

    Parameters
    ----------
    screen
        Where to tell it.
    out
        Folder for the pictures, the plan and the result; made if need be.
    pace
        How long and how much.
    seed
        Of the load.
    settings
        What to ask of the planner.

    Raises
    ------
    TrimtabError
        If something that is needed is missing, or fails.
    """
    from trimtab.sandbox.kafka.workload import skewed

    asked_epsilon = np.array(settings.epsilon)
    workload = with_flat_disk(skewed(seed, pace.bytes_in_per_second), LIVE_BYTES)
    with contextlib.ExitStack() as stack:
        world, pipeline = _begin(stack, screen, pace, workload)
        screen.step(f"Watch it for {pace.ticks} samples, {pace.interval_seconds:g} s apart")
        period = world.sample(pace.ticks, screen.counted)
        screen.step("Work out where the load is, with Spark")
        before, snapshot = _sense(screen, world, pipeline, period)
        screen.say("each broker's use of its declared capacity, and its distance from the mean:")
        show_map(screen, asked_epsilon, before)
        screen.step("Plan the smallest set of moves that levels it")
        plan = decide(snapshot, settings)
        screen.wide(plan_text(plan))
        screen.step("Carry it out, with producers and consumers at work")
        receipt = _act(screen, world, plan, snapshot) if plan.moves else None
        screen.step(f"Watch again for {pace.ticks} samples")
        # Followers catch up, caches fill: what is measured should be the new placement, not the change.
        time.sleep(2 * pace.interval_seconds)
        period = world.sample(pace.ticks, screen.counted)
        summary = world.load.summary()
        screen.step("Measure again, with Spark, from fresh samples")
        after, _ = _sense(screen, world, pipeline, period)
    goals = goals_of(settings, len(before.brokers))
    screen.step("Did it help?")
    outcome = judge(before.measures(), after.measures(), goals)
    show(screen, before, after, goals, receipt)
    screen.say(
        f"clients meanwhile: {summary.produced_records:,} records produced, {summary.errors} failed, "
        f"{summary.late_records} late"
    )
    files = keep(out, before, after, plan, receipt, goals)
    screen.say(judgement(outcome, plan.verdict))
    screen.say()
    for file in files:
        screen.say(str(file))
    return Told(before, after, plan, receipt, outcome, files)


def _begin(
    stack: contextlib.ExitStack, screen: Screen, pace: Pace, workload: Workload
) -> tuple[World, Pipeline]:
    """Cluster, topics, clients; Spark and the planner get ready while the brokers warm up."""
    from trimtab.sandbox.kafka import KafkaSandbox
    from trimtab.sandbox.kafka.load import Load
    from trimtab.sandbox.kafka.properties import LOAD_DRIVEN_CPU

    screen.step("Start a real Kafka cluster: six brokers, and a controller apart")
    planner = begin_warm_up("replicas")
    properties = {**LOAD_DRIVEN_CPU, **PROMPT_RETENTION}
    stack.callback(end, [planner], 0.0)
    sandbox = stack.enter_context(KafkaSandbox.start(6, properties=properties, say=screen.say))
    screen.say(f"it serves at {sandbox.bootstrap.split(',')[0]} and five more ports; {PLACES}")
    screen.step("Create topics where Kafka itself puts them, and let producers and consumers work")
    fill(sandbox.connection, workload, None, screen.say)
    folder = sandbox.state.folder
    load = stack.enter_context(Load.start(sandbox.connection, workload, folder / "load"))
    screen.say(
        f"{len(workload.topics)} topics, {sum(topic.partitions for topic in workload.topics)} partitions, "
        f"{bytes_text(workload.bytes_in_per_second)}/s in, {bytes_text(workload.bytes_out_per_second)}/s out"
    )
    pipeline = Pipeline(folder / "spark", _pipeline_settings(pace))
    stack.callback(pipeline.close)
    begun = time.monotonic()
    capacity = level_capacity(workload, len(sandbox.brokers), CPU_CORES)
    world = stack.enter_context(
        watched(sandbox, load, Lake(folder / "lake"), pace.interval_seconds, capacity, folder / "load")
    )
    wait_until_ready(screen, load, pipeline, planner, begun, pace.warm_up_seconds)
    return world, pipeline


def _pipeline_settings(pace: Pace) -> PipelineSettings:
    from trimtab.observe.settings import PipelineSettings

    # Two samples a window, and load values from as many windows as were watched.
    window = 2 * pace.interval_seconds
    return PipelineSettings(window_seconds=window, slide_seconds=window, windows=max(1, pace.ticks // 2))


def _sense(
    screen: Screen, world: World, pipeline: Pipeline, period: Period
) -> tuple[Measured, ReplicasSnapshot]:
    for problem in world.problems:
        screen.say(f"collector: {problem}")
    pipeline.run(world.lake, screen.say)
    return measured(world.lake, period, world.hosts), newest(world)


def _act(screen: Screen, world: World, plan: Plan, snapshot: ReplicasSnapshot) -> ReplicasReceipt:
    from trimtab.act.replicas.progress import ProgressMeter
    from trimtab.act.replicas.settings import ExecutionSettings

    meter = ProgressMeter()

    def watch(state: ExecutionState) -> None:
        now = meter(state)
        screen.progress(f"{bar(now.bytes_copied / max(1, now.bytes_total))} {progress_text(now)}")

    folder = world.sandbox.state.folder
    receipt = carry_out(
        world.sandbox.connection,
        plan,
        snapshot,
        folder,
        ExecutionSettings(throttle=COPY_BYTES_PER_SECOND),
        watch,
    )
    screen.progress(f"{receipt.status}: {cost_text(spent(receipt))}", last=True)
    for outcome in receipt.left:
        screen.say(f"{outcome.topic}-{outcome.partition} {outcome.state}: {outcome.reason}")
    return receipt
