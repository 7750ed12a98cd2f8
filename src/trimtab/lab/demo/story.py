"""The demo, step by step: a skewed cluster under load, the cure, and whether it helped."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from trimtab.lab.demo.before_after import Goals, judge
from trimtab.lab.demo.ending import judgement, keep, sampling_facts, show_both, show_map
from trimtab.lab.demo.failures import failures, failures_lines
from trimtab.lab.demo.machine import MachineLog
from trimtab.lab.demo.measuring import measured
from trimtab.lab.demo.turn import Pipeline
from trimtab.lab.demo.warm_up import begin_warm_up
from trimtab.lab.sandbox.load import Load
from trimtab.lab.sandbox.processes import end, running
from trimtab.loop import turn
from trimtab.model.plan import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trimtab.lab.demo.before_after import Outcome
    from trimtab.lab.demo.measuring import Measured
    from trimtab.lab.demo.sampling import Period, Sampling
    from trimtab.lab.demo.screen import Screen
    from trimtab.lab.sandbox.client_task import LoadPlan
    from trimtab.lab.sandbox.cluster import Sandbox
    from trimtab.lab.sandbox.log_check import LogCheck
    from trimtab.lab.sandbox.processes import Process
    from trimtab.lab.sandbox.truth import TruthTick
    from trimtab.observe.settings import PipelineSettings

STEPS = 9


@dataclass(frozen=True)
class Pace:
    """The length of the demo, and its load.

    Attributes
    ----------
    interval_seconds
        Between two samples.
    warm_up_seconds
        Load before the first sample counts: freshly started brokers spend time on compiling themselves.
    ticks
        Samples of each of the two measurements.
    rate
        What producers send, all together: bytes per second to Kafka, messages per second to Pulsar.
    """

    interval_seconds: float
    warm_up_seconds: float
    ticks: int
    rate: float


@dataclass(frozen=True)
class DemoWords:
    """A level's words for the steps that are alike.

    Attributes
    ----------
    system
        Its name.
    cluster
        That is started.
    plan, question
        Headings of planning and of the end.
    records
        Its word for records.
    title
        Of the picture.
    """

    system: str
    cluster: str
    plan: str
    question: str
    records: str
    title: str


SandboxT = TypeVar("SandboxT", bound="Sandbox[Any, Any, Any]")
SnapshotT = TypeVar("SnapshotT")
PlanT = TypeVar("PlanT", bound=Any)
ReceiptT = TypeVar("ReceiptT")


class Demo(ABC, Generic[SandboxT, SnapshotT, PlanT, ReceiptT]):
    """The part that one level has in the story.

    Attributes
    ----------
    level, resources, words
        The level's.
    pace, workload
        How long the demo watches, and the load.
    theta, epsilon
        Goals by resource.
    settle_seconds
        Between the execution and the second measurement.
    """

    level: str
    resources: tuple[str, ...]
    words: DemoWords
    pace: Pace
    workload: LoadPlan
    theta: Sequence[float]
    epsilon: Sequence[float]
    settle_seconds: float

    @abstractmethod
    def start(self, screen: Screen) -> SandboxT:
        """A cluster that serves, and a line on where."""

    @abstractmethod
    def create_topics(self, screen: Screen, sandbox: SandboxT) -> None:
        """Make what the load needs, where the system itself puts it."""

    @abstractmethod
    def load_text(self) -> str:
        """The load in a line."""

    @abstractmethod
    def pipeline_settings(self) -> PipelineSettings:
        """The settings of the tables: two samples a window."""

    @abstractmethod
    def sampled(self, sandbox: SandboxT, load: Load) -> AbstractContextManager[Sampling[SandboxT]]:
        """Samples of the loaded cluster, taken until the block is left."""

    @abstractmethod
    def hosts(self, sandbox: SandboxT) -> Mapping[int, str] | None:
        """The host of each broker; None where a broker's name tells it."""

    @abstractmethod
    def read_snapshot(self, path: Path) -> SnapshotT:
        """The snapshot of a file or folder."""

    @abstractmethod
    def plan(self, snapshot: SnapshotT) -> PlanT:
        """The plan."""

    @abstractmethod
    def plan_text(self, plan: PlanT, snapshot: SnapshotT) -> str:
        """The plan as commands show it."""

    @abstractmethod
    def plan_bytes(self, plan: PlanT) -> bytes:
        """The plan's file."""

    @abstractmethod
    def act(self, screen: Screen, sandbox: SandboxT, snapshot: SnapshotT, plan: PlanT) -> ReceiptT:
        """Carry the plan out, and tell how far it is and what is left."""

    @abstractmethod
    def spent_text(self, receipt: ReceiptT | None) -> str:
        """The price of an execution, in a sentence."""

    @abstractmethod
    def facts(self, receipt: ReceiptT | None, ticks: Sequence[TruthTick]) -> Mapping[str, object]:
        """The level's own part of the result: the price, and what clients noticed."""

    def show_clients(self, screen: Screen, receipt: ReceiptT | None, ticks: Sequence[TruthTick]) -> None:
        """Show what clients noticed of the execution, where they can tell."""
        return


@dataclass(frozen=True, eq=False)
class Told(Generic[PlanT, ReceiptT]):
    """The outcome of a demo: figures before and after, plan, receipt, records looked for, files kept."""

    before: Measured
    after: Measured
    plan: PlanT
    receipt: ReceiptT | None
    outcome: Outcome
    log: LogCheck
    files: tuple[Path, ...]

    @property
    def ok(self) -> bool:
        """True if no record is lost, and levelling helped by measurement or there was nothing to level."""
        return self.log.ok and (self.outcome.helped or self.plan.verdict is Verdict.LEVEL)


def tell(
    screen: Screen, out: Path, demo: Demo[SandboxT, SnapshotT, PlanT, ReceiptT]
) -> Told[PlanT, ReceiptT]:
    """Run the whole demo; whatever happens, no process of it is left when this returns.

    Pictures, the plan and the result are kept in the folder `out`, which is made if need be.

    Raises
    ------
    TrimtabError
        If something that is needed is missing, or fails.
    """
    with contextlib.ExitStack() as stack:
        told = _Turn(screen, demo, *_begin(stack, screen, demo))
        receipt = turn(told.observe, told.plan, told.act)
        screen.step(f"Watch again for {demo.pace.ticks} samples")
        time.sleep(demo.settle_seconds)
        told.sample()
        screen.progress("the load is stopped, and all that it wrote is read back")
        told.world.load.stop()
        summary, ticks = told.world.load.summary(), tuple(told.world.load.ticks())
        log = told.world.load.read_back()
        screen.step("Measure again, with Spark, from fresh samples")
        after = told.measure()
    before, plan = told.before, told.made
    goals = Goals(
        dict(zip(demo.resources, demo.theta, strict=True)),
        dict(zip(demo.resources, demo.epsilon, strict=True)),
        len(before.brokers),
    )
    screen.step(demo.words.question)
    outcome = judge(before.means(), after.means(), goals)
    show_both(screen, before, after, goals)
    screen.say(f"cost: {demo.spent_text(receipt)}")
    demo.show_clients(screen, receipt, ticks)
    screen.say(
        f"clients meanwhile: {summary.produced_records:,} {demo.words.records} produced, "
        f"{summary.errors:,} failed, {summary.late_records:,} late"
        + (f", {summary.unanswered_records:,} never answered" if summary.unanswered_records else "")
    )
    screen.say(log.text(demo.words.records))
    failed = failures(ticks, told.moving, told.machine)
    for line in failures_lines(failed):
        screen.say(line)
    panels = [
        (f"before: {demo.words.system}'s own placement", before),
        (f"after: {demo.spent_text(receipt)}", after),
    ]
    facts = {
        **demo.facts(receipt, ticks),
        "verdict": str(plan.verdict),
        "outcome": asdict(outcome),
        "samples": [sampling_facts(period) for period in told.periods],
        "log": asdict(log),
        "failed": failed,
    }
    files = keep(out, panels, demo.words.title, goals, demo.plan_bytes(plan), facts)
    for when, period in zip(("before", "after"), told.periods, strict=True):
        if period.too_busy:
            screen.say(f"{when}: {period.remark}")
    screen.say(judgement(outcome, plan.verdict, log))
    screen.say()
    for file in files:
        screen.say(str(file))
    return Told(before, after, plan, receipt, outcome, log, files)


class _Turn(Generic[SandboxT, SnapshotT, PlanT, ReceiptT]):
    """The three callables of a turn on a sandbox, and what they saw and made."""

    before: Measured
    made: PlanT
    _snapshot: SnapshotT

    def __init__(
        self,
        screen: Screen,
        demo: Demo[SandboxT, SnapshotT, PlanT, ReceiptT],
        world: Sampling[SandboxT],
        pipeline: Pipeline,
        machine: MachineLog,
    ) -> None:
        self._screen, self._demo, self.world, self._pipeline = screen, demo, world, pipeline
        self.machine = machine
        self.periods: list[Period] = []
        self.moving: tuple[float, float] | None = None

    def observe(self) -> SnapshotT:
        """Watch the cluster; the snapshot that Spark makes of it."""
        screen, pace = self._screen, self._demo.pace
        screen.step(f"Watch it for {pace.ticks} samples, {pace.interval_seconds:g} s apart")
        self.sample()
        screen.step("Work out where the load is, with Spark")
        self.before = self.measure()
        self._snapshot = self._demo.read_snapshot(self.world.lake.newest_snapshot())
        screen.say("each broker's use of its declared capacity, and its distance from the mean:")
        show_map(screen, np.array(self._demo.epsilon), self.before)
        return self._snapshot

    def plan(self, snapshot: SnapshotT) -> PlanT:
        """The plan, shown."""
        self._screen.step(self._demo.words.plan)
        self.made = self._demo.plan(snapshot)
        self._screen.wide(self._demo.plan_text(self.made, snapshot))
        return self.made

    def act(self, plan: PlanT) -> ReceiptT | None:
        """The receipt of the execution; None where there is nothing to do."""
        self._screen.step("Carry it out, with producers and consumers at work")
        if not plan.moves:
            return None
        begin = time.time()
        receipt = self._demo.act(self._screen, self.world.sandbox, self._snapshot, plan)
        self.moving = (begin, time.time())
        return receipt

    def sample(self) -> None:
        """Watch for as many samples as are wanted; those that something else disturbed are taken again."""
        wanted = self._demo.pace.ticks
        period = self.world.sample(wanted, self._screen.counted, self.machine)
        if period.remark:
            self._screen.say(period.remark)
        self.periods.append(period)

    def measure(self) -> Measured:
        """The figures of the newest stretch of samples, by Spark."""
        period = self.periods[-1]
        for problem in self.world.problems:
            self._screen.say(f"collector: {problem}")
        self._pipeline.run(self.world.lake, self._screen.say)
        return measured(self.world.lake, period, self._demo.hosts(self.world.sandbox), self._demo.resources)


def _begin(
    stack: contextlib.ExitStack, screen: Screen, demo: Demo[SandboxT, SnapshotT, PlanT, ReceiptT]
) -> tuple[Sampling[SandboxT], Pipeline, MachineLog]:
    """Cluster, topics, clients; Spark and the planner get ready while the brokers warm up."""
    screen.step(f"Start a real {demo.words.system} cluster: {demo.words.cluster}")
    planner = begin_warm_up(demo.level)
    stack.callback(end, [planner], 0.0)
    sandbox = demo.start(screen)
    stack.enter_context(sandbox)
    screen.step(
        f"Create topics where {demo.words.system} itself puts them, and let producers and consumers work"
    )
    demo.create_topics(screen, sandbox)
    folder = sandbox.state.folder
    load = stack.enter_context(Load.start(sandbox.state.connection, demo.workload, folder / "load"))
    screen.say(demo.load_text())
    pipeline = Pipeline(folder / "spark", demo.pipeline_settings())
    stack.callback(pipeline.close)
    begun = time.monotonic()
    world = stack.enter_context(demo.sampled(sandbox, load))
    machine = stack.enter_context(MachineLog().running())
    _wait_until_ready(screen, load, pipeline, planner, begun, demo.pace.warm_up_seconds)
    return world, pipeline, machine


def _wait_until_ready(
    screen: Screen, load: Load, pipeline: Pipeline, planner: Process, begun: float, seconds: float
) -> None:
    """Wait until brokers are warm, Spark has started, and the planner is compiled.

    Parameters
    ----------
    load
        Must go on meanwhile.
    begun, seconds
        Since when (monotonic) and how long brokers warm up.

    Raises
    ------
    SandboxError
        If a client of the load has ended.
    """
    while waited_for := _not_ready(pipeline, planner, seconds - (time.monotonic() - begun)):
        load.require_running()
        screen.progress(f"{time.monotonic() - begun:.0f} s: {waited_for}")
        time.sleep(0.1)
    screen.progress(f"warmed up in {time.monotonic() - begun:.0f} s", last=True)


def _not_ready(pipeline: Pipeline, planner: Process, seconds: float) -> str:
    """The parts that are still being waited for; empty when all is there."""
    busy = [
        "brokers warm up" if seconds > 0 else "",
        "" if pipeline.started else "Spark starts",
        "the planner is compiled (once on this machine)" if running(planner) else "",
    ]
    return ", ".join(filter(None, busy))
