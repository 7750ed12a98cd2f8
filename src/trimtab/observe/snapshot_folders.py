"""Snapshots of the newest ticks in the folders of a lake, and removal of old ones, for any level."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from trimtab.observe.columns import SECOND
from trimtab.observe.lake import instant, microseconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Manifest
    from trimtab.observe.settings import PipelineSettings

KEPT = 200
"""Snapshots kept per cluster; older ones go when a new one is written."""


def write_snapshots(
    lake: Lake, manifest: Manifest, ticks: dict[str, int], write: Callable[[str, int, Path], object]
) -> list[Path]:
    """Write a snapshot of each cluster's tick, and remove those that are too old to keep.

    Parameters
    ----------
    lake, manifest
        The tables that snapshots are of.
    ticks
        By cluster, microseconds.
    write
        Writes the snapshot of a cluster and tick to a folder.

    Returns
    -------
    list of Path
        One folder per cluster.
    """
    paths = []
    for cluster, tick in ticks.items():
        path = _new_folder(lake, manifest, cluster, tick)
        write(cluster, tick, path)
        paths.append(path)
        _remove_old(lake, cluster)
    return paths


def newest_ticks(
    lake: Lake, manifest: Manifest, settings: PipelineSettings, table: str, where: Any = None
) -> dict[str, int]:
    """Each cluster's newest tick in a table, microseconds, by ascending name of the cluster.

    Parameters
    ----------
    lake, manifest, settings, table
        The table, and how far apart samples may be.
    where
        A `pyarrow.dataset` expression for rows that count; None for all.
    """
    last = max((entry.last for entry in manifest.tables.get(table, ())), default=None)
    if last is None:
        return {}
    # A second cluster may lag: look back a day, but on two columns only.
    since = instant(last - max(86400 * SECOND, settings.gap))
    rows = lake.table(table, ["cluster", "tick"], since=since, where=where, manifest=manifest)
    newest = rows.group_by("cluster").aggregate([("tick", "max")]).sort_by("cluster").to_pylist()
    return {row["cluster"]: microseconds(row["tick_max"]) for row in newest}


def _new_folder(lake: Lake, manifest: Manifest, cluster: str, tick: int) -> Path:
    """A folder that nobody reads yet; its parent is made.

    Parameters
    ----------
    manifest
        The tables that the snapshot is of.
    tick
        Microseconds.
    """
    folder = lake.snapshot_folder(cluster)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{instant(tick):%Y-%m-%dT%H:%M:%S.%fZ}"
    # More samples of a tick that has its snapshot already: a new folder, lest a reader lose the old one.
    return folder / (name if not (folder / name).exists() else f"{name}-{manifest.version:08d}")


def _remove_old(lake: Lake, cluster: str) -> None:
    """Remove what is older than the newest `KEPT` of a cluster, as far as it is of the lake's level."""
    found = sorted(entry for entry in lake.snapshot_folder(cluster).iterdir() if entry.name[0] != ".")
    for old in found[:-KEPT]:
        if lake.has_as_snapshot(old):
            shutil.rmtree(old, ignore_errors=True)
