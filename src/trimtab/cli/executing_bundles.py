"""What `apply` and `execution` do for the level `bundles`: opening a cluster, preparing, running."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from trimtab.act.apply_bundles import PreparedBundles
    from trimtab.act.bundles.settings import BundlesSettings
    from trimtab.act.bundles.state import BundlesState
    from trimtab.act.journal_entries import Entry
    from trimtab.act.office import Office
    from trimtab.act.pulsar.port import PulsarAdminPort
    from trimtab.act.runner import Runner
    from trimtab.connect.pulsar import PulsarConnection
    from trimtab.model.bundle_receipt import BundlesReceipt


@contextlib.contextmanager
def open_pulsar(connection: PulsarConnection) -> Iterator[PulsarAdminPort]:
    """The cluster, for acting on."""
    from trimtab.act.pulsar.connecting import admin_of
    from trimtab.act.pulsar.port import PulsarAdminPort

    with admin_of(connection) as admin:
        yield PulsarAdminPort(admin, time.time)


def apply_bundle_plan(
    path: Path,
    connection: PulsarConnection,
    settings: BundlesSettings,
    agreed: Callable[[], bool],
    *,
    dry_run: bool,
    rebase: bool,
    as_json: bool,
) -> None:
    """`trimtab apply` for a plan of bundles."""
    from trimtab.act.apply_bundles import (
        begin_bundles,
        bundles_receipt_of,
        bundles_runner_of,
        prepare_bundles,
    )
    from trimtab.cli.executing import open_office
    from trimtab.files.bundle_plan import bundle_plan_bytes, read_bundle_plan

    plan = read_bundle_plan(path)
    with open_pulsar(connection) as port:
        prepared = prepare_bundles(port, plan, rebase=rebase)
        _show(prepared, settings)
        if dry_run or not prepared.steps:
            return
        if not agreed():
            raise typer.Exit(1)
        cluster_id = prepared.seen.cluster
        with open_office() as office, office.lease(port, cluster_id, settings) as (lease, notes):
            say(notes)
            office.refuse_if_interrupted(cluster_id)
            facts = {"plan": str(path.absolute()), "strategy": plan.strategy}
            text = bundle_plan_bytes(plan).decode("utf-8")
            execution = begin_bundles(office, prepared, settings, text, facts)
            state = _run(lambda watch: bundles_runner_of(office, port, lease, execution, watch=watch))
            receipt = bundles_receipt_of(office.journal.entry(execution), state)
    show_receipt(receipt, as_json=as_json)
    if receipt.status != "finished":
        raise typer.Exit(1)


def take_up_bundles(
    office: Office,
    entry: Entry,
    connection: PulsarConnection,
    settings: BundlesSettings,
    changed: BundlesSettings | None,
    request: str | None,
) -> BundlesReceipt:
    """`trimtab execution resume`, and `stop` and `cancel` where nobody runs it.

    Parameters
    ----------
    changed
        Settings that replace those it was begun with.
    request
        `stop` or `cancel`; None to go on.
    """
    from trimtab.act.apply_bundles import bundles_receipt_of, bundles_runner_of

    with (
        open_pulsar(connection) as port,
        office.lease(port, entry.cluster_id, settings) as (lease, notes),
    ):
        say(notes)
        office.refuse_if_interrupted(entry.cluster_id, besides=entry.id)
        office.journal.take_requests(entry.id)  # meant for a process that is gone
        if request is not None:
            office.journal.request(entry.id, request, "you", time.time())
        state = _run(
            lambda watch: bundles_runner_of(office, port, lease, entry.id, watch=watch, settings=changed)
        )
        return bundles_receipt_of(office.journal.entry(entry.id), state)


def show_receipt(receipt: BundlesReceipt, *, as_json: bool = False) -> None:
    """The receipt on standard output, as text or as JSON."""
    import json

    from trimtab.report.bundle_execution_text import receipt_text

    print(json.dumps(asdict(receipt), indent=2) if as_json else receipt_text(receipt))


def say(notes: list[str]) -> None:
    """Notes on standard error."""
    for note in notes:
        print(f"trimtab: {note}", file=sys.stderr)


def _run(make: Callable[[Callable[[BundlesState], None]], Runner[BundlesState]]) -> BundlesState:
    from trimtab.act.bundles.progress import progress_of
    from trimtab.cli.executing import run_watched
    from trimtab.report.bundle_execution_text import progress_text

    return run_watched(
        make,
        lambda state: progress_text(progress_of(state)),
        cancelling="what is under way gets an owner, nothing more is begun (an unload is not rolled back)",
    )


def _show(prepared: PreparedBundles, settings: BundlesSettings) -> None:
    from trimtab.act.apply_bundles import warnings_of
    from trimtab.act.bundles.forecast import forecast
    from trimtab.report.bundle_execution_text import forecast_text

    cluster = prepared.plan.snapshot.cluster
    print(f"plan for {cluster}, on cluster {prepared.seen.cluster}:", file=sys.stderr)
    print(forecast_text(forecast(prepared.steps, settings), prepared.comparison, settings), file=sys.stderr)
    for warning in warnings_of(prepared, settings, time.time()):
        print(f"trimtab: warning: {warning}", file=sys.stderr)
