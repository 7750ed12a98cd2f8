"""`trimtab demo`: the whole of a level on a cluster of our own, in a few minutes."""

from __future__ import annotations

from pathlib import Path

import typer

from trimtab.cli.options import SET, SETTINGS
from trimtab.model.errors import SettingsError

app = typer.Typer()


@app.command()
def demo(
    level: str = typer.Argument("replicas", help="replicas (Kafka) or bundles (Pulsar)."),
    out: Path | None = typer.Option(
        None,
        "--out",
        help="Folder for pictures, plan and result; default trimtab-demo, or trimtab-demo-bundles.",
    ),
    seed: int = typer.Option(5, "--seed", help="Of the load's rates."),
    quick: bool = typer.Option(False, "--quick", help="Less load and fewer samples: a look, no measurement."),
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Start a real cluster here, find its skew, level it under load, and measure whether that helped.

    Six Kafka brokers, or with `trimtab demo bundles` three Pulsar brokers. Takes about four minutes; needs
    Java 17 or newer. Leaves nothing behind but the folder --out.
    """
    import os
    import sys

    from trimtab.extras import require
    from trimtab.lab.demo.interruption import Interrupted, orderly
    from trimtab.levels.settings import read_settings

    require("lab")
    from trimtab.lab.demo.levels import FOLDERS, demo_of
    from trimtab.lab.demo.screen import Screen
    from trimtab.lab.demo.story import STEPS, tell

    if level not in FOLDERS:
        raise SettingsError(f"there is no demo of {level}: write {' or '.join(FOLDERS)}")
    asked = read_settings(settings, overrides, os.environ)
    try:
        with orderly():
            demo = demo_of(level, seed, asked.levels[level], quick=quick)
            ok = tell(Screen(sys.stdout, STEPS), out or Path(FOLDERS[level]), demo).ok
    except Interrupted as interrupted:
        print("\ntrimtab: interrupted; the cluster is stopped and its data are deleted", file=sys.stderr)
        raise typer.Exit(interrupted.exit_code) from None
    raise typer.Exit(0 if ok else 1)
