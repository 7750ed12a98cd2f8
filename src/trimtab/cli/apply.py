"""`trimtab apply PLAN`: carry a plan out."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trimtab.cli.options import BOOTSTRAP, LAKE, SET, SETTINGS, kafka_connection, read_settings

if TYPE_CHECKING:
    from trimtab.act.apply import Prepared
    from trimtab.act.replicas.settings import ExecutionSettings

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
        False, "--rebase", help="Leave out partitions that have changed since the plan was made."
    ),
    throttle: str | None = THROTTLE,
    bootstrap: str | None = BOOTSTRAP,
    lake: Path | None = LAKE,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    as_json: bool = JSON,
) -> None:
    """Carry a plan out on a Kafka cluster, safely: batch after batch, with a throttle, ready to be resumed.

    Ctrl-C once stops (what is in flight finishes), twice cancels (it is rolled back). Exit code 0: finished;
    1: something was left, or refused; 2: bad input.
    """
    from trimtab.act.apply import begin, prepare, receipt_of, runner_of
    from trimtab.act.replicas.observation import ThrottleConfig
    from trimtab.act.replicas.settings import ExecutionSettings
    from trimtab.act.replicas.throttle import first_rate
    from trimtab.cli.executing import (
        load_sense,
        open_cluster,
        open_office,
        run_watched,
        warn_of_throttles,
    )
    from trimtab.files.plan import plan_bytes, read_plan

    if throttle is not None:
        overrides = [*overrides, f"execution.throttle={throttle}"]
    found = read_settings(settings, overrides)
    how = found.section("execution", ExecutionSettings)
    wanted = read_plan(plan)
    with open_cluster(kafka_connection(found, bootstrap)) as (port, admin):
        prepared = prepare(port, wanted, rebase=rebase)
        rate = first_rate(how, {}, ())
        _show(prepared, how, rate)
        # Without a throttle of ours nothing is replaced, and the right to read settings may be missing.
        default = ThrottleConfig() if rate is None else port.read_throttle([])
        warn_of_throttles(admin, prepared.steps, prepared.seen.alive, rate, default)
        if dry_run or not prepared.steps:
            return
        if not yes and not _agreed():
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
                lambda watch: runner_of(office, port, lease, execution, sense=sense, watch=watch)
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
