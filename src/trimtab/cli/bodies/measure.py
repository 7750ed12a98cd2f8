"""An execution measured: samples from before it against samples from after it, whatever its level."""

from __future__ import annotations

import datetime
import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trimtab.act.acting import Entry
from trimtab.act.applying import receipt_of
from trimtab.act.execution.state import FINAL
from trimtab.act.store import ExecutionStore
from trimtab.cli.bodies.apply import newest_of, open_store
from trimtab.cli.bodies.execution import chosen
from trimtab.cli.bodies.where import Where
from trimtab.files.head import duration
from trimtab.files.store import Place
from trimtab.levels import Level, level_named
from trimtab.model.errors import InputError, ObserveError
from trimtab.model.level import out_of_service, standing_of
from trimtab.observe.lake import Lake
from trimtab.report.comparison import Comparison, asked_goals
from trimtab.report.formats import clock_text, fitted
from trimtab.report.saying import say
from trimtab.report.stretch import LEAST, SETTLING, measured_between

if TYPE_CHECKING:
    from trimtab.model.level import Breach
    from trimtab.report.measured import Measured

NOTHING_BEFORE = "there is nothing to compare with; let `trimtab collect` run before the next plan"
COLLECT = f"`trimtab collect --ticks {LEAST + 3}`, then `trimtab pipeline run`, or give --live"


def measure(
    execution: int | None, ticks: int, plot: Path | None, live: str | None, where: Where, *, as_json: bool
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
    seconds = None if live is None else duration("--for", live)
    with open_store() as store:
        entry = chosen(store, execution)
        status = store.status(entry)
        if status not in FINAL:
            raise InputError(
                f"execution {entry.id} is {status}: wait for its end, or type `trimtab execution resume "
                f"{entry.id}`"
            )
        level = level_named(entry.level, f"execution {entry.id}: level")
        plan = level.plan().from_bytes(store.journal.path, store.journal.plan(entry.id).encode("utf-8"))
        spent = level.words().spent_text(receipt_of(level.acting(), store, entry.id))
        before, period = _before(store, entry, level, where.lake, ticks)
    until = period[1]
    if seconds is not None and until is not None:
        raise InputError(
            f"another execution began at {clock_text(until.timestamp())}, after execution {entry.id}: fresh "
            "samples would be of what that one left; name it, or leave out --live"
        )
    with fresh_or_kept(level, where, seconds) as lake:
        after = _after(entry, level, lake, ticks, period, fresh=seconds is not None)
        found = _compared(level, plan, where, lake, before, after, period)
    if plot is not None:
        _draw(found, plot, entry, spent)
    if as_json:
        about = {"execution": entry.id, "cluster": entry.cluster, "level": level.name, "status": status}
        print(json.dumps({**about, "spent": spent, **found.document()}, ensure_ascii=False, indent=1))
    else:
        head = f"execution {entry.id} on {entry.cluster} ({status}): {spent}"
        text = "\n".join([head, *_sampled(found), "", *found.lines(), "", found.conclusion()])
        print(fitted(text, sys.stdout))
    if plot is not None:
        say(f"picture drawn into {plot}")
    if found.exit_code:
        raise typer.Exit(found.exit_code)


def fresh_or_kept(level: Level, where: Where, seconds: float | None) -> AbstractContextManager[Place]:
    """The lake that tells what came after: one of samples taken now, or the one that is there."""
    if seconds is None:
        return nullcontext(where.lake)
    # Collectors and Spark are nothing that a look at tables needs.
    from trimtab.cli.bodies.fresh import fresh_lake

    return fresh_lake(level, where, seconds)


Stretch = tuple[datetime.datetime, datetime.datetime | None]


def _before(
    store: ExecutionStore, entry: Entry, level: Level, lake: Place, ticks: int
) -> tuple[Measured, Stretch]:
    """The samples before an execution, none from before or in another one, and when those after it may be."""
    others = [one for one in store.journal.entries(entry.cluster_id) if one.id != entry.id]
    ended = [one.ended_at for one in others if one.ended_at is not None and one.ended_at <= entry.created_at]
    begun = [one.created_at for one in others if one.created_at > entry.created_at]
    end = entry.ended_at if entry.ended_at is not None else entry.created_at
    home = Lake(lake, level.pipeline())
    before = measured_between(
        home, entry.cluster, ticks, _instant(max(ended)) if ended else None, _instant(entry.created_at)
    )
    if before is None or before.instants < LEAST:
        raise _too_few(
            lake, entry, before, f"before it began ({clock_text(entry.created_at)})", NOTHING_BEFORE
        )
    return before, (_instant(end), _instant(min(begun)) if begun else None)


def _after(entry: Entry, level: Level, lake: Place, ticks: int, period: Stretch, *, fresh: bool) -> Measured:
    """The samples after an execution, up to the next one.

    Raises
    ------
    ObserveError
        If there are too few.
    """
    end, until = period
    after = measured_between(
        Lake(lake, level.pipeline()), entry.cluster, ticks, end, until, settling=SETTLING
    )
    if after is None or after.instants < LEAST:
        remedy = "give more seconds with --for" if fresh else COLLECT
        raise _too_few(lake, entry, after, f"after it ended ({clock_text(end.timestamp())})", remedy)
    return after


def _compared(
    level: Level, plan: Any, where: Where, lake: Place, before: Measured, after: Measured, period: Stretch
) -> Comparison:
    newest = newest_of(level, lake, plan.snapshot.cluster)()
    left_out = frozenset() if newest is None else out_of_service(newest[1], plan.settings)
    # A broker that was there on one side only is in no figure of either.
    left_out |= set(before.brokers) ^ set(after.brokers)
    before, after = before.without(left_out), after.without(left_out)
    usual = where.read().of(level.settings())
    planned: tuple[Breach, ...] = ()
    if newest is not None:
        before, after = before.as_planned(newest[1]), after.as_planned(newest[1])
        # What `status` judges by: the two must not contradict each other.
        if period[1] is None and newest[0] >= after.ticks[-1].timestamp():
            planned = standing_of(newest[1], usual).breaches
    goals, idle = asked_goals(plan.settings, usual, after)
    return Comparison(before, after, plan.predicted.after, goals, idle, planned)


def _sampled(found: Comparison) -> list[str]:
    sides = (("before", found.before), ("after", found.after))
    return [
        f"{name}: {one.instants} samples, {one.ticks[0]:%Y-%m-%d %H:%M:%S} to {one.ticks[-1]:%H:%M:%S}Z"
        for name, one in sides
    ]


def _draw(found: Comparison, path: Path, entry: Entry, spent: str) -> None:
    from trimtab.report.heatmap import heatmap_figure
    from trimtab.report.pictures import write_figure

    epsilon = next((one for one in found.goals.epsilon.values() if one < 1), 0.1)
    panels = [("before", found.before), (f"after: {spent}", found.after)]
    write_figure(
        heatmap_figure(panels, f"{entry.cluster}, before and after execution {entry.id}", epsilon), path
    )


def _instant(at: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at, datetime.UTC)


def _too_few(lake: Place, entry: Entry, found: Measured | None, when: str, remedy: str) -> ObserveError:
    number = 0 if found is None else found.instants
    return ObserveError(
        f"execution {entry.id}: lake {lake} holds {number} samples of {entry.cluster} from {when}, and "
        f"{LEAST} are needed: {remedy}"
    )
