"""`trimtab demo`: the whole of a level on a cluster of our own, in a few minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trimtab.cli.options import SET, SETTINGS, read_settings
from trimtab.model.errors import SettingsError

if TYPE_CHECKING:
    from trimtab.demo.screen import Screen
    from trimtab.files.settings import Settings

app = typer.Typer()

FOLDERS = {"replicas": Path("trimtab-demo"), "bundles": Path("trimtab-demo-bundles")}


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
    import sys

    from trimtab.demo.interruption import Interrupted, orderly

    if level not in FOLDERS:
        raise SettingsError(f"there is no demo of {level}: write {' or '.join(FOLDERS)}")
    asked = read_settings(settings, overrides)
    try:
        with orderly():
            tell = _replicas if level == "replicas" else _bundles
            ok = tell(asked, out or FOLDERS[level], seed, quick=quick)
    except Interrupted as interrupted:
        print("\ntrimtab: interrupted; the cluster is stopped and its data are deleted", file=sys.stderr)
        raise typer.Exit(interrupted.exit_code) from None
    raise typer.Exit(0 if ok else 1)


def _replicas(asked: Settings, out: Path, seed: int, *, quick: bool) -> bool:
    from trimtab.demo.story import QUICK, STEPS, Pace, tell

    return tell(_screen(STEPS), out, QUICK if quick else Pace(), seed, asked.replicas).ok


def _bundles(asked: Settings, out: Path, seed: int, *, quick: bool) -> bool:
    from trimtab.demo.bundles.story import QUICK, STEPS, Pace, tell

    return tell(_screen(STEPS), out, QUICK if quick else Pace(), seed, asked.bundles).ok


def _screen(steps: int) -> Screen:
    import sys

    from trimtab.demo.screen import Screen

    return Screen(sys.stdout, steps)
