"""Plans made, shown and compared, whatever their level."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.executor import staleness_warnings
from trimtab.balancers import BALANCERS, Balancer
from trimtab.balancers.balancer import PlanRequest, PlanResult
from trimtab.balancers.planning import opened_plan, plan_balancer
from trimtab.balancers.settings import execution_settings, read_settings
from trimtab.cli.context import CommandContext
from trimtab.executions import known_executions, plan_undo
from trimtab.files.machine import state_folder
from trimtab.model.plan import UNDO
from trimtab.report.formats import announce_compilation, duration_text, fitted, print_progress, warn
from trimtab_common.errors import InputError
from trimtab_common.settings import Settings


def plan(
    balancer: Balancer,
    request: PlanRequest,
    out: Path | None,
    form: str,
    *,
    all_moves: bool,
    detailed: bool = False,
) -> None:
    """Body of `trimtab plan BALANCER`: make a plan and write it."""
    planned = plan_balancer(balancer, replace(request, writes=out is not None, loaded=announce_compilation))
    if planned.plan is None:
        if form == "text":
            sys.stdout.write(planned.text)
        else:
            typer.echo(json.dumps(planned.document, ensure_ascii=False, indent=1))
        return
    words = [word for word in request.overrides if word.partition(".")[0].strip() == "execution"]
    settings = read_settings(request.settings, words, os.environ)
    _output(balancer, planned, settings, out, form, all_moves=all_moves)
    if detailed and planned.plan.has_changes:
        raise typer.Exit(4)


def undo(
    execution: int | None,
    snapshot: Path | None,
    context: CommandContext,
    out: Path | None,
    form: str,
    *,
    all_moves: bool,
) -> None:
    """Body of `trimtab plan undo`: make the plan that undoes an execution, and write it."""
    plan, found = plan_undo(execution, state_folder(), context.lake, snapshot)
    planned = PlanResult(plan=plan, snapshot=found)
    _output(BALANCERS[plan.balancer], planned, context.read(), out, form, all_moves=all_moves)


def _output(
    balancer: Balancer,
    planned: PlanResult,
    settings: Settings,
    out: Path | None,
    form: str,
    *,
    all_moves: bool,
) -> None:
    """Print a new plan and write its file; exit code 3 where its verdict is not complete."""
    plan = planned.plan
    assert plan is not None
    if out is not None:
        balancer.plan().write(plan, out)
    reference = plan.snapshot
    # Executors take 0.1 s to import; without settings of their own all have the same patience.
    how = execution_settings(settings, balancer) if settings.is_set("execution") else RetryPolicy()
    known = [] if plan.strategy == UNDO else known_executions(state_folder())
    warnings = staleness_warnings(reference, known, time.time(), how.max_plan_age_seconds)
    age = time.time() - datetime.fromisoformat(reference.taken_at).timestamp()
    if form == "json":
        own = {"x_snapshot_age_seconds": round(age, 1), "x_warnings": warnings}
        sys.stdout.write(balancer.plan().to_bytes(plan, own).decode())
    else:
        _show(balancer, plan, planned.snapshot, form, all_moves=all_moves)
    if form == "text":
        sys.stdout.write(planned.text)
        print_progress(f"from the snapshot of {reference.taken_at}, {duration_text(max(0.0, age))} old")
    for warning in warnings:
        warn(warning)
    if out is not None:
        print_progress(f"plan written to {out}")
    if not plan.verdict.is_complete and planned.binding:
        raise typer.Exit(3)


def show(path: Path, snapshot: Path | None, form: str, *, all_moves: bool) -> None:
    """Body of `trimtab plan show`: print a plan file."""
    level, document = opened_plan(path)
    if form not in ("text", "json") and form not in level.formats:
        raise InputError(
            f"{path}: is a plan for {level.system.title}, and --format {form} is not for that; leave it out"
        )
    plan = level.plan().from_document(document)
    found = None if snapshot is None else level.snapshot().read(snapshot)
    if found is not None and found.reference.sha256 != plan.snapshot.sha256:
        raise InputError(
            f"{snapshot}: is not the snapshot that {path} was made from (sha256 differs); name that"
        )
    _show(level, plan, found, form, all_moves=all_moves)


def diff(first: Path, second: Path) -> None:
    """Body of `trimtab plan diff`: compare two plan files."""
    from trimtab.report.renderer import plan_diff

    (level, one), (other_level, other) = opened_plan(first), opened_plan(second)
    if level is not other_level:
        raise InputError(
            f"{first} is a plan of {level.name} and {second} one of {other_level.name}: compare plans of one "
            "balancer"
        )
    form = level.plan()
    text = plan_diff(level.renderer(), form.from_document(one), form.from_document(other))
    typer.echo(text or "the plans do the same", nl=not text)
    if text:
        raise typer.Exit(1)


def _show(balancer: Balancer, plan: Any, snapshot: Any, form: str, *, all_moves: bool) -> None:
    if form == "json":
        sys.stdout.write(balancer.plan().to_bytes(plan).decode())
    elif form == "text":
        text = balancer.renderer().plan_text(plan, snapshot, all_moves=all_moves)
        sys.stdout.write(fitted(text, sys.stdout))
    else:
        if form not in balancer.formats:
            raise InputError(f"--format {form} is not for plans of {balancer.name}; leave it out")
        text, note = balancer.formats[form]()(plan)
        sys.stdout.write(text)
        if note:
            print_progress(note)
