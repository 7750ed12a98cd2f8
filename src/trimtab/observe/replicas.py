"""The cell `observe` of the level `replicas`: the newest snapshot in the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.files.replicas_snapshot import read_snapshot

if TYPE_CHECKING:
    from trimtab.model.replicas import ReplicasSnapshot
    from trimtab.observe.lake import Lake


def observe(lake: Lake, cluster: str | None = None) -> ReplicasSnapshot:
    """The newest snapshot of a cluster; starts no JVM.

    Parameters
    ----------
    lake
        Where the pipeline leaves snapshots.
    cluster
        Its name; may be left out where the lake holds one cluster only.

    Returns
    -------
    ReplicasSnapshot
        As of the newest tick.

    Raises
    ------
    ObserveError
        If there is no snapshot, or several clusters to choose from.
    """
    return read_snapshot(lake.newest_snapshot(cluster))
