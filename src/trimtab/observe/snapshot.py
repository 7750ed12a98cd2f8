"""The newest tables to snapshots of the level `replicas`, by pyarrow and numpy alone."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trimtab.files.replicas_snapshot import write_snapshot
from trimtab.model.errors import ObserveError
from trimtab.model.load import CPU, RESOURCES, FloatArray
from trimtab.model.replicas import ReplicasSnapshot
from trimtab.model.snapshot import Quality, SnapshotReference
from trimtab.observe.lake import instant, microseconds
from trimtab.observe.placement import Placement, placement_at
from trimtab.observe.role_loads import newest_cpu_fit, role_loads
from trimtab.observe.schemas import SECOND
from trimtab.observe.snapshot_folders import new_snapshot_folder, remove_old_snapshots

if TYPE_CHECKING:
    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Manifest
    from trimtab.observe.settings import PipelineSettings


def write_newest_snapshots(lake: Lake, manifest: Manifest, settings: PipelineSettings) -> list[Path]:
    """Write a snapshot of every cluster's newest tick, unless it is there already with these tables.

    Returns
    -------
    list of Path
        One folder per cluster that has partitions.
    """
    paths = []
    for cluster, tick in newest_ticks(lake, manifest, settings).items():
        snapshot = snapshot_at(lake, manifest, settings, cluster, tick)
        path = new_snapshot_folder(lake, manifest, cluster, tick)
        write_snapshot(snapshot, path)
        paths.append(path)
        remove_old_snapshots(lake, cluster)
    return paths


def newest_ticks(lake: Lake, manifest: Manifest, settings: PipelineSettings) -> dict[str, int]:
    """Each cluster's newest tick that has partitions, microseconds."""
    last = max((entry.last for entry in manifest.tables.get("growth", ())), default=None)
    if last is None:
        return {}
    newest: dict[str, int] = {}
    # A second cluster may lag: look back a day, but on two columns only.
    since = instant(last - max(86400 * SECOND, settings.gap))
    rows = lake.table("growth", ["cluster", "tick"], since=since, manifest=manifest)
    for row in rows.group_by("cluster").aggregate([("tick", "max")]).sort_by("cluster").to_pylist():
        newest[row["cluster"]] = microseconds(row["tick_max"])
    return newest


def snapshot_at(
    lake: Lake, manifest: Manifest, settings: PipelineSettings, cluster: str, tick: int
) -> ReplicasSnapshot:
    """The snapshot of one cluster at one tick.

    Parameters
    ----------
    lake, manifest
        The tables.
    settings
        Gives the number of windows, the rule of the load value and where idle CPU goes.
    cluster, tick
        Which one; the tick in microseconds.

    Returns
    -------
    ReplicasSnapshot
        With how it was made in `quality`.

    Raises
    ------
    ObserveError
        If the cluster has no partitions at that tick.
    """
    placement = placement_at(lake, manifest, settings, cluster, tick)
    if not len(placement.partitions_topic):
        raise ObserveError(f"cluster {cluster!r} has no partitions at {instant(tick)}: name another tick")
    fit = newest_cpu_fit(lake, manifest, settings, cluster, tick)
    loads = role_loads(lake, manifest, settings, cluster, tick, placement, fit["model"])
    base = np.array([fit["base"].get(int(one), 0.0) for one in placement.broker_id])
    leader, follower = loads.leader, loads.follower
    if settings.cpu_base == "replicas":
        leader, follower = _with_base(placement, leader, follower, base)
    capacity, nominal = _capacities(placement, leader, follower, base, loads.method, settings)
    taken_at = instant(tick)
    extra: list[tuple[str, object]] = [
        ("x_value", settings.value),
        ("x_windows", len(loads.ends)),
        ("x_window_seconds", settings.window_seconds),
        ("x_extrapolated_share", loads.extrapolated_share),
        ("x_partitions_without_rates", loads.unknown),
        ("x_cpu_base", settings.cpu_base),
    ]
    if nominal:
        # No capacity is known: all brokers get the same large one, so σ and γ are levelled and θ cannot bind.
        extra.append(("x_nominal_capacity", list(nominal)))
    if loads.method != "absent":
        extra.append(("x_cpu_model", fit["model"]))
    quality = Quality(
        valid_share=loads.valid_share,
        oldest_sample_seconds=(tick - loads.begin) / SECOND,
        cpu=loads.method,
        extra=tuple(extra),
    )
    idle = {str(int(one)): float(cores) for one, cores in zip(placement.broker_id, base, strict=True)}
    return ReplicasSnapshot(
        reference=SnapshotReference(cluster, _rfc3339(taken_at), ""),
        quality=quality,
        brokers=placement.brokers(capacity),
        log_dirs=placement.log_dirs,
        partitions=placement.partitions(leader, follower),
        extra=(("x_base_load", {"cpu": idle}),) if base.any() else (),
    )


def _with_base(
    placement: Placement, leader: FloatArray, follower: FloatArray, base: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Spread each broker's idle CPU evenly over the replicas it holds, so that sums equal what was
    measured.
    """
    held = placement.replicas >= 0
    count = np.bincount(placement.replicas[held], minlength=len(base))
    share = np.append(base / np.maximum(count, 1), 0.0)
    leads = held & (placement.replicas == placement.leader[:, None])
    each = np.where(held, share[placement.replicas], 0.0)
    followers = held & ~leads
    leader, follower = leader.copy(), follower.copy()
    leader[:, CPU] += (each * leads).sum(axis=1)
    follower[:, CPU] += (each * followers).sum(axis=1) / np.maximum(followers.sum(axis=1), 1)
    return leader, follower


def _capacities(
    placement: Placement,
    leader: FloatArray,
    follower: FloatArray,
    base: FloatArray,
    method: str,
    settings: PipelineSettings,
) -> tuple[FloatArray, tuple[str, ...]]:
    """Capacity left for role loads, and the resources for which no broker's real one is known."""
    capacity = placement.capacity.copy()
    if settings.cpu_base == "apart":
        capacity[:, CPU] = np.where(capacity[:, CPU] > 2 * base, capacity[:, CPU] - base, capacity[:, CPU])
    followers = (placement.replicas >= 0).sum(axis=1) - 1
    total = leader.sum(axis=0) + (follower * followers[:, None]).sum(axis=0)
    nominal = []
    for resource, name in enumerate(RESOURCES):
        if resource == CPU and method == "absent":
            capacity[:, CPU] = np.inf
            continue
        if np.isfinite(capacity[placement.in_service, resource]).all():
            continue
        twice = 2 * total[resource]
        capacity[:, resource] = 2.0 ** np.ceil(np.log2(twice)) if twice > 0 else np.inf
        nominal.append(name)
    return capacity, tuple(nominal)


def _rfc3339(at: datetime.datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
