"""Plans made, shown and compared, whatever their level."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from trimtab.cli.bodies.saying import announce_compilation, say
from trimtab.cli.options import FORMS, lake_path
from trimtab.files.plan_format import plan_level as level_of_plan
from trimtab.levels import ROWS, Level, level_named
from trimtab.levels.asking import PlanAsked
from trimtab.levels.planning import plan_level
from trimtab.levels.settings import SECTIONS, read_settings
from trimtab.model.errors import InputError
from trimtab.model.plan import Verdict


@dataclass(frozen=True)
class Request:
    """A request for a plan as it stands on the command line."""

    snapshot: Path | None
    lake: Path | None
    cluster: str | None
    strategy: str | None
    settings: Path | None
    overrides: tuple[str, ...]
    own: dict[str, Any]


def form_of(form: str, as_json: bool) -> str:
    """The form that is asked for, by `--format` or `--json`.

    Raises
    ------
    InputError
        If there is no such form.
    """
    if form not in FORMS:
        raise InputError(f"--format is {form!r}: write {' or '.join(FORMS)}")
    return "json" if as_json else form


def plan(level: Level, request: Request, out: Path | None, form: str, *, all_moves: bool) -> None:
    """`trimtab plan LEVEL`."""
    planned = plan_level(
        level,
        PlanAsked(
            snapshot=request.snapshot,
            lake=lake_path(request.lake),
            cluster=request.cluster,
            strategy=request.strategy,
            writes=out is not None,
            words=request.overrides,
            own=request.own,
            read=lambda words: read_settings(request.settings, words, os.environ),
            sections=SECTIONS,
            loaded=announce_compilation,
        ),
    )
    if planned.plan is None:
        if form == "text":
            sys.stdout.write(planned.told)
        else:
            typer.echo(json.dumps(planned.document, ensure_ascii=False, indent=1))
        return
    if out is not None:
        level.plan().write(planned.plan, out)
    _show(level, planned.plan, planned.snapshot, form, all_moves=all_moves)
    if form == "text":
        sys.stdout.write(planned.told)
    if out is not None:
        say(f"plan written to {out}")
    if planned.plan.verdict is Verdict.INFEASIBLE and planned.binding:
        raise typer.Exit(3)


def show(path: Path, snapshot: Path | None, form: str, *, all_moves: bool) -> None:
    """`trimtab plan show`."""
    level = level_named(level_of_plan(path, ROWS), f"{path}: level")
    if form not in ("text", "json") and form not in level.forms:
        raise InputError(
            f"{path}: is a plan for {level.system.title}, and --format {form} is not for that; leave it out"
        )
    plan = level.plan().read(path)
    found = None if snapshot is None else level.snapshot().read(snapshot)
    if found is not None and found.reference.sha256 != plan.snapshot.sha256:
        raise InputError(
            f"{snapshot}: is not the snapshot that {path} was made from (sha256 differs); name that"
        )
    _show(level, plan, found, form, all_moves=all_moves)


def diff(first: Path, second: Path) -> None:
    """`trimtab plan diff`."""
    levels = [level_named(level_of_plan(path, ROWS), f"{path}: level") for path in (first, second)]
    if levels[0] is not levels[1]:
        raise InputError(
            f"{first} is a plan of {levels[0].name} and {second} one of {levels[1].name}: compare plans of "
            "one level"
        )
    form = levels[0].plan()
    text = levels[0].words().plan_diff(form.read(first), form.read(second))
    typer.echo(text or "the plans do the same", nl=not text)
    if text:
        raise typer.Exit(1)


def _show(level: Level, plan: Any, snapshot: Any, form: str, *, all_moves: bool) -> None:
    if form == "json":
        sys.stdout.write(level.plan().to_bytes(plan).decode())
    elif form == "text":
        sys.stdout.write(level.words().plan_text(plan, snapshot, all_moves=all_moves))
    else:
        if form not in level.forms:
            raise InputError(f"--format {form} is not for plans of {level.name}; leave it out")
        text, note = level.forms[form]()(plan)
        sys.stdout.write(text)
        if note:
            say(note)
