"""`trimtab execution list|show|resume|stop|cancel`."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trimtab.cli.options import (
    BOOTSTRAP,
    LAKE,
    PULSAR_ADMIN,
    SET,
    SETTINGS,
    TOKEN_FILE,
    kafka_connection,
    pulsar_connection,
    read_settings,
)

if TYPE_CHECKING:
    from trimtab.act.journal_entries import Entry
    from trimtab.act.office import Office
    from trimtab.act.replicas.port import ClusterPort
    from trimtab.act.replicas.settings import ExecutionSettings
    from trimtab.act.replicas.state import ExecutionState
    from trimtab.act.settings import ExecutionTable
    from trimtab.connect.settings import KafkaConnection
    from trimtab.model.plan import Plan

app = typer.Typer(help="See, resume, stop and cancel what apply has begun.", no_args_is_help=True)

ID = typer.Argument(None, help="Which execution; by default the newest.")
JSON = typer.Option(False, "--json", help="Print JSON.")


@app.command("list")
def list_executions(as_json: bool = JSON) -> None:
    """List all executions of this state folder, newest first."""
    import json

    from trimtab.cli.executing import open_office
    from trimtab.report.execution_text import entries_text

    with open_office() as office:
        rows = [(entry, office.status(entry)) for entry in office.journal.entries()]
    if as_json:
        print(json.dumps([_plain(asdict(entry), status) for entry, status in rows], indent=2))
    else:
        print(entries_text(rows))


@app.command()
def show(execution: int | None = ID, as_json: bool = JSON) -> None:
    """Show one execution: its steps, how far each is, and the last of its log."""
    import json

    from trimtab.act.apply import receipt_of
    from trimtab.act.apply_bundles import bundles_receipt_of
    from trimtab.act.bundles.state import BundlesState
    from trimtab.act.replicas.state import ExecutionState
    from trimtab.cli.executing import open_office
    from trimtab.model.receipt import Receipt
    from trimtab.report import bundle_execution_text, execution_text

    with open_office() as office:
        entry = office.journal.entry(_chosen(office, execution))
        state = office.journal.state(entry.id)
        status = office.status(entry)
        log = office.journal.log(entry.id)
    receipt: Receipt[Any]
    if isinstance(state, BundlesState):
        receipt = bundles_receipt_of(entry, state)
        text = bundle_execution_text.execution_text(entry, state, status, log)
    else:
        assert isinstance(state, ExecutionState)
        receipt = receipt_of(entry, state)
        text = execution_text.execution_text(entry, state, status, log)
    print(json.dumps(asdict(receipt) | {"status": status}, indent=2) if as_json else text)


@app.command()
def resume(
    execution: int | None = ID,
    bootstrap: str | None = BOOTSTRAP,
    pulsar_admin: str | None = PULSAR_ADMIN,
    token_file: Path | None = TOKEN_FILE,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Go on with an execution that was interrupted, stopped or cancelled."""
    _take_up(execution, Where(bootstrap, pulsar_admin, token_file, lake, settings, overrides), None)


@app.command()
def stop(
    execution: int | None = ID,
    bootstrap: str | None = BOOTSTRAP,
    pulsar_admin: str | None = PULSAR_ADMIN,
    token_file: Path | None = TOKEN_FILE,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Begin nothing more: what is in flight finishes, the rest can be resumed later."""
    _ask(execution, Where(bootstrap, pulsar_admin, token_file, lake, settings, overrides), "stop")


@app.command()
def cancel(
    execution: int | None = ID,
    bootstrap: str | None = BOOTSTRAP,
    pulsar_admin: str | None = PULSAR_ADMIN,
    token_file: Path | None = TOKEN_FILE,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Roll back what is in flight and leave the cluster clean; what is done stays done.

    An unload of a Pulsar bundle cannot be rolled back: what is under way gets an owner, the rest is left.
    """
    _ask(execution, Where(bootstrap, pulsar_admin, token_file, lake, settings, overrides), "cancel")


@dataclass(frozen=True)
class Where:
    """Which cluster, lake and settings, as given on the command line."""

    bootstrap: str | None
    pulsar_admin: str | None
    token_file: Path | None
    lake: Path | None
    settings: Path | None
    overrides: list[str]


def _ask(execution: int | None, where: Where, what: str) -> None:
    """Ask whoever runs it; where nobody does, do it here."""
    from trimtab.act.holder import this_process
    from trimtab.cli.executing import open_office
    from trimtab.model.errors import ActError

    with open_office() as office:
        entry = office.journal.entry(_chosen(office, execution))
        status = office.status(entry)
        if status in ("finished", "incomplete", "stopped", "cancelled"):
            raise ActError(f"execution {entry.id} has ended already ({status}): there is nothing to {what}")
        if status != "interrupted":
            now = time.time()
            office.journal.request(entry.id, what, str(this_process("", now)), now)
            print(f"trimtab: asked {entry.owner} to {what} execution {entry.id}", file=sys.stderr)
            return
    _take_up(entry.id, where, what)


def _take_up(execution: int | None, where: Where, request: str | None) -> None:
    from trimtab.act.settings import ExecutionTable
    from trimtab.cli.executing import open_office
    from trimtab.cli.executing_bundles import show_receipt as show_bundles_receipt
    from trimtab.cli.executing_bundles import take_up_bundles
    from trimtab.model.errors import ActError

    found = read_settings(where.settings, where.overrides)
    how = found.section("execution", ExecutionTable)
    # Unless told otherwise here, it goes on with the settings that it was begun with.
    changed = how if any(word.startswith("execution.") for word in where.overrides) else None
    with open_office() as office:
        entry = office.journal.entry(_chosen(office, execution))
        if entry.status in ("finished", "incomplete"):
            raise ActError(f"execution {entry.id} has ended ({entry.status}): make a new plan and apply that")
        if entry.level == "bundles":
            receipt = take_up_bundles(
                office,
                entry,
                pulsar_connection(found, where.pulsar_admin, where.token_file),
                how.for_bundles,
                None if changed is None else changed.for_bundles,
                request,
            )
            show_bundles_receipt(receipt)
            status = receipt.status
        else:
            connection = kafka_connection(found, where.bootstrap)
            status = _take_up_replicas(office, entry, connection, how, changed, where.lake, request)
    if status not in (
        "finished",
        "stopped" if request == "stop" else "",
        "cancelled" if request else "",
    ):
        raise typer.Exit(1)


def _take_up_replicas(
    office: Office,
    entry: Entry,
    connection: KafkaConnection,
    how: ExecutionTable,
    changed: ExecutionTable | None,
    lake: Path | None,
    request: str | None,
) -> str:
    """Go on with an execution of replicas; its final status."""
    from trimtab.act.apply import receipt_of, runner_of, state_of
    from trimtab.cli.apply import show_receipt
    from trimtab.cli.executing import load_sense, open_cluster, replicas_line, run_watched

    anew = None if changed is None else changed.for_replicas
    with (
        open_cluster(connection) as (port, admin),
        office.lease(port, entry.cluster_id, how) as (lease, notes),
    ):
        for note in notes:
            print(f"trimtab: {note}", file=sys.stderr)
        office.refuse_if_interrupted(entry.cluster_id, besides=entry.id)
        office.journal.take_requests(entry.id)  # meant for a process that is gone
        if request is None:
            _warn_of_throttles(port, admin, state_of(office, entry.id), anew)
        else:
            office.journal.request(entry.id, request, "you", time.time())
        sense = load_sense(_plan(office, entry.id), lake, how.drop_unneeded)
        state = run_watched(
            lambda watch: runner_of(office, port, lease, entry.id, sense=sense, watch=watch, settings=anew),
            replicas_line(),
        )
        receipt = receipt_of(office.journal.entry(entry.id), state, sense)
    show_receipt(receipt)
    return receipt.status


def _warn_of_throttles(
    port: ClusterPort, admin: Any, state: ExecutionState, changed: ExecutionSettings | None
) -> None:
    """Of the brokers' own throttles alone: the rate for all brokers may be ours from before."""
    from trimtab.act.replicas.observation import ThrottleConfig
    from trimtab.act.replicas.throttle import first_rate
    from trimtab.cli.executing import warn_of_throttles

    left = [record.step for record in state.records if not record.ended]
    rate = first_rate(changed or state.settings, {}, ())
    alive = port.observe((), (), wide=False).alive
    warn_of_throttles(admin, left, alive, rate, ThrottleConfig())


def _plan(office: Office, execution: int) -> Plan:
    from trimtab.files.plan import plan_from

    return plan_from(office.journal.path, office.journal.plan(execution).encode("utf-8"))


def _chosen(office: Office, execution: int | None) -> int:
    from trimtab.model.errors import ActError

    if execution is not None:
        return execution
    entries = office.journal.entries()
    if not entries:
        raise ActError(f"there are no executions in {office.folder}: `trimtab apply` begins one")
    return entries[0].id


def _plain(entry: dict[str, object], status: str) -> dict[str, object]:
    return entry | {"status": status}
