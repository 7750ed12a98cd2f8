"""`trimtab demo`: the whole of a balancer on a cluster of our own, in a few minutes."""

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
        help="Folder for pictures, plan and result; default trimtab-demo, for others trimtab-demo-BALANCER.",
    ),
    seed: int = typer.Option(5, "--seed", help="Of the load's rates."),
    quick: bool = typer.Option(False, "--quick", help="Less load and fewer samples: a look, no measurement."),
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Start a real cluster here, find its skew, balance it under load, and measure whether that helped.

    Six Kafka brokers; with `trimtab demo bundles` three Pulsar brokers; with `trimtab demo queues` a server
    of queues with four workers; with `trimtab demo keys` three Kafka brokers and one topic with a hot
    key; with `trimtab demo masters` three nodes of a store of groups, one of which is killed.
    Takes about four minutes; needs Java 17 or newer. Leaves nothing behind but the folder --out. Exit code 0
    says that every goal holds by measurement, 3 that the moves helped but a goal is missed, 1 that they did
    not help or that a record is lost.
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
