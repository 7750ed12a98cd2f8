"""`trimtab demo`: all steps of a balancer on a local cluster, in a few minutes."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from trimtab.cli.commands import SET, SETTINGS
from trimtab_common.errors import SettingsError

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    balancer: str = typer.Argument(
        "replicas",
        help="replicas (Kafka), bundles (Pulsar), queues (Valkey), keys (Kafka), masters (Paxos groups) "
        "or serve (Kafka).",
    ),
    out: Path | None = typer.Option(
        None,
        "--out",
        help="Folder for pictures, plan and result; default: trimtab-demo, for other balancers "
        "trimtab-demo-BALANCER.",
    ),
    seed: int = typer.Option(5, "--seed", help="Seed of the load's rates."),
    quick: bool = typer.Option(False, "--quick", help="Less load and fewer samples; no measurement."),
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Start a real cluster on this machine, balance it under load, and measure the result.

    replicas: six Kafka brokers. bundles: three Pulsar brokers. queues: a queue server with four workers.
    keys: three Kafka brokers and a topic with a hot key. masters: three nodes of a store of groups, one of
    which is killed. serve: six Kafka brokers that `trimtab serve` balances; one is killed and returns.
    Takes about four minutes and needs Java 17 or newer, and a source checkout of trimtab.
    Leaves only the folder --out behind.
    Exit code 0: every goal holds by measurement; 3: the moves helped but a goal is missed; 1: they did not
    help, or a record is lost.
    """
    import os

    from trimtab.balancers.settings import read_settings
    from trimtab.extras import require

    require("lab")  # before an import misses a package of it
    from demos import run

    if balancer not in run.FOLDERS:
        raise SettingsError(f"there is no demo of {balancer}: write {' or '.join(run.FOLDERS)}")
    asked = read_settings(settings, overrides, os.environ)
    try:
        with run.orderly():
            folder = out or Path(run.FOLDERS[balancer])
            code = run.run_demo(balancer, seed, asked.balancers.get(balancer), folder, quick=quick)
    except run.DemoInterrupted as interrupted:
        print("\ntrimtab: interrupted; the cluster is stopped and its data are deleted", file=sys.stderr)
        raise typer.Exit(interrupted.exit_code) from None
    raise typer.Exit(code)
