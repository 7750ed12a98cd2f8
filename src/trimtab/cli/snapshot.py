"""`trimtab snapshot export`: write a snapshot of the lake to a file."""

from __future__ import annotations

from pathlib import Path

import typer

from trimtab.cli.options import BALANCER, LAKE, LAKE_CLUSTER, SET, SETTINGS, command_context

app = typer.Typer(help="Snapshots as files.", no_args_is_help=True)


@app.callback()
def _snapshot() -> None:
    """Snapshots as files."""


@app.command()
def export(
    out: Path = typer.Option(
        Path("snapshot.json"), "--out", help="File (.json or .json.gz), or folder (any other name)."
    ),
    cluster: str | None = LAKE_CLUSTER,
    lake: Path | None = LAKE,
    balancer: str | None = BALANCER,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
) -> None:
    """Write the newest snapshot of a cluster: brokers, placement, loads, quality."""
    from trimtab.cli.bodies import lake as body

    body.export(out, command_context(lake, settings, overrides, cluster), balancer)
