"""The demo of bundles, step by step: an uneven Pulsar cluster under load, the cure, and whether it helped."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from trimtab.demo.bundles.disturbance import disturbances
from trimtab.demo.bundles.ending import goals_of, keep, show_disturbance, spent_text
from trimtab.demo.bundles.turn import carry_out, decide, newest
from trimtab.demo.bundles.world import BundlesWorld, level_capacity, uneven, watched
from trimtab.demo.ending import judgement, show_both, show_map
from trimtab.demo.getting_ready import wait_until_ready
from trimtab.demo.measuring import measured
from trimtab.demo.screen import Screen, bar
from trimtab.demo.turn import Pipeline
from trimtab.demo.warm_up import begin_warm_up
from trimtab.model.bundles_snapshot import RESOURCES
from trimtab.model.plan import Verdict
from trimtab.observe.lake import Lake
from trimtab.report.before_after import bytes_text, judge
from trimtab.sandbox.processes import end
from trimtab.sandbox.truth import read_truth

if TYPE_CHECKING:
    from trimtab.act.bundles.state import BundlesState
    from trimtab.demo.bundles.disturbance import Disturbance
    from trimtab.demo.sampling import Period
    from trimtab.model.bundle_plan import BundlePlan
    from trimtab.model.bundle_receipt import BundlesReceipt
    from trimtab.model.bundles_settings import BundlesSettings
    from trimtab.model.bundles_snapshot import BundlesSnapshot
    from trimtab.observe.settings import PipelineSettings
    from trimtab.report.before_after import Outcome
    from trimtab.report.measured import Measured
    from trimtab.sandbox.pulsar.workload import PulsarWorkload

STEPS: Final = 9
BROKERS: Final = 3
CPU_CORES: Final = 0.5
"""Declared for each broker; they all share this machine."""
STATISTICS_SECONDS: Final = 5
"""How often brokers count their messages; Pulsar's default of a minute would take the demo a quarter of an
hour."""


@dataclass(frozen=True)
class Pace:
    """How long the demo watches, and how much load there is.

    Attributes
    ----------
    interval_seconds
        Between two samples; brokers count every `STATISTICS_SECONDS`, so that less tells nothing new.
    warm_up_seconds
        Load before the first sample counts: freshly started brokers spend time on compiling themselves.
    ticks
        Samples of each of the two measurements.
    messages_per_second
        What producers send, all together.
    """

    interval_seconds: float = 5.0
    warm_up_seconds: float = 15.0
    ticks: int = 8
    messages_per_second: float = 900.0


QUICK: Final = Pace(warm_up_seconds=6.0, ticks=3, messages_per_second=400.0)


@dataclass(frozen=True, eq=False)
class Told:
    """What came of it."""

    before: Measured
    after: Measured
    plan: BundlePlan
    receipt: BundlesReceipt | None
    outcome: Outcome
    disturbances: tuple[Disturbance, ...]
    files: tuple[Path, ...]

    @property
    def ok(self) -> bool:
        """Whether levelling helped by measurement, or there was nothing to level."""
        return self.outcome.helped or self.plan.verdict is Verdict.LEVEL


def tell(screen: Screen, out: Path, pace: Pace, seed: int, settings: BundlesSettings) -> Told:
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
    epsilon = np.array(settings.epsilon)
    workload = uneven(seed, pace.messages_per_second)
    with contextlib.ExitStack() as stack:
        world, pipeline = _begin(stack, screen, pace, workload)
        screen.step(f"Watch it for {pace.ticks} samples, {pace.interval_seconds:g} s apart")
        period = world.sample(pace.ticks, screen.counted)
        screen.step("Work out where the load is, with Spark")
        before, snapshot = _sense(screen, world, pipeline, period)
        screen.say("each broker's use of its declared capacity, and its distance from the mean:")
        show_map(screen, epsilon, before)
        screen.step("Plan the smallest disturbance that levels it")
        plan = decide(screen, world, snapshot, settings)
        screen.step("Carry it out, with producers and consumers at work")
        receipt = _act(screen, world, plan) if plan.moves else None
        screen.step(f"Watch again for {pace.ticks} samples")
        # Rates of bundles that have just moved begin anew: let them settle.
        time.sleep(2 * STATISTICS_SECONDS)
        period = world.sample(pace.ticks, screen.counted)
        summary = world.load.summary()
        ticks = tuple(read_truth(world.load.folder))
        screen.step("Measure again, with Spark, from fresh samples")
        after, _ = _sense(screen, world, pipeline, period)
    goals = goals_of(settings, len(before.brokers))
    found = () if receipt is None else disturbances(receipt, workload, ticks)
    screen.step("Did it help, and what did clients notice?")
    outcome = judge(before.measures(), after.measures(), goals)
    show_both(screen, before, after, goals)
    screen.say(f"cost: {spent_text(receipt)}")
    show_disturbance(screen, found)
    screen.say(
        f"clients meanwhile: {summary.produced_records:,} messages produced, {summary.errors} failed, "
        f"{summary.late_records} late"
    )
    files = keep(out, before, after, plan, receipt, goals, found)
    screen.say(judgement(outcome, plan.verdict))
    screen.say()
    for file in files:
        screen.say(str(file))
    return Told(before, after, plan, receipt, outcome, found, files)


def _begin(
    stack: contextlib.ExitStack, screen: Screen, pace: Pace, workload: PulsarWorkload
) -> tuple[BundlesWorld, Pipeline]:
    """Cluster, topics, clients; Spark and the planner get ready while the brokers warm up."""
    from trimtab.connect.pulsar import PulsarAdmin
    from trimtab.sandbox.pulsar.cluster import PulsarSandbox
    from trimtab.sandbox.pulsar.load import PulsarLoad
    from trimtab.sandbox.pulsar.namespaces import create_namespaces

    screen.step("Start a real Pulsar cluster: three brokers, a bookie, a metadata store")
    planner = begin_warm_up("bundles")
    stack.callback(end, [planner], 0.0)
    own = {
        "statsUpdateFrequencyInSecs": str(STATISTICS_SECONDS),
        "statsUpdateInitialDelayInSecs": str(STATISTICS_SECONDS),
    }
    sandbox = stack.enter_context(PulsarSandbox.start(BROKERS, settings=own, say=screen.say))
    screen.say(f"it serves at {sandbox.service_url}")
    screen.step("Create topics where Pulsar itself puts them, and let producers and consumers work")
    with PulsarAdmin(sandbox.connection) as admin:
        create_namespaces(admin, workload)
    folder = sandbox.state.folder
    load = stack.enter_context(PulsarLoad.start(sandbox.connection, workload, folder / "load"))
    bundles = sum(namespace.bundles for namespace in workload.namespaces)
    screen.say(
        f"{len(list(workload.topics))} topics in {bundles} bundles of {len(workload.namespaces)} namespaces, "
        f"{workload.messages_per_second:,.0f} messages/s, {bytes_text(workload.bytes_in_per_second)}/s in, "
        f"{bytes_text(workload.bytes_out_per_second)}/s out"
    )
    pipeline = Pipeline(folder / "spark", _pipeline_settings(pace))
    stack.callback(pipeline.close)
    begun = time.monotonic()
    capacity = level_capacity(workload, BROKERS, CPU_CORES)
    lake = Lake(folder / "lake", "bundles")
    world = stack.enter_context(watched(sandbox, load, workload, lake, pace.interval_seconds, capacity))
    wait_until_ready(screen, load, pipeline, planner, begun, pace.warm_up_seconds)
    return world, pipeline


def _pipeline_settings(pace: Pace) -> PipelineSettings:
    from trimtab.observe.settings import BundleFigures, PipelineSettings

    # Two samples a window: the newest three windows and a forecast are what a plan has to hold in.
    window = 2 * pace.interval_seconds
    figures = BundleFigures(horizon_seconds=2 * window, trend_windows=max(2, pace.ticks // 2))
    return PipelineSettings(window_seconds=window, slide_seconds=window, bundles=figures)


def _sense(
    screen: Screen, world: BundlesWorld, pipeline: Pipeline, period: Period
) -> tuple[Measured, BundlesSnapshot]:
    for problem in world.problems:
        screen.say(f"collector: {problem}")
    pipeline.run(world.lake, screen.say)
    return measured(world.lake, period, resources=RESOURCES), newest(world)


def _act(screen: Screen, world: BundlesWorld, plan: BundlePlan) -> BundlesReceipt:
    from trimtab.act.bundles.progress import progress_of

    def watch(state: BundlesState) -> None:
        now = progress_of(state)
        under_way = f": {now.under_way[0]}" if now.under_way else ""
        share = now.steps_ended / max(1, now.steps_total)
        screen.progress(f"{bar(share)} {now.steps_ended} of {now.steps_total} steps{under_way}")

    receipt = carry_out(world.sandbox.connection, plan, world.sandbox.state.folder, watch)
    screen.progress(f"{receipt.status}: {spent_text(receipt)}", last=True)
    for outcome in receipt.left:
        screen.say(f"{outcome.kind} of {outcome.bundle} {outcome.state}: {outcome.reason}")
    for note in receipt.notes:
        screen.say(note)
    return receipt
