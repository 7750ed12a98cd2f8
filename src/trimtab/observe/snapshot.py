"""The newest tables to snapshots of the level `replicas`, by pyarrow and numpy alone."""

from __future__ import annotations

import datetime
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.files.replicas_snapshot import write_snapshot
from trimtab.model.errors import ObserveError
from trimtab.model.load import CPU, DISK, NETWORK_IN, NETWORK_OUT, RESOURCES, FloatArray
from trimtab.model.loadvalue import load_value
from trimtab.model.replicas import ReplicasSnapshot
from trimtab.model.snapshot import Quality, SnapshotReference
from trimtab.observe.lake import instant, microseconds
from trimtab.observe.placement import Placement, placement_at
from trimtab.observe.schemas import SECOND

if TYPE_CHECKING:
    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Manifest
    from trimtab.observe.settings import PipelineSettings

KEPT = 200
"""Snapshots kept per cluster; older ones go when a new one is written."""


@dataclass(frozen=True, eq=False)
class RoleLoads:
    """Load of each partition's roles, from the recent windows.

    Attributes
    ----------
    leader, follower
        Shape (partitions, resources), in `UNITS`; finite.
    method
        Where CPU comes from: `measured`, `shares` or `absent`.
    valid_share
        Mean share of the windows that measured intervals cover.
    extrapolated_share
        Share of (partition, window) pairs that are partly extrapolated.
    unknown
        Partitions without any window: their rates count as 0.
    begin
        Start of the oldest window used, microseconds.
    ends
        Ends of the windows used.
    """

    leader: FloatArray
    follower: FloatArray
    method: str
    valid_share: float
    extrapolated_share: float
    unknown: int
    begin: int
    ends: list[int]


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
        folder = lake.snapshot_folder(cluster)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{instant(tick):%Y-%m-%dT%H:%M:%S.%fZ}"
        # More samples of a tick that has its snapshot already: a new folder, lest a reader lose the old one.
        path = folder / (name if not (folder / name).exists() else f"{name}-{manifest.version:08d}")
        write_snapshot(snapshot, path)
        paths.append(path)
        for old in sorted(entry for entry in folder.iterdir() if entry.name[0] != ".")[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
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
    fit = _cpu_fit(lake, manifest, settings, cluster, tick)
    loads = _role_loads(lake, manifest, settings, cluster, tick, placement, fit["model"])
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


def _role_loads(
    lake: Lake,
    manifest: Manifest,
    settings: PipelineSettings,
    cluster: str,
    tick: int,
    placement: Placement,
    model: dict[str, Any],
) -> RoleLoads:
    reach = settings.windows * settings.slide
    rows = lake.table(
        "attributed",
        since=instant(tick - reach - settings.window),
        until=instant(tick + settings.window + 1),
        where=pc.field("cluster") == cluster,
        manifest=manifest,
    )
    number = len(placement.partitions_topic)
    end = rows["window_end"].cast(pa.int64()).to_numpy() if rows.num_rows else np.zeros(0, dtype=np.int64)
    ends = np.unique(end)
    # A window that is still open has fewer samples; it only counts where there is nothing else.
    closed = ends[ends <= tick]
    used = (closed if len(closed) else ends)[-settings.windows :]
    leader = np.full((len(used), number, len(RESOURCES)), np.nan)
    follower = leader.copy()
    valid = extrapolated = 0.0
    if len(used):
        rows = rows.filter(pa.array(np.isin(end, used)))
        end = rows["window_end"].cast(pa.int64()).to_numpy()
        place = placement.index_of(rows["topic"], rows["partition"])
        known = place >= 0
        at = np.searchsorted(used, end)
        for loads, name in ((leader, "leader_load"), (follower, "follower_load")):
            column = rows[name].combine_chunks()
            for resource, field in enumerate(RESOURCES):
                values = pc.struct_field(column, field).to_numpy(zero_copy_only=False).astype(float)
                loads[at[known], place[known], resource] = values[known]
        if known.any():
            valid = float(rows["valid_share"].to_numpy()[known].mean())
            extrapolated = float(rows["extrapolated"].to_numpy(zero_copy_only=False)[known].mean())
    if model:
        # The newest fit has seen most: the windows' own would mix costs, and fixed shares at the start.
        leader[..., CPU] = leader[..., [NETWORK_IN, NETWORK_OUT]] @ [model["leader_in"], model["leader_out"]]
        follower[..., CPU] = follower[..., NETWORK_IN] * model["follower_in"]
    # Newer sizes than the last window's are there: a snapshot shows the disks as they are now.
    nothing = np.full((number, len(RESOURCES)), np.nan)
    value = [load_value(one, settings.value) if len(used) else nothing.copy() for one in (leader, follower)]
    for one in value:
        one[:, DISK] = np.where(np.isfinite(placement.size_bytes), placement.size_bytes, one[:, DISK])
    unknown = int((~np.isfinite(value[0][:, NETWORK_IN])).sum())
    clean = [np.nan_to_num(one, nan=0.0, posinf=0.0, neginf=0.0) for one in value]
    method = model.get("method", "absent")
    begin = int(used[0]) - settings.window if len(used) else tick
    return RoleLoads(
        clean[0], clean[1], method, valid, extrapolated, unknown, begin, [int(one) for one in used]
    )


def _cpu_fit(
    lake: Lake, manifest: Manifest, settings: PipelineSettings, cluster: str, tick: int
) -> dict[str, Any]:
    rows = lake.table(
        "cpu_model",
        since=instant(tick - settings.fit_windows * settings.slide - settings.window),
        until=instant(tick + settings.window + 1),
        where=pc.field("cluster") == cluster,
        manifest=manifest,
    )
    found = rows.sort_by("window_end").to_pylist() if rows.num_rows else []
    closed = [row for row in found if microseconds(row["window_end"]) <= tick] or found
    if not closed:
        return {"base": {}, "model": {}}
    row = closed[-1]
    names = ("method", "leader_in", "leader_out", "follower_in", "idle_cores", "r2", "rows")
    model = {name: row[name] for name in names if row[name] is not None}
    return {"base": {one["broker"]: one["cores"] for one in row["base"]}, "model": model}


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
