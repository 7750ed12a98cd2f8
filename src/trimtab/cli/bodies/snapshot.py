"""Snapshots out of the lake, whatever their level."""

from __future__ import annotations

from pathlib import Path

import typer

from trimtab.cli.options import lake_path
from trimtab.levels import FIRST, LEVELS, level_named
from trimtab.model.errors import InputError
from trimtab.observe.lake import Lake


def export(out: Path, cluster: str | None, lake: Path | None, level: str | None) -> None:
    """`trimtab snapshot export`.

    Raises
    ------
    InputError
        If the file's name has another ending, or the lake holds snapshots of several levels.
    ObserveError
        If it holds none.
    """
    if out.suffix and not out.name.endswith((".json", ".json.gz")) and not out.is_dir():
        raise InputError(f"--out is {out}: name it .json or .json.gz, or without an ending for a folder")
    path = lake_path(lake)
    clusters = {one.name: Lake(path, one.pipeline()).clusters() for one in LEVELS.values()}
    held = [name for name, names in clusters.items() if (names if cluster is None else cluster in names)]
    if level is None and len(held) > 1:
        raise InputError(f"lake {path} holds snapshots of levels {' and '.join(held)}: say --level")
    chosen = FIRST if level is None and not held else level_named(level or held[0], "--level")
    form = chosen.snapshot()
    snapshot = form.read(Lake(path, chosen.pipeline()).newest_snapshot(cluster))
    form.write(snapshot, out)
    typer.echo(f"{out}: {form.described(snapshot)}")
