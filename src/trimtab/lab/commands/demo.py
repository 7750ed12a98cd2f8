"""`trimtab demo`: all steps of a balancer on a local cluster, in a few minutes."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from trimtab.cli.commands import SET, SETTINGS
from trimtab.model.errors import SandboxError
from trimtab_common.errors import SettingsError

app = typer.Typer(add_completion=False)

EXAMPLES = Path(__file__).parents[4] / "examples"
"""Of a source checkout; the demos are its package `demos`, which is not part of an installed trimtab."""


def import_demos() -> Any:
    """The module that runs demos, from the source checkout that this file belongs to.

    Raises
    ------
    SandboxError
        If there is none.
    MissingExtraError
        If a package of the extra `lab` is missing.
    """
    from trimtab.extras import require

    if not (EXAMPLES / "demos" / "run.py").is_file():
        raise SandboxError(
            "trimtab demo needs a source checkout of trimtab: the demos are not part of the installed "
            f"package, and {EXAMPLES / 'demos'} does not exist. Get the sources of trimtab and run make demo "
            "in their folder (or make demo-bundles, demo-queues, demo-keys, demo-masters)"
        )
    require("lab")  # before their imports miss it
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return import_module("demos.run")


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
    which is killed. Takes about four minutes and needs Java 17 or newer, and a source checkout of trimtab.
    Leaves only the folder --out behind.
    Exit code 0: every goal holds by measurement; 3: the moves helped but a goal is missed; 1: they did not
    help, or a record is lost.
    """
    import os

    from trimtab.balancers.settings import read_settings

    demos = import_demos()
    if balancer not in demos.FOLDERS:
        raise SettingsError(f"there is no demo of {balancer}: write {' or '.join(demos.FOLDERS)}")
    asked = read_settings(settings, overrides, os.environ)
    try:
        with demos.orderly():
            folder = out or Path(demos.FOLDERS[balancer])
            code = demos.run_demo(balancer, seed, asked.balancers[balancer], folder, quick=quick)
    except demos.DemoInterrupted as interrupted:
        print("\ntrimtab: interrupted; the cluster is stopped and its data are deleted", file=sys.stderr)
        raise typer.Exit(interrupted.exit_code) from None
    raise typer.Exit(code)
