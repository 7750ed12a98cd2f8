"""The commands `apply`, `execution` and `measure`: `trimtab.executions` on a terminal."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import typer

from trimtab import executions
from trimtab.act.control import ExecutionControl, receipt_of, state_of
from trimtab.balancers import BALANCERS, Balancer, balancer_named
from trimtab.balancers.balancer import setting_overrides
from trimtab.balancers.planning import opened_plan
from trimtab.cli.context import CommandContext
from trimtab.cli.status import ProgressLine, handled_signals, stop_on_signals
from trimtab.executions import (
    AnyReceipt,
    ExecutionEvent,
    ExecutionOutcome,
    ExecutionProgress,
    ExecutionStarted,
    Interrupted,
    Message,
    PreparedExecution,
    Refused,
    SampleTaken,
    change_setting,
    chosen,
    open_store,
    request_end,
)
from trimtab.files.head import duration
from trimtab.files.machine import state_folder
from trimtab.model.errors import ActError
from trimtab.report.formats import fitted, print_progress, warn
from trimtab.report.renderer import entries_text, execution_text
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    from trimtab.executions.measuring import Measurement
    from trimtab.report.comparison import MeasurementComparison
    from trimtab.report.renderer import Renderer


def apply(
    path: Path,
    context: CommandContext,
    *,
    yes: bool,
    dry_run: bool,
    rebase: bool,
    as_json: bool,
    back: bool = False,
) -> None:
    """Body of `trimtab apply`: compare, show, confirm, execute."""
    balancer, document = opened_plan(path)
    plan = balancer.plan().from_document(document)
    _reject_options_of_other_balancers(balancer, path, context.option_values)
    if back:
        if balancer.back is None:
            raise InputError(
                f"--revert: {path} is a plan of {balancer.name}, which cannot be taken back; plan anew"
            )
        plan = balancer.back()(plan)
    settings = context.read(*setting_overrides(balancer.apply_options, context.option_values))
    with _Terminal(as_json=as_json, dry_run=dry_run) as terminal:
        where = context.execution_context(settings, terminal.notify)
        if dry_run:
            found = executions.prepare(plan, where, skip_changed=rebase)
            if isinstance(found, Refused):
                raise found.error
            return terminal.notify(found)
        outcome = executions.apply(
            plan,
            where,
            skip_changed=rebase,
            confirm=lambda prepared: yes or _agreed(),
            control=terminal.control,
            facts={"plan": str(path.absolute())},
        )
    terminal.show_outcome(outcome, {"finished"})


class _Terminal:
    """Shows the events of one execution on standard error; Ctrl-C stops it, a second Ctrl-C cancels it."""

    def __init__(self, *, as_json: bool, dry_run: bool = False) -> None:
        self.control = ExecutionControl()
        self._as_json = as_json
        self._dry_run = dry_run
        self._prepared: PreparedExecution | None = None
        self._line = ProgressLine()
        self._renderer: Renderer | None = None
        self._progress_text: Callable[[object], str] = str
        self._restore_signals: Callable[[], None] = lambda: None

    def __enter__(self) -> _Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()
        self._restore_signals()

    def notify(self, event: ExecutionEvent) -> None:
        """Print an event, or start to show progress."""
        if isinstance(event, Message):
            print_progress(event.text)
        elif isinstance(event, PreparedExecution):
            self._prepared = event
            _preview(event, dry_run=self._dry_run, as_json=self._as_json)
        elif isinstance(event, ExecutionStarted):
            self._renderer = renderer = BALANCERS[event.balancer].renderer()
            self._progress_text = renderer.progress_reporter()
            self._restore_signals = handled_signals(partial(self._interrupted, renderer.CANCELLING))
        elif isinstance(event, ExecutionProgress):
            self._line.show(self._progress_text(event.state))

    def show_outcome(self, outcome: ExecutionOutcome, statuses: Container[str]) -> None:
        """Print the receipt; exit code 1 where its status is none of `statuses`."""
        if isinstance(outcome, Refused):
            nothing_left = self._prepared is not None and not self._prepared.prepared.steps
            if outcome.kind == "declined" or nothing_left:
                raise typer.Exit(1)  # the preview or the question has told the reason
            raise outcome.error
        if isinstance(outcome, Interrupted):
            raise outcome.error
        if outcome.receipt is None:
            return
        assert self._renderer is not None
        text = self._renderer.receipt_text(outcome.receipt)
        print(_json(outcome.receipt) if self._as_json else fitted(text, sys.stdout))
        if outcome.receipt.status not in statuses:
            raise typer.Exit(1)

    def _interrupted(self, cancelling: str, number: int, count: int) -> None:
        if number == signal.SIGTERM or count == 1:
            self.control.stop()
            self._line.print_line("stopping: what is in flight will finish; Ctrl-C again cancels instead")
        elif count == 2:
            self.control.cancel()
            self._line.print_line(f"cancelling: {cancelling}")
        else:
            self._line.print_line("still cleaning up; it can be killed and resumed later, too")


def _preview(found: PreparedExecution, *, dry_run: bool, as_json: bool) -> None:
    """Print every step of a prepared plan; a dry run prints them as JSON on request."""
    cluster, cluster_id = found.prepared.plan.snapshot.cluster, found.prepared.cluster_id
    if dry_run and as_json:
        document = {
            "cluster": cluster,
            "cluster_id": cluster_id,
            "forecast": msgspec.to_builtins(found.forecast),
            "left_out": found.differences,
            "warnings": found.warnings,
        }
        print(json.dumps(document, indent=2))
        return
    print(f"plan for {cluster}, on cluster {cluster_id}:", file=sys.stderr)
    renderer = found.balancer.renderer()
    text = renderer.forecast_text(found.prepared, found.forecast, found.settings, dry_run)
    print(fitted(text, sys.stderr), file=sys.stderr)
    for warning in found.warnings:
        warn(warning)


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise InputError("nobody is there to be asked: add --yes to carry the plan out")
    return typer.confirm("carry it out?", default=False, err=True)


def _reject_options_of_other_balancers(balancer: Balancer, path: Path, values: Mapping[str, object]) -> None:
    """Reject options that only other balancers have."""
    ours = {option.name for option in balancer.apply_options}
    for other in BALANCERS.values():
        for option in other.apply_options:
            if option.name not in ours and values[option.name] is not None:
                raise InputError(
                    f"{option.flag} is for plans of {other.name}, and {path} is one of {balancer.name}: "
                    f"leave it out; {balancer.impact}"
                )


def _json(receipt: AnyReceipt, **further: object) -> str:
    return json.dumps(asdict(receipt) | further, indent=2)


def list_executions(*, as_json: bool) -> None:
    """Body of `trimtab execution list`: print the journal's executions."""
    with open_store(state_folder()) as store:
        rows = [(entry, store.status(entry)) for entry in store.journal.entries()]
    if as_json:
        print(json.dumps([asdict(entry) | {"status": status} for entry, status in rows], indent=2))
    else:
        print(entries_text(rows))


def show(execution: int | None, *, as_json: bool) -> None:
    """Body of `trimtab execution show`: print one execution's steps and receipt."""
    with open_store(state_folder()) as store:
        entry = chosen(store, execution)
        balancer = balancer_named(entry.balancer, f"execution {entry.id}: balancer")
        executor, status = balancer.executor(), store.status(entry)
        if as_json:
            print(_json(receipt_of(executor, store, entry.id), status=status))
        else:
            state, log = state_of(executor, store, entry.id), store.journal.log(entry.id)
            print(fitted(execution_text(balancer.renderer(), entry, state, status, log), sys.stdout))


def request(
    name: Literal["resume", "stop", "cancel"],
    execution: int | None,
    context: CommandContext,
    *,
    as_json: bool,
) -> None:
    """Body of `trimtab execution resume`, `stop` and `cancel`: act, then print the receipt."""
    if name != "resume":
        asked = request_end(execution, state_folder(), name)
        if asked is not None:
            return print_progress(f"asked {asked.owner} to {name} execution {asked.execution}")
    # A resumed execution keeps its settings, unless `--set` gives others.
    new_settings = any(isinstance(one, str) and one.startswith("execution.") for one in context.overrides)
    with _Terminal(as_json=as_json) as terminal:
        outcome = executions.resume(
            execution,
            context.execution_context(context.read(), terminal.notify),
            request=None if name == "resume" else name,
            new_settings=new_settings,
            control=terminal.control,
        )
    allowed = {"resume": "", "stop": "stopped cancelled", "cancel": "cancelled"}[name].split()
    terminal.show_outcome(outcome, {"finished", *allowed})


def change_throttle(throttle: str, execution: int | None, *, as_json: bool) -> None:
    """Body of `trimtab execution throttle`: ask the process that runs an execution for another rate."""
    value: str | float = throttle
    with suppress(ValueError):  # `auto`, `none`, or a text that the settings refuse
        value = float(throttle)
    asked = change_setting(execution, state_folder(), "throttle", value)
    if asked is None:
        raise ActError(
            "no process runs the execution: resume it with `--set execution.throttle=` and the value"
        )
    if as_json:
        print(json.dumps({"execution": asked.execution, "throttle": value, "owner": asked.owner}, indent=2))
    else:
        print_progress(f"asked {asked.owner} for a throttle of {throttle} in execution {asked.execution}")


def measure(
    execution: int | None,
    ticks: int,
    plot: Path | None,
    live: str | None,
    context: CommandContext,
    *,
    as_json: bool,
) -> None:
    """Body of `trimtab measure`: print figures and verdict; `live` is the duration of fresh samples."""
    # The figures need numpy, and the other commands do not.
    from trimtab.executions import measuring

    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise InputError(f"--plot is {plot}: name it .png or .svg")
    found = measuring.measure(
        execution,
        context.execution_context(context.read(), _measurement_printer()),
        ticks=ticks,
        live_seconds=None if live is None else duration("--duration", live),
        stop=None if live is None else stop_on_signals(),
    )
    entry, comparison = found.execution, found.comparison
    status, spent = found.receipt.status, found.balancer.renderer().spent_text(found.receipt)
    if plot is not None:
        _draw(found, plot, spent)
    if as_json:
        about = {
            "execution": entry.id,
            "cluster": entry.cluster,
            "balancer": entry.balancer,
            "status": status,
            "effect": found.effect,
        }
        print(json.dumps({**about, "spent": spent, **comparison.document()}, ensure_ascii=False, indent=1))
    else:
        head = f"execution {entry.id} on {entry.cluster} ({status}): {spent}"
        lines = [head, *_sampled(comparison), "", *comparison.lines(), "", comparison.conclusion()]
        print(fitted("\n".join(lines), sys.stdout))
    if plot is not None:
        print_progress(f"picture drawn into {plot}")
    if not found.meets_every_goal:
        raise typer.Exit(1)


def _measurement_printer() -> Callable[[ExecutionEvent], None]:
    known: frozenset[str] = frozenset()

    def notify(event: ExecutionEvent) -> None:
        nonlocal known
        if isinstance(event, SampleTaken):
            from trimtab.cli.collect import print_tick

            known = print_tick(event.tick, known, BALANCERS[event.balancer].target_kind)
        elif isinstance(event, Message):
            print_progress(event.text)

    return notify


def _sampled(found: MeasurementComparison) -> list[str]:
    sides = (("before", found.before), ("after", found.after))
    return [
        f"{name}: {one.instants} samples, {one.ticks[0]:%Y-%m-%d %H:%M:%S} to {one.ticks[-1]:%H:%M:%S}Z"
        for name, one in sides
    ]


def _draw(found: Measurement, path: Path, spent: str) -> None:
    from trimtab.report.charts import write_figure
    from trimtab.report.comparison import heatmap_figure

    entry, comparison = found.execution, found.comparison
    epsilon = next((one for one in comparison.goals.epsilon.values() if one < 1), 0.1)
    panels = [("before", comparison.before), (f"after: {spent}", comparison.after)]
    write_figure(
        heatmap_figure(panels, f"{entry.cluster}, before and after execution {entry.id}", epsilon), path
    )
