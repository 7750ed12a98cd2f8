"""Housekeeping of a lake: few files instead of many, nothing older than its settings allow; no Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trimtab.files.store import files_in, remove_folder
from trimtab.observe.lake.columns import DAY, SECOND
from trimtab.observe.lake.compaction import (
    JoinedFiles,
    TableCompaction,
    compacted_tables,
    consumed_by_stream,
    free_files,
    join_raw,
    remove_doomed,
    remove_unnamed_folders,
    table_compactions,
)
from trimtab.observe.lake.lake import RAW, instant, publish_index

if TYPE_CHECKING:
    from trimtab.files.store import Location
    from trimtab.observe.lake.balancer_pipeline import LakeSettings, PipelineSettings
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import Manifest
    from trimtab.observe.lake.writer_lock import WriterLock


@dataclass(frozen=True)
class ExpiredData:
    """What is too old.

    Attributes
    ----------
    raw_begins
        The beginning of the first day, microseconds since 1970, whose raw samples are kept.
    raw
        Bytes of older raw files, by their names relative to the balancer's folder.
    tables
        The tables without what is too old, and how many of each table's folders that leaves out.
    dropped
        Folders that go, by table.
    snapshots
        Folders of snapshots.
    """

    raw_begins: int
    raw: dict[str, int]
    tables: Manifest
    dropped: dict[str, int]
    snapshots: tuple[Location, ...]

    @property
    def summary(self) -> list[str]:
        """A line for each kind of which there is something."""
        lines = []
        if self.raw:
            size = sum(self.raw.values()) / 1e6
            day = f"{instant(self.raw_begins):%Y-%m-%d}"
            lines.append(f"raw samples of before {day}: {len(self.raw):,} files, {size:,.1f} MB")
        lines += [f"table {table}: {number:,} folders" for table, number in self.dropped.items()]
        if self.snapshots:
            lines.append(f"snapshots: {len(self.snapshots):,}")
        return lines


def outdated(
    lake: Lake, manifest: Manifest, ages: LakeSettings, settings: PipelineSettings, now: float
) -> ExpiredData:
    """What is too old by the newest sample that the tables hold; nothing is removed.

    Parameters
    ----------
    lake, manifest
        The lake, and its tables.
    ages, settings
        How long things are kept, and the settings of the balancer, which say how far back its tables look.
    now
        Seconds since 1970.
    """
    newest = min(manifest.watermark, round(now * SECOND))
    begins = _day_of(newest - round(ages.raw_retention_days * DAY)) if ages.raw_retention_days else 0
    begins = max(begins, 0)
    kept = {}
    for table, entries in manifest.tables.items():
        oldest = newest - max(round(ages.table_retention_days * DAY), settings.needed(table) + DAY)
        kept[table] = tuple(one for one in entries if not ages.table_retention_days or one.last >= oldest)
    return ExpiredData(
        begins,
        _old_raw(lake, manifest, begins),
        replace(manifest, tables=kept),
        {
            table: len(entries) - len(kept[table])
            for table, entries in manifest.tables.items()
            if len(entries) != len(kept[table])
        },
        tuple(
            _old_snapshots(lake, newest - round(ages.snapshot_retention_days * DAY))
            if ages.snapshot_retention_days
            else ()
        ),
    )


def remove_raw_and_snapshots(lake: Lake, found: ExpiredData, now: float) -> None:
    """Let raw files no longer count, for `compaction.remove_doomed` to remove later, and remove snapshots.

    The tables are for the writer of the lake to publish.

    Raises
    ------
    ObserveError
        If somebody else is putting raw files in order.
    """
    if found.raw:
        day = f"date={instant(found.raw_begins):%Y-%m-%d}"
        publish_index(lake.folder, lake.raw_index().without_before(found.raw_begins, day, found.raw, now))
    for folder in found.snapshots:
        remove_folder(folder)


def _day_of(time: int) -> int:
    return time - time % DAY


def _old_raw(lake: Lake, manifest: Manifest, begins: int) -> dict[str, int]:
    """Bytes of raw files of before a day; not those that a stream has still to take in."""
    index = lake.raw_index()
    first = f"date={instant(begins):%Y-%m-%d}"
    days = [day for day in lake.raw_retention_days() if day.name < first]
    taken = consumed_by_stream(lake, manifest) if days else None
    found = {
        f"{RAW}/{day.name}/{path.name}": size
        for day in days
        for path, size in free_files(day, index, manifest, taken)
    }
    for day, names in index.joined.items():
        if day < first:
            sizes = {path.name: size for path, size, _ in files_in(lake.joined / day)}
            found |= {f"{lake.joined.name}/{day}/{name}": sizes.get(name, 0) for name in names}
    return found


def _old_snapshots(lake: Lake, oldest: int) -> Iterator[Location]:
    """Snapshots taken before an instant, microseconds since 1970; of each cluster the newest is left."""
    before = f"{instant(max(oldest, 0)):%Y-%m-%dT%H:%M:%S.%fZ}"
    for cluster in lake.clusters():
        folder = lake.snapshot_folder(cluster)
        newest = next(lake.finished(folder), None)
        older = (one for one in folder.iterdir() if one.name[0] not in "._" and one.name < before)
        yield from (one for one in older if one != newest and one.is_dir() and lake.has_as_snapshot(one))


@dataclass(frozen=True)
class HousekeepingResult:
    """What housekeeping did, or would do.

    Attributes
    ----------
    joined
        Landed files that became few, a line for each of those.
    compacted
        Tables of which small folders became few.
    outdated
        A line for each kind of thing that was too old.
    removed
        Files and folders that nothing names any more, and that are gone now.
    """

    joined: tuple[JoinedFiles, ...]
    compacted: tuple[TableCompaction, ...]
    outdated: tuple[str, ...]
    removed: int


def run_housekeeping(
    lake: Lake, lock: WriterLock, ages: LakeSettings, settings: PipelineSettings, now: float | None = None
) -> HousekeepingResult:
    """Join and remove what is to be joined and removed, and publish the tables if they changed.

    Parameters
    ----------
    lake, lock
        The lake, of a balancer, and its writer lock.
    ages, settings
        How long things are kept, and the settings of the balancer.
    now
        Seconds since 1970; None: by the clock.

    Raises
    ------
    ObserveError
        If the lock was lost.
    """
    at = time.time() if now is None else now
    before = lake.manifest()
    found = outdated(lake, before, ages, settings, at)
    after = compacted_tables(lake, found.tables)
    if after.tables != before.tables:
        after = lock.publish(after)
    removed = remove_unnamed_folders(lake, after)
    remove_raw_and_snapshots(lake, found, at)
    joined = join_raw(lake, after, at)
    removed += remove_doomed(lake, at)
    return HousekeepingResult(
        tuple(joined), tuple(table_compactions(found.tables, after)), tuple(found.summary), removed
    )


def preview_housekeeping(
    lake: Lake, ages: LakeSettings, settings: PipelineSettings, now: float | None = None
) -> HousekeepingResult:
    """What `keep` would join and find too old; nothing is changed."""
    at = time.time() if now is None else now
    manifest = lake.manifest()
    found = outdated(lake, manifest, ages, settings, at)
    return HousekeepingResult(tuple(join_raw(lake, manifest, at, dry=True)), (), tuple(found.summary), 0)


def retained(
    lake: Lake, manifest: Manifest, ages: LakeSettings, settings: PipelineSettings, now: float
) -> Manifest:
    """A stream's share of `keep` before it publishes: folders joined, rows that are too old left out."""
    return compacted_tables(lake, outdated(lake, manifest, ages, settings, now).tables)


def after_publication(
    lake: Lake, manifest: Manifest, ages: LakeSettings, settings: PipelineSettings, now: float
) -> None:
    """A stream's share of `keep` after that; of raw files it joins some each time, so that nobody waits long.

    Raises
    ------
    ObserveError
        If somebody else is putting raw files in order.
    """
    remove_unnamed_folders(lake, manifest)
    remove_raw_and_snapshots(lake, outdated(lake, manifest, ages, settings, now), now)
    join_raw(lake, manifest, now, most=1)
    remove_doomed(lake, now)
