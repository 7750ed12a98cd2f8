"""The effect of an execution: samples from before it compared with samples from after it."""

from __future__ import annotations

import datetime
import tempfile
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.act.control import receipt_of
from trimtab.act.execution.state import FINAL
from trimtab.act.executor import ExecutionSummary
from trimtab.act.journal import ExecutionStore
from trimtab.balancers import Balancer
from trimtab.balancers.settings import pipeline_table
from trimtab.balancers.systems import spark_settings
from trimtab.decide.events import Effect as Effect
from trimtab.decide.loads import WORSE_BY, PlacementLoad, effect_of
from trimtab.executions import (
    AnyPlan,
    AnyReceipt,
    ExecutionContext,
    SampleTaken,
    chosen,
    newest_of,
    open_store,
    plan_of,
)
from trimtab.files.store import Location
from trimtab.model.errors import ObserveError
from trimtab.model.goals import goal_status, out_of_service
from trimtab.observe.lake.lake import Lake
from trimtab.report.comparison import MeasurementComparison, plan_goals
from trimtab.report.formats import clock_text
from trimtab.report.measured import MIN_SAMPLES, SETTLING, measured_between
from trimtab_common.errors import InputError, SettingsError

if TYPE_CHECKING:
    from trimtab.model.goals import GoalViolation
    from trimtab.model.load import ImbalanceSummary
    from trimtab.report.measured import MeasuredLoad

NOTHING_BEFORE = "there is nothing to compare with; let `trimtab collect` run before the next plan"
COLLECT = f"`trimtab collect --ticks {MIN_SAMPLES + 3}`, then `trimtab pipeline run`, or give --live"
INTERVALS = 6
"""Minimum number of intervals into which the duration of fresh samples is divided."""
MIN_SECONDS = 2.0 * INTERVALS


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The load of now without the moves of an execution and with them, and the effect that it shows."""

    without: ImbalanceSummary
    with_moves: ImbalanceSummary
    effect: Effect
    text: str

    @classmethod
    def of(
        cls, without: ImbalanceSummary, with_moves: ImbalanceSummary, even: Collection[str]
    ) -> Counterfactual:
        """Both placements compared; `even` are the resources of which evenness is asked."""

        def load_of(measured: ImbalanceSummary) -> PlacementLoad:
            return PlacementLoad(
                max((measured.worst_deviation.get(name, 0.0) for name in even), default=0.0),
                max(measured.peak_usage.values(), default=0.0),
            )

        return cls(without, with_moves, *effect_of(load_of(without), load_of(with_moves)))


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measured effect of one execution.

    Attributes
    ----------
    execution
        The execution as the journal lists it.
    comparison
        Figures before, predicted and after, and the judgement by resource.
    counterfactual
        The effect by the load of now alone; None where the moves cannot be taken back.
    """

    execution: ExecutionSummary
    balancer: Balancer
    receipt: AnyReceipt
    comparison: MeasurementComparison
    counterfactual: Counterfactual | None = None

    @property
    def effect(self) -> Effect:
        """The effect; trust one that is not `worse` only where `is_comparable` holds.

        Samples from before the execution can be as wrong as the plan that was made of them. The load of now
        is not: an execution that made it less even is worse, whatever was measured before. By samples a
        resource is worse from `WORSE_BY` on, since loads change by themselves, and only if the load of now
        does not contradict.
        """
        now = None if self.counterfactual is None else self.counterfactual.effect
        verdict = self.comparison.outcome
        if now is Effect.WORSE or any(map(self._is_much_worse, verdict.worse)):
            return Effect.WORSE
        helped = now is Effect.HELPED or (verdict.improved and not verdict.worse)
        return Effect.HELPED if helped else Effect.NOTHING

    def _is_much_worse(self, resource: str) -> bool:
        pairs = [(self.comparison.before.means(), self.comparison.after.means())]
        if self.counterfactual is not None:
            pairs.append((self.counterfactual.without, self.counterfactual.with_moves))
        return self.is_comparable and all(_rise(*pair, resource) > WORSE_BY for pair in pairs)

    @property
    def is_comparable(self) -> bool:
        """Whether the load of the whole cluster is about the same before and after."""
        return not self.comparison.not_comparable

    @property
    def meets_every_goal(self) -> bool:
        """Whether every goal holds after the execution, under a comparable load."""
        return self.comparison.exit_code == 0


def measure(
    execution: int | None,
    context: ExecutionContext,
    *,
    ticks: int = 10,
    live_seconds: float | None = None,
    stop: threading.Event | None = None,
) -> Measurement:
    """Compare the load before an execution with the load after it.

    Parameters
    ----------
    execution
        Its id; None for the newest.
    ticks
        Maximum number of samples of each side: the last before, the last after.
    live_seconds
        Duration of fresh samples of the cluster; None to read the samples from the lake.
    stop
        Ends fresh samples early.

    Raises
    ------
    InputError
        If the execution has not ended, or if fresh samples would measure a later execution.
    ObserveError
        If the lake holds too few samples from before or from after it.
    """
    with open_store(context.state_folder) as store:
        entry = chosen(store, execution)
        status = store.status(entry)
        if status not in FINAL:
            raise InputError(
                f"execution {entry.id} is {status}: wait for its end, or type `trimtab execution resume "
                f"{entry.id}`"
            )
        balancer, plan = plan_of(store, entry)
        receipt = receipt_of(balancer.executor(), store, entry.id)
        before, period = _before(store, entry, balancer, context.lake, ticks)
    until = period[1]
    if live_seconds is not None and until is not None:
        raise InputError(
            f"another execution, started at {clock_text(until.timestamp())} after execution {entry.id}, has "
            "changed the cluster: pass its id or drop --live"
        )
    fresh = live_seconds is not None
    with (
        nullcontext(context.lake)
        if live_seconds is None
        else fresh_lake(balancer, context, live_seconds, stop or threading.Event())
    ) as lake:
        after = _after(entry, balancer, lake, ticks, period, fresh=fresh)
        comparison = _compared(balancer, plan, context, lake, before, after, period)
        counterfactual = None
        if period[1] is None:
            counterfactual = _counterfactual(balancer, plan, receipt, lake, comparison)
    return Measurement(entry, balancer, receipt, comparison, counterfactual)


@contextmanager
def fresh_lake(
    balancer: Balancer, context: ExecutionContext, seconds: float, stop: threading.Event
) -> Iterator[Path]:
    """A temporary lake with fresh samples of one balancer's cluster, and the tables of these samples.

    Raises
    ------
    SettingsError
        If no cluster of the balancer's system is named, or the time is too short.
    TrimtabError
        If the cluster cannot be reached, or Spark does not start.
    """
    # Collectors and Spark take long to import, and a measurement from the lake needs neither.
    from trimtab.observe.collect import sampler
    from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
    from trimtab.observe.lake.balancer_pipeline import settings_of
    from trimtab.observe.spark.session import spark_session
    from trimtab.observe.steps.batch import batch_settings, run_batch

    if seconds < MIN_SECONDS:
        raise SettingsError(
            f"--duration is {seconds:g} s, and {MIN_SECONDS:g} s or more are needed: give 60s"
        )
    settings = context.settings
    how = settings.section("collect", CollectSettings)
    how = replace(how, interval_seconds=min(how.interval_seconds, float(seconds // INTERVALS)))
    capacity = settings.section("capacity", CapacitySettings)
    pipeline = settings_of(settings.section("pipeline", pipeline_table()), [balancer.pipeline()])
    ticks = round(seconds // how.interval_seconds) + 1
    collecting = balancer.system.collecting()
    with tempfile.TemporaryDirectory(prefix="trimtab-") as folder:
        lake = Lake(Path(folder), balancer.pipeline())
        with (
            collecting.open(context.connect(balancer.system), how, capacity) as collector,
            sampler.lake_sink(lake.raw, collecting.columns) as below,
            collecting.recording(below, None) as landing,
        ):
            context.print_progress(f"{ticks} samples, one every {how.interval_seconds:g} s")
            for tick in sampler.collect(collector, landing, how.interval_seconds, stop, ticks):
                context.notify(SampleTaken(balancer.name, tick))
        chosen = batch_settings(spark_settings(settings), [lake])
        session = spark_session(chosen, print_progress=context.print_progress)
        try:
            run_batch(session, lake, pipeline[balancer.name], None, None, context.print_progress)
        finally:
            session.stop()
        yield Path(folder)


TimeRange = tuple[datetime.datetime, datetime.datetime | None]


def _before(
    store: ExecutionStore, entry: ExecutionSummary, balancer: Balancer, lake: Location, ticks: int
) -> tuple[MeasuredLoad, TimeRange]:
    """The samples between the previous execution and this one, and the time range of the samples after it."""
    others = [one for one in store.journal.entries(entry.cluster_id) if one.id != entry.id]
    ended = [one.ended_at for one in others if one.ended_at is not None and one.ended_at <= entry.created_at]
    begun = [one.created_at for one in others if one.created_at > entry.created_at]
    end = entry.ended_at if entry.ended_at is not None else entry.created_at
    home = Lake(lake, balancer.pipeline())
    before = measured_between(
        home, entry.cluster, ticks, _instant(max(ended)) if ended else None, _instant(entry.created_at)
    )
    if before is None or before.instants < MIN_SAMPLES:
        raise _too_few(
            lake, entry, before, f"before it began ({clock_text(entry.created_at)})", NOTHING_BEFORE
        )
    return before, (_instant(end), _instant(min(begun)) if begun else None)


def _after(
    entry: ExecutionSummary, balancer: Balancer, lake: Location, ticks: int, period: TimeRange, *, fresh: bool
) -> MeasuredLoad:
    """The samples after an execution, up to the next one.

    Raises
    ------
    ObserveError
        If there are too few.
    """
    end, until = period
    after = measured_between(
        Lake(lake, balancer.pipeline()), entry.cluster, ticks, end, until, settling=SETTLING
    )
    if after is None or after.instants < MIN_SAMPLES:
        remedy = "give more seconds with --duration" if fresh else COLLECT
        raise _too_few(lake, entry, after, f"after it ended ({clock_text(end.timestamp())})", remedy)
    return after


def _compared(
    balancer: Balancer,
    plan: AnyPlan,
    context: ExecutionContext,
    lake: Location,
    before: MeasuredLoad,
    after: MeasuredLoad,
    period: TimeRange,
) -> MeasurementComparison:
    newest = newest_of(balancer, lake, plan.snapshot.cluster)()
    left_out = frozenset() if newest is None else out_of_service(newest[1], plan.settings)
    # A broker that was there on one side only is in no figure of either.
    left_out |= set(before.brokers) ^ set(after.brokers)
    before, after = before.without(left_out), after.without(left_out)
    usual = context.settings.of(balancer.settings())
    planned: tuple[GoalViolation, ...] = ()
    if newest is not None:
        before, after = before.as_planned(newest[1]), after.as_planned(newest[1])
        # What `status` judges by: the two must not contradict each other.
        if period[1] is None and newest[0] >= after.ticks[-1].timestamp():
            planned = goal_status(newest[1], usual).violations
    goals, idle = plan_goals(plan.settings, usual, after)
    return MeasurementComparison(before, after, plan.predicted.after, goals, idle, planned)


def _counterfactual(
    balancer: Balancer, plan: AnyPlan, receipt: AnyReceipt, lake: Location, comparison: MeasurementComparison
) -> Counterfactual | None:
    """The load of the newest snapshot with the moves and without them, by the plan that undoes them."""
    newest = newest_of(balancer, lake, plan.snapshot.cluster)()
    empties = any(plan.settings.get(name) for name in ("drain", "demote"))
    if balancer.undo is None or newest is None or newest[0] < receipt.ended_at or empties:
        return None  # a broker that was emptied on purpose is less even, and shall be
    counted = set(newest[1].row_names) - out_of_service(newest[1], plan.settings)
    if counted - set(comparison.before.brokers):
        return None  # a broker that has come since is empty, whatever the moves were
    back = balancer.undo()(plan, receipt, newest[1])
    if not back.moves:
        return None
    goals = comparison.goals
    even = [name for name, one in goals.epsilon.items() if isfinite(one) and name not in comparison.idle]
    return Counterfactual.of(back.predicted.after, back.predicted.before, even)


def _rise(before: ImbalanceSummary, after: ImbalanceSummary, resource: str) -> float:
    """By how much the worst deviation or the peak of a resource has risen, whichever is more."""
    figures = (before.worst_deviation, after.worst_deviation), (before.peak_usage, after.peak_usage)
    return max(float(now.get(resource, 0.0) - was.get(resource, 0.0)) for was, now in figures)


def _instant(at: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at, datetime.UTC)


def _too_few(
    lake: Location, entry: ExecutionSummary, found: MeasuredLoad | None, when: str, remedy: str
) -> ObserveError:
    number = 0 if found is None else found.instants
    return ObserveError(
        f"execution {entry.id}: lake {lake} holds {number} samples of {entry.cluster} from {when}, and "
        f"{MIN_SAMPLES} are needed: {remedy}"
    )
