"""The level `bundles`: what Pulsar's brokers report, as tables and snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.files.bundles_snapshot import read_bundles_snapshot

if TYPE_CHECKING:
    from trimtab.model.bundles_snapshot import BundlesSnapshot
    from trimtab.observe.lake import Lake


def observe(lake: Lake, cluster: str | None = None) -> BundlesSnapshot:
    """The newest snapshot of a cluster; starts no JVM.

    Parameters
    ----------
    lake
        Where the pipeline leaves snapshots; any level's view of it.
    cluster
        Its name; may be left out where the lake holds one Pulsar cluster only.

    Returns
    -------
    BundlesSnapshot
        As of the newest tick.

    Raises
    ------
    ObserveError
        If there is no snapshot, or several clusters to choose from.
    """
    return read_bundles_snapshot(lake.newest_snapshot(cluster, level="bundles"))
