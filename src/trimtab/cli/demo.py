"""`trimtab demo`: the whole of it on a cluster of our own, in a few minutes."""

from __future__ import annotations

from pathlib import Path

import typer

from trimtab.cli.options import SET, SETTINGS, read_settings

app = typer.Typer()


@app.command()
def demo(
    out: Path = typer.Option(Path("trimtab-demo"), "--out", help="Folder for pictures, plan and result."),
    seed: int = typer.Option(5, "--seed", help="Of the load's rates."),
    quick: bool = typer.Option(False, "--quick", help="Less load and fewer samples: a look, no measurement."),
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Start a real Kafka cluster here, find its skew, level it under load, and measure whether that helped.

    Takes about four minutes; needs Java 17 or newer. Leaves nothing behind but the folder --out.
    """
    import sys

    from trimtab.demo.interruption import Interrupted, orderly
    from trimtab.demo.screen import Screen
    from trimtab.demo.story import QUICK, STEPS, Pace, tell

    asked = read_settings(settings, overrides).replicas
    screen = Screen(sys.stdout, STEPS)
    try:
        with orderly():
            told = tell(screen, out, QUICK if quick else Pace(), seed, asked)
    except Interrupted as interrupted:
        print("\ntrimtab: interrupted; the cluster is stopped and its data are deleted", file=sys.stderr)
        raise typer.Exit(interrupted.exit_code) from None
    raise typer.Exit(0 if told.ok else 1)
