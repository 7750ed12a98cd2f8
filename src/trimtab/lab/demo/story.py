"""The demo, step by step: a skewed cluster under load, the cure, and whether it helped."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic

import numpy as np

from trimtab.lab.demo.beginning import begin
from trimtab.lab.demo.ending import conclusion, keep, misses, sampling_facts, show_both, show_map
from trimtab.lab.demo.failures import failures, failures_lines
from trimtab.lab.demo.measuring import measured
from trimtab.lab.demo.part import Demo, PlanT, ReceiptT, SandboxT, SnapshotT
from trimtab.loop import turn
from trimtab.report.before_after import MeasurementGoals, compare_measurements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trimtab.lab.demo.machine import MachineLog
    from trimtab.lab.demo.sampling import MeasuredPeriod, SampledSandbox
    from trimtab.lab.demo.screen import DemoOutput
    from trimtab.lab.demo.turn import DemoPipeline
    from trimtab.lab.sandbox.log_check import LogCheck
    from trimtab.report.before_after import MeasurementVerdict
    from trimtab.report.measured import MeasuredLoad

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
        told = _DemoCallbacks(screen, demo, *begin(stack, screen, demo))
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
            for line in misses(outcome, plan.predicted.after, after.means(), told.by_loads(), goals):
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
    files = keep(out, panels, demo.texts.title, goals, demo.plan_bytes(plan), facts)
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
        return measured(self.world.lake, period, self._demo.hosts(self.world.sandbox), self._demo.resources)
