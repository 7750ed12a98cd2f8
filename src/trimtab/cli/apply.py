"""`trimtab apply PLAN`: carry a plan out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

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
    from trimtab.act.apply import Prepared
    from trimtab.act.replicas.settings import ExecutionSettings
    from trimtab.connect.settings import KafkaConnection

app = typer.Typer()

THROTTLE = typer.Option(
    None, "--throttle", help="auto, none, or bytes per second and broker (execution.throttle)."
)
JSON = typer.Option(False, "--json", help="Print the receipt as JSON.")


@app.command()
def apply(
    plan: Path = typer.Argument(help="A plan file (trimtab/plan/1)."),
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show what would happen, change nothing."),
    rebase: bool = typer.Option(
        False, "--rebase", help="Leave out what has changed since the plan was made."
    ),
    throttle: str | None = THROTTLE,
    bootstrap: str | None = BOOTSTRAP,
    pulsar_admin: str | None = PULSAR_ADMIN,
    token_file: Path | None = TOKEN_FILE,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
) -> None:
    """Carry a plan out, safely: batch after batch, with all that was changed on the way given back.

    On Kafka for a plan of replicas (--bootstrap), on Pulsar for one of bundles (--pulsar-admin). Ctrl-C once
    stops (what is in flight finishes), twice cancels (copies are rolled back; an unload cannot be). It can be
    killed and resumed. Exit code 0: finished; 1: something was left, or refused; 2: bad input.
    """
    from trimtab.act.settings import ExecutionTable
    from trimtab.cli.executing_bundles import apply_bundle_plan
    from trimtab.files.plan_document import plan_level
    from trimtab.model.errors import InputError

    if throttle is not None:
        overrides = [*overrides, f"execution.throttle={throttle}"]
    found = read_settings(settings, overrides)
    table = found.section("execution", ExecutionTable)
    agreed = (lambda: True) if yes else _agreed
    if plan_level(plan) == "bundles":
        if throttle is not None:
            raise InputError(
                "--throttle is for copies between Kafka's brokers, and a plan of bundles copies nothing: "
                "leave it out; execution.bundles.sessions_per_minute limits how many clients are disturbed"
            )
        apply_bundle_plan(
            plan,
            pulsar_connection(found, pulsar_admin, token_file),
            table.for_bundles,
            agreed,
            dry_run=dry_run,
            rebase=rebase,
            as_json=as_json,
        )
        return
    if pulsar_admin is not None:
        raise InputError(
            f"{plan} is a plan of replicas, for Kafka: name its cluster with --bootstrap, not --pulsar-admin"
        )
    _apply_replicas(
        plan,
        kafka_connection(found, bootstrap),
        table.for_replicas,
        agreed,
        lake,
        dry_run=dry_run,
        rebase=rebase,
        as_json=as_json,
    )


def _apply_replicas(
    plan: Path,
    connection: KafkaConnection,
    how: ExecutionSettings,
    agreed: Callable[[], bool],
    lake: Path | None,
    *,
    dry_run: bool,
    rebase: bool,
    as_json: bool,
) -> None:
    from trimtab.act.apply import begin, prepare, receipt_of, runner_of
    from trimtab.act.replicas.observation import ThrottleConfig
    from trimtab.act.replicas.throttle import first_rate
    from trimtab.cli.executing import (
        load_sense,
        open_cluster,
        open_office,
        replicas_line,
        run_watched,
        warn_of_throttles,
    )
    from trimtab.files.plan import plan_bytes, read_plan

    wanted = read_plan(plan)
    with open_cluster(connection) as (port, admin):
        prepared = prepare(port, wanted, rebase=rebase)
        rate = first_rate(how, {}, ())
        _show(prepared, how, rate)
        # Without a throttle of ours nothing is replaced, and the right to read settings may be missing.
        default = ThrottleConfig() if rate is None else port.read_throttle([])
        warn_of_throttles(admin, prepared.steps, prepared.seen.alive, rate, default)
        if dry_run or not prepared.steps:
            return
        if not agreed():
            raise typer.Exit(1)
        cluster_id = prepared.seen.cluster_id
        with open_office() as office, office.lease(port, cluster_id, how) as (lease, notes):
            for note in notes:
                print(f"trimtab: {note}", file=sys.stderr)
            office.refuse_if_interrupted(cluster_id)
            facts = {"plan": str(plan.absolute()), "strategy": wanted.strategy}
            execution = begin(office, prepared, how, plan_bytes(wanted).decode("utf-8"), facts)
            sense = load_sense(wanted, lake, how.drop_unneeded)
            state = run_watched(
                lambda watch: runner_of(office, port, lease, execution, sense=sense, watch=watch),
                replicas_line(),
            )
            receipt = receipt_of(office.journal.entry(execution), state, sense)
    show_receipt(asdict(receipt) if as_json else receipt)
    if receipt.status != "finished":
        raise typer.Exit(1)


def show_receipt(receipt: object) -> None:
    """The receipt on standard output, as text or as JSON."""
    import json

    from trimtab.model.receipt import ReplicasReceipt
    from trimtab.report.execution_text import receipt_text

    if isinstance(receipt, ReplicasReceipt):
        print(receipt_text(receipt))
    else:
        print(json.dumps(receipt, indent=2))


def _show(prepared: Prepared, settings: ExecutionSettings, rate: float | None) -> None:
    from trimtab.act.replicas.forecast import forecast
    from trimtab.report.execution_text import forecast_text

    expected = forecast(prepared.steps, prepared.seen, prepared.seen.at, settings)
    cluster = prepared.plan.snapshot.cluster
    print(f"plan for {cluster}, on cluster {prepared.seen.cluster_id}:", file=sys.stderr)
    print(forecast_text(expected, prepared.comparison, settings, rate), file=sys.stderr)


def _agreed() -> bool:
    if not sys.stdin.isatty():
        from trimtab.model.errors import InputError

        raise InputError("nobody is there to be asked: add --yes to carry the plan out")
    return typer.confirm("carry it out?", default=False, err=True)
