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
    level: str | None = typer.Option(
        None, "--level", help="replicas (Kafka) or bundles (Pulsar), where the lake holds both."
    ),
) -> None:
    """Write the newest snapshot of a cluster: brokers, partitions or bundles, loads, quality."""
    from trimtab.observe.lake import LEVELS, Lake

    if out.suffix and not out.name.endswith((".json", ".json.gz")) and not out.is_dir():
        raise InputError(f"--out is {out}: name it .json or .json.gz, or without an ending for a folder")
    if level is not None and level not in LEVELS:
        raise InputError(f"--level is {level!r}: write {' or '.join(LEVELS)}")
    where = Lake(lake_path(lake))
    clusters = {one: where.of_level(one).clusters() for one in LEVELS}
    held = [one for one, names in clusters.items() if (names if cluster is None else cluster in names)]
    if level is None and len(held) > 1:
        raise InputError(f"lake {where.path} holds snapshots of levels {' and '.join(held)}: say --level")
    chosen = where.of_level(level or (held[0] if held else LEVELS[0]))
    folder = chosen.newest_snapshot(cluster)
    typer.echo(f"{out}: " + (_bundles if chosen.level == "bundles" else _replicas)(folder, out))


def _replicas(folder: Path, out: Path) -> str:
    from trimtab.files.replicas_snapshot import read_snapshot, write_snapshot

    snapshot = read_snapshot(folder)
    reference = write_snapshot(snapshot, out)
    return (
        f"{len(snapshot.brokers)} brokers, {len(snapshot.partitions)} partitions of "
        f"{reference.cluster}, taken at {reference.taken_at}"
    )


def _bundles(folder: Path, out: Path) -> str:
    from trimtab.files.bundles_snapshot import read_bundles_snapshot, write_bundles_snapshot

    snapshot = read_bundles_snapshot(folder)
    reference = write_bundles_snapshot(snapshot, out)
    return (
        f"{len(snapshot.brokers)} brokers, {len(snapshot.bundles)} bundles and {len(snapshot.topics)} topics "
        f"of {reference.cluster}, taken at {reference.taken_at}"
    )
