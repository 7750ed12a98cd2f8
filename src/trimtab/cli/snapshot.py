"""`trimtab snapshot export`: a snapshot out of the lake, as a file to keep, to send or to plan from."""

from __future__ import annotations

from pathlib import Path

import typer

from trimtab.cli.options import CLUSTER, LAKE, lake_path
from trimtab.model.errors import InputError

app = typer.Typer(help="Snapshots as files.", no_args_is_help=True)


@app.callback()
def _snapshot() -> None:
    """Snapshots as files."""


@app.command()
def export(
    out: Path = typer.Option(
        Path("snapshot.json"), "--out", help="File .json or .json.gz, or a name without either for a folder."
    ),
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
) -> None:
    """Write the newest snapshot of a cluster: brokers, partitions, loads, quality."""
    from trimtab.files.replicas_snapshot import read_snapshot, write_snapshot
    from trimtab.observe.lake import Lake

    if out.suffix and not out.name.endswith((".json", ".json.gz")) and not out.is_dir():
        raise InputError(f"--out is {out}: name it .json or .json.gz, or without an ending for a folder")
    snapshot = read_snapshot(Lake(lake_path(lake)).newest_snapshot(cluster))
    reference = write_snapshot(snapshot, out)
    typer.echo(
        f"{out}: {len(snapshot.brokers)} brokers, {len(snapshot.partitions)} partitions of "
        f"{reference.cluster}, taken at {reference.taken_at}"
    )
