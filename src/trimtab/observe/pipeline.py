"""Batch over history: every raw sample of a period into every table, in one step."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trimtab.files.store import remove_folder
from trimtab.model.errors import ObserveError
from trimtab.observe.clean import typed
from trimtab.observe.columns import ddl
from trimtab.observe.compact import sweep
from trimtab.observe.lake import instant, microseconds
from trimtab.observe.landed import is_published
from trimtab.observe.manifest import Manifest, merged
from trimtab.observe.parquet import is_sound
from trimtab.observe.spark_address import spark_address
from trimtab.observe.spark_faults import spark_faults_told
from trimtab.observe.stages import Step, step, ticks_of
from trimtab.observe.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trimtab.files.store import Place
    from trimtab.observe.lake import Lake
    from trimtab.observe.settings import PipelineSettings

Say = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """The input and output of a batch.

    Attributes
    ----------
    files, samples, ticks
        Raw files and rows read, and distinct ticks in them.
    unreadable_files
        Files that are no sound Parquet; they were left out.
    rows
        Rows written per table.
    snapshots
        Folders of the snapshots written.
    """

    files: int
    unreadable_files: tuple[Place, ...]
    samples: int
    ticks: int
    rows: dict[str, int]
    snapshots: tuple[Place, ...]


def run_batch(
    session: SparkSession,
    lake: Lake,
    settings: PipelineSettings,
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
    say: Say = lambda _: None,
) -> Run:
    """Build the tables of a period anew from raw samples, publish them, and write the newest snapshots.

    Parameters
    ----------
    session
        Spark.
    lake
        Where raw samples lie and tables go, of the level it is seen from.
    settings
        Those of the lake's level.
    since, until
        Half-open period of ticks; by default all there is.
    say
        Told what goes on, one line at a time.

    Returns
    -------
    Run
        Its input and output.

    Raises
    ------
    ObserveError
        If there are no samples, or the tables were made with other settings and a period alone would mix
        them.
    """
    with (
        lake.writing(say) as seat,
        spark_faults_told(f"lake {lake.path}: the run ended and published nothing"),
    ):
        manifest = lake.manifest()
        whole = since is None and until is None
        refuse_mixture(lake, manifest, settings, whole)
        files, broken = _sound_files(lake, since, until)
        for path in broken:
            say(f"left out {path}: not a sound Parquet file")
        if not files:
            raise ObserveError(
                f"lake {lake.path} holds no raw samples{'' if whole else ' of that period'}: "
                "run `trimtab collect` first, or name another --lake"
            )
        form = lake.level.raw
        raw = session.read.schema(ddl(form.columns)).parquet(*(spark_address(path) for path in files))
        samples = typed(raw, settings, form)
        low = 0 if since is None else microseconds(since)
        high = 2**62 if until is None else microseconds(until)
        found = ticks_of(samples, form)
        wanted = [tick for tick in found["ticks"] if low <= tick < high]
        if not wanted:
            raise ObserveError(f"lake {lake.path} holds no samples of that period: widen --since and --until")
        say(
            f"read {found['rows']:,} samples of {len(wanted):,} ticks from {len(files):,} files, "
            f"{instant(wanted[0]):%Y-%m-%d %H:%M:%S} to {instant(wanted[-1]):%Y-%m-%d %H:%M:%S} UTC"
        )
        begin = wanted[0] if since is None else low
        ended = (wanted[-1] if until is None else high - 1) + 1
        if whole:
            # What was made with other settings, or from samples that are no longer there, must not linger.
            manifest = replace(manifest, tables={})
        doubled = merged(((tick, tick + 1) for tick in found["doubled"]), apart=settings.gap)
        tables = Tables(session, lake, manifest)
        done = step(tables, samples, [(begin, ended)], settings, doubled, add=False)
        watermark = max(manifest.watermark, found["received"] - settings.lateness)
        # The tables no longer stand where a stream over the same files stopped: its next start builds them
        # anew.
        remove_folder(lake.checkpoints / "lake")
        published = seat.publish(replace(done.manifest, watermark=watermark))
        snapshots = lake.level.write_snapshots(lake, published, settings)
        sweep(lake, published)
    tell(done, say)
    return Run(len(files), tuple(broken), found["rows"], len(wanted), done.rows, tuple(snapshots))


def refuse_mixture(lake: Lake, manifest: Manifest, settings: PipelineSettings, whole: bool) -> None:
    """Refuse to add to tables that were made with other settings.

    Raises
    ------
    ObserveError
        Naming the first setting that differs.
    """
    if whole or not manifest.tables:
        return
    for name, value in settings.of_tables().items():
        if manifest.settings.get(name) != value:
            raise ObserveError(
                f"tables of lake {lake.path} were made with {name} = {manifest.settings.get(name)}, "
                f"not {value}: run `trimtab pipeline run` over everything to build them anew, or set it back"
            )


def tell(done: Step, say: Say) -> None:
    """One line with what a step wrote."""
    say("wrote " + ", ".join(f"{table} {rows:,}" for table, rows in done.rows.items()))


def _sound_files(
    lake: Lake, since: datetime.datetime | None, until: datetime.datetime | None
) -> tuple[list[Place], list[Place]]:
    # A day more on either side: a file's day is that of its collection, and rates look back.
    day = datetime.timedelta(days=1)
    files = lake.raw_files(
        None if since is None else (since - day).date(), None if until is None else (until + day).date()
    )
    sound: list[Place] = []
    broken: list[Place] = []
    manifest = lake.manifest()
    for path in files:
        if is_published(path, manifest):
            (sound if is_sound(path) else broken).append(path)
    return sound, broken
