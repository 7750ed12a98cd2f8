"""A lake's own housekeeping: small files joined into large ones, and snapshots taken out of it."""

from __future__ import annotations

from pathlib import Path

import typer

from trimtab.files.store import Place
from trimtab.levels import FIRST, LEVELS, level_named
from trimtab.model.errors import InputError
from trimtab.observe.compact import compacted, differences, sweep
from trimtab.observe.lake import Lake
from trimtab.report.saying import say


def compact(lake: Place) -> None:
    """`trimtab pipeline compact`."""
    if not lake.is_dir():
        raise InputError(f"lake {lake} is not there: name one with --lake; `trimtab collect` makes one")
    compacted_tables = swept = 0
    for level in LEVELS.values():
        where = Lake(lake, level.pipeline())
        if where.level.place and not where.tables.is_dir():
            continue
        with where.writing(say) as seat:
            before = where.manifest()
            after = compacted(where, before)
            changed = differences(before, after)
            for one in changed:
                say(f"{level.name}: {one.table}: {one.before} folders became {one.after}")
            if changed:
                after = seat.publish(after)
            compacted_tables += len(changed)
            swept += sweep(where, after)
    say(f"{compacted_tables} tables compacted, {swept} old folders removed")


def export(out: Path, cluster: str | None, lake: Place, level: str | None) -> None:
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
    clusters = {one.name: Lake(lake, one.pipeline()).clusters() for one in LEVELS.values()}
    held = [name for name, names in clusters.items() if (names if cluster is None else cluster in names)]
    if level is None and len(held) > 1:
        raise InputError(f"lake {lake} holds snapshots of levels {' and '.join(held)}: say --level")
    chosen = FIRST if level is None and not held else level_named(level or held[0], "--level")
    form = chosen.snapshot()
    snapshot = form.read(Lake(lake, chosen.pipeline()).newest_snapshot(cluster))
    form.write(snapshot, out)
    typer.echo(f"{out}: {form.described(snapshot)}")
