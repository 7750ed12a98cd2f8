"""The demo of a balancer that moves load between brokers.

`Demo` is the part of one balancer: its cluster, its load, its plan and its texts. `run_demo` runs all steps:
it starts a skewed cluster under load, measures it, carries a plan out, measures again and compares.
"""

from __future__ import annotations

import contextlib
import json
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from demos.machine import MachineLog, failures, failures_lines
from demos.sampling import measured_load
from demos.screen import SIDE_BY_SIDE, DemoOutput
from demos.turn import DemoPipeline
from demos.warm_up import begin_warm_up
from trimtab.lab.sandbox.load import SandboxLoad
from trimtab.lab.sandbox.processes import end, running
from trimtab.loop import turn
from trimtab.model.load import ImbalanceSummary, resource_name
from trimtab.report.charts import save_figure
from trimtab.report.comparison import MeasurementGoals, compare_measurements, heatmap_figure, met
from trimtab.report.formats import drop_text
from trimtab.report.tables import figures_table, terminal_heatmap
from trimtab_common.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from demos.sampling import MeasuredPeriod, SampledSandbox
    from trimtab.lab.sandbox.clients import WorkloadPlan
    from trimtab.lab.sandbox.cluster import Sandbox
    from trimtab.lab.sandbox.processes import SandboxProcess
    from trimtab.lab.sandbox.truth import LogCheck, TruthTick
    from trimtab.model.load import FloatArray, ImbalanceSummary
    from trimtab.observe.lake.balancer_pipeline import PipelineSettings
    from trimtab.report.comparison import MeasurementVerdict
    from trimtab.report.measured import MeasuredLoad


@dataclass(frozen=True)
class DemoTimes:
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
class DemoTexts:
    """A balancer's words for the steps that are alike.

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
SnapshotT = TypeVar("SnapshotT", bound=Any)
PlanT = TypeVar("PlanT", bound=Any)
ReceiptT = TypeVar("ReceiptT")


class Demo(ABC, Generic[SandboxT, SnapshotT, PlanT, ReceiptT]):
    """The part that one balancer has in the story.

    Attributes
    ----------
    balancer, resources, texts
        The balancer's.
    times, workload
        How long the demo watches, and the load.
    theta, epsilon
        Goals by resource.
    settle_seconds
        Between the execution and the second measurement.
    """

    balancer: str
    resources: tuple[str, ...]
    texts: DemoTexts
    times: DemoTimes
    workload: WorkloadPlan
    theta: Sequence[float]
    epsilon: Sequence[float]
    settle_seconds: float

    @abstractmethod
    def start(self, screen: DemoOutput) -> SandboxT:
        """A cluster that serves, and a line on where."""

    @abstractmethod
    def create_topics(self, screen: DemoOutput, sandbox: SandboxT) -> None:
        """Make what the load needs, where the system itself puts it."""

    @abstractmethod
    def load_text(self) -> str:
        """The load in a line."""

    @abstractmethod
    def pipeline_settings(self) -> PipelineSettings:
        """The settings of the tables: two samples a window."""

    @abstractmethod
    def sampled(
        self, sandbox: SandboxT, load: SandboxLoad
    ) -> AbstractContextManager[SampledSandbox[SandboxT]]:
        """Samples of the loaded cluster, taken until the block is left."""

    @abstractmethod
    def hosts(self, sandbox: SandboxT) -> Mapping[int, str] | None:
        """The host of each broker; None where a broker's name tells it."""

    @abstractmethod
    def read_snapshot(self, path: Path) -> SnapshotT:
        """The snapshot of a file or folder."""

    @abstractmethod
    def plan(self, snapshot: SnapshotT, noise: Mapping[str, float]) -> PlanT:
        """The plan; `noise` is how far a broker's measured mean may be off by chance, parts of the mean."""

    @abstractmethod
    def plan_text(self, plan: PlanT, snapshot: SnapshotT) -> str:
        """The plan as commands show it."""

    @abstractmethod
    def plan_bytes(self, plan: PlanT) -> bytes:
        """The plan's file."""

    @abstractmethod
    def act(self, screen: DemoOutput, sandbox: SandboxT, snapshot: SnapshotT, plan: PlanT) -> ReceiptT:
        """Carry the plan out, and tell how far it is and what is left."""

    @abstractmethod
    def spent_text(self, receipt: ReceiptT | None) -> str:
        """The price of an execution, in a sentence."""

    @abstractmethod
    def facts(self, receipt: ReceiptT | None, ticks: Sequence[TruthTick]) -> Mapping[str, object]:
        """The balancer's own part of the result: the price, and what clients noticed."""

    def show_clients(self, screen: DemoOutput, receipt: ReceiptT | None, ticks: Sequence[TruthTick]) -> None:
        """Show what clients noticed of the execution, where they can tell."""
        return


def begin_demo(
    stack: contextlib.ExitStack, screen: DemoOutput, demo: Demo[SandboxT, SnapshotT, PlanT, ReceiptT]
) -> tuple[SampledSandbox[SandboxT], DemoPipeline, MachineLog]:
    """Cluster, topics, clients; Spark and the planner get ready while the brokers warm up."""
    screen.step(f"Start a real {demo.texts.system} cluster: {demo.texts.cluster}")
    planner = begin_warm_up(demo.balancer)
    stack.callback(end, [planner], 0.0)
    sandbox = demo.start(screen)
    stack.enter_context(sandbox)
    screen.step(
        f"Create topics where {demo.texts.system} itself puts them, and let producers and consumers work"
    )
    demo.create_topics(screen, sandbox)
    folder = sandbox.state.folder
    load = stack.enter_context(SandboxLoad.start(sandbox.state.connection, demo.workload, folder / "load"))
    screen.print_lines(demo.load_text())
    pipeline = DemoPipeline(folder / "spark", demo.pipeline_settings())
    stack.callback(pipeline.close)
    begun = time.monotonic()
    world = stack.enter_context(demo.sampled(sandbox, load))
    machine = stack.enter_context(MachineLog().running())
    _wait_until_ready(screen, load, pipeline, planner, begun, demo.times.warm_up_seconds)
    return world, pipeline, machine


def _wait_until_ready(
    screen: DemoOutput,
    load: SandboxLoad,
    pipeline: DemoPipeline,
    planner: SandboxProcess,
    started: float,
    seconds: float,
) -> None:
    """Wait until brokers are warm, Spark has started, and the planner is compiled.

    Parameters
    ----------
    load
        Must go on meanwhile.
    started, seconds
        Since when (monotonic) and how long brokers warm up.

    Raises
    ------
    SandboxError
        If a client of the load has ended.
    """
    while waited_for := _not_ready(pipeline, planner, seconds - (time.monotonic() - started)):
        load.require_running()
        screen.progress(f"{time.monotonic() - started:.0f} s: {waited_for}")
        time.sleep(0.1)
    screen.progress(f"warmed up in {time.monotonic() - started:.0f} s", last=True)


def _not_ready(pipeline: DemoPipeline, planner: SandboxProcess, seconds: float) -> str:
    """The parts that are still being waited for; empty when all is there."""
    busy = [
        "brokers warm up" if seconds > 0 else "",
        "" if pipeline.started else "Spark starts",
        "the planner is compiled (once on this machine)" if running(planner) else "",
    ]
    return ", ".join(filter(None, busy))


def before_after_table(before: ImbalanceSummary, after: ImbalanceSummary, goals: MeasurementGoals) -> Table:
    """One row per resource: σ with its drop, worst deviation and peak, each before and after.

    Figures within their goal are green, the others red; resources that were not measured say so.
    """
    headings = ["σ before", "after", "drop", "worst deviation", "after", "peak", "after"]
    table = figures_table(["resource"], headings)
    table.columns[2].min_width, table.columns[3].min_width = 6, 7
    for name in goals.epsilon:
        if name not in before.sigma or name not in after.sigma:
            table.add_row(resource_name(name), *["–"] * 7)
            continue
        was, now = met(before, name, goals), met(after, name, goals)
        table.add_row(
            resource_name(name),
            _coloured(f"{before.sigma[name]:.4f}", was[0]),
            _coloured(f"{after.sigma[name]:.4f}", now[0]),
            drop_text(before.sigma[name], after.sigma[name]),
            _coloured(f"{before.worst_deviation[name]:.1%}", was[1]),
            _coloured(f"{after.worst_deviation[name]:.1%}", now[1]),
            *(
                _coloured(f"{one.peak_usage[name]:.0%}", met[2]) if name in one.peak_usage else "–"
                for one, met in ((before, was), (after, now))
            ),
        )
    first = next(
        (name for name in goals.epsilon if np.isfinite(goals.epsilon[name])), next(iter(goals.epsilon))
    )
    eta, epsilon, theta = goals.eta(first), goals.epsilon[first], goals.theta[first]
    table.add_row("goal", "", "", "", "", f"{epsilon:.1%}", "", f"{theta:.0%}", style="dim")
    table.add_row("η, no goal", "", f"{eta:.4f}", *[""] * 5, style="dim")
    return table


def _coloured(text: str, met: bool) -> str:
    return f"[green]{text}[/]" if met else f"[red]{text}[/]"


def show_both(screen: DemoOutput, before: MeasuredLoad, after: MeasuredLoad, goals: MeasurementGoals) -> None:
    """The map and the table of before and after."""
    show_map(screen, np.array([goals.epsilon[name] for name in before.resources]), before, after)
    screen.table(before_after_table(before.means(), after.means(), goals))


def show_map(
    screen: DemoOutput, epsilon: FloatArray, before: MeasuredLoad, after: MeasuredLoad | None = None
) -> None:
    """Brokers × resources in the terminal, one panel or two, side by side where there is room."""
    names, columns = before.names(", "), [resource_name(name) for name in before.resources]
    first = before.cells("before" if after else "")
    second = after.cells("after") if after else None
    panels = (
        [(first, second)]
        if second is None or screen.console.width >= SIDE_BY_SIDE
        else [(first, None), (second, None)]
    )
    for left, right in panels:
        screen.table(terminal_heatmap(names, left, right, columns=columns, epsilon=epsilon))


def missed_goals(
    outcome: MeasurementVerdict,
    predicted: ImbalanceSummary,
    after: ImbalanceSummary,
    by_loads: Mapping[str, float],
    goals: MeasurementGoals,
) -> list[str]:
    """The goals that are missed: by how much, what the plan predicted, and what made the difference.

    Parameters
    ----------
    by_loads
        The worst deviation of each resource in the newest snapshot, by the loads of its partitions.
    """
    lines = []
    for name in outcome.unmet:
        off, peak = after.worst_deviation[name], after.peak_usage.get(name, 0.0)
        if off > goals.epsilon[name]:
            told = predicted.worst_deviation.get(name, float("nan"))
            lines.append(
                f"{resource_name(name)}: {off:.1%} from the mean, goal {goals.epsilon[name]:.1%}; the plan "
                f"predicted {told:.1%}{_cause(name, off, told, by_loads.get(name))}"
            )
        if peak > goals.theta[name]:
            lines.append(
                f"{resource_name(name)}: peak {peak:.1%}, goal {goals.theta[name]:.0%}; the plan predicted "
                f"{predicted.peak_usage.get(name, float('nan')):.1%}"
            )
    return lines


def _cause(name: str, measured: float, predicted: float, by_loads: float | None) -> str:
    """Why a prediction did not come true, by what the newest snapshot makes of the same placement."""
    if by_loads is None or not np.isfinite(by_loads):
        return ""
    text = f", and {by_loads:.1%} by the loads of now: "
    if abs(by_loads - measured) > abs(by_loads - predicted):
        return text + "the brokers' use beside their partitions differs"
    return text + ("the fit of CPU to partitions has changed" if name == "cpu" else "the loads have changed")


def conclusion(outcome: MeasurementVerdict, plan: Any, log: LogCheck) -> str:
    """The end of the story in a sentence, as measurement tells it."""
    if not log.ok:
        return "This failed: what brokers had confirmed is not all there, once and in order."
    if plan.has_nothing_to_do:
        return "The cluster's own placement was balanced this time: run it again with another --seed."
    if not outcome.helped:
        worse = ", ".join(resource_name(name) for name in outcome.worse) or "nothing became more even"
        return f"By measurement this did not help ({worse})."
    if outcome.unmet:
        return (
            f"It helped: {', '.join(resource_name(name) for name in outcome.improved)} became more even. "
            f"Not within every goal yet: {', '.join(resource_name(name) for name in outcome.unmet)}."
        )
    return "It helped, and every goal holds, by measurement."


def sampling_facts(period: MeasuredPeriod) -> dict[str, object]:
    """Samples of a period for the result: how many were wanted, taken and disturbed, and by what."""
    disturbed = period.disturbed
    return {
        "wanted": period.required,
        "taken": period.ticks,
        "disturbed": len(disturbed),
        "why": sorted(set(disturbed.values())),
        "too_busy": period.too_busy,
    }


def keep_results(
    out: Path,
    panels: Sequence[tuple[str, MeasuredLoad]],
    title: str,
    goals: MeasurementGoals,
    plan: bytes,
    facts: Mapping[str, object],
) -> tuple[Path, ...]:
    """Write pictures, plan and result, each whole; the result last.

    Parameters
    ----------
    panels
        Heading and figures of before and after.
    title
        Of the picture.
    plan
        The plan's file.
    facts
        What else belongs to the result.
    """
    out.mkdir(parents=True, exist_ok=True)
    (_, before), (_, after) = panels
    figure = heatmap_figure(panels, title, goals.epsilon[before.resources[0]])
    pictures = save_figure(figure, out, "heatmap")
    write_atomically(out / "plan.json", plan)
    result = {
        "format": "trimtab/demo-result/1",
        "before": asdict(before.means()),
        "after": asdict(after.means()),
        "peak_of_any_instant": [before.measures().peak_usage, after.measures().peak_usage],
        "instants": [before.instants, after.instants],
        **facts,
    }
    write_atomically(out / "result.json", (json.dumps(result, indent=1) + "\n").encode())
    return (*pictures, out / "plan.json", out / "result.json")


STEPS = 9


@dataclass(frozen=True, eq=False)
class DemoResult(Generic[PlanT, ReceiptT]):
    """The outcome of a demo: figures before and after, plan, receipt, records looked for, files kept."""

    before: MeasuredLoad
    after: MeasuredLoad
    plan: PlanT
    receipt: ReceiptT | None
    outcome: MeasurementVerdict
    log: LogCheck
    files: tuple[Path, ...]

    @property
    def exit_code(self) -> int:
        """0 if every goal holds by measurement, 3 if the plan helped but a goal is missed, else 1.

        A cluster that was balanced from the start ends with 0; a lost record always with 1.
        """
        if not self.log.ok:
            return 1
        if self.plan.has_nothing_to_do:
            return 0
        if not self.outcome.helped:
            return 1
        return 3 if self.outcome.unmet else 0


def run_demo(
    screen: DemoOutput, out: Path, demo: Demo[SandboxT, SnapshotT, PlanT, ReceiptT]
) -> DemoResult[PlanT, ReceiptT]:
    """Run the whole demo; whatever happens, no process of it is left when this returns.

    Pictures, the plan and the result are kept in the folder `out`, which is made if need be.

    Raises
    ------
    TrimtabError
        If something that is needed is missing, or fails.
    """
    with contextlib.ExitStack() as stack:
        told = _DemoCallbacks(screen, demo, *begin_demo(stack, screen, demo))
        receipt = turn(told.observe, told.plan, told.act)
        plan = told.made
        screen.step(f"Watch again for {demo.times.ticks} samples")
        time.sleep(demo.settle_seconds)
        told.sample()
        screen.step("Measure again, with Spark, from fresh samples")
        after = told.measure_planned()
        before = told.before_planned()
        goals = MeasurementGoals(
            dict(zip(demo.resources, demo.theta, strict=True)),
            dict(zip(demo.resources, demo.epsilon, strict=True)),
            len(before.brokers),
        )
        screen.step(demo.texts.question)
        outcome = compare_measurements(before.means(), after.means(), goals)
        receipts = [receipt]
        if outcome.unmet and plan.moves:
            for line in missed_goals(outcome, plan.predicted.after, after.means(), told.by_loads(), goals):
                screen.print_lines(line)
            screen.print_lines(
                f"an operator would now type `trimtab plan {demo.balancer}` again: a second turn"
            )
            second = told.second_turn(after)
            if second is not None:
                receipts.append(second)
                after, before = told.measure_planned(), told.before_planned()
                outcome = compare_measurements(before.means(), after.means(), goals)
        screen.progress("the load is stopped, and all that it wrote is read back")
        told.world.load.stop()
        summary, ticks = told.world.load.summary(), tuple(told.world.load.ticks())
        log = told.world.load.read_back()
    show_both(screen, before, after, goals)
    for number, one in enumerate(receipts, start=1):
        screen.print_lines(f"cost{f' of turn {number}' if len(receipts) > 1 else ''}: {demo.spent_text(one)}")
    demo.show_clients(screen, receipt, ticks)
    screen.print_lines(
        f"clients meanwhile: {summary.produced_records:,} {demo.texts.records} produced, "
        f"{summary.errors:,} failed, {summary.late_records:,} late"
        + (f", {summary.unacknowledged_records:,} never answered" if summary.unacknowledged_records else "")
    )
    screen.print_lines(log.text(demo.texts.records))
    failed = failures(ticks, told.moving, told.machine)
    for line in failures_lines(failed):
        screen.print_lines(line)
    panels = [
        (f"before: {demo.texts.system}'s own placement", before),
        (f"after: {'; then '.join(demo.spent_text(one) for one in receipts)}", after),
    ]
    facts = {
        **demo.facts(receipt, ticks),
        "verdict": str(plan.verdict),
        "turns": len(receipts),
        "margin": told.noise,
        "predicted": asdict(plan.predicted.after),
        "outcome": asdict(outcome),
        "samples": [sampling_facts(period) for period in told.periods],
        "log": asdict(log),
        "failed": failed,
    }
    files = keep_results(out, panels, demo.texts.title, goals, demo.plan_bytes(plan), facts)
    for when, period in zip(("before", "after"), told.periods, strict=True):
        if period.too_busy:
            screen.print_lines(f"{when}: {period.warning}")
    screen.print_lines(conclusion(outcome, plan, log))
    screen.print_lines()
    for file in files:
        screen.print_lines(str(file))
    return DemoResult(before, after, plan, receipt, outcome, log, files)


class _DemoCallbacks(Generic[SandboxT, SnapshotT, PlanT, ReceiptT]):
    """The three callables of a turn on a sandbox, and what they saw and made."""

    before: MeasuredLoad
    noise: Mapping[str, float]
    made: PlanT
    _snapshot: SnapshotT
    _newest: SnapshotT

    def __init__(
        self,
        screen: DemoOutput,
        demo: Demo[SandboxT, SnapshotT, PlanT, ReceiptT],
        world: SampledSandbox[SandboxT],
        pipeline: DemoPipeline,
        machine: MachineLog,
    ) -> None:
        self._screen, self._demo, self.world, self._pipeline = screen, demo, world, pipeline
        self.machine = machine
        self.periods: list[MeasuredPeriod] = []
        self.moving: tuple[float, float] | None = None

    def observe(self) -> SnapshotT:
        """Watch the cluster; the snapshot that Spark makes of it."""
        screen, pace = self._screen, self._demo.times
        screen.step(f"Watch it for {pace.ticks} samples, {pace.interval_seconds:g} s apart")
        self.sample()
        screen.step("Work out where the load is, with Spark")
        self.before = self.measure()
        self._snapshot = self._newest = self._demo.read_snapshot(self.world.lake.newest_snapshot())
        self.noise = self.before_planned().noise()
        screen.print_lines("each broker's use of its declared capacity, and its distance from the mean:")
        show_map(screen, np.array(self._demo.epsilon), self.before)
        return self._snapshot

    def plan(self, snapshot: SnapshotT) -> PlanT:
        """The plan, shown."""
        self._screen.step(self._demo.texts.plan)
        self.made = self._demo.plan(snapshot, self.noise)
        self._screen.wide(self._demo.plan_text(self.made, snapshot))
        return self.made

    def act(self, plan: PlanT) -> ReceiptT | None:
        """The receipt of the execution; None where there is nothing to do."""
        self._screen.step("Carry it out, with producers and consumers at work")
        if not plan.moves:
            return None
        begun = time.time()
        receipt = self._demo.act(self._screen, self.world.sandbox, self._snapshot, plan)
        self.moving = (begun, time.time())
        return receipt

    def second_turn(self, measured: MeasuredLoad) -> ReceiptT | None:
        """Observe, plan and act once more; None where the plan finds nothing to move."""
        screen, demo = self._screen, self._demo
        self._snapshot = self._newest
        plan = demo.plan(self._snapshot, measured.noise())
        screen.wide(demo.plan_text(plan, self._snapshot))
        if not plan.moves:
            return None
        receipt = demo.act(screen, self.world.sandbox, self._snapshot, plan)
        begun = time.time() if self.moving is None else self.moving[0]
        self.moving = (begun, time.time())
        time.sleep(demo.settle_seconds)
        self.periods.pop()
        self.sample()
        return receipt

    def measure_planned(self) -> MeasuredLoad:
        """The same as plans hold it: without idle CPU, which no move changes."""
        found = self.measure()
        self._newest = self._demo.read_snapshot(self.world.lake.newest_snapshot())
        return found.as_planned(self._newest)

    def by_loads(self) -> dict[str, float]:
        """The worst deviation of each resource by the loads of the newest snapshot."""
        worst: dict[str, float] = self._newest.imbalance().measures().worst_deviation
        return worst

    def before_planned(self) -> MeasuredLoad:
        """The first measurement, held like the newest one."""
        return self.before.as_planned(self._newest)

    def sample(self) -> None:
        """Watch for as many samples as are wanted; those that something else disturbed are taken again."""
        wanted = self._demo.times.ticks
        period = self.world.sample(wanted, self._screen.counted, self.machine)
        if period.warning:
            self._screen.print_lines(period.warning)
        self.periods.append(period)

    def measure(self) -> MeasuredLoad:
        """The figures of the newest stretch of samples, by Spark."""
        period = self.periods[-1]
        for problem in self.world.problems:
            self._screen.print_lines(f"collector: {problem}")
        self._pipeline.run(self.world.lake, self._screen.print_lines)
        return measured_load(
            self.world.lake, period, self._demo.hosts(self.world.sandbox), self._demo.resources
        )
