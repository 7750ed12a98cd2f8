"""A lake's own housekeeping: small files joined into large ones, and snapshots taken out of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import typer

from trimtab.balancers import BALANCERS, DEFAULT_BALANCER, balancer_named
from trimtab.balancers.planning import open_tables
from trimtab.balancers.settings import pipeline_table
from trimtab.cli.context import CommandContext
from trimtab.extras import require
from trimtab.files.store import place_of
from trimtab.observe.lake.balancer_pipeline import LakeSettings, settings_of
from trimtab.observe.lake.compaction import JoinedFiles
from trimtab.observe.lake.housekeeping import preview_housekeeping, run_housekeeping
from trimtab.observe.lake.lake import Lake, instant
from trimtab.observe.lake.open_tables import export_delta
from trimtab.report.formats import print_json, print_progress
from trimtab_common.errors import InputError


def compact(context: CommandContext, *, dry_run: bool, as_json: bool) -> None:
    """Body of `trimtab pipeline compact`: merge small files of the lake."""
    lake = context.lake
    found = context.read()
    ages = found.section("lake", LakeSettings)
    pipelines = [level.pipeline() for level in BALANCERS.values()]
    settings = settings_of(found.section("pipeline", pipeline_table()), pipelines)
    if not lake.is_dir():
        raise InputError(f"lake {lake} is not there: name one with --lake; `trimtab collect` makes one")
    compacted_tables = removed = 0
    documents: dict[str, object] = {}
    for level in pipelines:
        seen = Lake(lake, level)
        if level.place and not (seen.tables.is_dir() or seen.has_samples):
            continue
        if dry_run:
            done = preview_housekeeping(seen, ages, settings[level.name])
        else:
            with seen.writing(print_progress) as seat:
                done = run_housekeeping(seen, seat, ages, settings[level.name])
        joined = _by_day(done.joined)
        documents[level.name] = {
            "joined": [{"day": day, "files": files, "bytes": size} for day, files, size in joined],
            "compacted": [
                {"table": one.table, "before": one.before, "after": one.after} for one in done.compacted
            ],
            "outdated": list(done.outdated),
            "removed": done.removed,
        }
        for day, files, size in joined:
            word = "would join" if dry_run else "joined"
            print_progress(
                f"{level.name}: {word} {files:,} files of raw samples of {day} ({size / 1e6:,.1f} MB)"
            )
        for one in done.compacted:
            print_progress(f"{level.name}: {one.table}: {one.before} folders became {one.after}")
        for line in done.outdated:
            print_progress(
                f"{level.name}: too old, {'would go' if dry_run else 'goes within two hours'}: {line}"
            )
        compacted_tables += len(done.compacted)
        removed += done.removed
    if as_json:
        print_json({"dry_run": dry_run, "balancers": documents})
    elif dry_run:
        print_progress("nothing was changed (--dry-run)")
    else:
        print_progress(f"{compacted_tables} tables compacted, {removed} old files and folders removed")


def _by_day(joined: Iterable[JoinedFiles]) -> list[tuple[str, int, int]]:
    """Files and bytes of each day."""
    days: dict[str, tuple[int, int]] = {}
    for one in joined:
        files, size = days.get(one.day, (0, 0))
        days[one.day] = files + one.files, size + one.bytes
    return [(day.removeprefix("date="), *told) for day, told in days.items()]


def export_tables(delta: str, balancer: str | None, context: CommandContext, *, as_json: bool) -> None:
    """Body of `trimtab pipeline export`: copy tables to another format."""
    require("delta")
    tables = open_tables(context.lake, balancer)
    exported = export_delta(tables, place_of(delta))
    written = [one for one in exported if one.since is not None]
    for one in written:
        since = f"rows from {instant(one.since):%Y-%m-%d %H:%M:%S} UTC on" if one.since else "all rows"
        print_progress(f"{one.table}: {since}, version {one.version}")
    if as_json:
        print_json(
            {
                "target": delta,
                "manifest": tables.manifest.version,
                "tables": [
                    {"table": one.table, "version": one.version, "written": one.since is not None}
                    for one in exported
                ],
            }
        )
        return
    told = f"{len(written)} of {len(exported)} tables written to {delta}"
    print_progress(f"{told}, all of manifest {tables.manifest.version}")


def export(out: Path, context: CommandContext, balancer: str | None, *, as_json: bool) -> None:
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
    lake, cluster = context.lake, context.lake_cluster()
    clusters = {one.name: Lake(lake, one.pipeline()).clusters() for one in BALANCERS.values()}
    held = [name for name, names in clusters.items() if (names if cluster is None else cluster in names)]
    if balancer is None and len(held) > 1:
        raise InputError(f"lake {lake} holds snapshots of balancers {' and '.join(held)}: say --balancer")
    chosen = (
        DEFAULT_BALANCER
        if balancer is None and not held
        else balancer_named(balancer or held[0], "--balancer")
    )
    form = chosen.snapshot()
    snapshot = form.read(Lake(lake, chosen.pipeline()).newest_snapshot(cluster))
    reference = form.write(snapshot, out)
    if as_json:
        print_json({"path": str(out), "balancer": chosen.name, **asdict(reference)})
    else:
        typer.echo(f"{out}: {form.described(snapshot)}")
