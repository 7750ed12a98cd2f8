"""Executions listed, shown, resumed, stopped and cancelled, whatever their level."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from functools import partial
from typing import Any

import typer

from trimtab.act.control import receipt_of, require_unfinished, resume, send_request, state_of
from trimtab.act.executor import ExecutionSummary
from trimtab.act.journal import ExecutionStore
from trimtab.balancers import balancer_named
from trimtab.balancers.settings import execution_settings
from trimtab.cli.apply import newest_of, open_store, settings_of, show_receipt
from trimtab.cli.context import CommandContext
from trimtab.cli.watch import run_watched
from trimtab.model.errors import ActError
from trimtab.report.formats import fitted, print_progress
from trimtab.report.renderer import entries_text, execution_text


def list_executions(*, as_json: bool) -> None:
    """Body of `trimtab execution list`: print the journal's executions."""
    with open_store() as store:
        rows = [(entry, store.status(entry)) for entry in store.journal.entries()]
    if as_json:
        print(json.dumps([asdict(entry) | {"status": status} for entry, status in rows], indent=2))
    else:
        print(entries_text(rows))


def show(execution: int | None, *, as_json: bool) -> None:
    """Body of `trimtab execution show`: print one execution's steps and receipt."""
    with open_store() as store:
        entry = chosen(store, execution)
        level = balancer_named(entry.balancer, f"execution {entry.id}: level")
        acting = level.executor()
        status = store.status(entry)
        if as_json:
            receipt = receipt_of(acting, store, entry.id)
            print(json.dumps(asdict(receipt) | {"status": status}, indent=2))
        else:
            state, log = state_of(acting, store, entry.id), store.journal.log(entry.id)
            print(fitted(execution_text(level.renderer(), entry, state, status, log), sys.stdout))


def _request(request: str, execution: int | None, context: CommandContext, *, as_json: bool) -> None:
    """Ask whoever runs it; where nobody does, do it here."""
    with open_store() as store:
        entry = chosen(store, execution)
        if send_request(store, entry, request):
            print_progress(f"asked {entry.owner} to {request} execution {entry.id}")
            return
    _resume(request, entry.id, context, as_json=as_json)


def _resume(request: str | None, execution: int | None, context: CommandContext, *, as_json: bool) -> None:
    """Go on with an execution that nobody runs, or stop or cancel it."""
    with open_store() as store:
        entry = chosen(store, execution)
        require_unfinished(entry)
        level = balancer_named(entry.balancer, f"execution {entry.id}: level")
        acting, words = level.executor(), level.renderer()
        settings = settings_of(level, context)
        how = execution_settings(settings, level)
        # Unless told otherwise here, it goes on with the settings that it was begun with.
        told = any(isinstance(word, str) and word.startswith("execution.") for word in context.overrides)
        plan = level.plan().from_bytes(store.journal.path, store.journal.plan(entry.id).encode("utf-8"))
        line = words.progress_reporter()
        connection = context.connection(level.system_of(plan), settings)
        with level.opened(plan, connection, time.time) as port:
            receipt = resume(
                acting,
                store,
                port,
                entry,
                how,
                changed=how if told else None,
                request=request,
                sense=acting.sense(plan, newest_of(level, context.lake, plan.snapshot.cluster), how),
                run=lambda make: run_watched(make, line, cancelling=words.CANCELLING),
                print_progress=print_progress,
            )
    show_receipt(level, receipt, as_json=as_json)
    wanted = {"finished", "stopped" if request == "stop" else "", "cancelled" if request else ""}
    if receipt.status not in wanted:
        raise typer.Exit(1)


REQUESTS: dict[str, Any] = {
    "resume": partial(_resume, None),
    "stop": partial(_request, "stop"),
    "cancel": partial(_request, "cancel"),
}
"""The requests to an execution, by the names of their commands."""


def chosen(store: ExecutionStore, execution: int | None) -> ExecutionSummary:
    """The execution that is meant: by its number, or the newest."""
    if execution is not None:
        return store.journal.entry(execution)
    entries = store.journal.entries()
    if not entries:
        raise ActError(f"there are no executions in {store.folder}: `trimtab apply` begins one")
    return entries[0]
