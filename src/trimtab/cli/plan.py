"""`trimtab plan replicas|show|diff`."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trimtab.cli.plan_bundles import bundles, show_bundle_plan

if TYPE_CHECKING:
    from trimtab.model.plan import Plan
    from trimtab.model.replicas import ReplicasSnapshot
    from trimtab.model.settings import ReplicasSettings

app = typer.Typer(
    help="Find the smallest set of moves that levels a cluster; changes nothing.", no_args_is_help=True
)


app.command()(bundles)


class Format(StrEnum):
    """What goes to standard output."""

    TEXT = "text"
    JSON = "json"
    KAFKA = "kafka"


FORMAT = typer.Option(
    Format.TEXT,
    "--format",
    help="text: for people; json: the plan itself; kafka: what kafka-reassign-partitions takes.",
)
ALL_MOVES = typer.Option(False, "--all-moves", help="List every move in the text.")


@app.command()
def replicas(
    snapshot: Path | None = typer.Option(
        None, "--snapshot", help="A snapshot file (.json, .json.gz) or folder; else the newest of the lake."
    ),
    lake: Path | None = typer.Option(None, "--lake", help="The lake's folder (TRIMTAB_LAKE)."),
    cluster: str | None = typer.Option(
        None, "--cluster", help="Which cluster, where the lake holds several."
    ),
    out: Path | None = typer.Option(None, "--out", help="Write the plan (trimtab/plan/1) to this file."),
    form: Format = FORMAT,
    all_moves: bool = ALL_MOVES,
    strategy: str | None = typer.Option(None, "--strategy", help="trim or role_aware (replicas.strategy)."),
    overrides: list[str] = typer.Option(
        [], "--set", help="A setting, like replicas.epsilon=0.05; may be given again."
    ),
    settings_file: Path | None = typer.Option(
        None, "--settings", help="Settings file (TRIMTAB_SETTINGS; else ./trimtab.toml if there)."
    ),
) -> None:
    """Plan leader and replica moves of a Kafka cluster.

    Exit code 0: the plan levels or improves the cluster, or it is level. 3: some hard limit cannot be met by
    any plan; the problems say why. 2: the input or a setting is wrong, and nothing was written.
    """
    from trimtab.files.replicas_snapshot import read_snapshot
    from trimtab.files.settings import load_settings
    from trimtab.model.plan import Verdict

    if strategy is not None:
        overrides = [*overrides, f"replicas.strategy={strategy}"]
    settings = load_settings(settings_file, overrides, os.environ)
    source = snapshot if snapshot is not None else _newest_snapshot(lake, cluster)
    found = read_snapshot(source)
    if cluster is not None and found.reference.cluster != cluster:
        from trimtab.model.errors import InputError

        raise InputError(
            f"{source}: is a snapshot of cluster {found.reference.cluster}, not of {cluster}; name another"
        )
    plan = _planned(found, settings.replicas)
    if out is not None:
        from trimtab.files.plan import write_plan

        write_plan(plan, out)
    _show(plan, found, form, all_moves)
    if out is not None:
        print(f"trimtab: plan written to {out}", file=sys.stderr)
    if plan.verdict is Verdict.INFEASIBLE:
        raise typer.Exit(3)


@app.command()
def show(
    path: Path = typer.Argument(..., metavar="PLAN.json", help="A plan (trimtab/plan/1)."),
    snapshot: Path | None = typer.Option(
        None, "--snapshot", help="What it was made from, to show the brokers' load too."
    ),
    form: Format = FORMAT,
    all_moves: bool = ALL_MOVES,
) -> None:
    """Check a plan file, also one edited by hand, and show it."""
    from trimtab.files.plan import read_plan
    from trimtab.files.plan_document import plan_level
    from trimtab.files.replicas_snapshot import read_snapshot
    from trimtab.model.errors import InputError

    if plan_level(path) == "bundles":
        if form is Format.KAFKA:
            raise InputError(
                f"{path}: is a plan for Pulsar, which Kafka's tools cannot take; leave --format out"
            )
        show_bundle_plan(path, snapshot, as_json=form is Format.JSON, all_moves=all_moves)
        return
    plan = read_plan(path)
    found = None if snapshot is None else read_snapshot(snapshot)
    if found is not None and found.reference.sha256 != plan.snapshot.sha256:
        raise InputError(
            f"{snapshot}: is not the snapshot that {path} was made from (sha256 differs); name that"
        )
    _show(plan, found, form, all_moves)


@app.command()
def diff(
    first: Path = typer.Argument(..., metavar="A.json"), second: Path = typer.Argument(..., metavar="B.json")
) -> None:
    """Show what two plans do differently; exit code 1 if they do."""
    from trimtab.files.plan import read_plan
    from trimtab.report.plan_diff import plan_diff

    text = plan_diff(read_plan(first), read_plan(second))
    typer.echo(text or "the plans do the same", nl=not text)
    if text:
        raise typer.Exit(1)


def _newest_snapshot(lake: Path | None, cluster: str | None) -> Path:
    from trimtab.files.places import lake_folder
    from trimtab.observe.lake import Lake

    return Lake(lake if lake is not None else lake_folder()).newest_snapshot(cluster)


def _planned(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Plan:
    from trimtab.cli.announcing import announce_compilation
    from trimtab.plan.planner import planner

    chosen = planner(settings.strategy)
    if "numba" in sys.modules:
        announce_compilation()
    return chosen(snapshot, settings)


def _show(plan: Plan, snapshot: ReplicasSnapshot | None, form: Format, all_moves: bool) -> None:
    from trimtab.files.plan import kafka_reassignment, plan_bytes

    if form is Format.JSON:
        sys.stdout.write(plan_bytes(plan).decode())
    elif form is Format.KAFKA:
        sys.stdout.write(kafka_reassignment(plan))
        if plan.cost.leader_moves:
            print(
                f"trimtab: {plan.cost.leader_moves} leader moves follow the first of each list: run "
                "kafka-leader-election --election-type preferred once the copies are done",
                file=sys.stderr,
            )
    else:
        from trimtab.report.plan_text import plan_text

        sys.stdout.write(plan_text(plan, snapshot, all_moves=all_moves))
