"""An execution measured: samples from before it against samples from after it, whatever its level."""

from __future__ import annotations

import datetime
import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trimtab.act.control import receipt_of
from trimtab.act.execution.state import FINAL
from trimtab.act.executor import ExecutionSummary
from trimtab.act.journal import ExecutionStore
from trimtab.balancers import Balancer, balancer_named
from trimtab.cli.apply import newest_of, open_store
from trimtab.cli.context import CommandContext
from trimtab.cli.execution import chosen
from trimtab.files.head import duration
from trimtab.files.store import Location
from trimtab.model.errors import ObserveError
from trimtab.model.goals import goal_status, out_of_service
from trimtab.observe.lake.lake import Lake
from trimtab.report.comparison import MeasurementComparison, plan_goals
from trimtab.report.formats import clock_text, fitted, print_progress
from trimtab.report.measured import MIN_SAMPLES, SETTLING, measured_between
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    from trimtab.model.goals import GoalViolation
    from trimtab.report.measured import MeasuredLoad

NOTHING_BEFORE = "there is nothing to compare with; let `trimtab collect` run before the next plan"
COLLECT = f"`trimtab collect --ticks {MIN_SAMPLES + 3}`, then `trimtab pipeline run`, or give --live"


def measure(
    execution: int | None,
    ticks: int,
    plot: Path | None,
    live: str | None,
    context: CommandContext,
    *,
    as_json: bool,
) -> None:
    """`trimtab measure`; `live`: fresh samples are taken of the cluster for so long, as `60s`.

    Raises
    ------
    InputError
        If the execution has not ended, or the picture's name has another ending; or if fresh samples would be
        of another placement, since an execution has begun after it.
    ObserveError
        If the lake holds too few samples from before or from after it.
    """
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise InputError(f"--plot is {plot}: name it .png or .svg")
    seconds = None if live is None else duration("--duration", live)
    with open_store() as store:
        entry = chosen(store, execution)
        status = store.status(entry)
        if status not in FINAL:
            raise InputError(
                f"execution {entry.id} is {status}: wait for its end, or type `trimtab execution resume "
                f"{entry.id}`"
            )
        level = balancer_named(entry.balancer, f"execution {entry.id}: level")
        plan = level.plan().from_bytes(store.journal.path, store.journal.plan(entry.id).encode("utf-8"))
        spent = level.renderer().spent_text(receipt_of(level.executor(), store, entry.id))
        before, period = _before(store, entry, level, context.lake, ticks)
    until = period[1]
    if seconds is not None and until is not None:
        raise InputError(
            f"another execution, started at {clock_text(until.timestamp())} after execution {entry.id}, has "
            "changed the cluster: pass its id or drop --live"
        )
    with fresh_or_stored_lake(level, context, seconds) as lake:
        after = _after(entry, level, lake, ticks, period, fresh=seconds is not None)
        found = _compared(level, plan, context, lake, before, after, period)
    if plot is not None:
        _draw(found, plot, entry, spent)
    if as_json:
        about = {"execution": entry.id, "cluster": entry.cluster, "balancer": level.name, "status": status}
        print(json.dumps({**about, "spent": spent, **found.document()}, ensure_ascii=False, indent=1))
    else:
        head = f"execution {entry.id} on {entry.cluster} ({status}): {spent}"
        text = "\n".join([head, *_sampled(found), "", *found.lines(), "", found.conclusion()])
        print(fitted(text, sys.stdout))
    if plot is not None:
        print_progress(f"picture drawn into {plot}")
    if found.exit_code:
        raise typer.Exit(found.exit_code)


def fresh_or_stored_lake(
    balancer: Balancer, context: CommandContext, seconds: float | None
) -> AbstractContextManager[Location]:
    """The lake that tells what came after: one of samples taken now, or the one that is there."""
    if seconds is None:
        return nullcontext(context.lake)
    # Collectors and Spark are nothing that a look at tables needs.
    from trimtab.cli.collect import fresh_lake

    return fresh_lake(balancer, context, seconds)


TimeRange = tuple[datetime.datetime, datetime.datetime | None]


def _before(
    store: ExecutionStore, entry: ExecutionSummary, balancer: Balancer, lake: Location, ticks: int
) -> tuple[MeasuredLoad, TimeRange]:
    """The samples before an execution, none from before or in another one, and when those after it may be."""
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
    plan: Any,
    context: CommandContext,
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
    usual = context.read().of(balancer.settings())
    planned: tuple[GoalViolation, ...] = ()
    if newest is not None:
        before, after = before.as_planned(newest[1]), after.as_planned(newest[1])
        # What `status` judges by: the two must not contradict each other.
        if period[1] is None and newest[0] >= after.ticks[-1].timestamp():
            planned = goal_status(newest[1], usual).violations
    goals, idle = plan_goals(plan.settings, usual, after)
    return MeasurementComparison(before, after, plan.predicted.after, goals, idle, planned)


def _sampled(found: MeasurementComparison) -> list[str]:
    sides = (("before", found.before), ("after", found.after))
    return [
        f"{name}: {one.instants} samples, {one.ticks[0]:%Y-%m-%d %H:%M:%S} to {one.ticks[-1]:%H:%M:%S}Z"
        for name, one in sides
    ]


def _draw(found: MeasurementComparison, path: Path, entry: ExecutionSummary, spent: str) -> None:
    from trimtab.report.charts import write_figure
    from trimtab.report.comparison import heatmap_figure

    epsilon = next((one for one in found.goals.epsilon.values() if one < 1), 0.1)
    panels = [("before", found.before), (f"after: {spent}", found.after)]
    write_figure(
        heatmap_figure(panels, f"{entry.cluster}, before and after execution {entry.id}", epsilon), path
    )


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
