"""A plan carried out, whatever its level: shown, agreed to, run to its receipt."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import typer

from trimtab.act.control import prepare, run_to_completion
from trimtab.act.executor import (
    ExecutionSummary,
    NewestSnapshot,
    PreparedPlan,
    StateCodecs,
    staleness_warnings,
)
from trimtab.act.journal import JOURNAL_FILE, ExecutionStore
from trimtab.balancers import BALANCERS, DEFAULT_BALANCER, Balancer
from trimtab.balancers.balancer import setting_overrides
from trimtab.balancers.planning import opened_plan
from trimtab.balancers.settings import execution_settings
from trimtab.cli.context import CommandContext
from trimtab.cli.watch import run_watched
from trimtab.files.machine import state_folder
from trimtab.files.store import Location
from trimtab.model.documents import Receipt, SnapshotReference
from trimtab.observe.lake.lake import Lake
from trimtab.report.formats import fitted, print_progress, warn
from trimtab_common.errors import InputError, TrimtabError
from trimtab_common.settings import Settings


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
    level, document = opened_plan(path)
    plan = level.plan().from_document(document)
    system = level.system_of(plan)
    _reject_options_of_other_balancers(level, path, context.option_values)
    if back:
        if level.back is None:
            raise InputError(
                f"--revert: {path} is a plan of {level.name}, which cannot be taken back; plan anew"
            )
        plan = level.back()(plan)
    acting, words, settings = level.executor(), level.renderer(), settings_of(level, context)
    how = execution_settings(settings, level)
    connection = context.connection(system, settings)
    with open_store() as store, level.opened(plan, connection, time.time) as port:
        free = partial(store.require_free_lease, port, settings=how, print_progress=print_progress)
        prepared = prepare(acting, port, plan, rebase=rebase, refuse_if_taken=free)
        warnings = staleness_warnings(
            plan.snapshot, store.journal.entries(), time.time(), how.max_plan_age_seconds
        )
        sense = acting.sense(plan, newest_of(level, context.lake, plan.snapshot.cluster), how)
        expected = acting.forecast(prepared, how, sense)
        warnings += acting.warnings(port, prepared, how, expected)
        _preview(level, prepared, expected, how, warnings, dry_run=dry_run, as_json=as_json)
        if dry_run:
            return
        if not prepared.steps:
            raise typer.Exit(1 if prepared.comparison.differences else 0)
        if not (yes or _agreed()):
            raise typer.Exit(1)
        receipt = run_to_completion(
            acting,
            store,
            port,
            prepared,
            how,
            level.plan().to_bytes(plan).decode("utf-8"),
            facts={"plan": str(path.absolute()), "strategy": plan.strategy},
            sense=sense,
            run=lambda make: run_watched(make, words.progress_reporter(), cancelling=words.CANCELLING),
            print_progress=print_progress,
        )
    show_receipt(level, receipt, as_json=as_json)
    if receipt.status != "finished":
        raise typer.Exit(1)


def _preview(
    balancer: Balancer,
    prepared: PreparedPlan,
    forecast: Any,
    how: Any,
    warnings: list[str],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Say what would happen: every step, and on request as JSON, where nothing else is to happen."""
    cluster, cluster_id = prepared.plan.snapshot.cluster, prepared.cluster_id
    if dry_run and as_json:
        told = {"cluster": cluster, "cluster_id": cluster_id, "forecast": msgspec.to_builtins(forecast)}
        told |= {"left_out": list(map(str, prepared.comparison.differences)), "warnings": warnings}
        print(json.dumps(told, indent=2))
        return
    print(f"plan for {cluster}, on cluster {cluster_id}:", file=sys.stderr)
    text = balancer.renderer().forecast_text(prepared, forecast, how, dry_run)
    print(fitted(text, sys.stderr), file=sys.stderr)
    for warning in warnings:
        warn(warning)


def known_staleness_warnings(snapshot: SnapshotReference, age_seconds: float) -> list[str]:
    """See `staleness_warnings`: with the executions of the state folder, which is not created for that."""
    return staleness_warnings(snapshot, known_executions(), time.time(), age_seconds)


def known_executions() -> list[ExecutionSummary]:
    """The executions that the state folder knows, which is not made for that."""
    if os.access(state_folder() / JOURNAL_FILE, os.R_OK | os.W_OK):
        with suppress(TrimtabError), open_store() as store:
            return store.journal.entries()
    return []


def settings_of(balancer: Balancer, context: CommandContext) -> Settings:
    """The settings in force, with the options that are a short way to write one of this balancer's."""
    return context.read(*setting_overrides(balancer.apply_options, context.option_values))


def newest_of(balancer: Balancer, lake: Location, cluster: str) -> NewestSnapshot:
    """The newest snapshot of a cluster in a lake, read once."""
    home = Lake(lake, balancer.pipeline())
    read: dict[Path, tuple[float, Any]] = {}

    def newest() -> tuple[float, Any] | None:
        try:
            folder = home.newest_snapshot(cluster)
            if folder not in read:
                snapshot = balancer.snapshot().read(folder)
                at = datetime.fromisoformat(snapshot.reference.taken_at).timestamp()
                read.clear()
                read[folder] = (at, snapshot)
            return read[folder]
        except TrimtabError:
            return None  # telemetry is an aid here: without it the plan is carried out as it is

    return newest


def show_receipt(balancer: Balancer, receipt: Receipt[Any], *, as_json: bool) -> None:
    """The receipt on standard output."""
    text = json.dumps(asdict(receipt), indent=2) if as_json else balancer.renderer().receipt_text(receipt)
    print(text if as_json else fitted(text, sys.stdout))


@contextmanager
def open_store() -> Iterator[ExecutionStore]:
    """The journal and leases of the state folder, for executions of every balancer."""
    codecs = {name: level.executor().codec for name, level in BALANCERS.items()}
    store = ExecutionStore(
        state_folder(),
        StateCodecs(codecs, DEFAULT_BALANCER.name),
        time.time,
        time.sleep,
        lambda: secrets.token_hex(8),
    )
    try:
        yield store
    finally:
        store.close()


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise InputError("nobody is there to be asked: add --yes to carry the plan out")
    return typer.confirm("carry it out?", default=False, err=True)


def _reject_options_of_other_balancers(balancer: Balancer, path: Path, values: Mapping[str, Any]) -> None:
    """Reject options that only other balancers have."""
    ours = {option.name for option in balancer.apply_options}
    for other in BALANCERS.values():
        for option in other.apply_options:
            if option.name not in ours and values[option.name] is not None:
                raise InputError(
                    f"{option.flag} is for plans of {other.name}, and {path} is one of {balancer.name}: "
                    "leave "
                    f"it out; {balancer.impact}"
                )
