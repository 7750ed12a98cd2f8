"""Batch over history: every raw sample of a period into every table, a part of bounded size at a time."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from trimtab.files.store import remove_folder
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.compaction import (
    is_published,
    remove_doomed,
    remove_unnamed_folders,
    stream_over_raw,
)
from trimtab.observe.lake.lake import JOINED, instant, microseconds
from trimtab.observe.lake.manifest import Manifest, merged
from trimtab.observe.lake.parquet import footer_of, sound_files
from trimtab.observe.lake.rebuild import (
    BuildProgress,
    build_key,
    day_ranges,
    forget_progress,
    resumed_progress,
    save_progress,
)
from trimtab.observe.spark.session import SessionSettings, translate_spark_errors
from trimtab.observe.spark.tables import SparkTables, from_readable_files, read_raw, rows_in_ranges
from trimtab.observe.steps.clean import typed
from trimtab.observe.steps.step import step, ticks_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from trimtab.files.store import Location
    from trimtab.observe.lake.balancer_pipeline import PipelineSettings
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.parquet import ParquetFooter
    from trimtab.observe.lake.rebuild import DayRange
    from trimtab.observe.lake.writer_lock import WriterLock
    from trimtab.observe.steps.step import StageResult


ProgressCallback = Callable[[str], None]


@dataclass(frozen=True)
class PipelineRun:
    """The input and output of a batch.

    Attributes
    ----------
    files, samples, ticks
        Raw files and rows read, and distinct ticks in them.
    unreadable_files
        Files that are no sound Parquet, or of which some rows cannot be read; they were left out.
    rows
        Rows written per table.
    snapshots
        Folders of the snapshots written.
    """

    files: int
    unreadable_files: tuple[Location, ...]
    samples: int
    ticks: int
    rows: dict[str, int]
    snapshots: tuple[Location, ...]


def run_batch(
    session: SparkSession,
    lake: Lake,
    settings: PipelineSettings,
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
    print_progress: ProgressCallback = lambda _: None,
) -> PipelineRun:
    """Build the tables of a period anew from raw samples, publish them, and write the newest snapshots.

    Parameters
    ----------
    session
        Spark.
    lake
        Where raw samples lie and tables go, of the balancer it is seen from.
    settings
        Those of the lake's balancer.
    since, until
        Half-open period of ticks; by default all there is.
    print_progress
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
        lake.writing(print_progress) as lock,
        translate_spark_errors(f"lake {lake.path}: the run ended and published nothing"),
    ):
        manifest, index = lake.manifest(), lake.raw_index()
        whole = since is None and until is None
        require_same_settings(lake, manifest, settings, whole)
        landed = [path for path in _raw_files(lake, since, until) if is_published(path, manifest)]
        files = sound_files(landed, print_progress)
        if not files:
            raise ObserveError(
                f"lake {lake.path} holds no raw samples{'' if whole else ' of that period'}: "
                "run `trimtab collect` first, or name another --lake"
            )
        low = index.begins if since is None else max(microseconds(since), index.begins)
        high = 2**62 if until is None else microseconds(until)
        if whole:
            # What was made with other settings, or from samples that are no longer there, must not linger,
            # but for tables of samples that were removed for their age.
            kept = manifest.before(index.begins)
            if kept.tables and _differing(manifest, settings) is not None:
                print_progress(
                    f"tables of before {instant(index.begins):%Y-%m-%d} were made with other settings, and "
                    "their samples were removed for their age (lake.raw_retention_days): left out"
                )
                kept = replace(kept, tables={})
            started = kept
        else:
            started = manifest
        key = build_key(manifest, low, high, settings.of_tables())
        progress = _build(
            session, lake, settings, files, started, (low, high), (since, until), key, print_progress
        )
        if not progress.ticks:
            raise ObserveError(f"lake {lake.path} holds no samples of that period: widen --since and --until")
        watermark = max(manifest.watermark, progress.received - settings.lateness)
        streams = {name: number for name, number in manifest.streams.items() if name != JOINED}
        # The tables no longer stand where a stream over the same files stopped: its next start builds them
        # anew.
        remove_folder(lake.checkpoints / "lake")
        published = lock.publish(replace(progress.manifest, watermark=watermark, streams=streams))
        forget_progress(lake.tables)
        snapshots = lake.balancer.write_snapshots(lake, published, settings)
        remove_unnamed_folders(lake, published)
    print_progress("wrote " + ", ".join(f"{table} {rows:,}" for table, rows in progress.rows.items()))
    broken = tuple(path for path in landed if path not in files or str(path) in progress.unreadable_files)
    number = len(landed) - len(broken)
    return PipelineRun(number, broken, progress.samples, progress.ticks, progress.rows, tuple(snapshots))


def lakes_with_samples(
    lakes: Sequence[Lake], since: datetime.datetime | None = None, until: datetime.datetime | None = None
) -> list[Lake]:
    """The balancers from which one lake is seen that have raw files, of the days of a period if any has."""
    known = [lake for lake in lakes if lake.has_samples]
    if since is None and until is None:
        return known
    days = (None if since is None else since.date(), None if until is None else until.date())
    return [lake for lake in known if lake.raw_files(*days)] or known


LARGE_BATCH_SAMPLES: Final = 50_000
"""With more, compiling queries and Comet save more time in one run than they take to start."""


def batch_settings(
    settings: SessionSettings,
    lakes: Sequence[Lake],
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
) -> SessionSettings:
    """Settings of a session for one `run_batches`: a large job, if the files of the period hold many samples.

    A choice of the user has precedence, and on a cluster every job is large.
    """
    if settings.large_job is not None or settings.local_cores is None:
        return settings
    low = 0 if since is None else microseconds(since)
    high = 2**62 if until is None else microseconds(until)
    samples = 0
    for lake in lakes_with_samples(lakes, since, until):
        for footer in filter(None, map(footer_of, _raw_files(lake, since, until))):
            first, last = footer.span or (low, low)
            samples += footer.rows if first < high and low <= last else 0
            # The ends of further files need not be read.
            if samples > LARGE_BATCH_SAMPLES:
                return replace(settings, large_job=True)
    return replace(settings, large_job=False)


def run_batches(
    session: SparkSession,
    lakes: Sequence[Lake],
    settings: Mapping[str, PipelineSettings],
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
    print_progress: ProgressCallback = lambda _: None,
) -> dict[str, PipelineRun]:
    """`run_batch` of every balancer that has samples.

    Parameters
    ----------
    lakes
        One lake, seen from each balancer; the first is spoken of where there are no samples at all.
    settings
        By the name of the balancer, as is what is returned.
    session, since, until, print_progress
        As for `run_batch`, as are errors.
    """
    chosen = lakes_with_samples(lakes, since, until) or lakes[:1]
    return {
        name: run_batch(
            session,
            lake,
            settings[name],
            since,
            until,
            named_progress(print_progress, lake) if len(chosen) > 1 else print_progress,
        )
        for name, lake in ((lake.balancer.name, lake) for lake in chosen)
    }


def named_progress(print_progress: ProgressCallback, lake: Lake) -> ProgressCallback:
    """Progress lines that begin with the name of the balancer."""
    return lambda line: print_progress(f"{lake.balancer.name}: {line}")


def build_before_stream(
    session: SparkSession,
    lake: Lake,
    lock: WriterLock,
    settings: PipelineSettings,
    print_progress: ProgressCallback,
) -> None:
    """What a new stream over raw files cannot read as landed, it finds in the tables: files joined since.

    A stream reads landed files alone, since it takes each file once and would take a joined one for new
    samples.
    """
    manifest = lake.manifest()
    if stream_over_raw(lake) in manifest.streams:
        return
    # Whatever still lies there of files that were joined, the stream would read.
    remove_doomed(lake, time.time(), grace_seconds=-60)
    index = lake.raw_index()
    if not index.joined or manifest.streams.get(JOINED) == index.number:
        return
    print_progress("history of which the files were joined is built first")
    joined = [path for path in lake.raw_files() if path.parent.parent == lake.joined]
    with translate_spark_errors(f"lake {lake.path}: history was not built"):
        files = sound_files([path for path in joined if is_published(path, manifest)], print_progress)
        started = replace(manifest.before(index.begins), streams={})
        key = build_key(manifest, index.number, settings.of_tables())
        span = (index.begins, 2**62)
        progress = _build(session, lake, settings, files, started, span, (None, None), key, print_progress)
        watermark = max(manifest.watermark, progress.received - settings.lateness)
        lock.publish(replace(progress.manifest, watermark=watermark, streams={JOINED: index.number}))
        forget_progress(lake.tables)


def tables_before_stream(lake: Lake, manifest: Manifest) -> Manifest:
    """The tables on top of which a new stream puts all landed files: with none of their samples."""
    index = lake.raw_index()
    if index.joined and manifest.streams.get(JOINED) == index.number:
        return manifest
    return manifest.before(index.begins)


def _build(
    session: SparkSession,
    lake: Lake,
    settings: PipelineSettings,
    files: Mapping[Location, ParquetFooter],
    started: Manifest,
    span: tuple[int, int],
    request: tuple[datetime.datetime | None, datetime.datetime | None],
    key: str,
    print_progress: ProgressCallback,
) -> BuildProgress:
    """Work raw files into the tables `started`, a piece of history after the other; nothing is published."""
    form = lake.balancer.raw
    pieces = day_ranges([*files.items()], *span)
    progress = resumed_progress(lake.tables, started.version, key, pieces)
    if progress is not None:
        print_progress(
            f"going on after {len(progress.done)} of {len(pieces)} parts of history, which are done"
        )
    progress = progress or BuildProgress(key, started)
    begin = span[0] if request[0] is not None else None
    already = len(progress.done)
    for number, piece in enumerate(pieces[already:], start=already + 1):
        known = [path for path in piece.files if str(path) not in progress.unreadable_files]
        if not known:
            continue
        last = number == len(pieces)
        label = "" if len(pieces) == 1 else f"part {number} of {len(pieces)}: "
        end = piece.end if not last or request[1] is not None else None
        make = partial(
            _add_range,
            SparkTables(session, lake, progress.manifest),
            settings,
            piece,
            (begin, end),
            label,
            print_progress,
        )
        (counts, done), damaged = from_readable_files(session, known, form.columns, make, print_progress)
        if done is not None:
            begin = piece.end
        manifest, rows = (progress.manifest, {}) if done is None else (done.manifest, done.rows)
        progress = progress.after(piece, manifest, counts, rows, damaged)
        if not last:
            save_progress(lake.tables, progress)
    return progress


def _add_range(
    tables: SparkTables,
    settings: PipelineSettings,
    days: DayRange,
    ends: tuple[int | None, int | None],
    label: str,
    print_progress: ProgressCallback,
    files: Sequence[Location],
) -> tuple[dict[str, int], StageResult | None]:
    """The counts of some days as their files hold them, and the tables with it; None without a tick.

    `ends` bound what is made: None stands for the first or the last tick. With a label they are
    a part of history, whose files may hold ticks of others.
    """
    form = tables.lake.balancer.raw
    samples = typed(read_raw(tables.session, files, form.columns), settings, form)
    if label:
        samples = rows_in_ranges(samples, "tick", [(days.begin, days.end)])
    found = ticks_of(samples, form)
    ticks = [tick for tick in found["ticks"] if days.begin <= tick < days.end]
    counts = {"samples": found["rows"], "ticks": len(ticks), "received": found["received"]}
    if not ticks:
        return counts, None
    print_progress(
        f"{label}read {found['rows']:,} samples of {len(ticks):,} ticks from {len(files):,} files, "
        f"{instant(ticks[0]):%Y-%m-%d %H:%M:%S} to {instant(ticks[-1]):%Y-%m-%d %H:%M:%S} UTC"
    )
    begin, end = ends
    made = [(ticks[0] if begin is None else begin, ticks[-1] + 1 if end is None else end)]
    doubled = merged(((tick, tick + 1) for tick in found["doubled"]), apart=settings.gap)
    return counts, step(tables, samples, made, settings, doubled, add=False)


def require_same_settings(lake: Lake, manifest: Manifest, settings: PipelineSettings, whole: bool) -> None:
    """Refuse to add to tables that were made with other settings.

    Raises
    ------
    ObserveError
        Naming the first setting that differs.
    """
    if whole or not manifest.tables:
        return
    name = _differing(manifest, settings)
    if name is not None:
        value = settings.of_tables()[name]
        raise ObserveError(
            f"tables of lake {lake.path} were made with {name} = {manifest.settings.get(name)}, "
            f"not {value}: run `trimtab pipeline run` over everything to build them anew, or set it back"
        )


def _differing(manifest: Manifest, settings: PipelineSettings) -> str | None:
    """The first setting that tables were made with otherwise."""
    asked = settings.of_tables().items()
    return next((name for name, value in asked if manifest.settings.get(name) != value), None)


def _raw_files(
    lake: Lake, since: datetime.datetime | None, until: datetime.datetime | None
) -> list[Location]:
    # A day more on either side: a file's day is that of its collection, and rates look back.
    day = datetime.timedelta(days=1)
    return lake.raw_files(
        None if since is None else (since - day).date(), None if until is None else (until + day).date()
    )
