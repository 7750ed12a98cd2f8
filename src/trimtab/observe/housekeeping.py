"""A lake kept in order: few files instead of many, nothing older than asked for; no Spark is needed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.observe.compact import TableCompaction, compacted, differences, sweep
from trimtab.observe.raw_files import JoinedFiles, join_raw, remove_doomed
from trimtab.observe.retention import outdated, remove_raw_and_snapshots

if TYPE_CHECKING:
    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Manifest
    from trimtab.observe.settings import LakeSettings, PipelineSettings
    from trimtab.observe.writer_lock import WriterLock


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


def keep(
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
    after = compacted(lake, found.tables)
    if after.tables != before.tables:
        after = lock.publish(after)
    removed = sweep(lake, after)
    remove_raw_and_snapshots(lake, found, at)
    joined = join_raw(lake, after, at)
    removed += remove_doomed(lake, at)
    return HousekeepingResult(
        tuple(joined), tuple(differences(found.tables, after)), tuple(found.summary), removed
    )


def to_keep(
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
    return compacted(lake, outdated(lake, manifest, ages, settings, now).tables)


def after_publication(
    lake: Lake, manifest: Manifest, ages: LakeSettings, settings: PipelineSettings, now: float
) -> None:
    """A stream's share of `keep` after that; of raw files it joins some each time, so that nobody waits long.

    Raises
    ------
    ObserveError
        If somebody else is putting raw files in order.
    """
    sweep(lake, manifest)
    remove_raw_and_snapshots(lake, outdated(lake, manifest, ages, settings, now), now)
    join_raw(lake, manifest, now, most=1)
    remove_doomed(lake, now)
