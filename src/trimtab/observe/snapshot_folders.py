"""Where the snapshot of a tick goes, and how long snapshots are kept; the same for every level."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from trimtab.observe.lake import instant, snapshot_level

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Manifest

KEPT = 200
"""Snapshots kept per cluster; older ones go when a new one is written."""


def new_snapshot_folder(lake: Lake, manifest: Manifest, cluster: str, tick: int) -> Path:
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


def remove_old_snapshots(lake: Lake, cluster: str) -> None:
    """Remove what is older than the newest `KEPT` of a cluster, as far as it is of the lake's level."""
    found = sorted(entry for entry in lake.snapshot_folder(cluster).iterdir() if entry.name[0] != ".")
    for old in found[:-KEPT]:
        if snapshot_level(old) == lake.level:
            shutil.rmtree(old, ignore_errors=True)
