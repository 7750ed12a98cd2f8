"""`trimtab demo`: all steps of a balancer on a local cluster, in a few minutes."""

from __future__ import annotations

from pathlib import Path

import typer

from trimtab.cli.options import SET, SETTINGS
from trimtab.model.errors import SettingsError

app = typer.Typer()


@app.command()
def demo(
    balancer: str = typer.Argument(
        "replicas",
        help="replicas (Kafka), bundles (Pulsar), queues (Valkey), keys (Kafka) or masters (Paxos groups).",
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
    which is killed. Takes about four minutes and needs Java 17 or newer. Leaves only the folder --out behind.
    Exit code 0: every goal holds by measurement; 3: the moves helped but a goal is missed; 1: they did not
    help, or a record is lost.
    """
    import os
    import sys

    from trimtab.balancers.settings import read_settings
    from trimtab.extras import require
    from trimtab.lab.demo.interruption import DemoInterrupted, orderly

    require("lab")
    from trimtab.lab.demo.balancers import FOLDERS, run_demo

    if balancer not in FOLDERS:
        raise SettingsError(f"there is no demo of {balancer}: write {' or '.join(FOLDERS)}")
    asked = read_settings(settings, overrides, os.environ)
    try:
        with orderly():
            code = run_demo(
                balancer, seed, asked.balancers[balancer], out or Path(FOLDERS[balancer]), quick=quick
            )
    except DemoInterrupted as interrupted:
        print("\ntrimtab: interrupted; the cluster is stopped and its data are deleted", file=sys.stderr)
        raise typer.Exit(interrupted.exit_code) from None
    raise typer.Exit(code)
