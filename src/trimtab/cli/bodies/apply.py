"""A plan carried out, whatever its level: shown, agreed to, run to its receipt."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from trimtab.act.acting import Newest
from trimtab.act.applying import carry_out, prepare
from trimtab.act.execution.codec import Codecs
from trimtab.act.store import ExecutionStore
from trimtab.cli.bodies.watching import run_watched
from trimtab.cli.bodies.where import Where
from trimtab.files.places import state_folder
from trimtab.files.settings import Settings
from trimtab.levels import FIRST, LEVELS, Level, systems
from trimtab.levels.planning import opened_plan
from trimtab.levels.settings import execution_settings
from trimtab.model.errors import InputError, TrimtabError
from trimtab.model.receipt import Receipt
from trimtab.observe.lake import Lake
from trimtab.report.saying import say, warn


def apply(path: Path, where: Where, *, yes: bool, dry_run: bool, rebase: bool, as_json: bool) -> None:
    """`trimtab apply`."""
    level, document = opened_plan(path)
    _refuse_options_of_others(level, path, where.given)
    plan = level.plan().from_document(document)
    receipt = _applied(level, plan, path, where, yes=yes, dry_run=dry_run, rebase=rebase)
    if receipt is not None:
        show_receipt(level, receipt, as_json=as_json)
        if receipt.status != "finished":
            raise typer.Exit(1)


def _applied(
    level: Level, plan: Any, path: Path, where: Where, *, yes: bool, dry_run: bool, rebase: bool
) -> Receipt[Any] | None:
    """The receipt; None where nothing was to be done, or nothing should be."""
    acting, words, settings = level.acting(), level.words(), settings_of(level, where)
    how = execution_settings(settings, level)
    with level.open()(where.connection(level.system, settings), time.time) as port:
        prepared = prepare(acting, port, plan, rebase=rebase)
        print(f"plan for {plan.snapshot.cluster}, on cluster {prepared.cluster_id}:", file=sys.stderr)
        print(words.forecast_text(prepared, how), file=sys.stderr)
        for warning in acting.warnings(port, prepared, how, time.time()):
            warn(warning)
        if dry_run or not prepared.steps:
            return None
        if not (yes or _agreed()):
            raise typer.Exit(1)
        line = words.progress_line()
        with open_store() as store:
            return carry_out(
                acting,
                store,
                port,
                prepared,
                how,
                level.plan().to_bytes(plan).decode("utf-8"),
                facts={"plan": str(path.absolute()), "strategy": plan.strategy},
                sense=acting.sense(plan, newest_of(level, where.lake, plan.snapshot.cluster), how),
                run=lambda make: run_watched(make, line, cancelling=words.cancelling),
                say=say,
            )


def settings_of(level: Level, where: Where) -> Settings:
    """The settings in force, with the options that are a short way to write one of this level's."""
    options = (one for one in level.apply_options if where.given.get(one.name) is not None)
    return where.read(*(f"{one.setting}={where.given[one.name]}" for one in options))


def newest_of(level: Level, lake: Path, cluster: str) -> Newest:
    """The newest snapshot of a cluster in a lake, read once."""
    home = Lake(lake, level.pipeline())
    read: dict[Path, tuple[float, Any]] = {}

    def newest() -> tuple[float, Any] | None:
        try:
            folder = home.newest_snapshot(cluster)
            if folder not in read:
                snapshot = level.snapshot().read(folder)
                at = datetime.fromisoformat(snapshot.reference.taken_at).timestamp()
                read.clear()
                read[folder] = (at, snapshot)
            return read[folder]
        except TrimtabError:
            return None  # telemetry is an aid here: without it the plan is carried out as it is

    return newest


def show_receipt(level: Level, receipt: Receipt[Any], *, as_json: bool) -> None:
    """The receipt on standard output."""
    print(json.dumps(asdict(receipt), indent=2) if as_json else level.words().receipt_text(receipt))


@contextmanager
def open_store() -> Iterator[ExecutionStore]:
    """The journal and leases of the state folder, for executions of every level."""
    codecs = {name: level.acting().codec for name, level in LEVELS.items()}
    store = ExecutionStore(
        state_folder(), Codecs(codecs, FIRST.name), time.time, time.sleep, lambda: secrets.token_hex(8)
    )
    try:
        yield store
    finally:
        store.close()


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise InputError("nobody is there to be asked: add --yes to carry the plan out")
    return typer.confirm("carry it out?", default=False, err=True)


def _refuse_options_of_others(level: Level, path: Path, given: Mapping[str, Any]) -> None:
    """Refuse the address of a cluster of another system, and options that only other levels have."""
    for system in systems():
        if system is not level.system and given[system.address.name] is not None:
            raise InputError(
                f"{path} is a plan of {level.name}, for {level.system.title}: name its cluster with "
                f"{level.system.address.flag}, not {system.address.flag}"
            )
    own = {option.name for option in level.apply_options}
    for other in LEVELS.values():
        for option in other.apply_options:
            if option.name not in own and given[option.name] is not None:
                raise InputError(
                    f"{option.flag} is for plans of {other.name}, and {path} is one of {level.name}: leave "
                    f"it out; {level.pace}"
                )
